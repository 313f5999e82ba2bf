"""Backups of the catalogue: one at each start, the last few kept, and how to restore them."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from spu_core.errors import WorkspaceError
from spu_core.workspace import schema, storage_errors
from spu_core.workspace.catalogue import Catalogue, connect, connect_to_look
from spu_core.workspace.disk import Disk, hash_of
from spu_core.workspace.records import new_id

KEPT = 5
_NAME = re.compile(r"catalogue-(\d{8})\.sqlite")


def back_up(catalogue: Catalogue) -> Path | None:
    """Copy the catalogue unless it equals the last copy; a damaged catalogue never replaces good copies."""
    folder, draft = catalogue.folder / "backups", catalogue.folder / "tmp" / f"{new_id()}.backup"
    with storage_errors.in_words(catalogue.folder):
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
    with storage_errors.in_words(folder):
        aside = _set_aside(folder, disk)
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


def _set_aside(folder: Path, disk: Disk) -> Path:
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
