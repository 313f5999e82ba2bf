"""The values that a comparison names: numbers, texts, flags and dates as text, checked before any column is known.

A *shape* says how many values an operator takes and of which sort. Each operator of the table names one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np

from spu_core.errors import RuleError
from spu_core.rules.fields import MAX_TEXT

MAX_VALUES = 10_000
# Longer lists are cut where a rule is shown in a line.
MOST_SHOWN = 6

Scalar = int | float | str | bool


def value_words(value: Scalar) -> str:
    """A compared value as it is shown to people."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{one_line(value)!r}" if isinstance(value, str) else f"{value:.12g}"


def one_line(text: str) -> str:
    """Text without line breaks and control characters, so that it stays on its line."""
    return "".join(character if character.isprintable() else " " for character in text)


def _one(value: Any, asked: str) -> Scalar:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, datetime | date):
        value = value.isoformat()
    if isinstance(value, str) and len(value) <= MAX_TEXT:
        return value
    if isinstance(value, int | float) and _is_finite(value):
        return value
    raise RuleError(
        f"{asked} needs a finite number, a text, true or false, or a date as text, got {str(value)[:60]!r}."
    )


def _limit(value: Any, asked: str) -> Scalar:
    value = _one(value, asked)
    if isinstance(value, bool):
        raise RuleError(f"{asked} {value_words(value)}: true and false have no order; use =.")
    return value


def _limits(value: Any, asked: str) -> tuple[Scalar, ...]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise RuleError(f"{asked} needs two values, [low, high], got {str(value)[:60]!r}.")
    low, high = (_limit(end, asked) for end in value)
    if isinstance(low, str) != isinstance(high, str):
        raise RuleError(f"{asked} needs two numbers or two dates, got {low!r} and {high!r}.")
    # Dates are compared as dates when the column is known; here only numbers can be in the wrong order.
    if not isinstance(low, str) and not isinstance(high, str) and low > high:
        raise RuleError(f"{asked} {low!r} and {high!r} can never hold; put the smaller value first.")
    return low, high


def _several(value: Any, asked: str) -> tuple[Scalar, ...]:
    if not isinstance(value, list | tuple | set | frozenset) or not value:
        raise RuleError(f"{asked} needs a list with at least one value, got {str(value)[:60]!r}.")
    if len(value) > MAX_VALUES:
        raise RuleError(f"{asked} lists {len(value):,} values, more than the limit of {MAX_VALUES:,}.")
    entries = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
    return tuple(_one(entry, asked) for entry in entries)


def _text(value: Any, asked: str) -> str:
    if not isinstance(value, str) or not value or len(value) > MAX_TEXT:
        raise RuleError(f"{asked} needs a text to look for, got {str(value)[:60]!r}.")
    return value


def _nothing(value: Any, asked: str) -> None:
    if value is not None:
        raise RuleError(f"{asked} takes no value, got {str(value)[:60]!r}.")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _listed(shown: list[str]) -> str:
    more = f", … {len(shown) - MOST_SHOWN} more" if len(shown) > MOST_SHOWN else ""
    return f"{{{', '.join(shown[:MOST_SHOWN])}{more}}}"


@dataclass(frozen=True, slots=True)
class ValueShape:
    """How many values an operator takes, and of which sort.

    `words` describe them in the documentation. `read` turns what was given into plain JSON types or refuses it, with
    the question ("'age' between") at the start of the sentence. `show` joins the values, each in words, in a line.
    """

    name: str
    words: str
    read: Callable[[Any, str], Any]
    show: Callable[[list[str]], str] = " ".join
    is_list: bool = False
    is_required: bool = True
    is_growing: bool = False


ONE = ValueShape("one", "one", _one)
LIMIT = ValueShape("limit", "one number or date", _limit)
LIMITS = ValueShape("limits", "`[low, high]`", _limits, " and ".join, is_list=True, is_growing=True)
SEVERAL = ValueShape("several", "a list", _several, _listed, is_list=True)
TEXT = ValueShape("text", "a text to look for", _text)
NOTHING = ValueShape("nothing", "none", _nothing, is_required=False)
SHAPES = (ONE, LIMIT, LIMITS, SEVERAL, TEXT, NOTHING)
