"""The functions behind `spu workspace list | check | gc | backup`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from spu_core.errors import WorkspaceError
from spu_core.workspace import storage_errors
from spu_core.workspace.catalogue import back_up, backups, faults_of, refuse_newer, restore
from spu_core.workspace.datasets import is_whole
from spu_core.workspace.disk import Disk, locked
from spu_core.workspace.file_store import in_bytes
from spu_core.workspace.home import Home
from spu_core.workspace.records import FileRecord, RuleSetVersion
from spu_core.workspace.workspace import CATALOGUE, Workspace, refuse_orphaned_files

_OWNERS = (
    "SELECT files.*, 'dataset' AS owner, datasets.name FROM files JOIN datasets ON datasets.file = files.id "
    "UNION ALL SELECT files.*, 'run', runs.name FROM files JOIN runs ON files.id IN (runs.file, runs.scores) "
    "UNION ALL SELECT files.*, 'export', exports.name FROM files JOIN exports ON exports.file = files.id"
)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One line of `spu workspace list`."""

    kind: str
    id: str
    name: str
    size: int
    made: str

    def __str__(self) -> str:
        return f"{self.kind:<10} {self.id}  {in_bytes(self.size):>10}  {self.made[:19]}  {self.name}"


@dataclass(frozen=True, slots=True)
class Problem:
    """A difference from what was saved, and what to do about it."""

    what: str
    advice: str

    def __str__(self) -> str:
        return f"{self.what} {self.advice}"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of a check: what was checked, what is wrong, what was repaired."""

    folder: Path
    n_files: int
    problems: tuple[Problem, ...]
    repaired: str = ""

    @property
    def is_well(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        lines = [self.repaired] if self.repaired else []
        lines += [str(problem) for problem in self.problems]
        well = f"{self.folder}: the catalogue and {self.n_files} stored files are as they were saved."
        return "\n".join(lines if self.problems else [*lines, well])


def list_objects(workspace: Workspace) -> tuple[StoredObject, ...]:
    """Everything with a name, with the bytes it occupies."""
    datasets = [("dataset", item.id, item.name, item.size, item.made) for item in workspace.datasets.list()]
    rules = [
        ("rule set", item.id, f"{item.name} (version {item.number})", len(item.text.encode()), item.made)
        for item in workspace.rule_sets.list()
    ]
    runs = [("run", item.id, item.name, item.size, item.made) for item in workspace.runs.list()]
    return tuple(
        StoredObject(kind, token, name, size, made.isoformat())
        for kind, token, name, size, made in datasets + rules + runs
    )


def check(folder: str | Path | None = None, *, repair: bool = False) -> CheckReport:
    """Check everything stored; with `repair`, replace a damaged catalogue by the last good backup."""
    home = Home.default() if folder is None else Home.at(folder)
    if not home.folder.is_dir():
        raise WorkspaceError(f"There is no workspace in {home.folder}; give the folder that holds one.")
    _refuse_if_newer(home.folder)
    repaired = ""
    found = catalogue_problems(home.folder)
    if found and repair:
        with storage_errors.readable_errors(home.folder), locked(home.folder / "open.lock"):
            repaired = restore(home.folder, Disk())
        found = catalogue_problems(home.folder)
    if found:
        return CheckReport(home.folder, 0, tuple(found), repaired)
    with closing(_open_read_only(home)) as workspace:
        problems = (*_file_problems(workspace), *_rule_problems(workspace), *_unlisted_problems(workspace))
        return CheckReport(home.folder, len(_files(workspace)), problems, repaired)


def catalogue_problems(folder: Path) -> list[Problem]:
    """Problems of the catalogue file itself."""
    advice = "`spu workspace check --restore` puts the last good backup in its place."
    path = folder / CATALOGUE
    if not path.exists() or path.stat().st_size == 0:
        try:
            refuse_orphaned_files(folder)
        except WorkspaceError:
            return [Problem(f"The catalogue of {folder} is missing.", advice)]
        raise WorkspaceError(f"There is no workspace in {folder}; give the folder that holds one.")
    return [Problem(f"The catalogue is damaged: {fault}.", advice) for fault in faults_of(path)]


def collect_garbage(workspace: Workspace) -> int:
    """Remove deleted files, unfinished files and files without a row; returns the bytes freed."""
    workspace.remove_leftovers()
    return workspace.files.sweep() + workspace.files.remove_unlisted()


def make_backup(workspace: Workspace) -> Path:
    """Back up the catalogue; returns the last backup where nothing has changed since."""
    return back_up(workspace.catalogue) or next(iter(backups(workspace.folder)))


def _refuse_if_newer(folder: Path) -> None:
    """A catalogue of a newer program is not damaged, and must not be repaired by an older one."""
    try:
        refuse_newer(folder / CATALOGUE)
    except storage_errors.NewerCatalogueError:
        raise
    except WorkspaceError:
        return  # it cannot be read at all, which the check reports


def _open_read_only(home: Home) -> Workspace:
    """Open without creating or removing anything; also works for a workspace that cannot be written."""
    try:
        return Workspace.join(home, ".")
    except storage_errors.CannotWriteError:
        return Workspace.open(home.folder)


def _files(workspace: Workspace) -> list[FileRecord]:
    return [FileRecord.from_row(row) for row in workspace.catalogue.rows("SELECT * FROM files")]


def _file_problems(workspace: Workspace) -> Iterator[Problem]:
    for row in workspace.catalogue.rows(_OWNERS):
        found = workspace.files.damage(FileRecord.from_row(row))
        if found:
            advice = f"Delete this {row['owner']}, or save it again; everything else is usable."
            yield Problem(f"The stored {row['owner']} {row['name']!r} is damaged: {found}.", advice)


def _rule_problems(workspace: Workspace) -> Iterator[Problem]:
    rows = workspace.catalogue.rows(
        "SELECT rule_sets.id, rule_sets.name, rule_sets.dataset, versions.*, 0 AS is_current FROM rule_sets "
        "JOIN rule_set_versions AS versions ON versions.rule_set = rule_sets.id"
    )
    for version in map(RuleSetVersion.from_row, rows):
        if not is_whole(version):
            what = f"The text of version {version.number} of rule set {version.name!r} has changed."
            yield Problem(what, "Restore another version.")


def _unlisted_problems(workspace: Workspace) -> Iterator[Problem]:
    unlisted = workspace.files.unlisted()
    if unlisted:
        size = in_bytes(sum(path.stat().st_size for path in unlisted))
        what = f"{len(unlisted)} stored files ({size}) are not listed in the catalogue."
        yield Problem(what, "`spu workspace gc` removes them; after a restore, check first whether you need them.")
