"""Statistics of columns larger than memory, part by part: counts, distinct values and exact quantiles.

`ColumnFacts` holds what is needed to infer the type and the role of a column, in a form that merges over parts.
`select` finds exact order statistics in four passes and a few megabytes. Each pass reads sixteen more bits of the
order-preserving integer of a float, and only inside the ranges that hold a wanted rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from spu_core.tables.reading.values import FEW_ROWS, ColumnType, names_an_id, type_of_text

# Up to this many distinct values are counted exactly; larger counts are estimates with an error of about 0.6 %.
MOST_HASHES = 1 << 15
_FEW_VALUES = 64
_FIRST_TEXTS = 1_000
# An estimate within 2 % of the rows (more than three standard errors) counts as "all different".
_ALMOST_ALL = 0.98
_DIGITS = 1 << 16
_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True, eq=False)
class ColumnFacts:
    """Rows, gaps, extremes, the smallest hashes of distinct values, and the counts of values while there are few.

    `few` maps values, in order of first appearance, to their rows; None once there are more than `most_few`.
    """

    name: str
    kind: pa.DataType
    rows: int = 0
    missing: int = 0
    low: Any = None
    high: Any = None
    hashes: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.uint64), repr=False)
    few: dict[Any, int] | None = field(default_factory=dict, repr=False)
    first_texts: int = 0
    one_word: bool = True
    most_few: int = _FEW_VALUES
    counts_decimals: bool = False

    @classmethod
    def empty(cls, name: str, kind: pa.DataType, levels: int) -> ColumnFacts:
        return cls(name, kind, most_few=max(levels, FEW_ROWS) if pa.types.is_string(kind) else _FEW_VALUES)

    def add(self, values: pa.Array) -> ColumnFacts:
        """These facts and those of the next rows."""
        if not len(values):
            return self
        present = _present(values)
        few, found = self._more_values(present)
        low, high = _extremes(found)
        return replace(
            self,
            rows=self.rows + len(values),
            missing=self.missing + len(values) - len(present),
            low=_least(self.low, low),
            high=_most(self.high, high),
            hashes=_smallest(self.hashes, _hashes(found)) if self.counts_distinct else self.hashes,
            few=few,
            **self._texts(values),
        )

    @property
    def counts_distinct(self) -> bool:
        """Whether distinct values are still counted; not for many decimals, where no guess needs the count."""
        return self.hashes.size < MOST_HASHES or self.counts_decimals or not pa.types.is_floating(self.kind)

    @property
    def present(self) -> int:
        return self.rows - self.missing

    @property
    def distinct(self) -> int:
        """Distinct values: exact up to 32,768, an estimate from the smallest hashes beyond."""
        if self.hashes.size < MOST_HASHES:
            return self.hashes.size
        return min(self.present, int((MOST_HASHES - 1) / (float(self.hashes[-1]) / 2.0**64)))

    @property
    def distinct_is_exact(self) -> bool:
        return self.hashes.size < MOST_HASHES

    @property
    def all_differ(self) -> bool:
        """Whether no value occurs twice; estimated where there are too many values to count."""
        return self.distinct == self.present if self.distinct_is_exact else self.distinct >= _ALMOST_ALL * self.present

    def type(self, levels: int) -> ColumnType:
        """The type that the values of all rows suggest: equal to `guess_type` of the whole column."""
        if pa.types.is_boolean(self.kind):
            return ColumnType.BOOLEAN
        if pa.types.is_timestamp(self.kind):
            return ColumnType.DATETIME
        if pa.types.is_string(self.kind) or pa.types.is_null(self.kind):
            distinct = self.present if self.all_differ else self.distinct
            return type_of_text(self.name, self.present, distinct, levels, lambda: self.one_word)
        whole = pa.types.is_integer(self.kind) and not self.missing
        is_id = whole and names_an_id(self.name) and self.rows > 0 and self.all_differ
        return ColumnType.IDENTIFIER if is_id else ColumnType.NUMBER

    def stand_in(self) -> pd.Series:
        """A short column with the properties of the long one: frequent values, extremes, gaps and repeats.

        Roles and positive values are guessed from it, so that no guess needs all rows at once.
        """
        values = self._shown()
        if values and not self.all_differ:
            values += values[-1:]
        share = self.missing / self.rows if self.rows else 0.0
        gaps = 0 if not self.missing else len(values) or 1 if share >= 0.5 else 1
        if gaps == 1 and len(values) == 1 and share < 0.5:
            values *= 2
        return as_series(self.name, self.kind, values, gaps)

    def _shown(self) -> list[Any]:
        if self.few is None:
            return [self.low, self.high, _between(self.low, self.high)]
        ranks = {count: place for place, count in enumerate(sorted(set(self.few.values())), start=1)}
        most = 50 if len(self.few) > _FEW_VALUES else len(ranks)
        return [value for value, count in self.few.items() for _ in range(min(ranks[count], most))]

    def _more_values(self, present: pa.Array) -> tuple[dict[Any, int] | None, pa.Array]:
        """The rows of each value while they are few, and the values to hash: each once where that is cheap."""
        if self.few is None:
            return None, present.unique() if pa.types.is_string(self.kind) else present
        found = present.value_counts()
        distinct = found.field("values")
        if len(distinct) > self.most_few:
            return None, distinct
        few = dict(self.few)
        for value, count in zip(distinct.to_pylist(), found.field("counts").to_pylist(), strict=True):
            few[value] = few.get(value, 0) + count
        return (few if len(few) <= self.most_few else None), distinct

    def _texts(self, values: pa.Array) -> dict[str, Any]:
        """Whether the first thousand texts are single words."""
        if not (pa.types.is_dictionary(values.type) or pa.types.is_string(values.type)):
            return {}
        left = _FIRST_TEXTS - self.first_texts
        if left <= 0:
            return {}
        first = values.drop_null()[:left]
        texts = pd.Series(first.cast(pa.string()).to_pylist(), dtype="str")
        spaced = bool(len(texts)) and bool(texts.str.contains(r"\s").any())
        return {"first_texts": self.first_texts + len(first), "one_word": self.one_word and not spaced}


def _present(values: pa.Array) -> pa.Array:
    """The values that are not missing; dictionaries are decoded, and -0.0 becomes 0.0."""
    if pa.types.is_dictionary(values.type):
        return values.drop_null().cast(pa.string())
    if pa.types.is_floating(values.type):
        numbers = pc.drop_null(values).to_numpy(zero_copy_only=False) + 0.0
        return pa.array(numbers[~np.isnan(numbers)])
    return values.drop_null()


def _extremes(distinct: pa.Array) -> tuple[Any, Any]:
    if not len(distinct) or pa.types.is_null(distinct.type):
        return None, None
    found = pc.min_max(distinct.cast(pa.int8()) if pa.types.is_boolean(distinct.type) else distinct)
    return found["min"].as_py(), found["max"].as_py()


def _hashes(distinct: pa.Array) -> np.ndarray:
    if pa.types.is_string(distinct.type):
        return pd.util.hash_array(np.array(distinct.to_pylist(), dtype=object), categorize=False)
    if pa.types.is_timestamp(distinct.type):
        distinct = distinct.cast(pa.int64())
    elif pa.types.is_boolean(distinct.type) or pa.types.is_null(distinct.type):
        distinct = distinct.cast(pa.int8())
    return pd.util.hash_array(distinct.to_numpy(zero_copy_only=False))


def _smallest(held: np.ndarray, more: np.ndarray) -> np.ndarray:
    """The smallest distinct hashes of both: the total number is estimated from their density."""
    if held.size == MOST_HASHES:
        more = more[more < held[-1]]
        if not more.size:
            return held
    return np.unique(np.concatenate([held, more]))[:MOST_HASHES]


def _least(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else min(one, other)


def _most(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else max(one, other)


def _between(low: Any, high: Any) -> Any:
    """A third value, so that a column of many values never looks like one of two."""
    if isinstance(low, str):
        return f"{low} …"
    if isinstance(low, int | float):
        return low + (high - low) / 2 if np.isfinite(high - low) else 0.5 * low + 0.5 * high
    return low + (high - low) / 2


def as_series(name: str, kind: pa.DataType, values: list[Any], gaps: int) -> pd.Series:
    """A short column of these values, and of gaps behind them."""
    padded = [*values, *[None] * gaps]
    if pa.types.is_boolean(kind):
        flags = [None if value is None else bool(value) for value in padded]
        return pd.Series(flags, name=name, dtype="boolean" if gaps else "bool")
    if pa.types.is_string(kind) or pa.types.is_null(kind):
        return pd.Series(padded, name=name, dtype="str")
    if pa.types.is_timestamp(kind):
        return pd.Series(pa.array(padded, type=kind).to_pandas(), name=name)
    if pa.types.is_integer(kind) and not gaps:
        return pd.Series([int(value) for value in padded], name=name, dtype=kind.to_pandas_dtype())
    return pd.Series(padded, name=name, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class OrderStatistics:
    """The values at the wanted ranks (from 0), how many values are smaller, how many not larger, and of how many."""

    value: np.ndarray
    below: np.ndarray
    upto: np.ndarray
    count: int


def quantile_ranks(count: int, shares: np.ndarray) -> np.ndarray:
    """The ranks that `np.quantile(…, method="nearest")` takes among this many values."""
    return np.around((count - 1) * np.asarray(shares, dtype=np.float64)).astype(np.int64)


def select(blocks: Callable[[], Iterator[np.ndarray]], ranks_of: Callable[[int], np.ndarray]) -> OrderStatistics | None:
    """Order statistics of all finite numbers in the blocks, which are read four times; None without numbers.

    `ranks_of` maps the count of numbers to the wanted ranks.

    >>> found = select(lambda: iter([np.array([5.0, 1.0]), np.array([3.0, 3.0])]), lambda count: np.array([0, 2]))
    >>> found.value.tolist(), found.below.tolist(), found.upto.tolist()
    ([1.0, 3.0], [0, 1], [1, 3])
    """
    first = np.zeros(_DIGITS, dtype=np.int64)
    for block in blocks():
        first += np.bincount((_keys(block) >> np.uint64(48)).astype(np.int64), minlength=_DIGITS)
    count = int(first.sum())
    if not count:
        return None
    ranks = np.asarray(ranks_of(count), dtype=np.int64)
    prefix, left, beside = _descend(np.zeros(ranks.size, dtype=np.uint64), ranks, np.zeros(1, np.uint64), first[None])
    for shift in (32, 16, 0):
        active = np.unique(prefix)
        counts = np.zeros((active.size, _DIGITS), dtype=np.int64)
        for block in blocks():
            _count_digits(counts, _keys(block), active, shift)
        prefix, left, beside = _descend(prefix, left, active, counts)
    return OrderStatistics(_numbers(prefix), ranks - left, ranks - left + beside, count)


def _descend(
    prefix: np.ndarray, left: np.ndarray, active: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each rank: the next sixteen bits of its value, the rank that is left inside them, and their rows."""
    rows = np.searchsorted(active, prefix)
    reached = np.cumsum(counts, axis=1)
    digit = np.array([np.searchsorted(reached[row], rank, side="right") for row, rank in zip(rows, left, strict=True)])
    digit = digit.astype(np.int64)
    beside = counts[rows, digit]
    before = reached[rows, digit] - beside
    return (prefix << np.uint64(16)) | digit.astype(np.uint64), left - before, beside


def _count_digits(counts: np.ndarray, keys: np.ndarray, active: np.ndarray, shift: int) -> None:
    """Add the keys inside the active ranges to their counts, in place, because most counts do not change."""
    prefix = keys >> np.uint64(shift + 16)
    place = np.minimum(np.searchsorted(active, prefix), active.size - 1)
    inside = active[place] == prefix
    digit = ((keys[inside] >> np.uint64(shift)) & np.uint64(_DIGITS - 1)).astype(np.int64)
    np.add.at(counts.reshape(-1), place[inside] * _DIGITS + digit, 1)


def _keys(numbers: np.ndarray) -> np.ndarray:
    """Unsigned integers in the order of the finite numbers; both zeros are one."""
    finite = numbers[np.isfinite(numbers)].astype(np.float64) + 0.0
    bits = finite.view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _numbers(keys: np.ndarray) -> np.ndarray:
    return np.where(keys & _SIGN, keys & ~_SIGN, ~keys).view(np.float64)
