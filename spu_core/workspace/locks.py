"""Locks that the kernel frees when their holder dies, however it dies: no clock, no stale lock file."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spu_core.errors import WorkspaceError

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
        os.close(descriptor)  # it was removed between opening and locking: nobody would see that lock


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
def locked(path: Path, *, shared: bool = False, timeout: float = 60.0) -> Iterator[int]:
    """Hold the lock for a block; waits for others up to `timeout` seconds."""
    descriptor = wait_for_lock(path, shared=shared, timeout=timeout)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def wait_for_lock(path: Path, *, shared: bool = False, timeout: float = 60.0) -> int:
    """Like `try_lock`, but patient."""
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
        # A shared probe: two who look at the same time do not take each other for the holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
