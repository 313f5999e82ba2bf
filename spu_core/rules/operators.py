"""The table of operators. An entry holds all properties of an operator.

The rest of the engine, the pages and the documentation use these properties and never test for an operator's name.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np

from spu_core.errors import RuleError, nearest_hint
from spu_core.rules.columns import KIND_NAMES, Kind

MAX_VALUES = 10_000
MAX_TEXT = 10_000
# Longer lists are shortened in the text of a rule.
MOST_SHOWN = 6

Scalar = int | float | str | bool


def value_text(value: Scalar) -> str:
    """A compared value as text for users."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{one_line(value)!r}" if isinstance(value, str) else f"{value:.12g}"


def one_line(text: str) -> str:
    """Text in one line, without line breaks and control characters."""
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
        raise RuleError(f"{asked} {value_text(value)}: true and false have no order; use =.")
    return value


def _limits(value: Any, asked: str) -> tuple[Scalar, ...]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise RuleError(f"{asked} needs two values, [low, high], got {str(value)[:60]!r}.")
    low, high = (_limit(end, asked) for end in value)
    if isinstance(low, str) != isinstance(high, str):
        raise RuleError(f"{asked} needs two numbers or two dates, got {low!r} and {high!r}.")
    # The order of dates is checked later, when the type of the column is known.
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
    """How many values an operator takes, and of which type.

    `words` describes them in the documentation. `read` converts a value to plain JSON types or raises an error that
    starts with the comparison ("'age' between"). `show` joins the values, each as text, in one line.
    """

    name: str
    words: str
    read: Callable[[Any, str], Any]
    show: Callable[[list[str]], str] = " ".join
    is_required: bool = True
    is_growing: bool = False


ONE = ValueShape("one", "one", _one)
LIMIT = ValueShape("limit", "one number or date", _limit)
LIMITS = ValueShape("limits", "`[low, high]`", _limits, " and ".join, is_growing=True)
SEVERAL = ValueShape("several", "a list", _several, _listed)
TEXT = ValueShape("text", "a text to look for", _text)
NOTHING = ValueShape("nothing", "none", _nothing, is_required=False)
SHAPES = (ONE, LIMIT, LIMITS, SEVERAL, TEXT, NOTHING)

