"""The operations by which a save reaches the disk, and file locks. Tests replace `Disk` to make any operation fail.

The kernel releases a lock when its process ends, however it ends, so no clock and no stale lock file is involved.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from spu_core.errors import WorkspaceError

Writer = Callable[[Path], object]
_BLOCK = 1 << 20


class Disk:
    """The operations that change a workspace: write, sync, rename, commit and remove."""

    def write(self, writer: Writer, path: Path) -> None:
        writer(path)

    def sync_file(self, path: Path) -> None:
        _sync(path, os.O_RDONLY)

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def sync_folder(self, folder: Path) -> None:
        # A rename is durable only after its folder is synced.
        _sync(folder, os.O_RDONLY | os.O_DIRECTORY)

    def commit(self, connection: sqlite3.Connection) -> None:
        connection.execute("COMMIT")

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def publish(self, writer: Writer, draft: Path, target: Path) -> None:
        """Write `draft`, then rename it to `target`, so that `target` is whole or absent."""
        self.write(writer, draft)
        self.sync_file(draft)
        self.rename(draft, target)
        self.sync_folder(target.parent)


def hash_of(path: Path) -> tuple[str, int]:
    """SHA-256 and size of a file, read in blocks."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return digest.hexdigest(), size


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_POLL_SECONDS = 0.01


def try_lock(path: Path, *, shared: bool = False) -> int | None:
    """The descriptor that holds the lock, or None where another process holds it; closing it frees the lock."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            if _is_at(descriptor, path):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(
            descriptor
        )  # the file was removed between opening and locking, so other processes would not see this lock


def remove_if_free(path: Path) -> None:
    """Remove a lock file that nobody holds."""
    descriptor = try_lock(path)
    if descriptor is not None:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[int]:
    """Hold the lock for a block; waits for others up to a minute."""
    descriptor = wait_for_lock(path, shared=shared)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def wait_for_lock(path: Path, *, shared: bool = False, timeout: float = 60.0) -> int:
    """Like `try_lock`, but waits up to `timeout` seconds."""
    last = time.monotonic() + timeout
    while (descriptor := try_lock(path, shared=shared)) is None:
        if time.monotonic() > last:
            raise WorkspaceError(
                f"Another process has held {path} for {timeout:g} seconds; end it, or try again later."
            )
        time.sleep(_POLL_SECONDS)
    return descriptor


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock exclusively."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # The test uses a shared lock, so that two tests at the same time do not see each other as the holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
