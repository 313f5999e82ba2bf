"""Fitted rules: rules with everything learnt from a table frozen as numbers, so that rows can be judged one by one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import RuleError
from spu_core.rules.checking import check_kinds, check_rules, kinds_of, refuse_errors
from spu_core.rules.columns import Columns, Kind, column_of
from spu_core.rules.evaluate import holds
from spu_core.rules.fields import Fields
from spu_core.rules.frozen import FrozenBelief
from spu_core.rules.frozen_json import frozen_as_data, frozen_of_data
from spu_core.rules.matrix import RuleMatrix
from spu_core.rules.rule import Rule
from spu_core.rules.rule_json import SCHEMA_VERSION, check_version, rule_set_as_data, rule_set_of_data
from spu_core.rules.rule_set import MAX_RULES, RuleSet
from spu_core.rules.strict_json import parse_json
from spu_core.tables import Table

# A prior on a fine grid is long; still far below what a bundle may hold.
MAX_FITTED_BYTES = 64_000_000


@dataclass(frozen=True, slots=True)
class FittedRules:
    """Active rules, how each column is compared, and each rule's belief with its learnt numbers.

    >>> from spu_core.rules import Compare, Ramp
    >>> frame = pd.DataFrame({"age": [20.0, 40.0, 60.0, None]})
    >>> rules = RuleSet((Rule("old", 0.8, Compare("age", ">", 30)), Rule("age", Ramp(column="age", start=20, end=60))))
    >>> fitted = rules.fit(Table.from_frame(frame))
    >>> fitted.apply(frame).belief
    array([[0. , 0. ],
           [0.8, 0.5],
           [0.8, 1. ],
           [0. , 0. ]])
    """

    rules: RuleSet
    kinds: Mapping[str, Kind]
    beliefs: tuple[FrozenBelief, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", MappingProxyType(dict(self.kinds)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a frame must have."""
        return self.rules.columns

    def apply(self, frame: pd.DataFrame) -> RuleMatrix:
        """What every rule says about every row; any partition of the rows gives the same, bit for bit."""
        if not isinstance(frame, pd.DataFrame):
            raise RuleError(f"apply needs a pandas DataFrame (table.frame), got {type(frame).__name__}.")
        for rule in self.rules:
            for name in rule.columns:
                column_of(frame, name, f"Rule {rule.name!r}")
        columns = Columns(frame, self.kinds)
        fired = np.empty((len(frame), len(self.rules)), dtype=bool, order="F")
        beliefs: list[float | np.ndarray] = []
        for place, (rule, frozen) in enumerate(zip(self.rules, self.beliefs, strict=True)):
            belief = apply_rule(rule, frozen, columns, fired[:, place])
            beliefs.append(belief)
        ids = tuple(rule.id for rule in self.rules)
        return RuleMatrix(self.rules.names, ids, fired, tuple(beliefs), self.columns)

    def to_json(self) -> str:
        """Everything as JSON text; numbers come back bit for bit."""
        data = {
            "schema_version": SCHEMA_VERSION,
            "rule_set": rule_set_as_data(self.rules),
            "kinds": {name: kind.value for name, kind in self.kinds.items()},
            "beliefs": [frozen_as_data(belief) for belief in self.beliefs],
        }
        return json.dumps(data, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> FittedRules:
        """Fitted rules from untrusted JSON, read as strictly as a rule set."""
        what = "The fitted rules"
        fields = Fields(parse_json(text, what=what, max_bytes=MAX_FITTED_BYTES), what)
        check_version(fields, SCHEMA_VERSION)
        rules = rule_set_of_data(fields.get("rule_set"), "rule_set")
        kinds = _kinds_of_data(fields.get("kinds"), rules)
        entries = fields.items("beliefs", MAX_RULES)
        fields.done()
        beliefs = tuple(frozen_of_data(entry, f"beliefs[{i}]") for i, entry in enumerate(entries))
        _check_belonging(rules, beliefs)
        refuse_errors(finding for rule in rules for finding in check_kinds(rule, kinds))
        return cls(rules, kinds, beliefs)


def fit_rules(rules: RuleSet, table: Table) -> FittedRules:
    """Freeze the given rules on a table; problems between the two are errors in words."""
    if not isinstance(table, Table):
        raise RuleError(f"fit needs a Table (Table.from_frame(frame)), got {type(table).__name__}.")
    refuse_errors(check_rules(rules, table))
    kinds = kinds_of(rules, table)
    columns = Columns(table.frame, kinds)
    fitted = FittedRules(rules, kinds, tuple(freeze_rule(rule, columns) for rule in rules))
    # Beliefs out of range and broken records show only when they are applied; better now than in production.
    fitted.apply(table.frame)
    return fitted


def freeze_rule(rule: Rule, columns: Columns) -> FrozenBelief:
    try:
        return rule.belief.freeze(columns)
    except ValueError as problem:
        raise RuleError(f"Rule {rule.name!r} cannot be fitted: {problem}") from None


def apply_rule(rule: Rule, frozen: FrozenBelief, columns: Columns, fired: np.ndarray) -> float | np.ndarray:
    """Fill in where the rule fires; return its belief, 0 where it does not."""
    fired[:] = True if rule.when is None else holds(rule.when, columns)
    belief = frozen.of(columns)
    if isinstance(belief, float):
        return belief
    # A graded belief of 0, like a missing one, says nothing; counted as fired it would only blur coverage and lift.
    fired &= belief > 0.0
    return np.where(fired, belief, 0.0)


def _check_belonging(rules: RuleSet, beliefs: tuple[FrozenBelief, ...]) -> None:
    """Each rule is on and has its own belief, of its own kind and columns."""
    asked = [(rule.on, rule.belief.kind, list(rule.belief.needs)) for rule in rules]
    given = [(True, belief.kind, list(dict.fromkeys(belief.columns))) for belief in beliefs]
    if asked != given:
        raise RuleError(
            "The fitted rules are damaged: their beliefs do not belong to their rules; fit the rules again."
        )


def _kinds_of_data(data: Any, rules: RuleSet) -> dict[str, Kind]:
    fields = Fields(data, "kinds")
    kinds = {name: Kind(fields.choice(name, list(Kind))) for name in rules.columns}
    fields.done()
    return kinds
