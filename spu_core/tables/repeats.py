"""Rows that repeat other rows: copies must not stand on both sides of a split, where a model would know them again.

Rows are compared by their features, numbers to about three significant digits, and apart from one column at most (a
counter or a time stamp that differs from copy to copy). In a table of few distinct values rows are equal by chance, and
nothing is wrong with that. So sets of equal rows count as copies only where chance is no explanation:

- A set with more than a tenth of all rows is an ordinary combination of values ("nothing filled in"), not a copy.
- There are more pairs of equal rows than pairs that differ in exactly one column. By chance it is the other way round.
- There are more than twice as many pairs of equal rows as independent columns would give.
- Rows that are equal to three digits are often equal to six: columns that follow from one another are equal by chance
  to three digits only.

Copies whose numbers differ by more than that, or that differ in several columns, are looked for by their distance
(`near_repeats`). Not found: such copies in tables with fewer than three columns of many different numbers, and copies
in tables whose rows are often equal anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from spu_core.tables.findings import Finding, Severity
from spu_core.tables.near_repeats import find_near_repeats

FEWEST_ROWS = 20
LARGEST_SET = 0.1
BEYOND_CHANCE = 2.0
# Near copies are told only where they are clearly more than the exact ones, which are easier to understand.
FAR_MORE = 1.5
# Ten bits of the mantissa are kept: whole numbers up to 2,048 stay apart, others to one part in two thousand.
_DROPPED_BITS = 42
_DROPPED_OF_FINE = 32
OFTEN_FINE = 0.1
_STREAM = 0x9E3779B97F4A7C15


@dataclass(frozen=True, eq=False)
class RepeatedRows:
    """Rows of one set share a number in `code`; a row that repeats no other has a number of its own.

    `column` is the one feature in which the rows of a set may differ (None: in none); `rounded` says that some numbers
    are equal only to about three digits; `is_near` that rows are not equal, but far nearer to each other than to other
    rows.
    """

    code: np.ndarray
    column: str | None = None
    rounded: bool = False
    is_near: bool = False

    @property
    def repeated(self) -> int:
        """How many rows repeat an earlier row."""
        return int(self.code.size - np.unique(self.code).size)

    def as_finding(self) -> Finding:
        """What was found, and what is done about it."""
        count = f"{self.repeated:,} of {self.code.size:,} rows"
        where = "all features" if self.column is None else f"all features but {self.column!r}"
        how = ", numbers rounded to three digits" if self.rounded else ""
        text = f"{count} repeat an earlier row in {where}{how}."
        if self.is_near:
            text = f"{count} nearly repeat an earlier row: they differ far less from it than from all other rows."
        advice = (
            "Remove them if they are copies. Rows that repeat each other stay in one fold, so that no model is judged "
            "on a row that it has learnt."
        )
        return Finding("repeated_rows", Severity.WARNING, text, advice, self.column)


def find_repeats(frame: pd.DataFrame) -> RepeatedRows | None:
    """Sets of rows that are equal beyond chance; None where there are none.

    >>> rng = np.random.default_rng(0)
    >>> once = pd.DataFrame(rng.normal(size=(50, 3)), columns=list("abc"))
    >>> find_repeats(once) is None, find_repeats(pd.concat([once, once])).repeated
    (True, 50)
    >>> find_repeats(pd.DataFrame(rng.integers(0, 2, (500, 3)), columns=list("abc"))) is None
    True
    """
    if len(frame) < FEWEST_ROWS or frame.shape[1] < 2:
        return None
    equal, near = _equal_rows(frame), find_near_repeats(frame)
    if near is None:
        return equal
    found = RepeatedRows(_of_moderate_size(near), is_near=True)
    return found if found.repeated > FAR_MORE * (0 if equal is None else equal.repeated) else equal


def repeats_in_parts(found: RepeatedRows, parts: Iterable[pd.DataFrame]) -> RepeatedRows | None:
    """What was found in a sample, over all rows of the parts; None for near copies, which need all rows at once."""
    if found.is_near:
        return None
    left_out = [] if found.column is None else [found.column]
    bits = _DROPPED_BITS if found.rounded else 0
    numbers = np.concatenate([_Rows(part.drop(columns=left_out), bits).number for part in parts])
    return replace(found, code=_of_moderate_size(numbers))


def _equal_rows(frame: pd.DataFrame) -> RepeatedRows | None:
    """Sets of rows that are equal, apart from rounding and one column at most."""
    near, exact = _Rows(frame, _DROPPED_BITS), _Rows(frame)
    varying = max(near.apart_in, key=near.apart_in.__getitem__)
    if near.apart_in[varying]:
        rest = frame.drop(columns=varying)
        near_rest, exact_rest = _Rows(rest, _DROPPED_BITS), _Rows(rest)
        if near_rest.are_copies and _are_fine(near_rest, exact_rest):
            return RepeatedRows(near_rest.sets, varying, near_rest.pairs > exact_rest.pairs)
    if near.are_copies and _are_fine(near, exact):
        return RepeatedRows(near.sets, rounded=near.pairs > exact.pairs)
    return RepeatedRows(exact.sets) if near.pairs and exact.are_copies else None


def _are_fine(near: _Rows, exact: _Rows) -> bool:
    """Whether rows that are equal to three digits are often equal to six digits, or exactly."""
    enough = OFTEN_FINE * near.pairs
    return exact.pairs >= enough or _Rows(near.frame, _DROPPED_OF_FINE).pairs >= enough


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows as one number each, the sum of the numbers of their cells: equal rows have equal numbers."""

    frame: pd.DataFrame
    dropped_bits: int = 0

    @cached_property
    def number(self) -> np.ndarray:
        total = np.zeros(len(self.frame), dtype=np.uint64)
        for cells in self._columns():
            total += cells
        return total

    @cached_property
    def pairs(self) -> int:
        """Pairs of equal rows."""
        return _pairs(self.number)

    @cached_property
    def apart_in(self) -> dict[str, int]:
        """For each column, the pairs of rows that differ in this column only."""
        found = (_pairs(self.number - cells) - self.pairs for cells in self._columns())
        return dict(zip(self.frame.columns, found, strict=True))

    @property
    def sets(self) -> np.ndarray:
        """A number for each set of equal rows; rows of a set that is too large get a number each."""
        return _of_moderate_size(self.number)

    @property
    def are_copies(self) -> bool:
        """Whether there are more equal rows, in sets of moderate size, than chance would give."""
        observed = _pairs(self.sets) if self.pairs else 0
        if not observed or observed <= sum(self.apart_in.values()):
            return False
        possible = _all_pairs(len(self.frame))
        by_chance = np.prod([_pairs(cells) / possible for cells in self._columns()]) * possible
        return bool(observed > BEYOND_CHANCE * by_chance)

    def _columns(self) -> Iterator[np.ndarray]:
        """The numbers of the cells, column by column; equal values in two columns have different numbers."""
        for place, name in enumerate(self.frame.columns):
            yield pd.util.hash_array(_bits(self.frame[name], self.dropped_bits) + np.uint64(_STREAM * place % 2**64))


