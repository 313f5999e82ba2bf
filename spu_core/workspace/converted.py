"""Folders that were made from large text files: they belong to the workspace, and go when their dataset goes."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from spu_core.workspace.home import make_private_folder
from spu_core.workspace.jobs import Jobs
from spu_core.workspace.values import new_id

_PLACE = re.compile(r"converted/[0-9a-f]{24}")


@dataclass(frozen=True, slots=True)
class Converted:
    """Folders under ids of ours; the catalogue names them by their place in the workspace, which may move."""

    workspace: Path
    jobs: Jobs

    def new(self) -> Path:
        """Where the next folder may be made."""
        make_private_folder(self.folder)
        return self.folder / new_id()

    def place_of(self, path: Path) -> str | None:
        """The place of one of these folders; None for any other folder."""
        return f"converted/{path.name}" if path.parent == self.folder else None

    def path_of(self, place: str) -> Path | None:
        """The folder at a place; None for what is no place of ours."""
        return self.workspace / place if _PLACE.fullmatch(place) else None

    def remove_leftovers(self) -> None:
        """Remove folders that no dataset names; not while a job may make one, or read one that it opened before."""
        found = list(self.folder.glob("*"))
        if not found or self.jobs.active():
            return
        known = {row["path"] for row in self.jobs.catalogue.rows("SELECT path FROM folders")}
        for path in found:
            if self.place_of(path) not in known:
                shutil.rmtree(path, ignore_errors=True)

    @property
    def folder(self) -> Path:
        return self.workspace / "converted"
