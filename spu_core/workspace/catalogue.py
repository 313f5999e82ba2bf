"""The catalogue: one SQLite database in WAL mode, opened only if it is ours, changed only in transactions; its backups.

A `CatalogueStore` keeps one kind of object in it.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from spu_core.errors import WorkspaceError
from spu_core.workspace import schema, storage_errors
from spu_core.workspace.disk import Disk, hash_of
from spu_core.workspace.records import CatalogueRecord, Clock, new_id

R = TypeVar("R", bound=CatalogueRecord)
BUSY_SECONDS = 60
_NO_SPACE = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE}
_PRAGMAS = (
    # Views and triggers of the file must not run functions with side effects.
    "trusted_schema = OFF",
    "cell_size_check = ON",
    "foreign_keys = ON",
    # FULL: an acknowledged commit survives a power cut.
    "synchronous = FULL",
    # Each commit moves its pages into the main file, so that a deleted -wal usually loses nothing.
    "wal_autocheckpoint = 1",
)


class Catalogue:
    """One connection to the catalogue of a workspace, shared by the threads of one process."""

    def __init__(self, path: Path, disk: Disk, *, read_only: bool = False) -> None:
        self.path = path
        self.disk = disk
        self.read_only = read_only
        self._guard = threading.RLock()
        self._owner = 0
        self._connection: sqlite3.Connection | None = None

    @property
    def folder(self) -> Path:
        return self.path.parent

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        with self._guard, storage_errors.readable_errors(self.folder):
            return self._connected().execute(sql, [_utf8(value) for value in values]).fetchall()

    def row(self, sql: str, *values: Any) -> sqlite3.Row | None:
        found = self.rows(sql, *values)
        return found[0] if found else None

    def records(self, kind: type[R], sql: str, *values: Any) -> tuple[R, ...]:
        """The rows of a query as records."""
        return tuple(kind.from_row(row) for row in self.rows(sql, *values))

    def record(self, kind: type[R], what: str, sql: str, token: str) -> R:
        """The record with an id; an error where there is none, which names `what` was not found."""
        row = self.row(sql, token)
        if row is None:
            raise storage_errors.unknown(what, token)
        return kind.from_row(row)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all changes of a block or none; writers wait for each other."""
        if self.read_only:
            raise storage_errors.not_writable(self.folder)
        with self._guard, storage_errors.readable_errors(self.folder):
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                self.disk.commit(connection)
            except BaseException:
                _roll_back(connection)
                raise

    @contextmanager
    def rehearsal(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is always rolled back, to find out what a change would delete."""
        with self._guard, storage_errors.readable_errors(self.folder):
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            finally:
                _roll_back(connection)

    def copy_to(self, target: Path) -> None:
        """A consistent copy, made while other connections keep writing."""
        copy = sqlite3.connect(target, isolation_level=None)
        try:
            with self._guard, storage_errors.readable_errors(self.folder):
                self._connected().backup(copy)
                # A copy is one file: it needs no -wal beside it.
                copy.execute("PRAGMA journal_mode = DELETE")
        finally:
            copy.close()

    def close(self) -> None:
        with self._guard:
            if self._connection is not None and self._owner == os.getpid():
                self._connection.close()
            self._connection = None

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection, self._owner = connect(self.path, read_only=self.read_only), os.getpid()
        # SQLite's locks belong to the process that took them, so a fork must not use an inherited connection.
        if self._owner != os.getpid():
            raise storage_errors.forked(self.folder)
        return self._connection


@dataclass(frozen=True, slots=True)
class CatalogueStore:
    """One kind of object in a catalogue; `clock` gives the time of each save."""

    catalogue: Catalogue
    clock: Clock

    def _now(self) -> str:
        return self.clock().isoformat()


def insert(rows: sqlite3.Connection, table: str, **values: Any) -> None:
    """Insert one row, its values by the names of their columns."""
    marks = ", ".join(f":{name}" for name in values)
    rows.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", values)


def need_row(rows: sqlite3.Connection, table: str, what: str, token: str) -> sqlite3.Row:
    """The row with this id inside a transaction; an error where there is none, which names `what` was not found."""
    row: sqlite3.Row | None = rows.execute(f"SELECT * FROM {table} WHERE id = ?", (token,)).fetchone()
    if row is None:
        raise storage_errors.unknown(what, token)
    return row


def _utf8(value: Any) -> Any:
    """Replace lone surrogates, as in a hostile id, so that a query finds nothing instead of failing."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection with our settings; the caller has checked that the database is a catalogue of ours."""
    if not read_only:
        return _configured(f"file:{quote(str(path))}")
    try:
        return _configured(f"file:{quote(str(path))}{_read_only_options(path)}")
    except sqlite3.OperationalError as problem:
        if problem.sqlite_errorcode in _NO_SPACE:
            return _copy_in_memory(path)
        if problem.sqlite_errorcode != sqlite3.SQLITE_CANTOPEN or not path.is_file():
            raise
        # The folder is not writable, so the -wal is read in a copy elsewhere.
        with tempfile.TemporaryDirectory() as folder:
            for each in (path, path.with_name(f"{path.name}-wal")):
                shutil.copyfile(each, Path(folder) / each.name)
            return _copy_in_memory(Path(folder) / path.name)


def _configured(address: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address, BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True)
    connection.row_factory = sqlite3.Row
    try:
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _copy_in_memory(path: Path) -> sqlite3.Connection:
    """An in-memory copy, for when SQLite cannot create the -shm through which connections share the -wal.

    A connection with an exclusive lock reads the -wal without a -shm; it is closed as soon as the copy is made.
    """
    copy = _configured("file::memory:")
    with closing(sqlite3.connect(path, BUSY_SECONDS, isolation_level=None)) as source:
        source.execute("PRAGMA locking_mode = EXCLUSIVE")
        source.backup(copy)
    return copy


def connect_to_look(path: Path) -> sqlite3.Connection:
    """A connection that only reads, whether or not the folder can be written."""
    return connect(path, read_only=not os.access(path.parent, os.W_OK))


def _read_only_options(path: Path) -> str:
    """How to open a catalogue in a folder that is not writable.

    While another process has it open, there is a -shm, and locks and the -wal must be respected. Without a -shm,
    SQLite could not create one, and needs none, because nobody writes.
    """
    wal, shm = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    is_alone = not shm.exists() and (not wal.exists() or wal.stat().st_size == 0)
    return "?mode=ro&immutable=1" if is_alone else "?mode=ro"


def prepare(path: Path, disk: Disk) -> None:
    """Create a new catalogue, or upgrade ours; refuses all others and leaves them unchanged.

    The caller holds the opening lock, so that two processes do not both create it.
    """
    folder = path.parent
    with storage_errors.readable_errors(folder):
        connection = connect(path)
        try:
            if _version_of(connection, folder) < schema.known_version():
                connection.execute("PRAGMA journal_mode = WAL")
                _upgrade(connection, folder, disk)
        finally:
            connection.close()


def refuse_unreadable(path: Path) -> None:
    """Refuse what `prepare` refuses or would have to upgrade, for a folder that is not writable."""
    with storage_errors.readable_errors(path.parent), closing(connect(path, read_only=True)) as connection:
        if _version_of(connection, path.parent) < schema.known_version():
            raise storage_errors.not_writable(path.parent)


def refuse_newer(path: Path) -> None:
    """Refuse the catalogue of a newer program; uses a connection, which waits for writers and reads the -wal."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with storage_errors.readable_errors(path.parent), closing(connect_to_look(path)) as connection:
        owner, version = _marks(connection)
    if owner == schema.APPLICATION_ID and version > schema.known_version():
        raise storage_errors.newer_catalogue(path.parent, version, schema.known_version())


def _marks(connection: sqlite3.Connection) -> tuple[int, int]:
    """The application id and the schema version of the database."""
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    return owner, connection.execute("PRAGMA user_version").fetchone()[0]


def _version_of(connection: sqlite3.Connection, folder: Path) -> int:
    owner, version = _marks(connection)
    found = schema.objects_in(connection)
    if not found and owner == 0 and version == 0:
        return 0
    if owner != schema.APPLICATION_ID:
        raise storage_errors.foreign_catalogue(folder, "its application id is not ours")
    if version > schema.known_version():
        raise storage_errors.newer_catalogue(folder, version, schema.known_version())
    _refuse_other_objects(found, version, folder)
    return version


def _refuse_other_objects(found: set[tuple[str, str, str]], version: int, folder: Path) -> None:
    expected = schema.expected_objects(version)
    unexpected = sorted(f"{kind} {name[:40]!r}" for kind, name, _ in found ^ expected)
    if unexpected:
        raise storage_errors.foreign_catalogue(folder, f"{', '.join(dict.fromkeys(unexpected))} is not what we create")


def _upgrade(connection: sqlite3.Connection, folder: Path, disk: Disk) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Checked again inside the transaction: another process may have upgraded it meanwhile.
        schema.migrate(connection, _version_of(connection, folder))
        disk.commit(connection)
    except BaseException:
        _roll_back(connection)
        raise


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


KEPT = 5
_NAME = re.compile(r"catalogue-(\d{8})\.sqlite")


def back_up(catalogue: Catalogue) -> Path | None:
    """Copy the catalogue unless it equals the last copy; a damaged catalogue never replaces good copies."""
    folder, draft = catalogue.folder / "backups", catalogue.folder / "tmp" / f"{new_id()}.backup"
    with storage_errors.readable_errors(catalogue.folder):
        try:
            catalogue.copy_to(draft)
            return _keep(draft, folder, catalogue.disk)
        finally:
            draft.unlink(missing_ok=True)


def backups(folder: Path) -> list[Path]:
    """The kept copies of a workspace folder, the newest first (by number, which does not depend on the clock)."""
    found = [path for path in (folder / "backups").glob("*") if _NAME.fullmatch(path.name)]
    return sorted(found, reverse=True)


def faults_of(path: Path) -> list[str]:
    """Faults of a catalogue file found by SQLite, the schema and the foreign keys; empty where there are none."""
    try:
        with closing(connect_to_look(path)) as connection:
            return _faults(connection)
    except sqlite3.Error as error:
        return [str(error)]
    except UnicodeDecodeError:
        # Damaged text can make even SQLite's error message unreadable.
        return ["its texts cannot be read"]


def restore(folder: Path, disk: Disk) -> str:
    """Replace the catalogue by the newest good backup, keep the damaged one, and salvage its newer rows.

    The caller holds the opening lock. Returns a message about what was done.
    """
    source = next((path for path in backups(folder) if not faults_of(path)), None)
    if source is None:
        raise WorkspaceError(f"{folder} has no good backup of its catalogue; its stored files are untouched.")
    with storage_errors.readable_errors(folder):
        aside = _move_damaged(folder, disk)
        disk.publish(
            lambda path: path.write_bytes(source.read_bytes()),
            folder / "tmp" / new_id(),
            folder / "catalogue.sqlite",
        )
        saved = _salvage(aside, folder / "catalogue.sqlite")
        with closing(connect(folder / "catalogue.sqlite")) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
    rows = "row" if saved == 1 else "rows"
    return (
        f"Restored {source.name}; {saved} newer {rows} were recovered from the damaged one, which is kept in "
        f"{aside.name}."
    )


def _keep(draft: Path, folder: Path, disk: Disk) -> Path | None:
    if faults_of(draft):
        return None
    kept = backups(folder.parent)
    if kept and hash_of(kept[0]) == hash_of(draft):
        return None
    last = int(_NAME.fullmatch(kept[0].name)[1]) if kept else 0  # type: ignore[index]
    target = folder / f"catalogue-{last + 1:08d}.sqlite"
    disk.sync_file(draft)
    disk.rename(draft, target)
    disk.sync_folder(folder)
    for old in kept[KEPT - 1 :]:
        disk.remove(old)
    return target


def _faults(connection: sqlite3.Connection) -> list[str]:
    found = [row[0] for row in connection.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if schema.objects_in(connection) != schema.expected_objects(version):
        found.append("its tables are not those of a catalogue")
    dangling = {row[0] for row in connection.execute("PRAGMA foreign_key_check")}
    return found + [f"rows of {table} point to rows that do not exist" for table in sorted(dangling)]


def _move_damaged(folder: Path, disk: Disk) -> Path:
    aside = folder / f"damaged-{new_id()}"
    aside.mkdir(mode=0o700)
    for name in ("catalogue.sqlite", "catalogue.sqlite-wal", "catalogue.sqlite-shm"):
        if (folder / name).exists():
            disk.rename(folder / name, aside / name)
    disk.sync_folder(aside)
    return aside


def _salvage(aside: Path, target: Path) -> int:
    """Copy valid rows of the damaged catalogue that the backup lacks; of a damaged table, the readable rows."""
    damaged = aside / "catalogue.sqlite"
    if not damaged.exists():
        return 0
    saved = 0
    with closing(connect(target)) as good:
        # Foreign keys are off while rows are inserted; rows that dangle at the end are removed again.
        good.execute("PRAGMA foreign_keys = OFF")
        good.execute("BEGIN IMMEDIATE")
        for table in _tables(good):
            saved += sum(_insert(good, table, row) for row in _readable_rows(damaged, table))
        saved -= _remove_dangling(good)
        good.execute("COMMIT")
    return saved


def _tables(connection: sqlite3.Connection) -> list[str]:
    return [name for kind, name, _ in sorted(schema.objects_in(connection)) if kind == "table" and name != "workspace"]


def _readable_rows(damaged: Path, table: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    try:
        with closing(connect(damaged)) as connection:
            for row in connection.execute(f"SELECT * FROM {table} ORDER BY rowid DESC"):
                rows.append(dict(row))
    except (sqlite3.Error, UnicodeDecodeError):
        return rows
    return rows


def _insert(good: sqlite3.Connection, table: str, row: dict[str, object]) -> int:
    names = ", ".join(row)
    marks = ", ".join(f":{name}" for name in row)
    try:
        return good.execute(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})", row).rowcount
    except sqlite3.Error:
        return 0


def _remove_dangling(good: sqlite3.Connection) -> int:
    removed = 0
    while found := good.execute("PRAGMA foreign_key_check").fetchall():
        for table, rowid, *_ in {(row[0], row[1]) for row in found}:
            removed += good.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,)).rowcount
    return removed
