"""The walker that evaluates a condition tree over whole columns at once, with the array functions of the operators.

`not` is pushed down to the comparisons (De Morgan), where a missing value counts as false plainly and negated. That is
what three-valued logic asks of "known to hold".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from spu_core.rules.columns import Columns, Kind, level_text, read_date
from spu_core.rules.conditions import AllOf, AnyOf, Compare, Condition, Not
from spu_core.rules.operators import ORDERED_KINDS, operator_of


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
    join = _JOIN[type(condition)][negated]
    found = [holds(part, columns, negated=negated) for part in condition.parts]
    return reduce(lambda left, right: join(left, right, out=left), found)


def _compare(compare: Compare, columns: Columns, negated: bool) -> np.ndarray:
    operator, kind = operator_of(compare.operator), columns.kinds[compare.column]
    if operator.asks_missing:
        return operator.evaluate(columns.is_missing(compare.column), []) ^ negated
    wanted = [comparable(value, kind) for value in compare.values]
    if kind in ORDERED_KINDS:
        found = operator.evaluate(columns.ordered(compare.column), wanted)
        return (~found if negated else found) & columns.is_present(compare.column)
    column = columns.coded(compare.column)
    return column.where(operator.evaluate(np.array(column.levels, dtype=object), wanted) ^ negated)


def comparable(value: Any, kind: Kind) -> Any:
    """A compared value in the form that the column's values have."""
    return _COMPARABLE[kind](value)


_COMPARABLE: dict[Kind, Callable[[Any], Any]] = {
    Kind.NUMBER: float,
    Kind.DATE: read_date,
    Kind.FLAG: bool,
    Kind.TEXT: level_text,
}
# How the parts of a condition are joined, plainly and negated: not all(a, b) is any(not a, not b), and the other way.
_JOIN: dict[type[Condition], tuple[np.ufunc, np.ufunc]] = {
    AllOf: (np.logical_and, np.logical_or),
    AnyOf: (np.logical_or, np.logical_and),
}
