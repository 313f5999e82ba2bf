"""A disk that fails at the k-th act, in every way in which disks and machines fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from spu_core.workspace import Disk

ERRORS = {"disk full": errno.ENOSPC, "read error": errno.EIO}
DEATHS = ("exit before", "exit after", "power cut")


class FaultyDisk(Disk):
    """Counts writes, fsyncs, renames, commits and removals; the one numbered `fail_at` fails as `fault` says."""

    def __init__(self, fail_at: int = 0, fault: str = "") -> None:
        self.fail_at = fail_at
        self.fault = fault
        self.acts: list[str] = []
        self.unsynced: dict[Path, None] = {}
        self.unsynced_renames: list[tuple[Path, Path]] = []

    def write(self, writer, path):
        self._act(
            "write",
            lambda: super(FaultyDisk, self).write(writer, path),
            half_done=lambda: _half(writer, path),
        )
        self.unsynced[path] = None

    def sync_file(self, path):
        self._act("fsync", lambda: super(FaultyDisk, self).sync_file(path))
        self.unsynced.pop(path, None)

    def rename(self, source, target):
        self._act("rename", lambda: super(FaultyDisk, self).rename(source, target))
        self.unsynced_renames.append((source, target))
        if source in self.unsynced:
            self.unsynced[target] = self.unsynced.pop(source)

    def sync_folder(self, folder):
        self._act("fsync folder", lambda: super(FaultyDisk, self).sync_folder(folder))
        self.unsynced_renames = [pair for pair in self.unsynced_renames if pair[1].parent != folder]

    def commit(self, connection):
        self._act("commit", lambda: super(FaultyDisk, self).commit(connection))

    def remove(self, path):
        self._act("remove", lambda: super(FaultyDisk, self).remove(path))

    def _act(self, name: str, do: Callable[[], None], half_done: Callable[[], None] = lambda: None) -> None:
        self.acts.append(name)
        if len(self.acts) != self.fail_at:
            do()
            return
        if self.fault in ERRORS:
            half_done()
            raise OSError(ERRORS[self.fault], os.strerror(ERRORS[self.fault]))
        if self.fault == "error after":  # the act took place, and yet the caller hears of an error
            do()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._die(do, half_done)

    def _die(self, do, half_done) -> None:
        if self.fault == "exit before":
            half_done()
        else:
            do()
        if self.fault == "power cut":
            self._lose_what_was_not_synced()
        os._exit(9)

    def _lose_what_was_not_synced(self) -> None:
        """The page cache is gone: unsynced files are cut in half, unsynced renames never happened."""
        for path in self.unsynced:
            if path.exists():
                os.truncate(path, path.stat().st_size // 2)
        for source, target in reversed(self.unsynced_renames):
            if target.exists():
                os.replace(target, source)


def _half(writer, path: Path) -> None:
    writer(path)
    os.truncate(path, path.stat().st_size // 2)
