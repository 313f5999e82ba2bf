"""Builders of columns while a file is read: blocks of cells become numbers or categories; other cells are counted.

With `Scratch`, columns are kept in memory-mapped files, so that a text file larger than memory can be read with the
same result.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, MutableSequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from spu_core.checks import LARGEST_EXACT_INTEGER
from spu_core.tables.reading.values import MISSING_MARKS, Marks, to_numbers

# A column is a number column if at most this share of its cells is something else.
LARGEST_BAD_SHARE = 0.05
# More different words than this among numbers are codes such as V57 rather than typing errors.
MOST_WORDS = 5
_SHOWN = 5


@dataclass
class NumberColumn:
    """A column read as numbers, until too many of its cells are not numbers."""

    marks: Marks
    most_rows: int = 0
    values: np.ndarray | None = None
    gaps: bool = False
    present: int = 0
    bad: int = 0
    units: int = 0
    rows: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    infinite: int = 0
    largest_whole: int = 0
    largest_converted: float = 0.0
    forced: bool = False
    why_text: str | None = None
    room: Callable[..., np.ndarray] = np.empty

    def add(self, cells: pa.Array) -> None:
        """Add the next block; once the column is known to be text, blocks are ignored."""
        if self.why_text:
            return
        if not pa.types.is_string(cells.type):
            self._keep(cells, converted=True)
            return
        numbers = to_numbers(cells, self.marks)
        self._note_bad(cells, numbers.bad)
        self.units += numbers.units
        self.present += numbers.values.null_count - cells.null_count
        self._keep(numbers.values)
        if self.forced:
            return
        if numbers.leading_zeros or numbers.huge_integers:
            self._turn_to_text("leading_zeros" if numbers.leading_zeros else "huge_integers")
        elif self.bad > LARGEST_BAD_SHARE * self.present or len(self.words) > MOST_WORDS:
            self._turn_to_text("words")

    def _keep(self, block: pa.Array, *, converted: bool = False) -> None:
        """Copy a block to its place, and collect statistics, so that no later pass over the column is needed."""
        numbers = block.to_numpy(zero_copy_only=False)
        self.gaps = self.gaps or bool(block.null_count) or pa.types.is_floating(block.type)
        self._note_size(block, converted=converted)
        end = self.rows + len(numbers)
        self._room_for(end, numbers.dtype)[self.rows : end] = numbers
        self.rows = end
        self.present += len(block) - block.null_count

    def _room_for(self, rows: int, dtype: np.dtype) -> np.ndarray:
        """The array of the column; it is allocated once, because copying it costs as much time as parsing."""
        held = self.values if self.values is not None else self.room(max(self.most_rows, rows), dtype=dtype)
        kind = np.promote_types(held.dtype, dtype)
        if held.size < rows or held.dtype != kind:
            grown = self.room(max(2 * held.size if held.size < rows else held.size, rows), dtype=kind)
            grown[: self.rows] = held[: self.rows]
            held = grown
        self.values = held
        return held

    def _note_size(self, block: pa.Array, *, converted: bool) -> None:
        # Whole numbers in a block with gaps are converted to floats, already rounded.
        numbers = (block.drop_null() if block.null_count else block).to_numpy()
        largest = _largest(numbers)
        if math.isinf(largest):
            self.infinite += int(np.isinf(numbers).sum())
            largest = _largest(numbers[np.isfinite(numbers)])
        if pa.types.is_integer(block.type):
            self.largest_whole = max(self.largest_whole, int(largest))
        elif converted:
            self.largest_converted = max(self.largest_converted, largest)

    def finish(self) -> np.ndarray:
        """The values as int64, or as float64 with NaN where one is missing."""
        if self.values is None:
            return np.empty(0)
        values = self.values[: self.rows]
        # Blank or rejected lines leave some memory unused; a large part is released.
        return values if self.rows >= 0.9 * self.values.size or self.room is not np.empty else values.copy()

    def loses_digits(self) -> bool:
        """Whether float64, which a column with gaps needs, would round whole numbers of this column."""
        return self.gaps and not self.forced and self.largest_whole > LARGEST_EXACT_INTEGER

    def needs_a_closer_look(self) -> bool:
        """Whether floats are so large that they may have been whole numbers with more digits."""
        return self.largest_converted > LARGEST_EXACT_INTEGER

    def odd_rows(self) -> list[int]:
        """The first rows whose cells are not numbers, if most cells are."""
        return [row for row, _ in self.examples] if self.bad < 0.5 * self.present else []

    def _turn_to_text(self, why: str) -> None:
        self.why_text = why
        self.values = None

    def _note_bad(self, cells: pa.Array, bad: np.ndarray) -> None:
        rows = np.flatnonzero(bad)
        self.bad += rows.size
        if rows.size and len(self.words) <= MOST_WORDS:
            self.words.update(cells.take(pa.array(rows[:1_000])).unique().to_pylist())
        for row in rows[: _SHOWN - len(self.examples)].tolist():
            self.examples.append((self.rows + row, cells[row].as_py()))


@dataclass
class TextColumn:
    """A column read as text: categories while there are few, plain strings once there are many."""

    levels: int
    marks: tuple[str, ...] = MISSING_MARKS
    chunks: MutableSequence[pa.Array] = field(default_factory=list)
    rows: int = 0
    why: str | None = None
    odd: list[int] = field(default_factory=list)

    def odd_rows(self) -> list[int]:
        """The first rows whose cells are not numbers, if most cells of the first block are."""
        return self.odd

    def add(self, cells: pa.Array) -> None:
        """Add the next block."""
        encoded = cells if pa.types.is_dictionary(cells.type) else cells.dictionary_encode()
        few = len(encoded.dictionary) <= max(self.levels, 0.5 * len(cells))
        self.chunks.append(self._tidy_levels(encoded) if few else self._tidy(cells.cast(pa.string())))
        self.rows += len(cells)

    def finish(self) -> pa.ChunkedArray:
        """The whole column: dictionary-encoded if it has few distinct texts, else strings."""
        if self._has_few_levels():
            return pa.chunked_array(list(self.chunks))
        return pa.chunked_array([chunk.cast(pa.string()) for chunk in self.chunks], type=pa.string())

    def _has_few_levels(self) -> bool:
        if not self.chunks or not all(pa.types.is_dictionary(chunk.type) for chunk in self.chunks):
            return False
        if any(len(chunk.dictionary) > self.levels for chunk in self.chunks):
            return False
        return len(set().union(*(chunk.dictionary.to_pylist() for chunk in self.chunks))) <= self.levels

    def _tidy(self, cells: pa.Array) -> pa.Array:
        """Cells without outer blanks; the parser does not recognise a missing mark after a blank."""
        trimmed = pc.utf8_trim_whitespace(cells)
        return pc.if_else(pc.is_in(trimmed, value_set=pa.array(self.marks)), pa.scalar(None, pa.string()), trimmed)

    def _tidy_levels(self, encoded: pa.DictionaryArray) -> pa.DictionaryArray:
        tidy = self._tidy(encoded.dictionary)
        if tidy.equals(encoded.dictionary):
            return encoded
        distinct = tidy.drop_null().unique()
        place = pc.index_in(tidy, value_set=distinct)
        return pa.DictionaryArray.from_arrays(place.take(encoded.indices), distinct)


@dataclass
class RawColumn:
    """A column with unchanged cells; only a blank that belongs to the separator is removed."""

    chunks: MutableSequence[pa.Array] = field(default_factory=list)
    is_padded: bool = False

    def odd_rows(self) -> list[int]:
        """No rows: in a column of text every cell is valid."""
        return []

    def add(self, cells: pa.Array) -> None:
        """Add the next block."""
        cells = pc.fill_null(cells, "")
        self.chunks.append(pc.replace_substring_regex(cells, "^ ", "") if self.is_padded else cells)

    def finish(self) -> pa.ChunkedArray:
        """The whole column."""
        return pa.chunked_array(list(self.chunks), type=pa.string())


AnyColumn = NumberColumn | TextColumn | RawColumn


def _largest(numbers: np.ndarray) -> float:
    """The largest absolute value, NaN left out; 0 when there is none."""
    if not numbers.size:
        return 0
    bounds = numbers.min().item(), numbers.max().item()
    if bounds[0] != bounds[0]:
        bounds = np.fmin.reduce(numbers).item(), np.fmax.reduce(numbers).item()
    return max(map(abs, bounds)) if bounds[0] == bounds[0] else 0


class Scratch:
    """A folder for columns while a table is read; a context manager that must stay open as long as the table is used.

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
    """A list of Arrow arrays in a file; they are memory-mapped when read."""

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
        """Remove all arrays; arrays that were read before stay usable."""
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
