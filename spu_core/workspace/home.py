"""Where workspaces are stored (`SPU_HOME`), and which folders of the server may be registered (`SPU_FOLDERS`)."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from spu_core.errors import WorkspaceError
from spu_core.workspace.storage_errors import readable_errors

_USER_FOLDER = re.compile(r"users/[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of the workspaces and of the job slots that they share."""

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
        """The workspace folder of one person: a hash, so that no user name becomes a path."""
        return self.folder / "users" / user_hash(issuer, subject)

    def place_of(self, workspace_folder: Path) -> str:
        """The path of a workspace relative to this home, as tickets of the queue store it: `.` or `users/<hash>`."""
        if workspace_folder == self.folder:
            return "."
        return _checked_place(workspace_folder.relative_to(self.folder).as_posix())

    def folder_at(self, place: str) -> Path:
        return self.folder if place == "." else self.folder / _checked_place(place)


def user_hash(issuer: str, subject: str) -> str:
    """One token per (issuer, subject): the same subject of two issuers means two people.

    >>> user_hash("https://login.example", "ann") == user_hash("https://login.example", "Ann")
    False
    """
    if not issuer or not subject:
        raise WorkspaceError("A logged-in user needs both an issuer and a subject; log in again.")
    return hashlib.sha256(json.dumps([issuer, subject]).encode()).hexdigest()


def make_private_folder(folder: Path) -> None:
    """Create a folder that other users of this machine cannot read."""
    with readable_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _checked_place(place: str) -> str:
    if not _USER_FOLDER.fullmatch(place):
        raise WorkspaceError(f"{place!r} is not a workspace of this home.")
    return place


def _user_data_folder() -> Path:
    from platformdirs import user_data_path

    return user_data_path("spu-studio", appauthor=False)


VARIABLE = "SPU_FOLDERS"
# Text that is converted to a folder once; its content decides how it is read.
TEXTS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
MOST_OFFERED = 500
# Limits the search below each root, because a tree may be deep and a disk slow.
MOST_SEEN = 20_000


@dataclass(frozen=True, slots=True)
class FolderOffer:
    """A folder or text file that may be registered: its root, its path below it, and the displayed name of the root."""

    root: Path
    place: str
    root_name: str

    @property
    def path(self) -> Path:
        return self.root / self.place

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def is_text(self) -> bool:
        """Whether it is a file that has to be converted."""
        return _is_text(self.path)

    @property
    def text(self) -> str:
        """The path for display, without the location of the root on the server.

        >>> FolderOffer(Path("/srv/tables"), "sales/2024", "tables").text
        'tables/sales/2024'
        >>> FolderOffer(Path("/srv/tables"), ".", "tables").text
        'tables'
        """
        return (Path(self.root_name) / self.place).as_posix()


@dataclass(frozen=True, slots=True)
class FolderRoots:
    """The roots that the operator allowed; none where `SPU_FOLDERS` is not set."""

    roots: tuple[Path, ...]

    @classmethod
    def allowed(cls, home: Home) -> FolderRoots:
        """The existing folders of `SPU_FOLDERS`; a folder that contains a workspace is refused."""
        given = [part for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part.strip()]
        places = [_real(os.path.expanduser(part.strip())) for part in given]
        roots = tuple(dict.fromkeys(place for place in places if place is not None))
        private = home.folder.resolve()
        for root in roots:
            if root.is_relative_to(private) or private.is_relative_to(root):
                raise WorkspaceError(
                    f"{VARIABLE} contains {root.name or root.anchor!r}, which would show the workspaces of this "
                    "server to all users; the operator must choose another folder."
                )
        # `Path.is_dir` is not used here and below, because it raises for a folder that the server may not enter.
        return cls(tuple(root for root in roots if os.path.isdir(root)))

    def offers(self) -> tuple[FolderOffer, ...]:
        """Folders with parquet files, and text files, in order of name; `key=value` belongs to the folder above."""
        found = {self._offer(root, path) for root in self.roots for path in _below(root) if _is_utf8(path)}
        return tuple(sorted(found, key=lambda offer: (str(offer.root), offer.place)))[:MOST_OFFERED]

    def find(self, path: str | Path) -> FolderOffer:
        """The offer of a chosen path; refused unless it is below a root and no link leads outside."""
        real = _real(path)
        for root in self.roots:
            if real is not None and real.is_relative_to(root) and (os.path.isdir(real) or _is_text(real)):
                return self._offer(root, real)
        raise WorkspaceError(
            f"{Path(path).name!r} is not among the folders and files that this server allows; the operator lists "
            f"them in {VARIABLE}."
        )

    def refuse_links(self, offer: FolderOffer, files: Iterable[Path]) -> None:
        """Refuse a folder when one of its files is a link that leads out of its root."""
        for file in files:
            if not file.resolve().is_relative_to(offer.root):
                raise WorkspaceError(
                    f"{file.name!r} in the folder {offer.name!r} is a link that leads elsewhere, so the folder is "
                    "refused; put the file itself there."
                )

    def _offer(self, root: Path, path: Path) -> FolderOffer:
        return FolderOffer(root, path.relative_to(root).as_posix(), self._names[root])

    @property
    def _names(self) -> dict[Path, str]:
        """The displayed name of each root: its last name, numbered where an earlier root has the same."""
        names: dict[Path, str] = {}
        for root in self.roots:
            tried = (root.name if number == 1 else f"{root.name} ({number})" for number in count(1))
            names[root] = next(name for name in tried if name not in names.values())
        return names


def _real(path: str | Path) -> Path | None:
    """The path with all links resolved; None for invalid paths, such as text with a zero byte."""
    try:
        return Path(path).resolve()
    except (OSError, ValueError, RuntimeError):
        return None


def _below(root: Path) -> Iterator[Path]:
    seen = 0
    for folder, inner, files in os.walk(root, followlinks=False):
        inner[:] = sorted(name for name in inner if name[:1] not in "._")
        seen += len(inner) + len(files)
        for name in sorted(files):
            if name[:1] not in "._" and _is_text(Path(folder) / name) and not os.path.islink(Path(folder) / name):
                yield Path(folder) / name
        if any(name.endswith(".parquet") and name[:1] not in "._" for name in files):
            yield _whole(Path(folder), root)
        if seen > MOST_SEEN:
            return


def _is_text(path: Path) -> bool:
    return path.name.lower().endswith(TEXTS) and os.path.isfile(path)


def _is_utf8(path: Path) -> bool:
    """Whether the name is UTF-8, as browsers and Arrow need; file systems allow any bytes."""
    return os.fsencode(path) == str(path).encode("utf-8", "replace")


def _whole(folder: Path, root: Path) -> Path:
    """The table that a folder belongs to: `rows/year=2024/month=01` is a part of `rows`."""
    while "=" in folder.name and folder != root:
        folder = folder.parent
    return folder
