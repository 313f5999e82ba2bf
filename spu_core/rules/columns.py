"""Columns as rules read them: numbers and dates as ordered arrays, flags and texts as category codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types as dtypes

from spu_core.errors import RuleError, nearest_hint


class Kind(StrEnum):
    """How a rule compares the values of a column. It is stored at fitting, so that all chunks are read the same way."""

    NUMBER = "number"
    DATE = "date"
    FLAG = "flag"
    TEXT = "text"


KIND_NAMES = {Kind.NUMBER: "numbers", Kind.DATE: "dates", Kind.FLAG: "true and false", Kind.TEXT: "texts"}


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column as integer codes of its categories (`levels`); a missing value has code −1."""

    codes: np.ndarray
    levels: tuple[Any, ...]

    def where(self, wanted: np.ndarray) -> np.ndarray:
        """Rows whose category is wanted (one flag per category); False for missing values."""
        chosen = np.flatnonzero(wanted)
        if chosen.size == 1:
            return self.codes == chosen[0]
        # A missing value has code −1, which selects the last entry.
        return np.append(wanted, False)[self.codes]


class Columns:
    """The columns of one frame that rules read. Each is converted once, at first use."""

    def __init__(self, frame: pd.DataFrame, kinds: Mapping[str, Kind]) -> None:
        self.frame, self.kinds = frame, kinds
        self._read: dict[str, np.ndarray | Coded] = {}
        self._present: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.frame)

    def ordered(self, name: str) -> np.ndarray:
        """A column of numbers (float64, NaN = missing) or of dates (datetime64, NaT = missing)."""
        found = self._get(name)
        assert isinstance(found, np.ndarray)
        return found

    def coded(self, name: str) -> Coded:
        """A column as categories; numbers and dates are converted too."""
        found = self._get(name)
        return found if isinstance(found, Coded) else _coded_texts(pd.Series(found))

    def is_missing(self, name: str) -> np.ndarray:
        return ~self.is_present(name)

    def is_present(self, name: str) -> np.ndarray:
        """Whether each row has a value; computed once per column."""
        if name not in self._present:
            found = self._get(name)
            # NaN and NaT are the only values that differ from themselves.
            self._present[name] = found.codes >= 0 if isinstance(found, Coded) else found == found
        return self._present[name]

    def _get(self, name: str) -> np.ndarray | Coded:
        if name not in self._read:
            self._read[name] = _READ[self.kinds[name]](column_of(self.frame, name))
        return self._read[name]


def column_of(frame: pd.DataFrame, name: str, reader: str = "A rule") -> pd.Series:
    """The column with this name, or an error with the most similar name."""
    if name not in frame.columns:
        hint = nearest_hint(name, frame.columns)
        raise RuleError(f"{reader} uses column {name!r}, which is not in the data. {hint}")
    found = frame[name]
    if found.ndim != 1:
        raise RuleError(f"{reader} uses column {name!r}, which is in the data more than once; rename the others.")
    return found


def kind_of(values: pd.Series) -> Kind:
    """How a rule compares the values of this column.

    >>> kind_of(pd.Series([1, 2])), kind_of(pd.Series(["a", None])), kind_of(pd.Series([True, False]))
    (<Kind.NUMBER: 'number'>, <Kind.TEXT: 'text'>, <Kind.FLAG: 'flag'>)
    """
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    if dtypes.is_bool_dtype(dtype) or _holds_only(values, bool | np.bool_):
        return Kind.FLAG
    if dtypes.is_datetime64_any_dtype(dtype):
        return Kind.DATE
    return Kind.NUMBER if dtypes.is_numeric_dtype(dtype) else Kind.TEXT


def level_text(value: Any) -> str:
    """A category as text. Whole numbers lose their `.0`, so that missing values in a chunk do not change the name."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def read_date(value: Any) -> np.datetime64:
    """A date from its text (ISO 8601), in UTC where it has an offset."""
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise RuleError(f"{value!r} is not a date; write it like '2024-01-31'.") from None
    return _without_zone(pd.Series([moment])).to_numpy()[0]


def _read_numbers(values: pd.Series) -> np.ndarray:
    try:
        return _plain(values).to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise _wrong_kind(values, Kind.NUMBER) from None


def _read_dates(values: pd.Series) -> np.ndarray:
    values = _plain(values)
    if not dtypes.is_datetime64_any_dtype(values.dtype):
        if dtypes.is_numeric_dtype(values.dtype) and values.notna().any():
            raise _wrong_kind(values, Kind.DATE)
        try:
            values = pd.to_datetime(values, format="ISO8601", utc=True)
        except (TypeError, ValueError):
            raise _wrong_kind(values, Kind.DATE) from None
    return _without_zone(values).to_numpy()


def _read_flags(values: pd.Series) -> Coded:
    plain = _plain(values)
    if plain.dtype == np.bool_:
        return Coded(plain.to_numpy().view(np.int8), (False, True))
    try:
        numbers = plain.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise _wrong_kind(values, Kind.FLAG) from None
    codes = np.where(np.isnan(numbers), -1.0, numbers)
    if not np.isin(codes, (-1.0, 0.0, 1.0)).all():
        raise _wrong_kind(values, Kind.FLAG)
    return Coded(codes.astype(np.int8), (False, True))


def _read_texts(values: pd.Series) -> Coded:
    if isinstance(values.dtype, pd.CategoricalDtype):
        return Coded(values.cat.codes.to_numpy(), _level_texts(values.cat.categories))
    return _coded_texts(values)


def _coded_texts(values: pd.Series) -> Coded:
    codes, levels = pd.factorize(values)
    return Coded(codes, _level_texts(levels))


def _level_texts(levels: Iterable[Any]) -> tuple[str, ...]:
    return tuple(level_text(level) for level in levels)


def _plain(values: pd.Series) -> pd.Series:
    """A category column as a column of its values, in a type that allows missing values."""
    if not isinstance(values.dtype, pd.CategoricalDtype):
        return values
    dtype = values.cat.categories.dtype
    if dtypes.is_datetime64_any_dtype(dtype):
        return values.astype(dtype)
    return values.astype(np.float64 if dtypes.is_numeric_dtype(dtype) and not dtypes.is_bool_dtype(dtype) else object)


def _without_zone(values: pd.Series) -> pd.Series:
    if isinstance(values.dtype, pd.DatetimeTZDtype):
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    # Microseconds cover all usual dates; nanoseconds end in the year 2262.
    return values.dt.as_unit("us")


def _holds_only(values: pd.Series, kind: Any) -> bool:
    """Whether an object column holds only such values and missing values, like flags with gaps in plain pandas."""
    if values.dtype != object:
        return False
    present = values.dropna()
    return len(present) > 0 and all(isinstance(value, kind) for value in present)


def _wrong_kind(values: pd.Series, kind: Kind) -> RuleError:
    present = values.dropna()
    example = repr(present.iloc[0]) if len(present) else "nothing"
    return RuleError(
        f"Column {values.name!r} held {KIND_NAMES[kind]} when the rules were fitted, but now holds {values.dtype} "
        f"such as {example}; convert it to the same type."
    )


_READ: dict[Kind, Callable[[pd.Series], np.ndarray | Coded]] = {
    Kind.NUMBER: _read_numbers,
    Kind.DATE: _read_dates,
    Kind.FLAG: _read_flags,
    Kind.TEXT: _read_texts,
}
