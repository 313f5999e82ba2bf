"""Conditions: trees of `all`, `any` and `not` over comparisons of a column with a value; data, never code.

A comparison with a missing value holds neither plainly nor negated, except `is_missing`: where age is missing, both
`age > 30` and `not age > 30` are silent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np

from spu_core.errors import RuleError
from spu_core.rules.fields import MAX_TEXT
from spu_core.rules.operators import operator_of

MAX_CONDITION_DEPTH = 16
MAX_CONDITION_PARTS = 1_000
MAX_VALUES = 10_000

Scalar = int | float | str | bool


class Condition:
    """What a rule asks of a row; `&`, `|` and `~` build larger ones.

    >>> ((Compare("age", ">", 30) & Compare("city", "in", ["Bern", "Basel"])) | ~Compare("vip", "=", True)).words
    "(age > 30 and city in {'Bern', 'Basel'}) or not vip = true"
    """

    __slots__ = ()

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
    def words(self) -> str:
        """The condition in one line of text."""
        raise NotImplementedError

    @property
    def comparisons(self) -> Iterator[Compare]:
        """Every comparison in the tree, from left to right."""
        for part in self.parts:
            yield from part.comparisons


@dataclass(frozen=True, slots=True)
class Compare(Condition):
    """One column, one operator, one value (two for `between`, several for `in`, none for `is_missing`).

    >>> Compare("capital-gain", ">", 0).words
    'capital-gain > 0'
    >>> Compare("signed", "between", ["2024-01-01", "2024-06-30"]).words
    "signed between '2024-01-01' and '2024-06-30'"
    """

    column: str
    operator: str
    value: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise RuleError(f"A comparison needs the name of a column, got {self.column!r}.")
        operator = operator_of(self.operator)
        object.__setattr__(self, "operator", operator.sign)
        object.__setattr__(self, "value", _READ_VALUE[operator.needs](self.value, self))

    @property
    def values(self) -> tuple[Scalar, ...]:
        """The compared values as a tuple, however many the operator needs."""
        if self.value is None:
            return ()
        return self.value if isinstance(self.value, tuple) else (self.value,)

    @property
    def words(self) -> str:
        shown = [value_words(value) for value in self.values]
        start = f"{one_line(self.column)} {operator_of(self.operator).words}"
        if self.operator == "between":
            return f"{start} {shown[0]} and {shown[1]}"
        if self.operator == "in":
            more = f", … {len(shown) - 6} more" if len(shown) > 6 else ""
            return f"{start} {{{', '.join(shown[:6])}{more}}}"
        return " ".join([start, *shown])

    @property
    def comparisons(self) -> Iterator[Compare]:
        yield self


@dataclass(frozen=True, slots=True)
class AllOf(Condition):
    """Holds where every part holds."""

    conditions: tuple[Condition, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "conditions", _check_parts(self.conditions, "all"))

    @property
    def parts(self) -> tuple[Condition, ...]:
        return self.conditions

    @property
    def words(self) -> str:
        return " and ".join(_bracketed(part) for part in self.conditions)


@dataclass(frozen=True, slots=True)
class AnyOf(Condition):
    """Holds where at least one part holds."""

    conditions: tuple[Condition, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "conditions", _check_parts(self.conditions, "any"))

    @property
    def parts(self) -> tuple[Condition, ...]:
        return self.conditions

    @property
    def words(self) -> str:
        return " or ".join(_bracketed(part) for part in self.conditions)


@dataclass(frozen=True, slots=True)
class Not(Condition):
    """Holds where its condition is known not to hold."""

    condition: Condition

    def __post_init__(self) -> None:
        _check_parts((self.condition,), "not")

    @property
    def parts(self) -> tuple[Condition, ...]:
        return (self.condition,)

    @property
    def words(self) -> str:
        return f"not {_bracketed(self.condition)}"


def check_size(condition: Condition, place: str) -> None:
    """Refuse trees that are too deep or too large to read, before anything walks them recursively."""
    level, count, depth = [condition], 0, 0
    while level:
        depth, count = depth + 1, count + len(level)
        if depth > MAX_CONDITION_DEPTH:
            raise RuleError(f"{place} is nested deeper than {MAX_CONDITION_DEPTH} levels; flatten it.")
        if count > MAX_CONDITION_PARTS:
            raise RuleError(f"{place} has more than {MAX_CONDITION_PARTS:,} parts; split the rule.")
        level = [part for parent in level for part in parent.parts]


def value_words(value: Scalar) -> str:
    """A compared value as it is shown to people."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{one_line(value)!r}" if isinstance(value, str) else f"{value:.12g}"


