"""The few acts by which a save reaches the disk; tests replace them to fail at any one of them."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

Writer = Callable[[Path], object]
_BLOCK = 1 << 20


class Disk:
    """Writing, making durable, renaming, committing, removing: nothing else changes a workspace."""

    def write(self, writer: Writer, path: Path) -> None:
        writer(path)

    def sync_file(self, path: Path) -> None:
        _sync(path, os.O_RDONLY)

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def sync_folder(self, folder: Path) -> None:
        # A rename is only durable once the folder that names the file is.
        _sync(folder, os.O_RDONLY | os.O_DIRECTORY)

    def commit(self, connection: sqlite3.Connection) -> None:
        connection.execute("COMMIT")

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def publish(self, writer: Writer, draft: Path, target: Path) -> None:
        """Write `draft`, then make it appear as `target` whole or not at all."""
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