ALL_KINDS = tuple(Kind)
ORDERED_KINDS = (Kind.NUMBER, Kind.DATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One operator.

    sign          name in JSON and in Python; `spellings` are accepted too, but never written
    words         text in the description of a rule
    question      text in the rule editor; None if the editor uses another operator instead
    meaning       where it holds, for the documentation
    shape         how many values it takes, and of which type
    kinds         the kinds of columns that it accepts; `refusal` is the reason why it does not accept others
    evaluate      (array of values or categories, compared values) → one flag each. The flag of a missing value is
                  ignored: neither a comparison with a missing value nor its negation holds.
    asks_missing  `evaluate` gets an array that flags missing values, instead of the values
    names_levels  the values are categories of the column, so an unknown category is a mistake
    phrase        (values as text) → how people say it, for names of rules; by default `words` and the values
    span          the range (low, high) of values for which it holds, for charts; None if it is not a range
    """

    sign: str
    words: str
    question: str | None
    meaning: str
    shape: ValueShape
    evaluate: Callable[[np.ndarray, list[Any]], np.ndarray]
    kinds: tuple[Kind, ...] = ALL_KINDS
    refusal: str = ""
    asks_missing: bool = False
    names_levels: bool = False
    span: Callable[[Sequence[Any]], tuple[Any, Any]] | None = None
    spellings: tuple[str, ...] = ()
    phrase: Callable[[list[str]], str] | None = None

    def phrased(self, values: list[str]) -> str:
        """The comparison as people say it, for names of rules."""
        return f"{self.words} {' '.join(values)}" if self.phrase is None else self.phrase(values)

    def refuses(self, kind: Kind) -> str:
        """Why this operator does not accept columns of this kind; empty if it does.

        >>> OPERATORS["<"].refuses(Kind.TEXT), OPERATORS["<"].refuses(Kind.DATE)
        ('they have no order; use =, ≠ or in.', '')
        """
        if kind in self.kinds:
            return ""
        return self.refusal or f"{self.words} is for {' and '.join(KIND_NAMES[each] for each in self.kinds)} only."


def for_each_text(test: Callable[[str, str], bool]) -> Callable[[np.ndarray, list[Any]], np.ndarray]:
    """An `evaluate` function from a test of one text with the searched text."""
    return lambda texts, wanted: np.array([test(text, wanted[0]) for text in texts], dtype=bool)


def _is_in(values: np.ndarray, wanted: list[Any]) -> np.ndarray:
    if values.dtype != object:
        return np.isin(values, np.array(wanted))
    known = set(wanted)
    return np.array([value in known for value in values], dtype=bool)


def _up_to(values: Sequence[Any]) -> tuple[Any, Any]:
    return None, values[0]


def _from(values: Sequence[Any]) -> tuple[Any, Any]:
    return values[0], None


def _ordering(
    sign: str, words: str, question: str | None, meaning: str, compare: Any, span: Any, *spellings: str
) -> Operator:
    said = question or ("is at most" if span is _up_to else "is at least")
    return Operator(
        sign=sign,
        words=words,
        question=question,
        meaning=meaning,
        shape=LIMIT,
        evaluate=lambda values, wanted: compare(values, wanted[0]),
        kinds=ORDERED_KINDS,
        refusal=_NO_ORDER,
        span=span,
        spellings=spellings,
        phrase=lambda values: f"{said} {values[0]}",
    )


_NO_ORDER = "they have no order; use =, ≠ or in."

# In the order in which the rule editor offers them.
OPERATORS: dict[str, Operator] = {
    row.sign: row
    for row in (
        Operator(
            sign="between",
            words="between",
            question="lies between",
            meaning="the value is at least `low` and at most `high`",
            shape=LIMITS,
            evaluate=lambda values, wanted: (values >= wanted[0]) & (values <= wanted[1]),
            kinds=ORDERED_KINDS,
            refusal=_NO_ORDER,
            span=lambda values: (values[0], values[1]),
            phrase=lambda values: f"from {values[0]} to {values[1]}",
        ),
        _ordering("<", "<", "is below", "the value is smaller", operator.lt, _up_to),
        # The editor shows ≤ and ≥ as a range with one open end.
        _ordering("<=", "≤", None, "the value is smaller or equal", operator.le, _up_to, "≤"),
        _ordering(">", ">", "is above", "the value is larger", operator.gt, _from),
        _ordering(">=", "≥", None, "the value is larger or equal", operator.ge, _from, "≥"),
        Operator(
            sign="=",
            words="=",
            question="equals",
            meaning="the value is equal",
            shape=ONE,
            evaluate=lambda values, wanted: values == wanted[0],
            names_levels=True,
            spellings=("==",),
            phrase=lambda values: f"is {values[0]}",
        ),
        Operator(
            sign="!=",
            words="≠",
            question="differs from",
            meaning="the value is not missing and not equal",
            shape=ONE,
            evaluate=lambda values, wanted: values != wanted[0],
            names_levels=True,
            spellings=("≠", "<>"),
            phrase=lambda values: f"is not {values[0]}",
        ),
        Operator(
            sign="in",
            words="in",
            question="is one of",
            meaning="the value is in the list",
            shape=SEVERAL,
            evaluate=_is_in,
            names_levels=True,
            phrase=lambda values: f"is {' or '.join(filter(None, [', '.join(values[:-1]), values[-1]]))}",
        ),
        Operator(
            sign="contains",
            words="contains",
            question="contains",
            meaning="the text is part of the value; upper and lower case differ",
            shape=TEXT,
            evaluate=for_each_text(lambda text, wanted: wanted in text),
            kinds=(Kind.TEXT,),
            refusal="contains works only with texts.",
        ),
        Operator(
            sign="is_missing",
            words="is missing",
            question="is missing",
            meaning="there is no value",
            shape=NOTHING,
            evaluate=lambda is_missing, wanted: is_missing,
            asks_missing=True,
            spellings=("is missing",),
        ),
    )
}


def operator_of(sign: str, place: str = "operator") -> Operator:
    """The operator with this sign or spelling.

    >>> operator_of("≤").sign
    '<='
    >>> operator_of("betwen")
    Traceback (most recent call last):
    spu_core.errors.RuleError: operator 'betwen' is not known. Did you mean 'between'?
    """
    known = (row for row in OPERATORS.values() if isinstance(sign, str) and sign in (row.sign, *row.spellings))
    found = next(known, None)
    if found is None:
        raise RuleError(f"{place} {str(sign)[:60]!r} is not known. {nearest_hint(str(sign)[:60], OPERATORS)}")
    return found
