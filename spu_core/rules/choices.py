"""Data for the rule editor: the histogram or the categories of a column, and beliefs from check columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from spu_core.rules.beliefs import CheckRatio, CheckRecord
from spu_core.rules.checking import check_kinds, refuse_errors
from spu_core.rules.columns import Columns, Kind, column_of, kind_of
from spu_core.rules.rule import Rule
from spu_core.tables import Histogram, Table
from spu_core.tables.profiles import ColumnProfile, histogram
from spu_core.tables.reading.values import stamps
from spu_core.theory.check_prior import CheckPrior
from spu_core.theory.check_ratio import CheckRatios

# Longer lists are too long to choose from. Rules can also use categories that are not listed.
MOST_LEVELS = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class ColumnChoices:
    """One column as the rule editor shows it.

    Numbers and dates (nanoseconds since 1970) have a `histogram`. Flags, texts and categories have `levels`: their
    values in the form that a comparison takes, most frequent first. The bars of both count `rows` rows.
    """

    name: str
    kind: Kind
    rows: int
    missing: int
    is_whole: bool
    histogram: Histogram | None
    levels: tuple[Any, ...]
    positives: np.ndarray
    rest: np.ndarray


def column_choices(table: Table, name: str) -> ColumnChoices:
    """The histogram or the categories of one column.

    >>> table = Table.from_frame(pd.DataFrame({"city": ["Bern", "Bern", None, "Basel"], "label": [1, 0, 0, 0]}))
    >>> choices = column_choices(table, "city")
    >>> choices.levels, choices.positives.tolist(), choices.rest.tolist(), choices.missing
    (('Bern', 'Basel'), [1, 0], [1, 1], 1)
    """
    values, is_labeled = column_of(table.frame, name), table.is_labeled
    kind, missing = kind_of(values), int(values.isna().sum())
    if kind in (Kind.NUMBER, Kind.DATE) and not isinstance(values.dtype, pd.CategoricalDtype):
        numbers = _numbers(values, kind)
        finite = numbers[np.isfinite(numbers)]
        is_whole = kind is Kind.NUMBER and bool((finite == np.floor(finite)).all())
        nothing = np.zeros(0, dtype=np.int64)
        bars = histogram(numbers, is_labeled)
        return ColumnChoices(name, kind, len(values), missing, is_whole, bars, (), nothing, nothing)
    levels, positives, rest = _levels(values, kind, is_labeled)
    return ColumnChoices(name, kind, len(values), missing, False, None, levels, positives, rest)


def with_bars_of_all(choices: ColumnChoices, column: ColumnProfile) -> ColumnChoices:
    """Choices from a sample, with the histogram of all rows. Categories are counted in the sample."""
    if choices.histogram is None or column.histogram is None:
        return choices
    return replace(choices, histogram=column.histogram, missing=column.missing, rows=column.rows)


def from_checks(belief: CheckRatio | CheckRecord, table: Table) -> CheckRatios | CheckPrior:
    """The ratios or the prior that the belief learns from a table, for a preview."""
    for name in belief.needs:
        column_of(table.frame, name, "This belief")
    columns = Columns(table.frame, {name: kind_of(table.frame[name]) for name in belief.needs})
    refuse_errors(check_kinds(Rule("checks", belief), columns.kinds))
    return belief.ratios(columns) if isinstance(belief, CheckRatio) else belief.prior(columns)


def _numbers(values: pd.Series, kind: Kind) -> np.ndarray:
    if kind is Kind.NUMBER:
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    if isinstance(values.dtype, pd.DatetimeTZDtype):
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    return stamps(values)


def _levels(values: pd.Series, kind: Kind, is_labeled: np.ndarray) -> tuple[tuple[Any, ...], np.ndarray, np.ndarray]:
    codes, levels = pd.factorize(values)
    present = codes >= 0
    counts = np.bincount(codes[present], minlength=len(levels))
    hits = np.bincount(codes[present & is_labeled], minlength=len(levels))
    order = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
    named = tuple(level_value(levels[place], kind) for place in order)
    return named, hits[order], (counts - hits)[order]


def level_value(value: Any, kind: Kind) -> Any:
    """A category in the form that a comparison takes."""
    return _LEVEL[kind](value)


_LEVEL: dict[Kind, Callable[[Any], Any]] = {
    Kind.NUMBER: lambda value: value.item() if isinstance(value, np.generic) else value,
    Kind.DATE: lambda value: value.isoformat(),
    Kind.FLAG: bool,
    Kind.TEXT: str,
}
