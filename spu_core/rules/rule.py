"""A rule: one piece of domain knowledge, as a name, a condition and a belief."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from spu_core.codec import Reader, encode, encode_tagged, tagged
from spu_core.errors import RuleError
from spu_core.rules.beliefs import Belief, CheckRatio, CheckRecord, Constant, Ramp, ReadyMade
from spu_core.rules.conditions import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Not,
    check_size,
)
from spu_core.rules.operators import MAX_TEXT, one_line, operator_of

MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: rows where `when` holds are positive to the degree `belief`.

    Parameters
    ----------
    name : str
        Name that people see, 1 to 200 characters.
    belief : float or Belief
        A number in [0, 1], or a `Ramp`, `ReadyMade`, `CheckRatio` or `CheckRecord`. A number may be 0 ("known to be
        negative", for the combiner first match). A graded belief fires only where it is known and above 0.
    when : Condition, optional
        Condition such as `column("age") > 30` or `Compare("age", ">", 30)`. Without one the rule fires on every row.
        Belief and condition can come in either order: `Rule("Late claim", column("delay") > 30, belief=0.6)`.
    id : str, optional
        Identity that stays when the rule is renamed. Default: made from the name.
    on : bool, default True
        Whether the rule is used.
    note : str, default ""
        A remark.

    Raises
    ------
    RuleError
        If an argument is not valid.

    Examples
    --------
    >>> from spu_core.rules import Compare, column
    >>> rule = Rule("Investor", 0.5, when=Compare("capital-gain", ">", 0))
    >>> rule.text, rule.id
    ('capital-gain > 0 → 0.50', 'investor')
    >>> Rule("Late claim", column("delay") > 30, belief=0.6).text
    'delay > 30 → 0.60'
    >>> rule.renamed("Has gains").id
    'investor'
    >>> Rule("Investor", 1.5)
    Traceback (most recent call last):
    spu_core.errors.RuleError: Rule 'Investor' needs a belief: a number in [0, 1], a ramp, a column or checks; got 1.5.
    """

    name: str
    belief: Belief
    when: Condition | None = None
    id: str = ""
    on: bool = True
    note: str = ""

    def __init__(
        self,
        name: str,
        belief_or_when: Belief | float | Condition | None = None,
        when_or_belief: Condition | Belief | float | None = None,
        id: str = "",
        on: bool = True,
        note: str = "",
        *,
        belief: Belief | float | None = None,
        when: Condition | None = None,
    ) -> None:
        name = _check_name(name, "name of a rule")
        given: list[Any] = [belief_or_when, when_or_belief]
        if isinstance(belief_or_when, Condition) or (belief is not None and isinstance(belief_or_when, str)):
            given.reverse()
        for place, known in enumerate((belief, when)):
            if known is not None and given[place] is not None:
                raise RuleError(f"Rule {name!r} takes one belief and one condition, got more.")
            given[place] = given[place] if known is None else known
        fields: dict[str, Any] = {
            "name": name,
            "belief": _check_belief(given[0], name),
            "when": _check_condition(given[1], name),
            "id": _check_name(id or default_id(name), f"id of rule {name!r}"),
            "on": _check_switch(on, name),
            "note": _check_text(note, f"note of rule {name!r}"),
        }
        for field, checked in fields.items():
            object.__setattr__(self, field, checked)

    @property
    def text(self) -> str:
        """The rule in one line."""
        condition = "always" if self.when is None else self.when.text
        return f"{condition} → {self.belief.text}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads, each once, in order of appearance."""
        compared = () if self.when is None else (compare.column for compare in self.when.comparisons)
        return tuple(dict.fromkeys([*compared, *self.belief.needs]))

    def renamed(self, name: str) -> Rule:
        return replace(self, name=name)

    def switched(self, on: bool) -> Rule:
        return replace(self, on=on)

    def with_belief(self, belief: Belief | float) -> Rule:
        return replace(self, belief=_check_belief(belief, self.name))

    def __str__(self) -> str:
        return f"{one_line(self.name)}: {self.text}"


