"""Rule sets, and rule sets fitted to a table.

A `RuleSet` holds rules in order. `RuleSet.fit(table)` computes and stores every number that the rules learn from the
table (quantiles, ratios, priors). The resulting `FittedRules` evaluate each row on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_choice, check_share
from spu_core.codec import Reader, decode, dump_json, encode, encode_tagged, parse_json
from spu_core.errors import RuleError, nearest_hint
from spu_core.html_table import Tabular, count, short_repr
from spu_core.rules.beliefs import FrozenBelief, read_frozen
from spu_core.rules.checking import check_kinds, check_rules, kinds_of, refuse_errors
from spu_core.rules.columns import Columns, Kind, column_of
from spu_core.rules.combine import COMBINERS
from spu_core.rules.conditions import holds
from spu_core.rules.matrix import RuleMatrix
from spu_core.rules.rule import RULE_FORMAT, Rule, rule_as_data
from spu_core.tables import Finding, Table

SCHEMA = ("schema_version", 1)
MAX_RULES = 500
# Enough for priors on fine grids, and far below the limit of a bundle.
MAX_FITTED_BYTES = 64_000_000


@dataclass(frozen=True, slots=True)
class RuleSet(Tabular):
    """Rules in order, how their beliefs are combined, and the soft label where none fires.

    A rule set is a value: every change returns a new set.

    Parameters
    ----------
    rules : sequence of Rule, default ()
        At most 500 rules with distinct ids and names.
    combine : str, default "noisy_or"
        "strongest", "noisy_or", "mean_of_fired", "first_match" or "logit_sum".
    floor : float, default 0
        Soft label where no rule fires.

    Raises
    ------
    RuleError
        If an argument is not valid.

    Examples
    --------
    >>> from spu_core.rules import Compare
    >>> rules = RuleSet((Rule("Investor", 0.5, Compare("capital-gain", ">", 0)),))
    >>> rules = rules.add(Rule("Graduate", 0.3, Compare("education-num", ">=", 13)))
    >>> print(rules)
    Investor: capital-gain > 0 → 0.50
    Graduate: education-num ≥ 13 → 0.30
    >>> rules.move("graduate", 0).names, rules.switch("investor", on=False).active.names
    (('Graduate', 'Investor'), ('Graduate',))
    >>> RuleSet.from_json(rules.to_json()) == rules
    True
    """

    rules: tuple[Rule, ...] = field(default=())
    combine: str = "noisy_or"
    floor: float = 0.0

    def __post_init__(self) -> None:
        check_choice(self.combine, COMBINERS, "combine", RuleError)
        object.__setattr__(self, "floor", check_share(self.floor, "floor", RuleError, closed=True))
        object.__setattr__(self, "rules", tuple(self.rules))
        for rule in self.rules:
            if not isinstance(rule, Rule):
                raise RuleError(f"A rule set holds rules, got {rule!r}.")
        if len(self.rules) > MAX_RULES:
            raise RuleError(f"A rule set has {len(self.rules):,} rules, more than the limit of {MAX_RULES}.")
        _check_distinct("id", [rule.id for rule in self.rules])
        _check_distinct("name", [rule.name for rule in self.rules])

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __getitem__(self, rule_id: str) -> Rule:
        """The rule with this id."""
        return self.rules[self._place(rule_id)]

    def __repr__(self) -> str:
        off = len(self) - len(self.active)
        return short_repr(
            "RuleSet",
            None,
            count(len(self), "rule"),
            f"{off} off" if off else None,
            self.combine,
            f"floor {self.floor:g}",
        )

    def to_frame(self) -> pd.DataFrame:
        """A line for each rule: its name, the rule in words, and whether it is on."""
        lines = [(rule.name, str(rule), "yes" if rule.on else "no") for rule in self.rules]
        return pd.DataFrame(lines, columns=["name", "rule", "on"])

    def __str__(self) -> str:
        return "\n".join(f"{rule}{'' if rule.on else ' (off)'}" for rule in self.rules)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(rule.name for rule in self.rules)

    @property
    def active(self) -> RuleSet:
        """Only the rules that are switched on."""
        return replace(self, rules=tuple(rule for rule in self.rules if rule.on))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the active rules read, each once."""
        return tuple(dict.fromkeys(column for rule in self.active for column in rule.columns))

    def add(self, rule: Rule, place: int | None = None) -> RuleSet:
        """Add a rule at the end or at a position. A duplicate id gets a number; a duplicate name is an error."""
        rule = replace(rule, id=_free(rule.id, [other.id for other in self.rules], "{}-{}"))
        place = len(self.rules) if place is None else place
        return replace(self, rules=(*self.rules[:place], rule, *self.rules[place:]))

    def replace(self, rule_id: str, rule: Rule) -> RuleSet:
        """Replace the rule with this id; the id stays."""
        return self._change(rule_id, lambda old: replace(rule, id=old.id))

    def remove(self, rule_id: str) -> RuleSet:
        place = self._place(rule_id)
        return replace(self, rules=self.rules[:place] + self.rules[place + 1 :])

    def move(self, rule_id: str, place: int) -> RuleSet:
        """Move the rule to another position, counted from 0."""
        rule, rest = self[rule_id], self.remove(rule_id).rules
        place = min(max(place, 0), len(rest))
        return replace(self, rules=(*rest[:place], rule, *rest[place:]))

    def duplicate(self, rule_id: str) -> RuleSet:
        """Add a copy after the rule, with a new name and id."""
        rule = self[rule_id]
        name = _free(f"{rule.name[:180]} (copy)", self.names, "{} {}")
        return self.add(replace(rule, name=name, id=f"{rule.id[:180]}-copy"), self._place(rule_id) + 1)

    def switch(self, rule_id: str, on: bool) -> RuleSet:
        return self._change(rule_id, lambda rule: rule.switched(on))

    def combined(self, combine: str, floor: float = 0.0) -> RuleSet:
        """The same rules with another combiner and floor.

        >>> RuleSet().combined("strongest", 0.02).floor
        0.02
        """
        return replace(self, combine=combine, floor=floor)

    def check(self, table: Table) -> tuple[Finding, ...]:
        """Problems of the active rules with a table, as findings: unknown columns, wrong types, unknown categories."""
        return check_rules(self.active, table)

    def fit(self, table: Table) -> FittedRules:
        """Fit the active rules: store the numbers that they learn from a table (quantiles, ratios, priors)."""
        return fit_rules(self.active, table)

    def to_json(self) -> str:
        """The set as JSON text with a schema version; equal sets give equal text."""
        return dump_json(_rule_set_as_data(self), indent=2)

    @classmethod
    def from_json(cls, text: str | bytes) -> RuleSet:
        """A rule set from untrusted JSON. Any deviation from the format raises an error."""
        what = "The rule file"
        reader = Reader(what, **RULE_FORMAT)
        return _read_rule_set(reader, parse_json(text, what, RuleError), "")

    def _place(self, rule_id: str) -> int:
        ids = [rule.id for rule in self.rules]
        if rule_id not in ids:
            raise RuleError(f"There is no rule with id {rule_id!r}. {nearest_hint(str(rule_id), ids)}")
        return ids.index(rule_id)

    def _change(self, rule_id: str, change: Callable[[Rule], Rule]) -> RuleSet:
        place = self._place(rule_id)
        changed = change(self.rules[place])
        return replace(self, rules=(*self.rules[:place], changed, *self.rules[place + 1 :]))


