"""What is needed to infer the type and the role of a column that is read in parts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from spu_core.tables.reading.values import FEW_ROWS, ColumnType, names_an_id, type_of_text
from spu_core.tables.roles import Role, is_named_like

_FEW_VALUES = 64
_FIRST_TEXTS = 1_000


@dataclass(frozen=True, eq=False)
class ColumnFacts:
    """Rows, gaps, extremes, and the counts of values while there are few.

    `few` maps values, in order of first appearance, to their rows; None once there are more than `most_few`. From then
    on `hashes` holds 64 bits of each distinct value of each part, for texts, ids and groups.
    """

    name: str
    kind: pa.DataType
    rows: int = 0
    missing: int = 0
    low: Any = None
    high: Any = None
    hashes: tuple[np.ndarray, ...] = field(default=(), repr=False)
    few: dict[Any, int] | None = field(default_factory=dict, repr=False)
    first_texts: int = 0
    one_word: bool = True
    most_few: int = _FEW_VALUES

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
            hashes=(*self.hashes, *self._more_hashes(few, found)),
            few=few,
            **self._texts(values),
        )

    @property
    def present(self) -> int:
        return self.rows - self.missing

    @cached_property
    def distinct(self) -> int:
        """Distinct values; 0 for many values of a column where no guess needs them."""
        if self.few is not None:
            return len(self.few)
        return np.unique(np.concatenate(self.hashes)).size if self.hashes else 0

    @property
    def all_differ(self) -> bool:
        """Whether no value occurs twice."""
        return self.distinct == self.present

    def type(self, levels: int) -> ColumnType:
        """The type that the values of all rows suggest: equal to `guess_type` of the whole column."""
        if pa.types.is_boolean(self.kind):
            return ColumnType.BOOLEAN
        if pa.types.is_timestamp(self.kind):
            return ColumnType.DATETIME
        if pa.types.is_string(self.kind) or pa.types.is_null(self.kind):
            return type_of_text(self.name, self.present, self.distinct, levels, lambda: self.one_word)
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

    def _more_hashes(self, few: dict[Any, int] | None, found: pa.Array) -> tuple[np.ndarray, ...]:
        counted = pa.types.is_string(self.kind) or names_an_id(self.name) or is_named_like(Role.GROUP, self.name)
        if few is not None or not counted:
            return ()
        before = () if self.few is None else (_hashes(pa.array(list(self.few), self.kind)),)
        return (*before, _hashes(found))

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
