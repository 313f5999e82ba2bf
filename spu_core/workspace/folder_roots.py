"""Which folders and text files of the server people may register: those below roots that the operator allowed.

Everything is chosen from a list that the server makes. What comes back is looked for in the tree of a root again, link
by link, so that neither a name nor a link leads outside.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from spu_core.errors import WorkspaceError
from spu_core.workspace.home import Home

VARIABLE = "SPU_FOLDERS"
# Text that is converted to a folder once; its content decides how it is read.
TEXTS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
MOST_OFFERED = 500
# A tree may be deep and a disk slow: so many names are looked at below each root.
MOST_SEEN = 20_000


@dataclass(frozen=True, slots=True)
class FolderOffer:
    """A folder or text file that may be registered: its root, its place below it, and what people call the root."""

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
    def words(self) -> str:
        """Where it lies, without saying where on the server its root is.

        >>> FolderOffer(Path("/srv/tables"), "sales/2024", "tables").words
        'tables/sales/2024'
        >>> FolderOffer(Path("/srv/tables"), ".", "tables").words
        'tables'
        """
        return (Path(self.root_name) / self.place).as_posix()


@dataclass(frozen=True, slots=True)
class FolderRoots:
    """The roots that the operator allowed; none where `SPU_FOLDERS` is not set."""

    roots: tuple[Path, ...]

    @classmethod
    def allowed(cls, home: Home) -> FolderRoots:
        """The existing folders of `SPU_FOLDERS`; one that would show a workspace is refused."""
        given = [part for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part.strip()]
        places = [_real(os.path.expanduser(part.strip())) for part in given]
        roots = tuple(dict.fromkeys(place for place in places if place is not None))
        private = home.folder.resolve()
        for root in roots:
            if root.is_relative_to(private) or private.is_relative_to(root):
                raise WorkspaceError(
                    f"{VARIABLE} names {root.name or root.anchor!r}, which shows the workspaces of this server to "
                    "everybody; whoever runs it must name another folder."
                )
        # Here and below not `Path.is_dir`, which raises for a folder that the server may not enter.
        return cls(tuple(root for root in roots if os.path.isdir(root)))

    def offers(self) -> tuple[FolderOffer, ...]:
        """Folders with parquet files, and text files, in order of name; `key=value` belongs to the folder above."""
        found = {self._offer(root, path) for root in self.roots for path in _below(root) if _is_utf8(path)}
        return tuple(sorted(found, key=lambda offer: (str(offer.root), offer.place)))[:MOST_OFFERED]

    def find(self, path: str | Path) -> FolderOffer:
        """The offer of what was chosen; refused unless it lies below a root without any link outside."""
        real = _real(path)
        for root in self.roots:
            if real is not None and real.is_relative_to(root) and (os.path.isdir(real) or _is_text(real)):
                return self._offer(root, real)
        raise WorkspaceError(
            f"{Path(path).name!r} is not, or no longer, among the folders and files that this server allows; "
            f"whoever runs it names them in {VARIABLE}."
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
        """What people call each root: its last name, numbered where an earlier one has it."""
        names: dict[Path, str] = {}
        for root in self.roots:
            tried = (root.name if number == 1 else f"{root.name} ({number})" for number in count(1))
            names[root] = next(name for name in tried if name not in names.values())
        return names


def _real(path: str | Path) -> Path | None:
    """The place behind all links; None for what cannot be a path, such as text with a zero byte."""
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
    """Whether a browser can show the name, and Arrow open it: file systems take any bytes."""
    return os.fsencode(path) == str(path).encode("utf-8", "replace")


def _whole(folder: Path, root: Path) -> Path:
    """The table that a folder belongs to: `rows/year=2024/month=01` is a part of `rows`."""
    while "=" in folder.name and folder != root:
        folder = folder.parent
    return folder