def _bits(values: pd.Series, dropped_bits: int) -> np.ndarray:
    """64 bits for each value: equal for equal values, in other tables too, and for numbers that round to the same."""
    if not pd.api.types.is_numeric_dtype(values.dtype):
        return pd.util.hash_pandas_object(values, index=False).to_numpy()
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan) + 0.0  # no minus zero
    numbers[np.isnan(numbers)] = np.nan
    bits = numbers.view(np.uint64)
    if not dropped_bits:
        return bits
    dropped, half = np.uint64(dropped_bits), np.uint64(1 << (dropped_bits - 1))
    kept = ((bits + half) >> dropped) << dropped
    return np.where(np.isfinite(numbers), kept, bits)


def _of_moderate_size(number: np.ndarray) -> np.ndarray:
    """The sets as numbers from 0 on; rows of a set that is too large get a number each."""
    _, code, size = np.unique(number, return_inverse=True, return_counts=True)
    large = size[code] > LARGEST_SET * code.size
    code[large] = size.size + np.arange(int(large.sum()))
    return code


def _pairs(number: np.ndarray) -> int:
    """How many pairs of rows have equal numbers."""
    ordered = np.sort(number)
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    size = np.diff(np.append(starts, ordered.size))
    return int((size * (size - 1) // 2).sum())


def _all_pairs(rows: int) -> int:
    return rows * (rows - 1) // 2
