"""The write protocol: temporary file → fsync → hash → rename → fsync of the folder → one transaction.

The catalogue lists a file only after it is complete and durable, whenever a save is interrupted. Deletion uses the
reverse order: first the row, then the file at the next sweep.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from spu_core.checks import check_choice
from spu_core.errors import WorkspaceError
from spu_core.workspace import storage_errors
from spu_core.workspace.catalogue import Catalogue, insert
from spu_core.workspace.disk import Writer, hash_of, locked, try_lock
from spu_core.workspace.records import Clock, FileRecord, clean_name, new_id

T = TypeVar("T")
SUFFIXES = {"dataset": ".parquet", "scores": ".parquet", "run": ".zip", "export": ".export"}
_REFERENCES = (
    "SELECT file FROM datasets UNION SELECT file FROM runs "
    "UNION SELECT scores FROM runs WHERE scores IS NOT NULL UNION SELECT file FROM exports"
)


@dataclass(frozen=True, slots=True)
class FileDraft:
    """A file to be stored; drafts with the same `address` have the same content and share one copy."""

    kind: str
    writer: Writer
    address: str | None = None


class FileStore:
    """The files of a workspace, under random ids."""

    def __init__(self, catalogue: Catalogue, clock: Clock) -> None:
        self.catalogue = catalogue
        self.disk = catalogue.disk
        self.clock = clock
        self.folder = catalogue.folder / "files"
        self.drafts = catalogue.folder / "tmp"

    def save(
        self,
        drafts: Sequence[FileDraft],
        record: Callable[[sqlite3.Connection, tuple[FileRecord, ...]], T],
    ) -> T:
        """Store the drafts and, in the same transaction, the rows that refer to them."""
        written: list[tuple[FileDraft, FileRecord]] = []
        # Saves share this lock; the sweep needs it exclusively, so that it never removes a file that is being saved.
        with storage_errors.readable_errors(self.catalogue.folder), locked(self._writing_lock, shared=True):
            try:
                for draft in drafts:
                    written.append((draft, self._publish(draft)))
                with self.catalogue.transaction() as rows:
                    return record(rows, tuple(self._adopt(rows, draft, file) for draft, file in written))
            finally:
                self._drop_unlisted(file for _, file in written)

    def path_of(self, file: FileRecord) -> Path:
        return self.folder / f"{file.id}{SUFFIXES[file.kind]}"

    def verified(self, token: str, kind: str, name: str) -> Path:
        """The path of a stored file, after its size and hash were checked."""
        row = self.catalogue.row("SELECT * FROM files WHERE id = ?", token)
        if row is None:
            raise storage_errors.unknown(kind, name)
        file = FileRecord.from_row(row)
        found = self.damage(file)
        if found:
            raise storage_errors.damaged_file(kind, name, found)
        return self.path_of(file)

    def damage(self, file: FileRecord) -> str:
        """A description of the damage of a stored file; empty where there is none."""
        path = self.path_of(file)
        try:
            sha256, size = hash_of(path)
        except FileNotFoundError:
            return f"its file {path.name} is missing"
        except OSError as error:
            return f"its file {path.name} cannot be read ({error.strerror})"
        if size != file.size:
            return f"its file {path.name} has {size:,} bytes instead of {file.size:,}"
        return "" if sha256 == file.sha256 else f"the bytes of its file {path.name} have changed"

    def sweep(self) -> int:
        """Remove deleted and unfinished files; returns the bytes freed. Does nothing while a save is running."""
        with storage_errors.readable_errors(self.catalogue.folder):
            alone = try_lock(self._writing_lock)
            if alone is None:
                return 0
            with open(alone, "rb"):  # closes the descriptor, and with it the lock
                return self._remove_drafts() + self._remove_discarded()

    def unlisted(self) -> list[Path]:
        """Files without a row: a save was interrupted between rename and commit, or the catalogue is older."""
        known = {row["id"] for row in self.catalogue.rows("SELECT id FROM files UNION SELECT file FROM discarded")}
        return [path for path in sorted(self.folder.glob("*")) if path.stem not in known]

    def remove_unlisted(self) -> int:
        """Remove files without a row; only on request, because after a restored backup they may be the only copy."""
        with storage_errors.readable_errors(self.catalogue.folder), locked(self._writing_lock):
            return sum(self._remove(path) for path in self.unlisted())

    @property
    def _writing_lock(self) -> Path:
        return self.catalogue.folder / "writing.lock"

    def _publish(self, draft: FileDraft) -> FileRecord:
        token = new_id()
        path, target = self.drafts / token, self.folder / f"{token}{SUFFIXES[draft.kind]}"
        try:
            self.disk.write(draft.writer, path)
            self.disk.sync_file(path)
            sha256, size = hash_of(path)
            self.disk.rename(path, target)
            self.disk.sync_folder(self.folder)
        except BaseException:
            # No row refers to it yet, so the space is freed at once.
            path.unlink(missing_ok=True)
            target.unlink(missing_ok=True)
            raise
        return FileRecord(token, draft.kind, sha256, size, self.clock())

    def _adopt(self, rows: sqlite3.Connection, draft: FileDraft, file: FileRecord) -> FileRecord:
        """Add the file to the catalogue, or use an existing copy."""
        if draft.address is None:
            return _insert(rows, file, None)
        found = rows.execute(
            "SELECT * FROM files WHERE kind = ? AND address = ?", (draft.kind, draft.address)
        ).fetchone()
        if found is None:
            return _insert(rows, file, draft.address)
        old = FileRecord.from_row(found)
        return self._replace(rows, old, file, draft.address) if self.damage(old) else old

    def _replace(self, rows: sqlite3.Connection, old: FileRecord, new: FileRecord, address: str) -> FileRecord:
        """Replace a damaged copy when a dataset is saved again."""
        rows.execute("UPDATE files SET address = NULL WHERE id = ?", (old.id,))
        _insert(rows, new, address)
        rows.execute("UPDATE datasets SET file = ? WHERE file = ?", (new.id, old.id))
        discard_unreferenced(rows)
        return new

    def _drop_unlisted(self, files: Iterable[FileRecord]) -> None:
        """Remove files without a row after a failed or shared save; a file that may have a row is kept."""
        for file in files:
            try:
                listed = self.catalogue.row("SELECT 1 FROM files WHERE id = ?", file.id)
                if listed is None:
                    self.path_of(file).unlink(missing_ok=True)
            except (WorkspaceError, OSError):
                return  # `spu workspace gc` finds it later

    def _remove_drafts(self) -> int:
        return sum(self._remove(path) for path in self.drafts.glob("*"))

    def _remove_discarded(self) -> int:
        rows = self.catalogue.rows("SELECT file, kind FROM discarded")
        freed = sum(self._remove(self.folder / f"{row['file']}{SUFFIXES[row['kind']]}") for row in rows)
        if rows:
            with self.catalogue.transaction() as connection:
                connection.executemany("DELETE FROM discarded WHERE file = ?", [(row["file"],) for row in rows])
        return freed

    def _remove(self, path: Path) -> int:
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return 0
        self.disk.remove(path)
        return size


def discard_unreferenced(rows: sqlite3.Connection) -> int:
    """Move the rows of unused files to the list of the sweep; returns their bytes."""
    condition = f"id NOT IN ({_REFERENCES})"
    freed = rows.execute(f"SELECT coalesce(sum(size), 0) FROM files WHERE {condition}").fetchone()[0]
    rows.execute(f"INSERT OR IGNORE INTO discarded (file, kind) SELECT id, kind FROM files WHERE {condition}")
    rows.execute(f"DELETE FROM files WHERE {condition}")
    return int(freed)


def _insert(rows: sqlite3.Connection, file: FileRecord, address: str | None) -> FileRecord:
    insert(rows, "files", **(asdict(file) | {"address": address, "made": file.made.isoformat()}))
    return file


# kind → (its table, the column that names it)
DELETABLE = {
    "dataset": ("datasets", "name"),
    "rule set": ("rule_sets", "name"),
    "run": ("runs", "name"),
    "threshold": ("thresholds", "name"),
    "export": ("exports", "name"),
    "job": ("jobs", "title"),
}
_COUNTED = {
    "run": "runs",
    "threshold": "thresholds",
    "export": "exports",
    "check outcome": "outcomes",
    "review queue": "queues",
    "audit": "audits",
    "verdict": "verdicts",
    "rule-set version": "rule_set_versions",
}


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """What is deleted together with one object, counted by kind, and the bytes that this frees."""

    kind: str
    id: str
    name: str
    takes: tuple[tuple[str, int], ...]
    freed: int

    def __str__(self) -> str:
        along = ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in self.takes)
        return f"Deletes {self.kind} {self.name!r}{f' with {along}' if along else ''}; frees {in_bytes(self.freed)}."


def plan_deletion(catalogue: Catalogue, kind: str, token: str) -> DeletionPlan:
    """Run a deletion inside a transaction that is rolled back, so that the plan equals the deletion."""
    check_choice(kind, DELETABLE, "kind", WorkspaceError)
    with catalogue.rehearsal() as rows:
        return _delete(rows, kind, token)


def delete(catalogue: Catalogue, plan: DeletionPlan) -> None:
    """Delete what the plan lists; if anything differs from the plan, delete nothing."""
    with catalogue.transaction() as rows:
        done = _delete(rows, plan.kind, plan.id)
        if done != plan:
            raise storage_errors.StaleEditError(
                f"What depends on {plan.kind} {plan.name!r} has changed since you looked, so nothing was deleted. "
                f"Now it would be: {done}"
            )


def in_bytes(size: int) -> str:
    """A size in bytes with its unit.

    >>> in_bytes(999), in_bytes(1_500), in_bytes(2_340_000_000)
    ('999 bytes', '1.5 kB', '2.3 GB')
    """
    if size < 1000:
        return f"{size} bytes"
    step = next((step for step in (1, 2, 3) if size / 1000**step < 999.95), 4)
    return f"{size / 1000**step:.1f} {('kB', 'MB', 'GB', 'TB')[step - 1]}"


def _delete(rows: sqlite3.Connection, kind: str, token: str) -> DeletionPlan:
    table, label = DELETABLE[kind]
    found = rows.execute(f"SELECT {label} AS name FROM {table} WHERE id = ?", (token,)).fetchone()
    if found is None:
        raise storage_errors.unknown(kind, token)
    before = _counts(rows)
    rows.execute(f"DELETE FROM {table} WHERE id = ?", (token,))
    freed, after = discard_unreferenced(rows), _counts(rows)
    gone = {name: before[name] - after[name] - (name == kind) for name in _COUNTED}
    takes = tuple((name, count) for name, count in gone.items() if count > 0)
    return DeletionPlan(kind, token, clean_name(found["name"]), takes, freed)


def _counts(rows: sqlite3.Connection) -> dict[str, int]:
    return {name: rows.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for name, table in _COUNTED.items()}
