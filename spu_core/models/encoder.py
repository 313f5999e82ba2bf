"""From a table of mixed columns to one matrix with columns f0…fn, the same for every learner.

The encoder sees X only, so it may be fitted on all rows without leaking a label.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import TableError, TrainingError
from spu_core.models.columns import Column, Family, as_numbers, factorize, family_of
from spu_core.models.features import Features
from spu_core.models.memory import check_memory

# A text column in which nine of ten values are different says nothing about the next row.
IDENTIFIER_SHARE = 0.9
FEWEST_IDENTIFIERS = 50


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
        if frame.shape[1] == 0:
            raise TrainingError("There is no feature column to learn from; give at least one column the role FEATURE.")
        check_memory(len(frame), frame.shape[1], self.memory_limit)
        _refuse_duplicates(frame.columns)
        fitted, problems = [], []
        for name, values in series_of(frame).items():
            column = self._fit_column(name, values)
            problems.append(column) if isinstance(column, str) else fitted.append(column)
        if problems:
            raise TrainingError("Some columns cannot be features. " + " ".join(problems))
        return FittedEncoder(tuple(fitted), self.memory_limit)

    def _fit_column(self, name: str, values: pd.Series) -> Column | str:
        """The fitted column, or a sentence that says why there is none."""
        family = family_of(values)
        if family is Family.MIXED:
            return f"Column {name!r} mixes kinds of values; make it all text or all numbers, or ignore it."
        if family is Family.TEXT or name in self.categories or isinstance(values.dtype, pd.CategoricalDtype):
            return self._fit_category(name, family, values)
        if family is Family.EMPTY:
            return Column(name, family)
        return Column(name, family, offset=_offset(as_numbers(values, family)))

    def _fit_category(self, name: str, family: Family, values: pd.Series) -> Column | str:
        position, found = factorize(values)
        present = int((position >= 0).sum())
        if family is Family.TEXT and len(found) > max(FEWEST_IDENTIFIERS, IDENTIFIER_SHARE * present):
            return (
                f"Column {name!r} looks like an identifier or free text ({len(found):,} different values in "
                f"{present:,} rows); give it the role ID or IGNORE."
            )
        count = np.bincount(position[position >= 0], minlength=len(found))
        # Ties in frequency go by name, so that the codes do not depend on the order of rows.
        order = sorted(range(len(found)), key=lambda level: (-count[level], found[level]))
        levels = tuple(found[level] for level in order[: self.max_levels])
        return Column(name, family, is_category=True, levels=levels)


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
        matrix = np.empty((len(frame), len(self.columns)), dtype=np.float32)
        for place, column in enumerate(self.columns):
            values = series.get(column.name)
            matrix[:, place] = np.nan if values is None else column.encode(values)
        return Features.of(matrix, self.columns)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able state; `from_dict` brings back an equal encoder."""
        return {"columns": [column.to_dict() for column in self.columns]}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> FittedEncoder:
        return cls(tuple(Column.from_dict(column) for column in state["columns"]))

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


def series_of(frame: pd.DataFrame) -> dict[str, pd.Series]:
    """The columns by name. A table of one number type is cut from its array: pandas takes 0.1 ms or more per column."""
    kinds = set(frame.dtypes)
    if len(kinds) == 1 and isinstance(kind := next(iter(kinds)), np.dtype) and kind.kind in "buif":
        values = frame.to_numpy()
        return {str(name): pd.Series(values[:, place], copy=False) for place, name in enumerate(frame.columns)}
    return {str(name): values for name, values in frame.items()}


def _offset(numbers: np.ndarray) -> float:
    """Shift a column to its start where float32 would merge neighbours: dates, seconds since 1970."""
    finite = numbers[~np.isnan(numbers)]
    if finite.size == 0:
        return 0.0
    low, high = float(finite.min()), float(finite.max())
    farthest = max(abs(low), abs(high))
    return low if farthest > 2**24 and high - low < farthest else 0.0


def _refuse_duplicates(names: Sequence[Any] | pd.Index) -> None:
    index = pd.Index([str(name) for name in names])
    if not index.is_unique:
        twice = ", ".join(map(repr, index[index.duplicated()].unique()[:5]))
        raise TableError(f"Column names must be unique, but {twice} appears more than once.")
