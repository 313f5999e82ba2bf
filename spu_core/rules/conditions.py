"""Conditions: trees of `all`, `any` and `not` over comparisons of a column with a value. They are data, never code.

A comparison with a missing value is neither true nor false, except `is_missing`: where age is missing, neither
`age > 30` nor `not age > 30` holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from spu_core.errors import RuleError
from spu_core.rules.columns import Columns, Kind, level_text, read_date
from spu_core.rules.operators import ORDERED_KINDS, Scalar, one_line, operator_of, value_text

MAX_CONDITION_DEPTH = 16
MAX_CONDITION_PARTS = 1_000


class Condition:
    """A condition on a row; combine conditions with `&`, `|` and `~`.

    >>> ((Compare("age", ">", 30) & Compare("city", "in", ["Bern", "Basel"])) | ~Compare("vip", "=", True)).text
    "(age > 30 and city in {'Bern', 'Basel'}) or not vip = true"
    """

    __slots__ = ()

    def __bool__(self) -> bool:
        raise RuleError(
            "A condition is not true or false by itself: write a & b, a | b and ~a in place of and, or and not, and "
            "column('age').between(20, 30) in place of 20 < age < 30."
        )

    def __and__(self, other: Condition) -> AllOf:
        return AllOf((self, other))

    def __or__(self, other: Condition) -> AnyOf:
        return AnyOf((self, other))

    def __invert__(self) -> Not:
        return Not(self)

    @property
    def parts(self) -> tuple[Condition, ...]:
        """The conditions directly inside this one."""
        return ()

    @property
    def text(self) -> str:
        """The condition in one line of text."""
        raise NotImplementedError

    @property
    def comparisons(self) -> Iterator[Compare]:
        """Every comparison in the tree, from left to right."""
        for part in self.parts:
            yield from part.comparisons


@dataclass(frozen=True, slots=True)
class Compare(Condition):
    """A comparison of one column with a value.

    Parameters
    ----------
    column : str
        Name of the column.
    operator : str
        One of `spu_core.rules.OPERATORS`: "<", "<=", ">", ">=", "=", "!=", "between", "in", "contains", "is_missing".
    value : int, float, str, bool or list, optional
        Two values for `between`, a list for `in`, none for `is_missing`. Dates are written as text.

    Raises
    ------
    RuleError
        If the operator is unknown, or the value does not fit it.

    Examples
    --------
    >>> Compare("capital-gain", ">", 0).text
    'capital-gain > 0'
    >>> Compare("signed", "between", ["2024-01-01", "2024-06-30"]).text
    "signed between '2024-01-01' and '2024-06-30'"
    >>> old_or_rich = Compare("age", ">", 60) | Compare("capital-gain", ">", 0)
    >>> old_or_rich.text
    'age > 60 or capital-gain > 0'
    """

    column: str
    operator: str
    value: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise RuleError(f"A comparison needs the name of a column, got {self.column!r}.")
        operator = operator_of(self.operator)
        object.__setattr__(self, "operator", operator.sign)
        object.__setattr__(self, "value", operator.shape.read(self.value, f"{self.column!r} {operator.sign}"))

    @property
    def values(self) -> tuple[Scalar, ...]:
        """The compared values as a tuple, however many the operator needs."""
        if self.value is None:
            return ()
        return self.value if isinstance(self.value, tuple) else (self.value,)

    @property
    def text(self) -> str:
        operator = operator_of(self.operator)
        shown = operator.shape.show([value_text(value) for value in self.values])
        return f"{one_line(self.column)} {operator.words} {shown}".rstrip()

    @property
    def comparisons(self) -> Iterator[Compare]:
        yield self


class RuleColumn:
    """A column of a table, to write conditions with; made by `column`."""

    __slots__ = ("name",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"column({self.name!r})"

    def __lt__(self, value: Any) -> Compare:
        return Compare(self.name, "<", value)

    def __le__(self, value: Any) -> Compare:
        return Compare(self.name, "<=", value)

    def __gt__(self, value: Any) -> Compare:
        return Compare(self.name, ">", value)

    def __ge__(self, value: Any) -> Compare:
        return Compare(self.name, ">=", value)

    def __eq__(self, value: Any) -> Compare:  # type: ignore[override]
        return Compare(self.name, "=", value)

    def __ne__(self, value: Any) -> Compare:  # type: ignore[override]
        return Compare(self.name, "!=", value)

    def between(self, low: Any, high: Any) -> Compare:
        """From `low` to `high`, both included."""
        return Compare(self.name, "between", [low, high])

    def is_in(self, values: Iterable[Any]) -> Compare:
        """One of these values."""
        return Compare(self.name, "in", list(values))

    def contains(self, text: str) -> Compare:
        """The text occurs in the value."""
        return Compare(self.name, "contains", text)

    def is_missing(self) -> Compare:
        """The value is missing."""
        return Compare(self.name, "is_missing")


def column(name: str) -> RuleColumn:
    """A column, to write the condition of a rule with comparison signs.

    Parameters
    ----------
    name : str
        Name of the column.

    Returns
    -------
    RuleColumn
        Compare it with `<`, `<=`, `>`, `>=`, `==` and `!=`, or call `.between(low, high)`, `.is_in(values)`,
        `.contains(text)` or `.is_missing()`; join conditions with `&`, `|` and `~`.

    Examples
    --------
    >>> ((column("delay") > 30) & ~column("city").is_in(["Bern", "Basel"])).text
    "delay > 30 and not city in {'Bern', 'Basel'}"
    """
    return RuleColumn(name)


@dataclass(frozen=True, slots=True)
class AllOf(Condition):
    """Holds where every part holds. `a & b` is the same.

    Parameters
    ----------
    conditions : sequence of Condition
        At least one.

    Examples
    --------
    >>> AllOf((Compare("age", ">", 60), Compare("city", "=", "Bern"))).text
    "age > 60 and city = 'Bern'"
    """

    word: ClassVar[str] = "all"
    conditions: tuple[Condition, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "conditions", _check_parts(self.conditions, self.word))

    @property
    def parts(self) -> tuple[Condition, ...]:
        return self.conditions

    @property
    def text(self) -> str:
        return " and ".join(_bracketed(part) for part in self.conditions)


@dataclass(frozen=True, slots=True)
class AnyOf(Condition):
    """Holds where at least one part holds. `a | b` is the same.

    Parameters
    ----------
    conditions : sequence of Condition
        At least one.

    Examples
    --------
    >>> AnyOf((Compare("age", ">", 60), Compare("city", "=", "Bern"))).text
    "age > 60 or city = 'Bern'"
    """

    word: ClassVar[str] = "any"
    conditions: tuple[Condition, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "conditions", _check_parts(self.conditions, self.word))

    @property
    def parts(self) -> tuple[Condition, ...]:
        return self.conditions

    @property
    def text(self) -> str:
        return " or ".join(_bracketed(part) for part in self.conditions)


@dataclass(frozen=True, slots=True)
class Not(Condition):
    """Holds where the condition is known not to hold. `~a` is the same.

    A comparison with a missing value is neither true nor false, so its negation does not hold either.

    Parameters
    ----------
    condition : Condition

    Examples
    --------
    >>> Not(Compare("age", ">", 60)).text
    'not age > 60'
    """

    condition: Condition

    def __post_init__(self) -> None:
        _check_parts((self.condition,), "not")

    @property
    def parts(self) -> tuple[Condition, ...]:
        return (self.condition,)

    @property
    def text(self) -> str:
        return f"not {_bracketed(self.condition)}"


def check_size(condition: Condition, place: str) -> None:
    """Raise an error if a tree is too deep or too large for the recursive functions."""
    level, count, depth = [condition], 0, 0
    while level:
        depth, count = depth + 1, count + len(level)
        if depth > MAX_CONDITION_DEPTH:
            raise RuleError(f"{place} is nested deeper than {MAX_CONDITION_DEPTH} levels; flatten it.")
        if count > MAX_CONDITION_PARTS:
            raise RuleError(f"{place} has more than {MAX_CONDITION_PARTS:,} parts; split the rule.")
        level = [part for parent in level for part in parent.parts]


def _bracketed(condition: Condition) -> str:
    return condition.text if len(condition.parts) < 2 else f"({condition.text})"


def _check_parts(parts: Any, word: str) -> tuple[Condition, ...]:
    parts = tuple(parts)
    if not parts:
        raise RuleError(f"{word!r} is empty; it needs at least one condition.")
    for part in parts:
        if not isinstance(part, Condition):
            raise RuleError(f"{word!r} must hold conditions, got {part!r}.")
    return parts


def holds(condition: Condition, columns: Columns, *, negated: bool = False) -> np.ndarray:
    """Whether the condition (or its negation) holds, for each row; False where it is unknown.

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
# How the parts of a condition are joined, plain and negated: not all(a, b) is any(not a, not b), and vice versa.
_JOIN: dict[type[Condition], tuple[np.ufunc, np.ufunc]] = {
    AllOf: (np.logical_and, np.logical_or),
    AnyOf: (np.logical_or, np.logical_and),
}
