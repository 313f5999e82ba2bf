"""A rule set: the rules of one question, in order; every change returns a new set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from spu_core.checks import check_choice, check_share
from spu_core.errors import RuleError, nearest_hint
from spu_core.rules.combine import COMBINERS
from spu_core.rules.rule import Rule
from spu_core.tables import Finding, Table, TableFolder

if TYPE_CHECKING:
    from spu_core.rules.fitted import FittedRules

MAX_RULES = 500


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules in order, with distinct ids and names, how their beliefs are combined, and the floor where none fires.

    >>> from spu_core.rules import Compare
    >>> rules = RuleSet((Rule("Investor", 0.5, Compare("capital-gain", ">", 0)),))
    >>> rules = rules.add(Rule("Graduate", 0.3, Compare("education-num", ">=", 13)))
    >>> print(rules)
    Investor: capital-gain > 0 → 0.50
    Graduate: education-num ≥ 13 → 0.30
    >>> rules.move("graduate", 0).names, rules.switch("investor", on=False).active.names
    (('Graduate', 'Investor'), ('Graduate',))
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
        """With one more rule, at the end or at a place; a taken id is made distinct, a taken name is refused."""
        rule = replace(rule, id=_free(rule.id, [other.id for other in self.rules], "{}-{}"))
        place = len(self.rules) if place is None else place
        return replace(self, rules=(*self.rules[:place], rule, *self.rules[place:]))

    def replace(self, rule_id: str, rule: Rule) -> RuleSet:
        """With this rule in place of the old one; the id stays."""
        return self._change(rule_id, lambda old: replace(rule, id=old.id))

    def remove(self, rule_id: str) -> RuleSet:
        place = self._place(rule_id)
        return replace(self, rules=self.rules[:place] + self.rules[place + 1 :])

    def move(self, rule_id: str, place: int) -> RuleSet:
        """With the rule at another place, counted from 0 among the final order."""
        rule, rest = self[rule_id], self.remove(rule_id).rules
        place = min(max(place, 0), len(rest))
        return replace(self, rules=(*rest[:place], rule, *rest[place:]))

    def duplicate(self, rule_id: str) -> RuleSet:
        """With a copy right after the rule, under a new name and id."""
        rule = self[rule_id]
        name = _free(f"{rule.name[:180]} (copy)", self.names, "{} {}")
        return self.add(replace(rule, name=name, id=f"{rule.id[:180]}-copy"), self._place(rule_id) + 1)

    def switch(self, rule_id: str, on: bool) -> RuleSet:
        return self._change(rule_id, lambda rule: rule.switched(on))

    def combined(self, combine: str, floor: float = 0.0) -> RuleSet:
        """The same rules, combined in another way, with another floor.

        >>> RuleSet().combined("strongest", 0.02).floor
        0.02
        """
        return replace(self, combine=combine, floor=floor)

    def check(self, table: Table | TableFolder) -> tuple[Finding, ...]:
        """What is wrong between the active rules and a table, as findings: columns, types, levels."""
        from spu_core.rules.checking import check_rules

        if isinstance(table, TableFolder):
            from spu_core.rules.folder_fit import check_rules_on_folder

            return check_rules_on_folder(self.active, table)
        return check_rules(self.active, table)

    def fit(self, table: Table | TableFolder) -> FittedRules:
        """Freeze what the active rules learn from a table (quantiles, ratios, priors) as numbers."""
        from spu_core.rules.fitted import fit_rules

        if isinstance(table, TableFolder):
            from spu_core.rules.folder_fit import fit_rules_on_folder

            return fit_rules_on_folder(self.active, table)
        return fit_rules(self.active, table)

    def to_json(self) -> str:
        """The set as JSON text with a schema version; equal sets give equal text."""
        from spu_core.rules.rule_json import write_rule_set

        return write_rule_set(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> RuleSet:
        """A set from untrusted JSON, read strictly: whatever is not exactly right is refused in words."""
        from spu_core.rules.rule_json import read_rule_set

        return read_rule_set(text)

    def _place(self, rule_id: str) -> int:
        ids = [rule.id for rule in self.rules]
        if rule_id not in ids:
            raise RuleError(f"There is no rule with id {rule_id!r}. {nearest_hint(str(rule_id), ids)}")
        return ids.index(rule_id)

    def _change(self, rule_id: str, change: Callable[[Rule], Rule]) -> RuleSet:
        place = self._place(rule_id)
        changed = change(self.rules[place])
        return replace(self, rules=(*self.rules[:place], changed, *self.rules[place + 1 :]))


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
