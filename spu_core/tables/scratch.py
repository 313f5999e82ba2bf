"""Columns in files instead of memory, so that a text file larger than memory is read with the same care as any other.

The operating system keeps in memory what is being used and drops the rest; what is computed does not change.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, MutableSequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa


class Scratch:
    """A folder for columns while a table is read; use it as a context, and keep it open as long as the table.

    >>> with Scratch() as scratch:
    ...     column = scratch.array(3, dtype=np.float64)
    ...     column[:] = [1, 2, 3]
    ...     float(column.sum())
    6.0
    """

    def __init__(self, parent: str | os.PathLike[str] | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="spu-columns-", dir=parent, ignore_cleanup_errors=True)
        self._count = 0

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def array(self, size: int, dtype: Any = np.float64) -> np.ndarray:
        """An array of zeros in a file of its own."""
        mapped = np.memmap(self.new_file(), dtype=dtype, mode="w+", shape=(max(size, 1),))
        return mapped.view(np.ndarray)[:size]

    def chunks(self) -> ChunkFile:
        """An empty list of Arrow arrays in a file of its own."""
        return ChunkFile(self.new_file())

    def kept(self, values: pd.Series) -> pd.Series:
        """The same column with its values in a file."""
        if isinstance(values.dtype, pd.CategoricalDtype):
            codes = self._copied(values.cat.codes.to_numpy())
            return pd.Series(pd.Categorical.from_codes(codes, dtype=values.dtype, validate=False), name=values.name)
        if isinstance(values.dtype, np.dtype) and values.dtype.kind in "iufbM":
            held = values.to_numpy()
            return values if _is_mapped(held) else pd.Series(self._copied(held), name=values.name, copy=False)
        return values

    def new_file(self) -> Path:
        self._count += 1
        return Path(self._folder.name) / f"{self._count}"

    def _copied(self, values: np.ndarray) -> np.ndarray:
        copy = self.array(values.size, values.dtype)
        copy[:] = values
        return copy


class ChunkFile(MutableSequence[pa.Array]):
    """Arrow arrays one after the other in a file; reading maps them, so that they take no memory of their own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ends = [0]

    def __len__(self) -> int:
        return len(self._ends) - 1

    def append(self, value: pa.Array) -> None:
        batch = pa.record_batch([value], names=["x"])
        with self._path.open("ab") as stream:
            with pa.ipc.new_stream(stream, batch.schema) as writer:
                writer.write_batch(batch)
            self._ends.append(stream.tell())

    def clear(self) -> None:
        """Forget all arrays; those that were read stay readable while somebody holds them."""
        self._ends = [0]
        self._path.unlink(missing_ok=True)

    def __iter__(self) -> Iterator[pa.Array]:
        if not len(self):
            return
        whole = pa.memory_map(str(self._path)).read_buffer()
        for start, end in zip(self._ends, self._ends[1:], strict=False):
            yield pa.ipc.open_stream(whole.slice(start, end - start)).read_next_batch().column(0)

    def __getitem__(self, place: Any) -> Any:
        return list(self)[place]

    def insert(self, index: int, value: pa.Array) -> None:
        raise NotImplementedError("Chunks can only be appended.")

    def __setitem__(self, place: Any, value: Any) -> None:
        raise NotImplementedError("Chunks cannot be changed.")

    def __delitem__(self, place: Any) -> None:
        raise NotImplementedError("Chunks cannot be removed one by one.")

    def extend(self, values: Iterable[pa.Array]) -> None:
        for value in values:
            self.append(value)


def _is_mapped(values: np.ndarray) -> bool:
    base: Any = values
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    return base is not None
