"""Errors of a workspace: something stored cannot be found, read or written."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from spu_core.errors import WorkspaceError

_FULL = {errno.ENOSPC, errno.EDQUOT}
_NOT_ALLOWED = {errno.EROFS, errno.EACCES, errno.EPERM}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_CHECK = "`spu workspace check --restore` shows what is wrong and restores the last good catalogue"


class StaleEditError(WorkspaceError):
    """Somebody else saved first; the edit was refused and nothing was overwritten."""


class NewerCatalogueError(WorkspaceError):
    """The workspace was written by a newer program."""


class CannotWriteError(WorkspaceError):
    """The disk is full or write-protected; stored objects can still be read."""


class QueueFullError(WorkspaceError):
    """The maximum number of jobs is already waiting."""


@contextmanager
def readable_errors(folder: Path) -> Iterator[None]:
    """Turn errors of the disk and of SQLite into a `WorkspaceError` with advice."""
    try:
        yield
    except sqlite3.Error as error:
        raise _sqlite_error(folder, error) from error
    except OSError as error:
        raise _disk_error(folder, error) from error
    except UnicodeDecodeError as error:
        raise damaged_catalogue(folder, "its texts cannot be read") from error
    except UnicodeEncodeError as error:
        raise WorkspaceError(
            "The text contains an incomplete character and cannot be stored; paste it again."
        ) from error


def unknown(kind: str, token: object) -> WorkspaceError:
    """The error for an unknown id; the same for ids of deleted objects and of other users."""
    return WorkspaceError(f"This workspace has no {kind} {str(token)[:40]!r}; it may have been deleted.")


def lies_in_folder(name: str, rows: int) -> WorkspaceError:
    return WorkspaceError(
        f"The {rows:,} rows of {name!r} stay in a folder, and this step needs all rows in memory. Upload a sample of "
        "the rows as a file, and use that."
    )


def changed_folder(name: str, changed: Sequence[str]) -> WorkspaceError:
    more = f" and {len(changed) - 1:,} more" if len(changed) > 1 else ""
    return WorkspaceError(
        f"The folder of {name!r} has changed on disk since it was registered ({changed[0]!r}{more}); register it again "
        "on the Data page."
    )


def damaged_file(kind: str, name: str, found: str) -> WorkspaceError:
    return WorkspaceError(
        f"The stored {kind} {name!r} is damaged: {found}. Everything else stays usable; "
        f"delete this {kind} or save it again."
    )


def damaged_catalogue(folder: Path, found: str) -> WorkspaceError:
    return WorkspaceError(f"The catalogue in {folder} is damaged ({found}); {_CHECK}.")


def missing_catalogue(folder: Path) -> WorkspaceError:
    return WorkspaceError(
        f"{folder} contains stored files, but its catalogue is missing. No new catalogue was made; {_CHECK}."
    )


def foreign_catalogue(folder: Path, found: str) -> WorkspaceError:
    return WorkspaceError(
        f"{folder / 'catalogue.sqlite'} was not made by SPU Studio ({found}), so it was not opened; "
        "choose another workspace folder."
    )


def forked(folder: Path) -> WorkspaceError:
    return WorkspaceError(
        f"The workspace {folder} was opened by the process that forked this one; start a new process and open it there."
    )


def newer_catalogue(folder: Path, found: int, known: int) -> NewerCatalogueError:
    return NewerCatalogueError(
        f"The workspace {folder} has schema version {found}, this program supports up to {known}; "
        "nothing was changed. Update SPU Studio to open it."
    )


def stale_edit(kind: str, name: str, edited: int, saved: int) -> StaleEditError:
    return StaleEditError(
        f"The {kind} {name!r} was changed elsewhere: you edited version {edited}, version {saved} is the saved one. "
        "Nothing was overwritten; reload it, or save yours under another name."
    )


def _disk_error(folder: Path, error: OSError) -> WorkspaceError:
    if error.errno in _FULL:
        return _full(folder)
    if error.errno in _NOT_ALLOWED:
        return not_writable(folder)
    return WorkspaceError(
        f"The disk under {folder} reported an error ({error.strerror or error}); nothing was saved, "
        "and what was saved before is whole. Check the disk, then try again."
    )


def _sqlite_error(folder: Path, error: sqlite3.Error) -> WorkspaceError:
    extended = getattr(error, "sqlite_errorcode", None) or 0
    code = extended & 0xFF  # the low byte is the primary code
    if code == sqlite3.SQLITE_FULL or extended == sqlite3.SQLITE_IOERR_SHMSIZE:
        return _full(folder)
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return not_writable(folder)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return WorkspaceError(f"The workspace {folder} is busy with another save; try again in a moment.")
    if code in _DAMAGED:
        return damaged_catalogue(folder, str(error))
    return WorkspaceError(f"The catalogue in {folder} could not be used ({error}); nothing was saved.")


def _full(folder: Path) -> CannotWriteError:
    return CannotWriteError(
        f"The disk under {folder} is full; nothing was saved, and what was saved before is whole. "
        "Free some space (`spu workspace gc`, or delete old runs), then try again."
    )


def not_writable(folder: Path) -> CannotWriteError:
    return CannotWriteError(
        f"The workspace folder {folder} cannot be written; make it writable, or choose another with SPU_HOME."
    )
