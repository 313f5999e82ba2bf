"""The table of operators: a row carries everything in which an operator differs from the others.

Nothing else in the engine, the pages or the documentation asks for an operator by its name to find out what it means.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spu_core.errors import RuleError, nearest_hint
from spu_core.rules.columns import KIND_WORDS, Kind
from spu_core.rules.values import LIMIT, LIMITS, NOTHING, ONE, SEVERAL, TEXT, ValueShape

ALL_KINDS = tuple(Kind)
ORDERED_KINDS = (Kind.NUMBER, Kind.DATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One operator.

    sign          what it is called in JSON and in Python; `spellings` are understood too, but never written
    words         how it reads in the sentence of a rule
    question      how the rule editor offers it; None if the editor asks the same with another operator
    meaning       where it holds, for the documentation
    shape         how many values it takes, and of which sort
    kinds         the columns that can answer it; `refusal` says why the others cannot
    evaluate      (array of values or levels, compared values) → one flag each. What it says of a missing value does not
                  matter: a missing value fires neither the comparison nor its negation.
    asks_missing  `evaluate` gets an array that flags missing values, instead of the values
    names_levels  the values are whole levels of the column, so that one it does not have is a slip
    span          the range (low, high) of values for which it holds, to be drawn on a chart; None if it is no range
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

    def refuses(self, kind: Kind) -> str:
        """Why columns of this kind cannot answer it; empty if they can.

        >>> OPERATORS["<"].refuses(Kind.TEXT), OPERATORS["<"].refuses(Kind.DATE)
        ('they have no order; use =, ≠ or in.', '')
        """
        if kind in self.kinds:
            return ""
        return self.refusal or f"{self.words} is for {' and '.join(KIND_WORDS[each] for each in self.kinds)} only."


def for_each_text(test: Callable[[str, str], bool]) -> Callable[[np.ndarray, list[Any]], np.ndarray]:
    """An `evaluate` from a test of one text with the text that is looked for."""
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
        ),
        Operator(
            sign="!=",
            words="≠",
            question="differs from",
            meaning="the value is there and not equal",
            shape=ONE,
            evaluate=lambda values, wanted: values != wanted[0],
            names_levels=True,
            spellings=("≠", "<>"),
        ),
        Operator(
            sign="in",
            words="in",
            question="is one of",
            meaning="the value is in the list",
            shape=SEVERAL,
            evaluate=_is_in,
            names_levels=True,
        ),
        Operator(
            sign="contains",
            words="contains",
            question="contains",
            meaning="the text is part of the value; upper and lower case differ",
            shape=TEXT,
            evaluate=for_each_text(lambda text, wanted: wanted in text),
            kinds=(Kind.TEXT,),
            refusal="contains looks inside texts only.",
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
