"""What can be made again from a dataset, kept beside it to save the time; it goes when the dataset goes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from spu_core.workspace import words
from spu_core.workspace.files import FileStore
from spu_core.workspace.records import DatasetRecord
from spu_core.workspace.values import new_id

_NAME = re.compile(r"([0-9a-f]{24})-(\d+)-\w+\.json")


@dataclass(frozen=True, slots=True)
class Derived:
    """Texts by dataset and version of its roles. Nothing here is needed: what is missing is made again."""

    files: FileStore

    def get(self, dataset: DatasetRecord, what: str) -> str | None:
        """The kept text; None where there is none."""
        try:
            return self._path(dataset, what).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def keep(self, dataset: DatasetRecord, what: str, text: str) -> None:
        """Keep a text, in the place of those of earlier versions; a workspace that cannot be written does without."""
        if self.files.catalogue.read_only:
            return
        target = self._path(dataset, what)
        with words.in_words(self.folder):
            self.folder.mkdir(mode=0o700, exist_ok=True)
            draft = self.folder / f"{new_id()}.draft"
            try:
                draft.write_text(text, "utf-8")
                draft.replace(target)
            finally:
                draft.unlink(missing_ok=True)
        self.remove_leftovers()

    def remove_leftovers(self) -> None:
        """Remove what belongs to a dataset that is gone, or to a version that is not current."""
        current = {(row["id"], row["version"]) for row in self.files.catalogue.rows("SELECT id, version FROM datasets")}
        for path in self.folder.glob("*.json"):
            named = _NAME.fullmatch(path.name)
            if named is None or (named[1], int(named[2])) not in current:
                path.unlink(missing_ok=True)

    @property
    def folder(self) -> Path:
        return self.files.catalogue.folder / "derived"

    def _path(self, dataset: DatasetRecord, what: str) -> Path:
        return self.folder / f"{dataset.id}-{dataset.version}-{what}.json"
