"""Rule sets as JSON: a fixed schema with a version, read strictly and written canonically."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields as dataclass_fields
from typing import Any

from spu_core.errors import RuleError
from spu_core.rules.beliefs import SCALES, Belief, Constant, Ramp, ReadyMade
from spu_core.rules.check_beliefs import CheckRatio, CheckRecord
from spu_core.rules.combine import COMBINERS
from spu_core.rules.conditions import (
    MAX_CONDITION_PARTS,
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Not,
)
from spu_core.rules.fields import Fields, describe
from spu_core.rules.operators import operator_of
from spu_core.rules.rule import Rule
from spu_core.rules.rule_set import MAX_RULES, RuleSet
from spu_core.rules.strict_json import parse_json
from spu_core.rules.values import MAX_VALUES

SCHEMA_VERSION = 1
_JOINS = {AllOf.word: AllOf, AnyOf.word: AnyOf}


def write_rule_set(rules: RuleSet) -> str:
    """Canonical JSON text of a rule set."""
    return json.dumps(rule_set_as_data(rules), indent=2, ensure_ascii=False, allow_nan=False)


def read_rule_set(source: str | bytes) -> RuleSet:
    """A rule set from untrusted JSON text."""
    return rule_set_of_data(parse_json(source), "The rule file")


def rule_set_as_data(rules: RuleSet) -> dict[str, Any]:
    # What is usual is left out, so that a set without a choice of its own reads as short as it is.
    usual = RuleSet()
    chosen = {name: getattr(rules, name) for name in ("combine", "floor")}
    chosen = {name: value for name, value in chosen.items() if value != getattr(usual, name)}
    return {"schema_version": SCHEMA_VERSION, **chosen, "rules": [_rule_as_data(rule) for rule in rules]}


def rule_set_of_data(data: Any, place: str) -> RuleSet:
    fields = Fields(data, place)
    check_version(fields, SCHEMA_VERSION)
    entries = fields.items("rules", MAX_RULES)
    usual = RuleSet()
    combine = fields.choice("combine", COMBINERS) if "combine" in fields else usual.combine
    floor = fields.number("floor") if "floor" in fields else usual.floor
    fields.done()
    rules = tuple(_rule_of_data(entry, f"rules[{i}]") for i, entry in enumerate(entries))
    return _at(place, RuleSet, rules, combine, floor)


def check_version(fields: Fields, version: int) -> None:
    """Refuse other versions by name, rather than misread a field whose meaning has changed."""
    found = fields.get("schema_version")
    if isinstance(found, bool) or found != version:
        raise RuleError(
            f"{fields.place} has schema_version {describe(found)}, but this version reads {version}; "
            "update the program or export the rules again."
        )


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
    """A condition from plain JSON values; the place goes into error messages."""
    fields = Fields(data, place)
    word = next((word for word in (*_JOINS, "not") if word in fields), None)
    if word is None:
        return _compare_of_data(fields)
    if word == "not":
        inner: Condition = Not(condition_of_data(fields.get("not"), fields.at("not")))
    else:
        entries = fields.items(word, MAX_CONDITION_PARTS)
        parts = (condition_of_data(entry, f"{fields.at(word)}[{i}]") for i, entry in enumerate(entries))
        inner = _at(place, _JOINS[word], tuple(parts))
    fields.done()
    return inner


def belief_as_data(belief: Belief) -> dict[str, Any]:
    """A belief as plain JSON values."""
    values = {field.name: getattr(belief, field.name) for field in dataclass_fields(belief)}  # type: ignore[arg-type]
    data = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return {"kind": belief.kind} | {name: value for name, value in data.items() if value is not None}


def belief_of_data(data: Any, place: str) -> Belief:
    """A belief from plain JSON values; a number alone is a constant, as in Python.

    >>> belief_of_data(0.5, "rules[0].belief")
    Constant(value=0.5)
    """
    if isinstance(data, int | float) and not isinstance(data, bool):
        return _at(place, Constant, data)
    fields = Fields(data, place)
    belief = _BELIEFS[fields.choice("kind", _BELIEFS)](fields)
    fields.done()
    return belief


def _rule_as_data(rule: Rule) -> dict[str, Any]:
    when = {} if rule.when is None else {"when": condition_as_data(rule.when)}
    head = {"id": rule.id, "name": rule.name, "on": rule.on, "note": rule.note}
    return {**head, **when, "belief": belief_as_data(rule.belief)}


def _rule_of_data(data: Any, place: str) -> Rule:
    fields = Fields(data, place)
    name, rule_id = fields.text("name"), fields.text("id", "")
    on, note = fields.flag("on", True), fields.text("note", "")
    when = fields.get("when", None)
    belief = belief_of_data(fields.get("belief"), fields.at("belief"))
    condition = None if when is None else condition_of_data(when, fields.at("when"))
    fields.done()
    return _at(place, Rule, name, belief, condition, rule_id, on, note)


def _compare_of_data(fields: Fields) -> Compare:
    column, operator = fields.text("column"), operator_of(fields.text("operator"), fields.at("operator"))
    value: Any = fields.items("value", MAX_VALUES) if operator.shape.is_list else fields.get("value", None)
    fields.done()
    if operator.shape.is_required and value is None:
        raise RuleError(f"{fields.place} lacks the field 'value'.")
    return _at(fields.place, Compare, column, operator.sign, value)


def _ramp(fields: Fields) -> Belief:
    numbers = {name: fields.number(name) for name in ("start", "end", "at_start", "at_end")}
    scale = fields.choice("scale", SCALES) if "scale" in fields else "value"
    return _at(fields.place, Ramp, column=fields.text("column"), scale=scale, **numbers)


def _check_ratio(fields: Fields) -> Belief:
    texts = {name: fields.text(name) for name in ("rule_column", "outcome_column", "random_rule")}
    lists = {name: fields.texts(name, 1_000) for name in ("failed", "admitted") if name in fields}
    return _at(fields.place, CheckRatio, **texts, **lists)


def _check_record(fields: Fields) -> Belief:
    penalty = fields.number("penalty") if "penalty" in fields else None
    texts = {name: fields.text(name) for name in ("checks_column", "passes_column")}
    return _at(fields.place, CheckRecord, **texts, penalty=penalty)


_BELIEFS: Mapping[str, Callable[[Fields], Belief]] = {
    Constant.kind: lambda fields: _at(fields.place, Constant, fields.number("value")),
    Ramp.kind: _ramp,
    ReadyMade.kind: lambda fields: ReadyMade(fields.text("column")),
    CheckRatio.kind: _check_ratio,
    CheckRecord.kind: _check_record,
}


def _at(place: str, make: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Make a value; where it refuses its parts, say at which place of the file."""
    try:
        return make(*arguments, **named)
    except RuleError as problem:
        raise RuleError(f"{place}: {problem}") from None
