"""Fitting rules to a folder of files that does not fit into memory.

The result is the same as for the whole table in memory. Quantiles come from exact selection; check ratios and check
records come from counts that are added over the parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from spu_core.errors import RuleError
from spu_core.rules.beliefs import QUANTILE_KNOTS, Belief, CheckRatio, CheckRecord, Constant, Ramp, ReadyMade
from spu_core.rules.columns import Columns, Kind
from spu_core.rules.frozen_beliefs import FrozenBelief, FrozenRecords
from spu_core.rules.rule import Rule
from spu_core.tables import TableFolder
from spu_core.tables.column_facts import quantile_ranks, select
from spu_core.theory.check_counts import CheckCounts
from spu_core.theory.check_prior import fit_check_prior_to_counts
from spu_core.theory.check_ratio import check_ratios_of_counts


@dataclass(frozen=True, eq=False)
class _Outline:
    """The part of a table that `check_rules` needs."""

    frame: Any
    roles: Any
    types: Any
    is_labeled: np.ndarray


def outline_of(folder: TableFolder) -> Any:
    return _Outline(folder.outline, folder.roles, folder.types, np.zeros(0, dtype=bool))


@dataclass(frozen=True, eq=False)
class FolderColumns:
    """The columns that rules read, part by part."""

    folder: TableFolder
    kinds: dict[str, Kind]

    def parts(self, names: Any) -> Iterator[Columns]:
        wanted = [name for name in self.folder.column_names if name in set(names)]
        for frame in self.folder.frames(wanted) if wanted else ():
            yield Columns(frame, self.kinds)

    def numbers(self, name: str) -> Iterator[np.ndarray]:
        return (columns.ordered(name) for columns in self.parts([name]))


def freeze_on_folder(rule: Rule, reader: FolderColumns) -> FrozenBelief:
    try:
        return _FREEZE[type(rule.belief)](rule.belief, reader)
    except ValueError as problem:
        raise RuleError(f"Rule {rule.name!r} cannot be fitted: {problem}") from None


def _learns_nothing(belief: Belief, reader: FolderColumns) -> FrozenBelief:
    return belief.freeze(Columns(reader.folder.outline, reader.kinds))


def _frozen_ramp(ramp: Ramp, reader: FolderColumns) -> FrozenBelief:
    return {"value": _learns_nothing, "quantile": _frozen_quantiles}[ramp.scale](ramp, reader)


def _frozen_ratio(belief: CheckRatio, reader: FolderColumns) -> FrozenBelief:
    return belief.frozen(check_ratios_of_counts(*_check_counts(belief, reader), belief.random_rule))


def _frozen_record(belief: CheckRecord, reader: FolderColumns) -> FrozenBelief:
    return belief.frozen(fit_check_prior_to_counts(_record_counts(belief, reader), penalty=belief.penalty))


def _frozen_quantiles(ramp: Ramp, reader: FolderColumns) -> FrozenBelief:
    shares = np.linspace(ramp.start, ramp.end, QUANTILE_KNOTS)
    found = select(lambda: reader.numbers(ramp.column), lambda count: quantile_ranks(count, shares))
    if found is None:
        raise RuleError(f"Column {ramp.column!r} has no finite value, so its quantiles are not known.")
    knots, first = np.unique(found.value, return_index=True)
    return ramp.frozen(knots, found.below[first], found.upto[first], found.count)


def _check_counts(belief: CheckRatio, reader: FolderColumns) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Checks, failures and admissions of each check rule."""
    totals: tuple[Counter[str], Counter[str], Counter[str]] = (Counter(), Counter(), Counter())
    for columns in reader.parts(belief.needs):
        for total, found in zip(totals, belief.counts(columns), strict=True):
            total.update(found)
    if not totals[0]:
        raise belief.no_checks()
    return totals


def _record_counts(belief: CheckRecord, reader: FolderColumns) -> CheckCounts:
    unfitted, counts = FrozenRecords(belief.checks_column, belief.passes_column, (), ()), CheckCounts()
    for columns in reader.parts(belief.needs):
        checks, passes, _ = unfitted.records(columns)
        if checks.size:
            counts = counts.update(checks, passes)
    return counts


_FREEZE: dict[type[Belief], Callable[[Any, FolderColumns], FrozenBelief]] = {
    Constant: _learns_nothing,
    Ramp: _frozen_ramp,
    ReadyMade: _learns_nothing,
    CheckRatio: _frozen_ratio,
    CheckRecord: _frozen_record,
}
