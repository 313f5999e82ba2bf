"""The fixed table of operators: what each is called, what it needs, and its opposite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spu_core.errors import RuleError, nearest_hint

Needs = Literal["one", "two", "several", "text", "nothing"]


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: its sign in JSON, in sentences, and in negated sentences."""

    sign: str
    words: str
    negated_words: str
    needs: Needs
    is_ordering: bool = False


OPERATORS: dict[str, Operator] = {
    operator.sign: operator
    for operator in (
        Operator("<", "<", "≥", "one", is_ordering=True),
        Operator("<=", "≤", ">", "one", is_ordering=True),
        Operator(">", ">", "≤", "one", is_ordering=True),
        Operator(">=", "≥", "<", "one", is_ordering=True),
        Operator("=", "=", "≠", "one"),
        Operator("!=", "≠", "=", "one"),
        Operator("between", "between", "not between", "two", is_ordering=True),
        Operator("in", "in", "not in", "several"),
        Operator("contains", "contains", "does not contain", "text"),
        Operator("is_missing", "is missing", "is present", "nothing"),
    )
}

# Other spellings that people write; JSON out always has the sign of the table.
SPELLINGS = {"≤": "<=", "≥": ">=", "≠": "!=", "==": "=", "<>": "!=", "is missing": "is_missing"}

# not (x < 5) is x ≥ 5, and neither holds where x is missing: negation never invents a value.
OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "!=", "!=": "="}


def operator_of(sign: str, place: str = "operator") -> Operator:
    """The operator with this sign or spelling.

    >>> operator_of("≤").sign
    '<='
    >>> operator_of("betwen")
    Traceback (most recent call last):
    spu_core.errors.RuleError: operator 'betwen' is not known. Did you mean 'between'?
    """
    known = OPERATORS.get(SPELLINGS.get(sign, sign)) if isinstance(sign, str) else None
    if known is None:
        raise RuleError(f"{place} {str(sign)[:60]!r} is not known. {nearest_hint(str(sign)[:60], OPERATORS)}")
    return known