@dataclass(frozen=True, slots=True)
class FittedRules:
    """Rules with every number that they learnt from a table, so that each row can be evaluated on its own.

    Made by `RuleSet.fit(table)`.

    Parameters
    ----------
    rules : RuleSet
        The active rules.
    kinds : mapping of str to Kind
        How each column is compared: as numbers, dates, flags or texts.
    beliefs : tuple of FrozenBelief
        The belief of each rule with its learnt numbers.

    Examples
    --------
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

    def __repr__(self) -> str:
        return short_repr("FittedRules", None, count(len(self.beliefs), "rule"), count(len(self.columns), "column"))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a frame must have."""
        return self.rules.columns

    def apply(self, frame: pd.DataFrame) -> RuleMatrix:
        """Apply every rule to every row. Chunks of rows give exactly the same result as the whole table."""
        convert = getattr(frame, "to_pandas", None)  # of polars
        frame = convert() if callable(convert) else frame
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

    def apply_to_part(self, frame: pd.DataFrame) -> RuleMatrix:
        """The same for some rows of a table; an error names the first of them, unless it is the first of all."""
        try:
            return self.apply(frame)
        except RuleError as problem:
            start = frame.index[0] if len(frame) else 0
            raise RuleError(f"In the part that starts at row {start:,}: {problem}" if start else str(problem)) from None

    def to_json(self) -> str:
        """The fitted rules as JSON text; numbers are stored exactly."""
        data = {
            **dict([SCHEMA]),
            "rule_set": _rule_set_as_data(self.rules),
            "kinds": encode(self.kinds),
            "beliefs": [encode_tagged(belief) for belief in self.beliefs],
        }
        return dump_json(data)

    @classmethod
    def from_json(cls, text: str | bytes) -> FittedRules:
        """Fitted rules from untrusted JSON, read as strictly as a rule set."""
        what = "The fitted rules"
        data = parse_json(text, what, RuleError, MAX_FITTED_BYTES)
        hooks = {**RULE_FORMAT["hooks"], RuleSet: _read_rule_set, FrozenBelief: read_frozen}
        found = decode(_StoredRules, data, what, schema=SCHEMA, **{**RULE_FORMAT, "hooks": hooks})
        _check_belonging(found)
        kinds = {name: found.kinds[name] for name in found.rule_set.columns}
        refuse_errors(finding for rule in found.rule_set for finding in check_kinds(rule, kinds))
        return cls(found.rule_set, kinds, found.beliefs)


