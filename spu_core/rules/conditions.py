"""Conditions: trees of `all`, `any` and `not` over comparisons of a column with a value; data, never code.

A comparison with a missing value holds neither plainly nor negated, except `is_missing`: where age is missing, both
`age > 30` and `not age > 30` are silent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from spu_core.errors import RuleError
from spu_core.rules.operators import operator_of
from spu_core.rules.values import Scalar, one_line, value_words

MAX_CONDITION_DEPTH = 16
MAX_CONDITION_PARTS = 1_000


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
        object.__setattr__(self, "value", operator.shape.read(self.value, f"{self.column!r} {operator.sign}"))

    @property
    def values(self) -> tuple[Scalar, ...]:
        """The compared values as a tuple, however many the operator needs."""
        if self.value is None:
            return ()
        return self.value if isinstance(self.value, tuple) else (self.value,)

    @property
    def words(self) -> str:
        operator = operator_of(self.operator)
        shown = operator.shape.show([value_words(value) for value in self.values])
        return f"{one_line(self.column)} {operator.words} {shown}".rstrip()

    @property
    def comparisons(self) -> Iterator[Compare]:
        yield self


@dataclass(frozen=True, slots=True)
class AllOf(Condition):
    """Holds where every part holds."""

    word: ClassVar[str] = "all"
    conditions: tuple[Condition, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "conditions", _check_parts(self.conditions, self.word))

    @property
    def parts(self) -> tuple[Condition, ...]:
        return self.conditions

    @property
    def words(self) -> str:
        return " and ".join(_bracketed(part) for part in self.conditions)


@dataclass(frozen=True, slots=True)
class AnyOf(Condition):
    """Holds where at least one part holds."""

    word: ClassVar[str] = "any"
    conditions: tuple[Condition, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "conditions", _check_parts(self.conditions, self.word))

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
