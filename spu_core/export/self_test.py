"""Self-test rows: 20 synthetic rows with their scores, which every copy of a model must reproduce.

They are made from the summaries of the training columns (the median, nothing, unseen and extreme values, then
mixtures), never from rows of the table. They travel in the bundle, in the metadata of the ONNX model and in the folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_choice
from spu_core.codec import decode, encode
from spu_core.errors import BundleError
from spu_core.export.bundle_parts import LabelRules
from spu_core.export.drift import ColumnSummary
from spu_core.models.columns import Column, Family
from spu_core.rules.beliefs import FrozenReadyMade, FrozenRecords
from spu_core.rules.columns import Kind

ROWS = 20
MOST_VALUES = 24
UNSEEN = "(not in the training rows)"
EXTREME = {"number": (1e300, -1e300), "days": (100_000.0, -100_000.0), "flag": (1.0, 0.0), "text": (UNSEEN, UNSEEN)}
# The kinds of values that a model reads, as the ONNX model and the service take them.
INPUT_WORDS = {
    "text": "text as in the training table; the empty text means missing",
    "days": "days since 1970-01-01 in UTC, with fractions; NaN means missing",
    "flag": "1 or 0; NaN means missing",
    "number": "a number; NaN means missing",
}
_KIND_OF_FAMILY = {Family.TEXT: "text", Family.DATE: "days", Family.BOOLEAN: "flag"}
_KIND_OF_RULE = {Kind.TEXT: "text", Kind.DATE: "days", Kind.FLAG: "flag"}


def input_kind(column: Column | None, rule_kind: Kind | None = None) -> str:
    """The kind of values of a column: number, flag, days or text.

    The encoder decides, unless it does not know the column or found it empty; then the rules decide.

    >>> input_kind(Column("when", Family.DATE)), input_kind(None, Kind.TEXT)
    ('days', 'text')
    """
    if column is not None and (column.family is not Family.EMPTY or rule_kind is None):
        return _KIND_OF_FAMILY.get(column.family, "number")
    return "number" if rule_kind is None else _KIND_OF_RULE.get(rule_kind, "number")


@dataclass(frozen=True)
class SelfTestColumn:
    """The values of one column as plain JSON values; None is missing."""

    name: str
    kind: str
    values: tuple[float | str | None, ...]

    def __post_init__(self) -> None:
        check_choice(self.kind, INPUT_WORDS, f"The kind of column {self.name!r}", BundleError)
        fits = str if self.kind == "text" else (int, float)
        if not all(value is None or isinstance(value, fits) for value in self.values):
            raise BundleError(f"Column {self.name!r} holds a value of another kind than {self.kind}.")


@dataclass(frozen=True, eq=False)
class SelfTest:
    """Rows with their scores; the columns all have one value per row."""

    columns: tuple[SelfTestColumn, ...]
    score: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for column in self.columns if self.score else ():
            if len(column.values) != len(self.score):
                raise BundleError(f"Column {column.name!r} must have one value per score.")

    @property
    def frame(self) -> pd.DataFrame:
        """The rows as a table that a bundle can score."""
        return pd.DataFrame({column.name: _series(column.kind, column.values) for column in self.columns})

    def to_dict(self) -> dict[str, Any]:
        return encode(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> SelfTest:
        return decode(cls, found, "The self-test", BundleError, complete=True)


def self_test_rows(
    kinds: Mapping[str, str],
    columns: Mapping[str, tuple[Column, ColumnSummary]],
    label_rules: LabelRules | None,
) -> SelfTest:
    """Rows for inputs of these kinds, still without scores; `columns` are those that the encoder knows."""
    limited = {} if label_rules is None else dict(_limited(label_rules))
    made = []
    for place, (name, kind) in enumerate(kinds.items()):
        known = _known_values(kind, *columns[name]) if name in columns else []
        compared = [] if label_rules is None else list(_compared_values(kind, name, label_rules))
        values = limited.get(name) or _mixed(kind, [*known, *compared][:MOST_VALUES], place)
        made.append(SelfTestColumn(name, kind, values))
    return SelfTest(tuple(made))


def _mixed(kind: str, known: Sequence[Any], place: int) -> tuple[Any, ...]:
    """The usual value, nothing, two extremes; then all of them, at a pace that differs between columns."""
    usual = known[0] if known else None
    start = [usual, None, *EXTREME[kind]]
    pool = [*known, None, *EXTREME[kind]]
    return (*start, *(pool[(row * (place % 5 + 1) + place) % len(pool)] for row in range(ROWS - len(start))))


def _known_values(kind: str, column: Column, summary: ColumnSummary) -> list[Any]:
    """The median or the most frequent category, then others."""
    if column.is_category:
        return [float(level) if kind == "number" else level for level in column.levels[:MOST_VALUES]]
    numbers = (np.array(summary.quantiles) + column.offset).tolist()
    middle = numbers[len(numbers) // 2 :] + numbers[: len(numbers) // 2]
    # Whole days come back from a date exactly.
    rounded = [float(np.floor(number)) for number in middle] if kind == "days" else middle
    return list(dict.fromkeys(rounded[::2]))


def _compared_values(kind: str, name: str, label_rules: LabelRules) -> Iterable[Any]:
    """Values that the rules compare a column with, so that some rows meet a condition and others do not."""
    for rule in label_rules.rules.rules:
        for compare in () if rule.when is None else rule.when.comparisons:
            if compare.column == name and kind in ("text", "number"):
                fits = str if kind == "text" else (int, float)
                yield from (value if kind == "text" else float(value) for value in compare.values if _is(value, fits))


def _limited(label_rules: LabelRules) -> Iterable[tuple[str, tuple[Any, ...]]]:
    """Columns that may not hold just any number: ready-made beliefs and records of checks."""
    for belief in label_rules.rules.beliefs:
        if isinstance(belief, FrozenReadyMade):
            yield belief.column, tuple(None if row == 1 else row / (ROWS - 1) for row in range(ROWS))
        elif isinstance(belief, FrozenRecords):
            yield belief.checks_column, tuple(None if row == 1 else float(row) for row in range(ROWS))
            yield belief.passes_column, tuple(None if row == 2 else float(row // 2) for row in range(ROWS))


def _is(value: Any, kinds: Any) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _series(kind: str, values: Sequence[Any]) -> pd.Series:
    if kind == "text":
        return pd.Series(list(values), dtype=object)
    numbers = pd.Series([np.nan if value is None else float(value) for value in values], dtype=np.float64)
    return pd.to_datetime(numbers, unit="D") if kind == "days" else numbers
