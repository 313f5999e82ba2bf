"""The values that a comparison names: numbers, texts, flags and dates as text, checked before any column is known."""

from __future__ import annotations

import math
from datetime import date, datetime
from typing import Any, Protocol

import numpy as np

from spu_core.errors import RuleError
from spu_core.rules.fields import MAX_TEXT
from spu_core.rules.operators import operator_of

MAX_VALUES = 10_000

Scalar = int | float | str | bool


class Compared(Protocol):
    """What an error message names: the column and the operator of a comparison."""

    @property
    def column(self) -> str: ...

    @property
    def operator(self) -> str: ...


def read_value(value: Any, where: Compared) -> Any:
    """The value in plain JSON types, as many as the operator needs; anything else is refused."""
    return _READ_VALUE[operator_of(where.operator).needs](value, where)


def value_words(value: Scalar) -> str:
    """A compared value as it is shown to people."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{one_line(value)!r}" if isinstance(value, str) else f"{value:.12g}"


def one_line(text: str) -> str:
    """Text without line breaks and control characters, so that it stays on its line."""
    return "".join(character if character.isprintable() else " " for character in text)


def _one(value: Any, where: Compared) -> Scalar:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, datetime | date):
        value = value.isoformat()
    if isinstance(value, str) and len(value) <= MAX_TEXT:
        return value
    if isinstance(value, int | float) and _is_finite(value):
        return value
    raise RuleError(
        f"{where.column!r} {where.operator} needs a finite number, a text, true or false, "
        f"or a date as text, got {str(value)[:60]!r}."
    )


def _ordered(value: Any, where: Compared) -> Scalar:
    value = _one(value, where)
    if isinstance(value, bool) and operator_of(where.operator).is_ordering:
        raise RuleError(f"{where.column!r} {where.operator} {value_words(value)}: true and false have no order; use =.")
    return value


def _two(value: Any, where: Compared) -> tuple[Scalar, ...]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise RuleError(f"{where.column!r} between needs two values, [low, high], got {str(value)[:60]!r}.")
    low, high = (_ordered(end, where) for end in value)
    if isinstance(low, str) != isinstance(high, str):
        raise RuleError(f"{where.column!r} between needs two numbers or two dates, got {low!r} and {high!r}.")
    # Dates are compared as dates when the column is known; here only numbers can be in the wrong order.
    if not isinstance(low, str) and not isinstance(high, str) and low > high:
        raise RuleError(f"{where.column!r} between {low!r} and {high!r} can never hold; put the smaller value first.")
    return low, high


def _several(value: Any, where: Compared) -> tuple[Scalar, ...]:
    if not isinstance(value, list | tuple | set | frozenset) or not value:
        raise RuleError(f"{where.column!r} in needs a list with at least one value, got {str(value)[:60]!r}.")
    if len(value) > MAX_VALUES:
        raise RuleError(f"{where.column!r} in lists {len(value):,} values, more than the limit of {MAX_VALUES:,}.")
    entries = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
    return tuple(_one(entry, where) for entry in entries)


def _text(value: Any, where: Compared) -> str:
    if not isinstance(value, str) or not value or len(value) > MAX_TEXT:
        raise RuleError(f"{where.column!r} contains needs a text to look for, got {str(value)[:60]!r}.")
    return value


def _nothing(value: Any, where: Compared) -> None:
    if value is not None:
        raise RuleError(f"{where.column!r} is_missing takes no value, got {str(value)[:60]!r}.")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


_READ_VALUE = {"one": _ordered, "two": _two, "several": _several, "text": _text, "nothing": _nothing}
