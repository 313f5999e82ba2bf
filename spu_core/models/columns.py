"""Columns: which family of values they hold, how values become numbers, and the statistics that decide both.

The statistics of parts merge to those of the whole. So one streaming pass, or one task per partition of a cluster,
gathers them, and the encoder is fitted once for all. Levels that differ between partitions would otherwise get
different codes, and a model would train on them without any error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import TableError, TrainingError
from spu_core.tables.reading.values import stamps

LARGEST = float(np.finfo(np.float32).max)
DAY_NS = 86_400 * 10**9
# Texts that hardly ever repeat do not help to predict other rows.
IDENTIFIER_SHARE = 0.9
FEWEST_IDENTIFIERS = 50


class Family(StrEnum):
    """What the values of a column are before encoding; a fitted column accepts only its own family."""

    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    EMPTY = "empty"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it was seen at fit.

    `levels` holds the categories, the most frequent first: level k has code k + 1, so codes are also ranks of
    frequency, and code 0 stands for a level that is rare or was never seen. `offset` is subtracted from numbers far
    from zero, so that float32 keeps them different.
    """

    name: str
    family: Family
    is_category: bool = False
    offset: float = 0.0
    levels: tuple[str, ...] = ()

    def accepts(self, family: Family) -> bool:
        """Whether values of this family can be encoded; an all-missing column always can."""
        numeric = {Family.NUMBER, Family.BOOLEAN}
        same = family == self.family or {family, self.family} <= numeric
        return same or Family.EMPTY in (family, self.family)

    def encode(self, values: pd.Series) -> np.ndarray:
        """The column as float64; missing values are NaN."""
        if self.family is Family.EMPTY:
            return np.full(len(values), np.nan)
        return self._codes(values) if self.is_category else as_numbers(values, self.family) - self.offset

    def _codes(self, values: pd.Series) -> np.ndarray:
        position, found = factorize(values)
        known = {level: code for code, level in enumerate(self.levels, start=1)}
        # The last slot answers for position −1, which is a missing value.
        code = np.array([known.get(level, 0) for level in found] + [np.nan])
        return code[position]


def family_of(values: pd.Series) -> Family:
    """The family of a column, by its dtype or, for object columns, by its values.

    >>> family_of(pd.Series(["a", None])), family_of(pd.Series([True, None])), family_of(pd.Series([None, None]))
    (<Family.TEXT: 'text'>, <Family.BOOLEAN: 'boolean'>, <Family.EMPTY: 'empty'>)
    """
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return family_of(pd.Series(dtype.categories)) if values.notna().any() else Family.EMPTY
    if pd.api.types.is_bool_dtype(dtype):
        return Family.BOOLEAN
    if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype):
        return Family.NUMBER
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return Family.DATE
    return _FAMILY_BY_CONTENT.get(pd.api.types.infer_dtype(values, skipna=True), Family.MIXED)


def as_numbers(values: pd.Series, family: Family) -> np.ndarray:
    """Numbers as they are, booleans as 0 and 1, dates as days since 1970 (UTC); all as float64."""
    if family is Family.DATE:
        return stamps(pd.to_datetime(values, utc=True)) / DAY_NS
    if values.dtype == object or isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype("Float64")
    number = values.to_numpy(dtype=np.float64, na_value=np.nan)
    # Infinity keeps its place in the order; boosters and distances cannot read it.
    return np.clip(number, -LARGEST, LARGEST)


def factorize(values: pd.Series) -> tuple[np.ndarray, list[str]]:
    """(position of each value, −1 where missing; the distinct values as text)."""
    position, found = pd.factorize(values)
    return position, [_text(value) for value in found]


def _text(value: Any) -> str:
    # The same code list may come as 3 in one file and, beside a missing value, as 3.0 in the next.
    return f"{value:.15g}" if isinstance(value, float) else str(value)


_FAMILY_BY_CONTENT = {
    "string": Family.TEXT,
    "boolean": Family.BOOLEAN,
    "integer": Family.NUMBER,
    "floating": Family.NUMBER,
    "decimal": Family.NUMBER,
    "integer-na": Family.NUMBER,
    "mixed-integer-float": Family.NUMBER,
    "datetime": Family.DATE,
    "datetime64": Family.DATE,
    "date": Family.DATE,
    "empty": Family.EMPTY,
}


_NUMERIC = {Family.NUMBER, Family.BOOLEAN}


