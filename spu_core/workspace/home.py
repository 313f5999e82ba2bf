"""Where workspaces live: `SPU_HOME`, one workspace for its owner and one for each person who logs in."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from spu_core.errors import WorkspaceError
from spu_core.workspace.words import in_words

_USER_FOLDER = re.compile(r"users/[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Home:
    """The folder that holds workspaces and the job slots which they share."""

    folder: Path

    @classmethod
    def default(cls) -> Home:
        """`SPU_HOME` where it is set, else the data directory of this user."""
        chosen = os.environ.get("SPU_HOME", "").strip()
        return cls.at(chosen) if chosen else cls.at(_user_data_folder())

    @classmethod
    def at(cls, folder: str | Path) -> Home:
        return cls(Path(folder).expanduser().absolute())

    @property
    def queue_folder(self) -> Path:
        return self.folder / "queue"

    @property
    def slot_folder(self) -> Path:
        return self.folder / "slots"

    def user_folder(self, issuer: str, subject: str) -> Path:
        """The workspace folder of one person: a hash, so that no name of theirs becomes a path."""
        return self.folder / "users" / user_hash(issuer, subject)

    def place_of(self, workspace_folder: Path) -> str:
        """The workspace inside this home, as it is written on a ticket: `.` or `users/<hash>`."""
        if workspace_folder == self.folder:
            return "."
        return _checked_place(workspace_folder.relative_to(self.folder).as_posix())

    def folder_at(self, place: str) -> Path:
        return self.folder if place == "." else self.folder / _checked_place(place)

    def workspace_folders(self) -> tuple[Path, ...]:
        """Every workspace that exists in this home."""
        candidates = [self.folder, *sorted((self.folder / "users").glob("*"))]
        return tuple(folder for folder in candidates if (folder / "catalogue.sqlite").is_file())


def user_hash(issuer: str, subject: str) -> str:
    """One token per (issuer, subject): the same subject at two issuers is two people.

    >>> user_hash("https://login.example", "ann") == user_hash("https://login.example", "Ann")
    False
    """
    if not issuer or not subject:
        raise WorkspaceError("A logged-in user needs both an issuer and a subject; log in again.")
    return hashlib.sha256(json.dumps([issuer, subject]).encode()).hexdigest()


def make_private_folder(folder: Path) -> None:
    """Create a folder that other users of this machine cannot read."""
    with in_words(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _checked_place(place: str) -> str:
    if not _USER_FOLDER.fullmatch(place):
        raise WorkspaceError(f"{place!r} is not a workspace of this home.")
    return place


def _user_data_folder() -> Path:
    from platformdirs import user_data_path

    return user_data_path("spu-studio", appauthor=False)
