"""One column while a file streams in: blocks of cells become numbers or levels; what does not fit is counted."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spu_core.checks import LARGEST_EXACT_INTEGER
from spu_core.tables.numbers import MISSING_MARKS, Marks, to_numbers

# A column is a number column if at most this share of its cells is something else.
LARGEST_BAD_SHARE = 0.05
# More different words than this among numbers are codes such as V57 rather than slips of the pen.
MOST_WORDS = 5
_SHOWN = 5


@dataclass
class NumberColumn:
    """A column read as numbers, until too many of its cells are none."""

    marks: Marks
    chunks: list[pa.Array] = field(default_factory=list)
    present: int = 0
    bad: int = 0
    units: int = 0
    rows: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    forced: bool = False
    converted: bool = False
    why_text: str | None = None

    def add(self, cells: pa.Array) -> None:
        """Take the next block; once the column is known to be text, blocks are passed over."""
        if self.why_text:
            return
        if not pa.types.is_string(cells.type):
            self._add_numbers(cells)
            return
        numbers = to_numbers(cells, self.marks)
        self._note_bad(cells, numbers.bad)
        self.chunks.append(numbers.values)
        self.units += numbers.units
        self.rows += len(cells)
        self.present += len(cells) - cells.null_count
        if self.forced:
            return
        if numbers.leading_zeros or numbers.huge_integers:
            self._turn_to_text("leading_zeros" if numbers.leading_zeros else "huge_integers")
        elif self.bad > LARGEST_BAD_SHARE * self.present or len(self.words) > MOST_WORDS:
            self._turn_to_text("words")

    def _add_numbers(self, values: pa.Array) -> None:
        """Take a block that the parser has converted."""
        self.converted = True
        self.chunks.append(values)
        self.rows += len(values)
        self.present += len(values) - values.null_count

    def finish(self) -> np.ndarray:
        """The values as int64, or as float64 with NaN where one is missing; the blocks are given up on the way."""
        whole = all(pa.types.is_integer(chunk.type) and not chunk.null_count for chunk in self.chunks)
        dtype = np.int64 if whole and self.chunks else np.float64
        values, at = np.empty(self.rows, dtype=dtype), 0
        for position, chunk in enumerate(self.chunks):
            values[at : at + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
            at += len(chunk)
            self.chunks[position] = None
        return values

    def loses_digits(self) -> bool:
        """Whether float64, which a column with gaps needs, would round whole numbers of this column."""
        gaps = any(chunk.null_count or pa.types.is_floating(chunk.type) for chunk in self.chunks)
        whole = [chunk for chunk in self.chunks if pa.types.is_integer(chunk.type)]
        return gaps and not self.forced and any(_largest(chunk) > LARGEST_EXACT_INTEGER for chunk in whole)

    def needs_a_closer_look(self) -> bool:
        """Whether the parser converted numbers so large that they may have been whole numbers with more digits."""
        return self.converted and any(_largest(chunk) > LARGEST_EXACT_INTEGER for chunk in self.chunks)

    def odd_rows(self) -> list[int]:
        """The first rows whose cells are no numbers, if most cells are."""
        return [row for row, _ in self.examples] if self.bad < 0.5 * self.present else []

    def _turn_to_text(self, why: str) -> None:
        self.why_text = why
        self.chunks = []

    def _note_bad(self, cells: pa.Array, bad: np.ndarray) -> None:
        rows = np.flatnonzero(bad)
        self.bad += rows.size
        if rows.size and len(self.words) <= MOST_WORDS:
            self.words.update(cells.take(pa.array(rows[:1_000])).unique().to_pylist())
        for row in rows[: _SHOWN - len(self.examples)].tolist():
            self.examples.append((self.rows + row, cells[row].as_py()))


@dataclass
class TextColumn:
    """A column read as text: levels while they are few, plain strings once they are many."""

    levels: int
    marks: tuple[str, ...] = MISSING_MARKS
    chunks: list[pa.Array] = field(default_factory=list)
    rows: int = 0
    why: str | None = None
    odd: list[int] = field(default_factory=list)

    def odd_rows(self) -> list[int]:
        """The first rows whose cells are no numbers, if most cells of the first block are."""
        return self.odd

    def add(self, cells: pa.Array) -> None:
        """Take the next block."""
        encoded = cells if pa.types.is_dictionary(cells.type) else cells.dictionary_encode()
        few = len(encoded.dictionary) <= max(self.levels, 0.5 * len(cells))
        self.chunks.append(self._tidy_levels(encoded) if few else self._tidy(cells.cast(pa.string())))
        self.rows += len(cells)

    def finish(self) -> pa.ChunkedArray:
        """The whole column: dictionary-encoded if it has few levels, else strings."""
        if all(pa.types.is_dictionary(chunk.type) for chunk in self.chunks) and self.chunks:
            whole = pa.chunked_array(self.chunks).unify_dictionaries()
            if len(whole.chunk(0).dictionary) <= self.levels:
                return whole
        return pa.chunked_array([chunk.cast(pa.string()) for chunk in self.chunks], type=pa.string())

    def _tidy(self, cells: pa.Array) -> pa.Array:
        """Cells without outer blanks; a blank in front hides a missing mark from the parser."""
        trimmed = pc.utf8_trim_whitespace(cells)
        return pc.if_else(pc.is_in(trimmed, value_set=pa.array(self.marks)), pa.scalar(None, pa.string()), trimmed)

    def _tidy_levels(self, encoded: pa.DictionaryArray) -> pa.DictionaryArray:
        tidy = self._tidy(encoded.dictionary)
        distinct = tidy.drop_null().unique()
        place = pc.index_in(tidy, value_set=distinct)
        return pa.DictionaryArray.from_arrays(place.take(encoded.indices), distinct)


def _largest(chunk: pa.Array) -> float:
    values = chunk.drop_null().to_numpy()
    finite = values if values.dtype.kind == "i" or np.isfinite(values.sum()) else values[np.isfinite(values)]
    return max(abs(int(finite.min())), abs(int(finite.max()))) if finite.size else 0