def one_line(text: str) -> str:
    """Text without line breaks and control characters, so that it stays on its line."""
    return "".join(character if character.isprintable() else " " for character in text)


def _bracketed(condition: Condition) -> str:
    return condition.words if len(condition.parts) < 2 else f"({condition.words})"


def _check_parts(parts: Any, word: str) -> tuple[Condition, ...]:
    parts = tuple(parts)
    if not parts:
        raise RuleError(f"{word!r} is empty; it needs at least one condition.")
    for part in parts:
        if not isinstance(part, Condition):
            raise RuleError(f"{word!r} must hold conditions, got {part!r}.")
    return parts


def _one(value: Any, compare: Compare) -> Scalar:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, datetime | date):
        value = value.isoformat()
    if isinstance(value, str) and len(value) <= MAX_TEXT:
        return value
    if isinstance(value, int | float) and _is_finite(value):
        return value
    raise RuleError(
        f"{compare.column!r} {compare.operator} needs a finite number, a text, true or false, "
        f"or a date as text, got {str(value)[:60]!r}."
    )


def _ordered(value: Any, compare: Compare) -> Scalar:
    value = _one(value, compare)
    if isinstance(value, bool) and operator_of(compare.operator).is_ordering:
        raise RuleError(
            f"{compare.column!r} {compare.operator} {value_words(value)}: true and false have no order; use =."
        )
    return value


def _two(value: Any, compare: Compare) -> tuple[Scalar, ...]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise RuleError(f"{compare.column!r} between needs two values, [low, high], got {str(value)[:60]!r}.")
    low, high = (_ordered(end, compare) for end in value)
    if isinstance(low, str) != isinstance(high, str):
        raise RuleError(
            f"{compare.column!r} between needs two numbers or two dates, got {low!r} and {high!r}."
        )
    # Dates are compared as dates when the column is known; here only numbers can be in the wrong order.
    if not isinstance(low, str) and not isinstance(high, str) and low > high:
        raise RuleError(
            f"{compare.column!r} between {low!r} and {high!r} can never hold; put the smaller value first."
        )
    return low, high


def _several(value: Any, compare: Compare) -> tuple[Scalar, ...]:
    if not isinstance(value, list | tuple | set | frozenset) or not value:
        raise RuleError(
            f"{compare.column!r} in needs a list with at least one value, got {str(value)[:60]!r}."
        )
    if len(value) > MAX_VALUES:
        raise RuleError(
            f"{compare.column!r} in lists {len(value):,} values, more than the limit of {MAX_VALUES:,}."
        )
    entries = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
    return tuple(_one(entry, compare) for entry in entries)


def _text(value: Any, compare: Compare) -> str:
    if not isinstance(value, str) or not value or len(value) > MAX_TEXT:
        raise RuleError(f"{compare.column!r} contains needs a text to look for, got {str(value)[:60]!r}.")
    return value


def _nothing(value: Any, compare: Compare) -> None:
    if value is not None:
        raise RuleError(f"{compare.column!r} is_missing takes no value, got {str(value)[:60]!r}.")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


_READ_VALUE = {"one": _ordered, "two": _two, "several": _several, "text": _text, "nothing": _nothing}
