"""The walker that evaluates a condition tree over whole columns at once: a fixed table of array comparisons.

`not` is pushed down to the comparisons (De Morgan), where each operator has its opposite. So a comparison with a
missing value is false plainly and negated, which is what three-valued logic asks of "known to hold".
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from spu_core.rules.columns import Coded, Columns, Kind, level_text, read_date
from spu_core.rules.conditions import AllOf, Compare, Condition, Not
from spu_core.rules.operators import OPPOSITE

_ORDER: dict[str, Callable[[Any, Any], np.ndarray]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}


def holds(condition: Condition, columns: Columns, *, negated: bool = False) -> np.ndarray:
    """Whether the condition (or its negation) is known to hold, for each row.

    >>> import pandas as pd
    >>> columns = Columns(pd.DataFrame({"age": [20.0, 40.0, None]}), {"age": Kind.NUMBER})
    >>> holds(Compare("age", ">", 30), columns).tolist(), holds(~Compare("age", ">", 30), columns).tolist()
    ([False, True, False], [True, False, False])
    """
    if isinstance(condition, Not):
        return holds(condition.condition, columns, negated=not negated)
    if isinstance(condition, Compare):
        return _compare(condition, columns, negated)
    # not all(a, b) is any(not a, not b), and the other way round.
    join = np.logical_and if isinstance(condition, AllOf) is not negated else np.logical_or
    found = [holds(part, columns, negated=negated) for part in condition.parts]
    return reduce(lambda left, right: join(left, right, out=left), found)


def _compare(compare: Compare, columns: Columns, negated: bool) -> np.ndarray:
    if compare.operator == "is_missing":
        missing = columns.is_missing(compare.column)
        return ~missing if negated else missing
    kind = columns.kinds[compare.column]
    if kind in (Kind.NUMBER, Kind.DATE):
        return _compare_ordered(compare, columns.ordered(compare.column), kind, negated)
    return _compare_levels(compare, columns.coded(compare.column), kind, negated)


def _compare_ordered(compare: Compare, values: np.ndarray, kind: Kind, negated: bool) -> np.ndarray:
    wanted = [comparable(value, kind) for value in compare.values]
    sign = OPPOSITE[compare.operator] if negated and compare.operator in OPPOSITE else compare.operator
    if sign == "between":
        return (values < wanted[0]) | (values > wanted[1]) if negated else (values >= wanted[0]) & (values <= wanted[1])
    if sign == "in":
        found = np.isin(values, np.array(wanted))
        return ~found & (values == values) if negated else found
    if sign == "!=":
        # A missing value differs from everything, also from itself; it must not fire.
        return (values != wanted[0]) & (values == values)
    return _ORDER[sign](values, wanted[0])


def _compare_levels(compare: Compare, column: Coded, kind: Kind, negated: bool) -> np.ndarray:
    if compare.operator == "contains":
        wanted = [compare.value in level for level in column.levels]
    else:
        values = {comparable(value, kind) for value in compare.values}
        wanted = [level in values for level in column.levels]
    flip = negated is not (compare.operator == "!=")
    return column.where(np.array(wanted, dtype=bool) ^ flip)


def comparable(value: Any, kind: Kind) -> Any:
    """A compared value in the form that the column's values have."""
    if kind is Kind.DATE:
        return read_date(value)
    if kind is Kind.TEXT:
        return level_text(value)
    return bool(value) if kind is Kind.FLAG else float(value)
