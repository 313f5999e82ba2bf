"""Rules fitted on a folder: the learnt numbers are those of the whole table in memory, without holding it.

Quantiles come from exact selection, check ratios and check records from counts that add up over the parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from spu_core.errors import RuleError
from spu_core.rules.beliefs import QUANTILE_KNOTS, Belief, Constant, Ramp, ReadyMade
from spu_core.rules.check_beliefs import CheckRatio, CheckRecord
from spu_core.rules.checking import check_rules, kinds_of, refuse_errors
from spu_core.rules.columns import Columns, Kind
from spu_core.rules.fitted import FittedRules
from spu_core.rules.frozen import FrozenBelief, FrozenRecords
from spu_core.rules.rule import Rule
from spu_core.rules.rule_set import RuleSet
from spu_core.tables import Finding, TableFolder
from spu_core.tables.column_facts import quantile_ranks, select
from spu_core.theory.check_counts import CheckCounts
from spu_core.theory.check_prior import fit_check_prior_to_counts
from spu_core.theory.check_ratio import check_ratios_of_counts


def check_rules_on_folder(rules: RuleSet, folder: TableFolder) -> tuple[Finding, ...]:
    """All that is wrong between rules and a folder, from its outline; only admissions are not counted."""
    return check_rules(rules, _outline(folder))


def fit_rules_on_folder(rules: RuleSet, folder: TableFolder) -> FittedRules:
    """Freeze the given rules on all rows of a folder, and apply them once: what breaks shows now."""
    refuse_errors(check_rules_on_folder(rules, folder))
    reader = _Reader(folder, kinds_of(rules, _outline(folder)))
    fitted = FittedRules(rules, reader.kinds, tuple(_freeze(rule, reader) for rule in rules))
    for part in reader.parts(fitted.columns):
        try:
            fitted.apply(part.frame)
        except RuleError as problem:
            raise RuleError(f"In the part that starts at row {part.frame.index[0]:,}: {problem}") from None
    return fitted


@dataclass(frozen=True, eq=False)
class _Outline:
    """What the checks of rules ask of a table."""

    frame: Any
    roles: Any
    types: Any
    is_labeled: np.ndarray


def _outline(folder: TableFolder) -> Any:
    return _Outline(folder.outline, folder.roles, folder.types, np.zeros(0, dtype=bool))


@dataclass(frozen=True, eq=False)
class _Reader:
    """The columns that rules read, part by part, as often as needed."""

    folder: TableFolder
    kinds: dict[str, Kind]

    def parts(self, names: Any) -> Iterator[Columns]:
        wanted = [name for name in self.folder.column_names if name in set(names)]
        for frame in self.folder.frames(wanted) if wanted else ():
            yield Columns(frame, self.kinds)

    def numbers(self, name: str) -> Iterator[np.ndarray]:
        return (columns.ordered(name) for columns in self.parts([name]))


def _freeze(rule: Rule, reader: _Reader) -> FrozenBelief:
    try:
        return _FREEZE[type(rule.belief)](rule.belief, reader)
    except ValueError as problem:
        raise RuleError(f"Rule {rule.name!r} cannot be fitted: {problem}") from None


def _learns_nothing(belief: Belief, reader: _Reader) -> FrozenBelief:
    return belief.freeze(Columns(reader.folder.outline, reader.kinds))


def _frozen_ramp(ramp: Ramp, reader: _Reader) -> FrozenBelief:
    return {"value": _learns_nothing, "quantile": _frozen_quantiles}[ramp.scale](ramp, reader)


def _frozen_ratio(belief: CheckRatio, reader: _Reader) -> FrozenBelief:
    return belief.frozen(check_ratios_of_counts(*_check_counts(belief, reader), belief.random_rule))


def _frozen_record(belief: CheckRecord, reader: _Reader) -> FrozenBelief:
    return belief.frozen(fit_check_prior_to_counts(_record_counts(belief, reader), penalty=belief.penalty))


def _frozen_quantiles(ramp: Ramp, reader: _Reader) -> FrozenBelief:
    shares = np.linspace(ramp.start, ramp.end, QUANTILE_KNOTS)
    found = select(lambda: reader.numbers(ramp.column), lambda count: quantile_ranks(count, shares))
    if found is None:
        raise RuleError(f"Column {ramp.column!r} has no finite value, so its quantiles are not known.")
    knots, first = np.unique(found.value, return_index=True)
    return ramp.frozen(knots, found.below[first], found.upto[first], found.count)


def _check_counts(belief: CheckRatio, reader: _Reader) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Checks, failures and admissions of each check rule."""
    totals: tuple[Counter[str], Counter[str], Counter[str]] = (Counter(), Counter(), Counter())
    for columns in reader.parts(belief.needs):
        for total, found in zip(totals, belief.counts(columns), strict=True):
            total.update(found)
    if not totals[0]:
        raise belief.no_checks()
    return totals


def _record_counts(belief: CheckRecord, reader: _Reader) -> CheckCounts:
    unfitted, counts = FrozenRecords(belief.checks_column, belief.passes_column, (), ()), CheckCounts()
    for columns in reader.parts(belief.needs):
        checks, passes, _ = unfitted.records(columns)
        if checks.size:
            counts = counts.update(checks, passes)
    return counts


_FREEZE: dict[type[Belief], Callable[[Any, _Reader], FrozenBelief]] = {
    Constant: _learns_nothing,
    Ramp: _frozen_ramp,
    ReadyMade: _learns_nothing,
    CheckRatio: _frozen_ratio,
    CheckRecord: _frozen_record,
}