@dataclass(frozen=True, eq=False)
class ColumnStatistics:
    """One column: its family, its extremes where it is a number, the count of each level where it is a category."""

    name: str
    family: Family
    low: float = np.inf
    high: float = -np.inf
    levels: Mapping[str, int] | None = None

    @classmethod
    def of(cls, name: str, values: pd.Series, *, is_code: bool = False) -> ColumnStatistics:
        """The statistics of some rows; `is_code` says that numbers are the codes of levels."""
        family = family_of(values)
        if family is Family.MIXED:
            return cls(name, family)
        if family is Family.TEXT or is_code or isinstance(values.dtype, pd.CategoricalDtype):
            return cls(name, family, levels=_counts(values))
        low, high = (np.inf, -np.inf) if family is Family.EMPTY else _extremes(as_numbers(values, family))
        return cls(name, family, low, high)

    def merge(self, other: ColumnStatistics) -> ColumnStatistics:
        """The statistics of both parts together; an all-missing part changes nothing."""
        if other.family is Family.EMPTY and (self.family is not Family.EMPTY or self.levels is not None):
            return self
        if self.family is Family.EMPTY:
            return other
        if (self.levels is None) is not (other.levels is None) and Family.MIXED not in (self.family, other.family):
            raise TrainingError(
                f"Column {self.name!r} holds levels in one part of the rows and plain numbers in another; "
                "bring all parts into one form."
            )
        return ColumnStatistics(
            self.name,
            _merged_family(self.family, other.family),
            min(self.low, other.low),
            max(self.high, other.high),
            _merged_levels(self.levels, other.levels),
        )

    def column(self, max_levels: int) -> Column | str:
        """The fitted column, or a sentence that says why there is none."""
        if self.family is Family.MIXED:
            return f"Column {self.name!r} mixes kinds of values; make it all text or all numbers, or ignore it."
        if self.levels is None:
            return Column(self.name, self.family, offset=self._offset())
        present = sum(self.levels.values())
        if self.family is Family.TEXT and len(self.levels) > max(FEWEST_IDENTIFIERS, IDENTIFIER_SHARE * present):
            return (
                f"Column {self.name!r} looks like an identifier or free text ({len(self.levels):,} different values "
                f"in {present:,} rows); give it the role ID or IGNORE."
            )
        # Ties in frequency go by name, so that the codes do not depend on the order of rows.
        ordered = sorted(self.levels, key=lambda level: (-self.levels[level], level))  # type: ignore[index]
        return Column(self.name, self.family, is_category=True, levels=tuple(ordered[:max_levels]))

    def _offset(self) -> float:
        """Shift a column to its start where float32 would merge neighbours: dates, seconds since 1970."""
        if self.low > self.high:
            return 0.0
        farthest = max(abs(self.low), abs(self.high))
        return self.low if farthest > 2**24 and self.high - self.low < farthest else 0.0


@dataclass(frozen=True, eq=False)
class EncoderStatistics:
    """The statistics of all columns; `merge` is associative and does not depend on the order of parts.

    >>> first = EncoderStatistics.of(pd.DataFrame({"age": [30, 40], "job": ["clerk", "pilot"]}))
    >>> whole = first.merge(EncoderStatistics.of(pd.DataFrame({"job": ["pilot"], "age": [None]})))
    >>> whole.rows, whole.columns[1].levels
    (3, {'clerk': 1, 'pilot': 2})
    >>> whole.fitted_columns()[1].levels
    ('pilot', 'clerk')
    """

    columns: tuple[ColumnStatistics, ...]
    rows: int = 0

    @classmethod
    def of(cls, frame: pd.DataFrame, categories: Collection[str] = ()) -> EncoderStatistics:
        """The statistics of some rows; `categories` names number columns that are codes."""
        codes = set(categories)
        found = (ColumnStatistics.of(name, values, is_code=name in codes) for name, values in series_of(frame).items())
        return cls(tuple(found), len(frame))

    def merge(self, other: EncoderStatistics) -> EncoderStatistics:
        """Both parts together; columns are matched by name, in the order of this one."""
        # A part without rows may come in any form: nothing in it can contradict the others.
        if not self.rows or not other.rows:
            return self if self.rows or not other.rows else other
        theirs = {column.name: column for column in other.columns}
        names = {column.name for column in self.columns}
        if names != set(theirs):
            odd = sorted(names ^ set(theirs))[0]
            raise TableError(f"Column {odd!r} is in one part of the rows and not in another; give all parts alike.")
        merged = tuple(column.merge(theirs[column.name]) for column in self.columns)
        return replace(self, columns=merged, rows=self.rows + other.rows)

    def fitted_columns(self, max_levels: int = 1000) -> tuple[Column, ...]:
        """The columns as the encoder freezes them; those that cannot be encoded are named all at once."""
        fitted = [column.column(max_levels) for column in self.columns]
        problems = [column for column in fitted if isinstance(column, str)]
        if problems:
            raise TrainingError("Some columns cannot be features. " + " ".join(problems))
        return tuple(column for column in fitted if isinstance(column, Column))


def series_of(frame: pd.DataFrame) -> dict[str, pd.Series]:
    """The columns by name. A table of one number type is cut from its array: pandas takes 0.1 ms or more per column."""
    kinds = set(frame.dtypes)
    if len(kinds) == 1 and isinstance(kind := next(iter(kinds)), np.dtype) and kind.kind in "buif":
        values = frame.to_numpy()
        return {str(name): pd.Series(values[:, place], copy=False) for place, name in enumerate(frame.columns)}
    return {str(name): values for name, values in frame.items()}


def _counts(values: pd.Series) -> dict[str, int]:
    position, found = factorize(values)
    count = np.bincount(position[position >= 0], minlength=len(found)).tolist()
    levels: dict[str, int] = {}
    for level, times in zip(found, count, strict=True):
        levels[level] = levels.get(level, 0) + times
    return levels


def _extremes(numbers: np.ndarray) -> tuple[float, float]:
    present = numbers[~np.isnan(numbers)]
    return (float(present.min()), float(present.max())) if present.size else (np.inf, -np.inf)


def _merged_family(one: Family, other: Family) -> Family:
    if one is other:
        return one
    return Family.NUMBER if {one, other} <= _NUMERIC else Family.MIXED


def _merged_levels(one: Mapping[str, int] | None, other: Mapping[str, int] | None) -> Mapping[str, int] | None:
    if one is None or other is None:
        return None
    merged = dict(one)
    for level, times in other.items():
        merged[level] = merged.get(level, 0) + times
    return merged