def default_id(name: str) -> str:
    """An id for a URL or a key: letters and digits of any script, joined by dashes.

    >>> default_id("Gain > 0 (große)"), len(default_id("→"))
    ('gain-0-große', 8)
    """
    letters = "".join(character if character.isalnum() else " " for character in name.lower())
    return "-".join(letters.split())[:60] or hashlib.sha256(name.encode()).hexdigest()[:8]


def _check_name(name: Any, place: str) -> str:
    text = _check_text(name, f"The {place}")
    if not text.strip() or len(text) > MAX_NAME:
        raise RuleError(f"The {place} must have 1 to {MAX_NAME} characters, got {text[:40]!r}.")
    return text


def _check_belief(belief: Any, name: str) -> Belief:
    if isinstance(belief, Belief):
        return belief
    if isinstance(belief, Real) and not isinstance(belief, bool) and 0.0 <= float(belief) <= 1.0:
        return Constant(float(belief))
    raise RuleError(f"Rule {name!r} needs a belief: a number in [0, 1], a ramp, a column or checks; got {belief!r}.")


def _check_condition(when: Any, name: str) -> Condition | None:
    if when is not None:
        if not isinstance(when, Condition):
            raise RuleError(f"Rule {name!r} needs a condition such as Compare('age', '>', 30), got {when!r}.")
        check_size(when, f"The condition of rule {name!r}")
    return when


def _check_switch(on: Any, name: str) -> bool:
    if not isinstance(on, bool):
        raise RuleError(f"'on' of rule {name!r} must be true or false, got {on!r}.")
    return on


def _check_text(value: Any, place: str) -> str:
    return Reader(place, RuleError, max_text=MAX_TEXT).read(str, value)


_JOINS = {AllOf.word: AllOf, AnyOf.word: AnyOf}


def condition_as_data(condition: Condition) -> dict[str, Any]:
    """A condition as plain JSON values.

    >>> condition_as_data(~Compare("age", "≥", 30))
    {'not': {'column': 'age', 'operator': '>=', 'value': 30}}
    """
    if isinstance(condition, Compare):
        return {name: entry for name, entry in encode(condition).items() if entry is not None}
    if isinstance(condition, Not):
        return {"not": condition_as_data(condition.condition)}
    assert isinstance(condition, AllOf | AnyOf)
    return {condition.word: [condition_as_data(part) for part in condition.parts]}


def rule_as_data(rule: Rule) -> dict[str, Any]:
    when = {} if rule.when is None else {"when": condition_as_data(rule.when)}
    head = {"id": rule.id, "name": rule.name, "on": rule.on, "note": rule.note}
    return {**head, **when, "belief": encode_tagged(rule.belief)}


def _read_condition(reader: Reader, data: Any, place: str) -> Condition:
    fields = reader.need_object(data, place)
    word = next((word for word in (*_JOINS, "not") if word in fields), None)
    if word is None:
        return _read_compare(reader, fields, place)
    reader.refuse_unknown(fields, [word], place)
    inside = reader.at(place, word)
    if word == "not":
        return Not(_read_condition(reader, fields[word], inside))
    parts = reader.read(tuple[Condition, ...], fields[word], inside)
    return reader.make(place, _JOINS[word], parts)


def _read_compare(reader: Reader, fields: Mapping[str, Any], place: str) -> Compare:
    sign = fields.get("operator")
    if isinstance(sign, str):
        operator = operator_of(sign, reader.at(place, "operator"))
        if operator.shape.is_required and fields.get("value") is None:
            reader.refuse(place, "lacks the field 'value'")
    return reader.fields(Compare, fields, place)


def _read_belief(reader: Reader, data: Any, place: str) -> Belief:
    """A belief; a single number is a constant one."""
    if isinstance(data, int | float) and not isinstance(data, bool):
        return reader.make(place, Constant, data)
    return _read_tagged(reader, data, place)


_read_tagged = tagged(Constant, Ramp, ReadyMade, CheckRatio, CheckRecord)
# How the parts of a rule file are read.
RULE_FORMAT: dict[str, Any] = {
    "error": RuleError,
    "hooks": {Condition: _read_condition, Belief: _read_belief},
    "max_text": MAX_TEXT,
    "max_items": 100_000,
}
