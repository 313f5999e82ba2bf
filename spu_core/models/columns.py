"""One encoded column: where it comes from, which family of values it accepts, how its values become numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from spu_core.tables.reading.values import stamps

LARGEST = float(np.finfo(np.float32).max)
DAY_NS = 86_400 * 10**9


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
    from zero, so that float32 can still tell them apart.
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

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "family": str(self.family), "levels": list(self.levels)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Column:
        return cls(**{**state, "family": Family(state["family"]), "levels": tuple(state["levels"])})

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