@dataclass(frozen=True)
class _StoredRules:
    """Fitted rules as they are stored."""

    rule_set: RuleSet
    kinds: Mapping[str, Kind]
    beliefs: tuple[FrozenBelief, ...]


def fit_rules(rules: RuleSet, table: Table) -> FittedRules:
    """Fit the given rules to a table."""
    if not isinstance(table, Table):
        raise RuleError(f"fit needs a Table (Table.from_frame(frame)), got {type(table).__name__}.")
    refuse_errors(check_rules(rules, table))
    kinds = kinds_of(rules, table)
    beliefs = tuple(freeze_rule(rule, columns) for rule, columns in _with_columns(rules, table, kinds))
    fitted = FittedRules(rules, kinds, beliefs)
    # Some errors (beliefs out of range, invalid records) show only when rules are applied; find them here.
    for frame in table.frames(fitted.columns) if fitted.columns else ():
        fitted.apply_to_part(frame)
    return fitted


def _with_columns(rules: RuleSet, table: Table, kinds: Mapping[str, Kind]) -> Iterator[tuple[Rule, Columns]]:
    """Each rule with the whole columns that its belief learns from; from files, only those of one rule at a time."""
    columns = Columns(table.outline, kinds)
    for rule in rules:
        if not table.in_memory:
            columns = Columns(pd.DataFrame({name: table.values(name) for name in rule.belief.learns_from}), kinds)
        yield rule, columns


def freeze_rule(rule: Rule, columns: Columns) -> FrozenBelief:
    try:
        return rule.belief.freeze(columns)
    except ValueError as problem:
        raise RuleError(f"Rule {rule.name!r} cannot be fitted: {problem}") from None


def apply_rule(rule: Rule, frozen: FrozenBelief, columns: Columns, fired: np.ndarray) -> float | np.ndarray:
    """Write into `fired` where the rule fires; return its belief, 0 where it does not."""
    fired[:] = True if rule.when is None else holds(rule.when, columns)
    belief = frozen.of(columns)
    if isinstance(belief, float):
        return belief
    # A graded belief of 0, or an unknown one, does not count as fired; it would distort coverage and lift.
    fired &= belief > 0.0
    return np.where(fired, belief, 0.0)


def _check_belonging(found: _StoredRules) -> None:
    """Each rule is on and has its own belief, of its own kind and columns; the kind of each column is known."""
    asked = [(rule.on, rule.belief.kind, list(rule.belief.needs)) for rule in found.rule_set]
    given = [(True, belief.kind, list(dict.fromkeys(belief.columns))) for belief in found.beliefs]
    parts = {"beliefs": asked == given, "columns": set(found.kinds) == set(found.rule_set.columns)}
    for name, fits in parts.items():
        if not fits:
            raise RuleError(
                f"The fitted rules are damaged: their {name} do not match their rules; fit the rules again."
            )


def _rule_set_as_data(rules: RuleSet) -> dict[str, Any]:
    # Defaults are left out to keep the text short.
    usual = RuleSet()
    chosen = {name: getattr(rules, name) for name in ("combine", "floor")}
    chosen = {name: value for name, value in chosen.items() if value != getattr(usual, name)}
    return {**dict([SCHEMA]), **chosen, "rules": [rule_as_data(rule) for rule in rules]}


def _read_rule_set(reader: Reader, data: Any, place: str) -> RuleSet:
    return reader.fields(RuleSet, reader.without_version(data, *SCHEMA, place), place)


def _check_distinct(what: str, values: list[str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise RuleError(f"Two rules have the {what} {value!r}; each rule needs its own.")
        seen.add(value)


def _free(wanted: str, taken: Iterable[str], pattern: str) -> str:
    taken, name, count = set(taken), wanted, 2
    while name in taken:
        name, count = pattern.format(wanted, count), count + 1
    return name
