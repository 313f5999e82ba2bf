"""Rows that repeat other rows: copies must not be on both sides of a split, where a model would recognise them.

Rows are compared by their features, numbers to about three significant digits, and apart from one column at most (a
counter or a time stamp that differs from copy to copy). In a table of few distinct values, rows are equal by chance,
which is harmless. Sets of equal rows therefore count as copies only where chance does not explain them:

- A set with more than a tenth of all rows is an ordinary combination of values ("nothing filled in"), not a copy.
- There are more pairs of equal rows than pairs that differ in exactly one column. By chance, it is the reverse.
- There are more than twice as many pairs of equal rows as independent columns would give.
- Rows that are equal to three digits are often equal to six: rows that are equal by chance
  are equal to three digits only.

Copies whose numbers differ by more than that, or that differ in several columns, are searched by their distance
(`find_near_repeats`). This does not find such copies in tables with fewer than three columns of many different numbers,
and no copies in tables whose rows are often equal anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from spu_core.tables.reading.reading_report import Finding, Severity

FEWEST_ROWS = 20
LARGEST_SET = 0.1
BEYOND_CHANCE = 2.0
# Near copies are reported only if they clearly outnumber exact copies, which are easier to understand.
FAR_MORE = 1.5
# Ten bits of the mantissa are kept: whole numbers up to 2,048 are exact, others to one part in two thousand.
_DROPPED_BITS = 42
_DROPPED_OF_FINE = 32
OFTEN_FINE = 0.1
_STREAM = 0x9E3779B97F4A7C15


@dataclass(frozen=True, eq=False)
class RepeatedRows:
    """Rows of one set share a number in `code`; a row that repeats no other has a number of its own.

    `column` is the one feature in which the rows of a set may differ (None: in none); `rounded` means that some numbers
    are equal only to about three digits; `is_near` means that rows are not equal, but far closer to each other than to
    other rows.
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
        """The repeated rows as a finding with advice."""
        count = f"{self.repeated:,} of {self.code.size:,} rows"
        where = "all features" if self.column is None else f"all features but {self.column!r}"
        how = ", numbers rounded to three digits" if self.rounded else ""
        text = f"{count} repeat an earlier row in {where}{how}."
        if self.is_near:
            text = f"{count} nearly repeat an earlier row: they differ far less from it than from all other rows."
        advice = (
            "Remove them if they are copies. Rows that repeat each other stay in one fold, so that no model is "
            "evaluated on a row that it was trained on."
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
    """The sets found in a sample, extended to all rows; None for near copies, which need all rows at once."""
    if found.is_near:
        return None
    left_out = [] if found.column is None else [found.column]
    bits = _DROPPED_BITS if found.rounded else 0
    numbers = np.concatenate([_Rows(part.drop(columns=left_out), bits).number for part in parts])
    return replace(found, code=_of_moderate_size(numbers))


def _equal_rows(frame: pd.DataFrame) -> RepeatedRows | None:
    """Sets of rows that are equal, apart from rounding and one column at most."""
    near, exact = _Rows(frame, _DROPPED_BITS), _Rows(frame)
    varying = max(near.pairs_that_differ_in, key=near.pairs_that_differ_in.__getitem__)
    if near.pairs_that_differ_in[varying]:
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
    def halves(self) -> np.ndarray:
        """The sums over every second column, and over the other columns."""
        total = np.zeros((2, len(self.frame)), dtype=np.uint64)
        for place, cells in enumerate(self._columns(self.frame)):
            total[place % 2] += cells
        return total

    @cached_property
    def number(self) -> np.ndarray:
        return self.halves.sum(axis=0, dtype=np.uint64)

    @cached_property
    def pairs(self) -> int:
        """Pairs of equal rows."""
        return _pairs(self.number)

    @cached_property
    def pairs_that_differ_in(self) -> dict[str, int]:
        """For each column, the pairs of rows that differ in this column only: such rows agree in one of the halves."""
        first, second = (pd.Series(half).duplicated(keep=False).to_numpy() for half in self.halves)
        rows = np.flatnonzero(first | second)
        number, pairs = self.number[rows], _pairs(self.number[rows])
        found = (_pairs(number - cells) - pairs for cells in self._columns(self.frame.iloc[rows]))
        return dict(zip(self.frame.columns, found, strict=True))

    @property
    def sets(self) -> np.ndarray:
        """A number for each set of equal rows; rows of a set that is too large get a number each."""
        return _of_moderate_size(self.number)

    @property
    def are_copies(self) -> bool:
        """Whether there are more equal rows, in sets of moderate size, than chance would give."""
        observed = _pairs(self.sets) if self.pairs else 0
        if not observed or observed <= sum(self.pairs_that_differ_in.values()):
            return False
        possible = _all_pairs(len(self.frame))
        by_chance = np.prod([_pairs(cells) / possible for cells in self._columns(self.frame)]) * possible
        return bool(observed > BEYOND_CHANCE * by_chance)

    def _columns(self, rows: pd.DataFrame) -> Iterator[np.ndarray]:
        """The numbers of the cells, column by column; equal values in two columns have different numbers."""
        for place, name in enumerate(rows.columns):
            yield pd.util.hash_array(_bits(rows[name], self.dropped_bits) + np.uint64(_STREAM * place % 2**64))


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
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], number.size > 0))
    size = np.diff(ends, prepend=-1)
    return int((size * (size - 1) // 2).sum())


def _all_pairs(rows: int) -> int:
    return rows * (rows - 1) // 2


FEWEST_ROWS_FOR_NEAR = 60
FEWEST_COLUMNS = 3
MOST_COLUMNS = 8
# Columns with few different values, or with a frequent value, are left out: their rows are close by chance.
FEWEST_VALUES = 0.05
MOST_FREQUENT = 0.05
SUBSETS = 6
QUERIES = 300
# A random sample would separate copies; neighbours in one column keep them together.
LARGEST_SLICE = 20_000
MOST_COPIES = 8
FAR = 16
CHANCE = 0.001
WIDEST_GAP = 0.25
FEWEST_WITH_GAP = 8
# The mean of log(r16 / r8) times the dimension, for evenly distributed rows.
_LOG_RATIO = float(sum(1.0 / j for j in range(MOST_COPIES, FAR)))


def find_near_repeats(frame: pd.DataFrame) -> np.ndarray | None:
    """A number for each row that near copies share; None where rows have no near copies beyond chance.

    >>> rng = np.random.default_rng(0)
    >>> once = pd.DataFrame(rng.normal(size=(200, 5))).add_prefix("x")
    >>> twice = pd.concat([once, once + 0.001 * rng.normal(size=(200, 5))], ignore_index=True)
    >>> find_near_repeats(once) is None, int(np.unique(find_near_repeats(twice)).size)
    (True, 200)
    """
    if len(frame) < FEWEST_ROWS_FOR_NEAR:
        return None
    rng = np.random.default_rng(0)
    sample = np.sort(rng.permutation(len(frame))[:LARGEST_SLICE])
    names = [name for name in frame.columns if _is_fine(frame[name].iloc[sample])]
    if len(names) < FEWEST_COLUMNS:
        return None
    scales = [_Scale.of(frame[name], sample) for name in names]
    trials = [_try([scales[place] for place in places], rng) for places in _subsets(len(names), rng)]
    best = max(trials, key=lambda trial: trial.count)
    return _sets(best) if best.count >= FEWEST_WITH_GAP else None


def _is_fine(values: pd.Series) -> bool:
    """Whether a column holds numbers, many of them different and none of them, nor a gap, frequent."""
    if not pd.api.types.is_numeric_dtype(values.dtype) or values.isna().mean() > MOST_FREQUENT:
        return False
    _, times = np.unique(values.dropna().to_numpy(dtype=np.float64), return_counts=True)
    frequent = max(MOST_FREQUENT * len(values), MOST_COPIES + 1)
    return bool(times.size >= FEWEST_VALUES * len(values) and times.max() <= frequent)


@dataclass(frozen=True, eq=False)
class _Scale:
    """A column of numbers, and what is needed to turn them into ranks from 0 to 1; a gap is far from all of them."""

    values: np.ndarray
    known: np.ndarray
    rank: np.ndarray

    @classmethod
    def of(cls, column: pd.Series, sample: np.ndarray) -> _Scale:
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        known, times = np.unique(values[sample][~np.isnan(values[sample])], return_counts=True)
        return cls(values, known, (np.cumsum(times) - 0.5 * times) / times.sum())

    def ranks(self, rows: np.ndarray | slice) -> np.ndarray:
        values = self.values[rows]
        return np.where(np.isnan(values), -1.0, np.interp(values, self.known, self.rank))


@dataclass(frozen=True, eq=False)
class _Trial:
    """The result for some columns: how many rows have a gap, its minimum width, and the maximum distance of copies."""

    scales: list[_Scale]
    count: int
    gap: float
    radius: float


def _subsets(width: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """All columns, or as many as a search can use, and then random halves."""
    yield np.sort(rng.permutation(width)[:MOST_COLUMNS])
    half = min(max(FEWEST_COLUMNS, width // 2), MOST_COLUMNS)
    if half < width:
        for _ in range(SUBSETS):
            yield np.sort(rng.permutation(width)[:half])


def _try(scales: list[_Scale], rng: np.random.Generator) -> _Trial:
    rows: np.ndarray | slice = slice(None)
    size = scales[0].values.size
    if size > LARGEST_SLICE:
        start = int(rng.integers(size - LARGEST_SLICE))
        ends = (start, start + LARGEST_SLICE)
        rows = np.argpartition(scales[0].values, ends)[start : start + LARGEST_SLICE]
    place = np.column_stack([scale.ranks(rows) for scale in scales])
    asked = place[rng.permutation(len(place))[:QUERIES]]
    distance = cKDTree(place).query(asked, k=FAR + 1)[0][:, 1:]
    spread = distance[distance[:, MOST_COPIES - 1] > 0.0]
    if len(spread) < 0.5 * len(asked):
        return _Trial(scales, 0, 0.0, 0.0)
    dimension = _LOG_RATIO / np.log(spread[:, FAR - 1] / spread[:, MOST_COPIES - 1]).mean()
    gap = min(WIDEST_GAP, CHANCE ** (1.0 / dimension))
    copies = _copies(distance, gap)
    has = copies > 0
    # A gap by chance may have distant neighbours; the distance of copies is rarely more than twice that of most copies.
    radius = 2.0 * float(np.quantile(distance[has, copies[has] - 1], 0.9)) if has.any() else 0.0
    return _Trial(scales, int(has.sum()), gap, radius)


def _copies(distance: np.ndarray, gap: float, radius: float = np.inf) -> np.ndarray:
    """How many neighbours of each row, none farther than `radius`, lie before the last gap; 0 where there is none."""
    near, following = distance[:, :MOST_COPIES], distance[:, 1 : MOST_COPIES + 1]
    is_gap = (near < gap * following) & (near <= radius)
    return np.where(is_gap.any(axis=1), MOST_COPIES - is_gap[:, ::-1].argmax(axis=1), 0)


def _sets(trial: _Trial) -> np.ndarray:
    """Sets of rows that are neighbours of each other before a gap.

    There are more copies than by chance, so half of the gap is enough for a single row: a missed copy does harm, but
    two rows joined by mistake do not.
    """
    rows = np.column_stack([scale.ranks(slice(None)) for scale in trial.scales])
    gap = 2.0 * trial.gap
    reach = max(trial.radius / gap, 1e-9)
    distance, neighbour = cKDTree(rows).query(rows, k=MOST_COPIES + 2, distance_upper_bound=reach)
    copies = _copies(distance[:, 1:], gap, trial.radius)
    # A row is its own nearest neighbour, or one of several at distance 0.
    row, rank = np.nonzero(np.arange(MOST_COPIES + 2) <= np.where(copies, copies, -1)[:, None])
    links = coo_matrix((np.ones(row.size), (row, neighbour[row, rank])), shape=(len(rows), len(rows))).tocsr()
    code: np.ndarray = connected_components(links.multiply(links.T), directed=False)[1]
    return code
