"""A rule: one piece of domain knowledge, as a name, a condition and a belief."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from numbers import Real
from typing import Any

from spu_core.errors import RuleError
from spu_core.rules.beliefs import SCALES, Belief, CheckRatio, CheckRecord, Constant, Ramp, ReadyMade
from spu_core.rules.conditions import (
    MAX_CONDITION_PARTS,
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Not,
    check_size,
)
from spu_core.rules.operators import MAX_VALUES, one_line, operator_of
from spu_core.rules.strict_json import Fields, check_text

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
        Condition such as `Compare("age", ">", 30)`. Without one the rule fires on every row.
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
    >>> from spu_core.rules import Compare
    >>> rule = Rule("Investor", 0.5, when=Compare("capital-gain", ">", 0))
    >>> rule.text, rule.id
    ('capital-gain > 0 → 0.50', 'investor')
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
        belief: Belief | float,
        when: Condition | None = None,
        id: str = "",
        on: bool = True,
        note: str = "",
    ) -> None:
        name = _check_name(name, "name of a rule")
        fields = {
            "name": name,
            "belief": _check_belief(belief, name),
            "when": _check_condition(when, name),
            "id": _check_name(id or default_id(name), f"id of rule {name!r}"),
            "on": _check_switch(on, name),
            "note": check_text(note, f"note of rule {name!r}"),
        }
        for field, value in fields.items():
            object.__setattr__(self, field, value)

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
    text = check_text(name, f"The {place}")
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


_JOINS = {AllOf.word: AllOf, AnyOf.word: AnyOf}


def condition_as_data(condition: Condition) -> dict[str, Any]:
    """A condition as plain JSON values.

    >>> condition_as_data(~Compare("age", "≥", 30))
    {'not': {'column': 'age', 'operator': '>=', 'value': 30}}
    """
    if isinstance(condition, Compare):
        value = list(condition.value) if isinstance(condition.value, tuple) else condition.value
        data = {"column": condition.column, "operator": condition.operator, "value": value}
        return {name: entry for name, entry in data.items() if entry is not None}
    if isinstance(condition, Not):
        return {"not": condition_as_data(condition.condition)}
    assert isinstance(condition, AllOf | AnyOf)
    return {condition.word: [condition_as_data(part) for part in condition.parts]}


def condition_of_data(data: Any, place: str) -> Condition:
    """A condition from plain JSON values; `place` is named in error messages."""
    fields = Fields(data, place)
    word = next((word for word in (*_JOINS, "not") if word in fields), None)
    if word is None:
        return _compare_of_data(fields)
    if word == "not":
        inner: Condition = Not(condition_of_data(fields.get("not"), fields.at("not")))
    else:
        entries = fields.items(word, MAX_CONDITION_PARTS)
        parts = (condition_of_data(entry, f"{fields.at(word)}[{i}]") for i, entry in enumerate(entries))
        inner = located(place, _JOINS[word], tuple(parts))
    fields.done()
    return inner


def belief_as_data(belief: Belief) -> dict[str, Any]:
    """A belief as plain JSON values."""
    values = {field.name: getattr(belief, field.name) for field in dataclass_fields(belief)}  # type: ignore[arg-type]
    data = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return {"kind": belief.kind} | {name: value for name, value in data.items() if value is not None}


def belief_of_data(data: Any, place: str) -> Belief:
    """A belief from plain JSON values. A single number is a constant belief.

    >>> belief_of_data(0.5, "rules[0].belief")
    Constant(value=0.5)
    """
    if isinstance(data, int | float) and not isinstance(data, bool):
        return located(place, Constant, data)
    fields = Fields(data, place)
    belief = _BELIEFS[fields.choice("kind", _BELIEFS)](fields)
    fields.done()
    return belief


def rule_as_data(rule: Rule) -> dict[str, Any]:
    when = {} if rule.when is None else {"when": condition_as_data(rule.when)}
    head = {"id": rule.id, "name": rule.name, "on": rule.on, "note": rule.note}
    return {**head, **when, "belief": belief_as_data(rule.belief)}


def rule_of_data(data: Any, place: str) -> Rule:
    fields = Fields(data, place)
    name, rule_id = fields.text("name"), fields.text("id", "")
    on, note = fields.flag("on", True), fields.text("note", "")
    when = fields.get("when", None)
    belief = belief_of_data(fields.get("belief"), fields.at("belief"))
    condition = None if when is None else condition_of_data(when, fields.at("when"))
    fields.done()
    return located(place, Rule, name, belief, condition, rule_id, on, note)


def _compare_of_data(fields: Fields) -> Compare:
    column, operator = fields.text("column"), operator_of(fields.text("operator"), fields.at("operator"))
    value: Any = fields.items("value", MAX_VALUES) if operator.shape.is_list else fields.get("value", None)
    fields.done()
    if operator.shape.is_required and value is None:
        raise RuleError(f"{fields.place} lacks the field 'value'.")
    return located(fields.place, Compare, column, operator.sign, value)


def _ramp(fields: Fields) -> Belief:
    numbers = {name: fields.number(name) for name in ("start", "end", "at_start", "at_end")}
    scale = fields.choice("scale", SCALES) if "scale" in fields else "value"
    return located(fields.place, Ramp, column=fields.text("column"), scale=scale, **numbers)


def _check_ratio(fields: Fields) -> Belief:
    texts = {name: fields.text(name) for name in ("rule_column", "outcome_column", "random_rule")}
    lists = {name: fields.texts(name, 1_000) for name in ("failed", "admitted") if name in fields}
    return located(fields.place, CheckRatio, **texts, **lists)


def _check_record(fields: Fields) -> Belief:
    penalty = fields.number("penalty") if "penalty" in fields else None
    texts = {name: fields.text(name) for name in ("checks_column", "passes_column")}
    return located(fields.place, CheckRecord, **texts, penalty=penalty)


_BELIEFS: Mapping[str, Callable[[Fields], Belief]] = {
    Constant.kind: lambda fields: located(fields.place, Constant, fields.number("value")),
    Ramp.kind: _ramp,
    ReadyMade.kind: lambda fields: ReadyMade(fields.text("column")),
    CheckRatio.kind: _check_ratio,
    CheckRecord.kind: _check_record,
}


def located(place: str, make: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call `make`; an error message gets the place in the file as a prefix."""
    try:
        return make(*arguments, **named)
    except RuleError as problem:
        raise RuleError(f"{place}: {problem}") from None
