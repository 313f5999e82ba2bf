"""From a table of mixed columns to one matrix with columns f0…fn, the same for every learner.

The encoder sees X only, so it may be fitted on all rows without leaking a label.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from spu_core.codec import decode, encode
from spu_core.errors import TableError, TrainingError
from spu_core.models.columns import LARGEST, Column, EncoderStatistics, Family, family_of, series_of
from spu_core.models.features import Features, check_memory


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """How columns become numbers: one encoded column for each column of the table, never one per level.

    Numbers and booleans stay numbers, dates become days, text becomes codes by frequency: beyond `max_levels`
    the rarest levels share code 0 with levels never seen. `categories` names number columns that are codes.
    `memory_limit` (bytes; the default is 80 % of what is free) is checked before anything is allocated.

    >>> fitted = Encoder().fit(pd.DataFrame({"age": [30, None], "job": ["clerk", "clerk"]}))
    >>> fitted.transform(pd.DataFrame({"job": ["pilot", "clerk"], "age": [40, 50]})).matrix
    array([[40.,  0.],
           [50.,  1.]], dtype=float32)
    """

    max_levels: int = 1000
    categories: tuple[str, ...] = ()
    memory_limit: int | None = None

    def fit(self, frame: pd.DataFrame) -> FittedEncoder:
        """Freeze families, levels and offsets; columns that cannot be encoded are named all at once."""
        if frame.shape[1]:
            check_memory(len(frame), frame.shape[1], self.memory_limit)
            _refuse_duplicates(frame.columns)
        return self.fit_statistics(EncoderStatistics.of(frame, self.categories))

    def fit_statistics(self, statistics: EncoderStatistics) -> FittedEncoder:
        """The same from merged statistics of parts: equal to `fit` on all rows at once."""
        if not statistics.columns:
            raise TrainingError("There is no feature column to learn from; give at least one column the role FEATURE.")
        return FittedEncoder(statistics.fitted_columns(self.max_levels), self.memory_limit)


@dataclass(frozen=True)
class FittedEncoder:
    """Frozen columns: turns any table that has them, in any order, into the same matrix columns."""

    columns: tuple[Column, ...]
    memory_limit: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def transform(self, frame: pd.DataFrame, needed: Collection[str] | None = None) -> Features:
        """Encode rows; columns that are not `needed` may be absent, and extra columns are left out."""
        _refuse_duplicates(frame.columns)
        series = series_of(frame)
        self._check(series, self.names if needed is None else needed)
        check_memory(len(frame), len(self.columns), self.memory_limit)
        if self._are_plain_floats(series):
            return Features.of(_as_matrix(frame, self.names), self.columns)
        matrix = np.empty((len(frame), len(self.columns)), dtype=np.float32)
        for place, column in enumerate(self.columns):
            values = series.get(column.name)
            matrix[:, place] = np.nan if values is None else column.encode(values)
        return Features.of(matrix, self.columns)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able state; `from_dict` brings back an equal encoder."""
        return {"columns": encode(self.columns)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> FittedEncoder:
        return cls(decode(tuple[Column, ...], state["columns"], "columns"))

    def _are_plain_floats(self, series: Mapping[str, pd.Series]) -> bool:
        """Whether all columns can be taken as they are, in one go: writing column by column costs a tenth of a
        prediction."""
        plain = all(column.family is Family.NUMBER and not column.is_category for column in self.columns)
        there = [series.get(column.name) for column in self.columns]
        kinds = {None if values is None else values.dtype for values in there}
        return plain and kinds <= _FLOATS and len(kinds) == 1 and not any(column.offset for column in self.columns)

    def _check(self, present: Mapping[str, pd.Series], needed: Collection[str]) -> None:
        wanted = set(needed)
        absent = [name for name in self.names if name in wanted and name not in present]
        problems = [f"Missing: {', '.join(map(repr, absent))}."] if absent else []
        for column in self.columns:
            if column.name in present:
                family = family_of(present[column.name])
                if not column.accepts(family):
                    problems.append(
                        f"Column {column.name!r} was {column.family} when the model was trained, now {family}."
                    )
        if problems:
            raise TableError("The table does not fit the model. " + " ".join(problems))


_FLOATS = {np.dtype(np.float32), np.dtype(np.float64)}


def _as_matrix(frame: pd.DataFrame, names: Sequence[str]) -> np.ndarray:
    """Float columns of one type as float32; infinity becomes the largest number, as in a column encoded by itself."""
    places = pd.Index([str(name) for name in frame.columns]).get_indexer(pd.Index(names))
    values = frame.to_numpy()
    values = values if np.array_equal(places, np.arange(values.shape[1])) else values[:, places]
    with np.errstate(over="ignore"):
        matrix = np.array(values, dtype=np.float32, order="C")
    return np.clip(matrix, -LARGEST, LARGEST, out=matrix)


def _refuse_duplicates(names: Sequence[Any] | pd.Index) -> None:
    index = pd.Index([str(name) for name in names])
    if not index.is_unique:
        twice = ", ".join(map(repr, index[index.duplicated()].unique()[:5]))
        raise TableError(f"Column names must be unique, but {twice} appears more than once.")
