"""An encoded matrix in a file: learners read it block by block, and only what they ask for comes into memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spu_core.errors import TrainingError

# A multiple of the block sizes of the learners, so that blocks and whole matrices score alike to the bit.
BLOCK_ROWS = 1 << 16


@dataclass(eq=False)
class MatrixFile:
    """A float32 matrix, row after row in a file. `append` makes it; indices read it as they would an array.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     matrix = MatrixFile(Path(folder) / "matrix", width=2)
    ...     matrix.append(np.arange(6.0).reshape(3, 2))
    ...     matrix.shape, matrix[np.array([0, 2])].tolist(), matrix[::2, 1].tolist()
    ((3, 2), [[0.0, 1.0], [4.0, 5.0]], [1.0, 5.0])
    """

    path: Path
    width: int
    rows: int = 0
    memory_limit: int | None = None
    scratch: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)
    _samples: dict[int, np.ndarray] = field(default_factory=dict, repr=False)

    dtype = np.dtype(np.float32)
    ndim = 2

    @classmethod
    def temporary(cls, rows: int, width: int) -> MatrixFile:
        """An empty matrix in a temporary folder that is removed with the last reference; refused if the disk is full.

        The folder is made where temporary files belong (`TMPDIR`).
        """
        scratch = tempfile.TemporaryDirectory(prefix="spu-matrix-", ignore_cleanup_errors=True)
        free, wanted = shutil.disk_usage(scratch.name).free, 4 * rows * width
        if wanted > 0.95 * free:
            scratch.cleanup()
            raise TrainingError(
                f"The encoded rows need {wanted / 1e9:,.1f} GB of disk, but only {free / 1e9:,.1f} GB are free where "
                "temporary files are kept; make room, or set TMPDIR to a larger disk."
            )
        return cls(Path(scratch.name) / "rows", width, scratch=scratch)

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.width

    def __len__(self) -> int:
        return self.rows

    def append(self, block: np.ndarray) -> None:
        """Write more rows at the end."""
        with self.path.open("ab") as stream:
            stream.write(np.ascontiguousarray(block, dtype=self.dtype).data)
        self.rows += len(block)

    def __getitem__(self, key: Any) -> np.ndarray:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        if isinstance(rows, slice) and rows.start is None and rows.stop is None and (rows.step or 1) > 1:
            return self.every(rows.step)[:, columns]
        if isinstance(rows, slice):
            return self.read(np.arange(*rows.indices(self.rows)), columns)
        rows = np.asarray(rows)
        return self.read(np.flatnonzero(rows) if rows.dtype == bool else rows, columns)

    def read(self, rows: np.ndarray | None, columns: Any = slice(None)) -> np.ndarray:
        """Some rows (increasing positions, None = all) and columns, in memory; refused if they do not fit."""
        count = self.rows if rows is None else rows.size
        width = np.arange(self.width)[columns].size
        check_memory(count, width, self.memory_limit, "a method that reads the whole table at once")
        found = [block[:, columns] for block in self.blocks(rows)]
        return np.concatenate(found) if found else np.empty((0, self.width), dtype=self.dtype)[:, columns]

    def blocks(self, rows: np.ndarray | None = None, size: int = BLOCK_ROWS) -> Iterator[np.ndarray]:
        """The chosen rows in order, at most `size` at a time, with all columns."""
        for start in range(0, self.rows, size):
            end = min(start + size, self.rows)
            if rows is None:
                yield self.read_range(start, end)
                continue
            inside = rows[np.searchsorted(rows, start) : np.searchsorted(rows, end)]
            if inside.size:
                first = int(inside[0])
                yield self.read_range(first, int(inside[-1]) + 1)[inside - first]

    def read_range(self, start: int, end: int) -> np.ndarray:
        """Rows from `start` up to `end`, with all columns."""
        count = (end - start) * self.width
        found = np.fromfile(self.path, dtype=self.dtype, count=count, offset=start * self.width * self.dtype.itemsize)
        if found.size != count:
            raise TrainingError(f"The encoded rows in {os.fspath(self.path)!r} are gone or cut off; train again.")
        return found.reshape(-1, self.width)

    def every(self, step: int) -> np.ndarray:
        """Every `step`-th row. Kept, since profiles ask for it once per column."""
        if step not in self._samples:
            self._samples.clear()
            self._samples[step] = self.read(np.arange(0, self.rows, step))
        return self._samples[step]


def row_sequence(matrix: MatrixFile, columns: np.ndarray) -> Any:
    """The matrix as LightGBM reads it to make bins: single rows of a sample in increasing order, then ranges."""
    import lightgbm as lgb

    class Rows(lgb.Sequence):
        batch_size = BLOCK_ROWS

        def __init__(self) -> None:
            self.held, self.start = np.empty((0, 0)), 0

        def __len__(self) -> int:
            return matrix.rows

        def __getitem__(self, at: Any) -> np.ndarray:
            if isinstance(at, slice):
                return np.ascontiguousarray(matrix.read_range(at.start, at.stop)[:, columns])
            if not self.start <= at < self.start + len(self.held):
                # LightGBM asks for sampled rows one by one; a whole block is read, since the next row is near.
                self.start = at - at % BLOCK_ROWS
                block = matrix.read_range(self.start, min(self.start + BLOCK_ROWS, matrix.rows))
                self.held = block[:, columns].astype(np.float64)
            return self.held[at - self.start]

    return Rows()


def check_memory(rows: int, width: int, limit: int | None, purpose: str = "the encoded table") -> None:
    """Refuse a matrix of rows × width float32 numbers that needs too much memory, before it is allocated."""
    import psutil

    wanted = 4 * rows * width
    allowed = int(0.8 * psutil.virtual_memory().available) if limit is None else limit
    if wanted > allowed:
        raise TrainingError(
            f"{purpose[0].upper()}{purpose[1:]} needs {wanted / 2**20:,.0f} MB ({rows:,} rows × {width:,} columns), "
            f"but the limit is {allowed / 2**20:,.0f} MB; use fewer rows or columns, or raise memory_limit."
        )
