"""Feedback of outcomes into the data: confirmed positives, records of checks, and the rules that read them.

The input is not changed. The result is a new table and, if needed, new rules, with the figures before and after.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import RuleError, SpuError, TableError
from spu_core.labels import SoftLabels, soft_labels_for
from spu_core.labels.check_log import FAILED, PASSED
from spu_core.metrics import auc_spu_ceiling
from spu_core.rules import CheckRatio, CheckRecord, Constant, Rule, RuleSet, from_checks
from spu_core.tables import Finding, Table
from spu_core.theory.check_ratio import CheckRatios, wilson_interval
from spu_core.trust.outcomes.check_history import (
    HistoryColumns,
    RowChecks,
    check_belief,
    history_leaks,
    with_history,
    with_labels,
)

RULE_NAME = "Failed the latest check"


@dataclass(frozen=True, kw_only=True)
class FeedbackPlan:
    """Which outcomes are used: those up to the day `until`; positives of the random holdout only with `use_holdout`.

    `raise_beliefs` raises fixed beliefs of rules if random checks show that they are too low.
    """

    until: str = ""
    use_holdout: bool = False
    raise_beliefs: bool = False


@dataclass(frozen=True, eq=False)
class Feedback:
    """A new table and its rules, with the data that they were made from."""

    before: Table
    table: Table
    rules: RuleSet
    old_rules: RuleSet | None
    checks: RowChecks
    confirmed: int
    withheld: int
    bounds: tuple[BeliefBound, ...]
    findings: tuple[Finding, ...]

    @property
    def rules_changed(self) -> bool:
        return self.old_rules is None or self.rules.to_json() != self.old_rules.to_json()

    @property
    def ratios(self) -> pd.DataFrame:
        """Appendix A.1 before and after: failure ratio and soft label of each rule that asked for checks."""
        belief = check_belief(self.rules, CheckRatio)
        if belief is None:
            return pd.DataFrame(columns=["rule", "checks", "failure_ratio", "soft_label"])
        after = _ratio_lines(_ratios(belief, self.table))
        before = _ratio_lines(_ratios(belief, self.before))
        joined = after.merge(before, on="rule", how="outer", suffixes=("", "_before"))
        return joined.sort_values("soft_label", ascending=False, ignore_index=True)

    @property
    def summary(self) -> dict[str, float]:
        """Figures before and after, by the old and the new rules."""
        old, new = self._labels_before(), self.soft_labels(self.table, self.rules)
        return {
            "checks": len(self.checks),
            "confirmed": self.confirmed,
            "withheld": self.withheld,
            "labelled_before": int(self.before.is_labeled.sum()),
            "labelled_after": int(self.table.is_labeled.sum()),
            "mean_before": old.mean,
            "mean_after": new.mean,
            "ceiling_before": _ceiling(old),
            "ceiling_after": _ceiling(new),
            "changed_rows": int((np.abs(old.value - new.value) > 1e-12).sum()),
        }

    def _labels_before(self) -> SoftLabels:
        """S before the feedback. The old table may lack the check columns that the rules read."""
        try:
            return self.soft_labels(self.before, self.old_rules)
        except RuleError:
            return self.soft_labels(self.before, None)

    @staticmethod
    def soft_labels(table: Table, rules: RuleSet | None) -> SoftLabels:
        """S of a table; without rules, from the labels alone."""
        if rules is None or not rules.active.rules:
            return SoftLabels.from_values(np.zeros(len(table)), table.is_labeled)
        return soft_labels_for(table, rules)


def feed_back(table: Table, rules: RuleSet | None, checks: RowChecks, plan: FeedbackPlan | None = None) -> Feedback:
    """Add outcomes to a table: labels of users who admitted, and the latest check and record of checked users.

    The columns are those that the rules of Appendix A read, or new ones with the role *ignore*, because models must not
    use them. If there is no such rule, one is added. Random checks count in the failure ratios of A.1; their positives
    are labelled only with `use_holdout`.

    >>> frame = pd.DataFrame({"user": list("abcdef"), "speed": [9, 8, 7, 1, 2, 3], "label": [1, 0, 0, 0, 0, 0]})
    >>> table = Table.from_frame(frame, roles={"user": "id", "label": "label"})
    >>> day = np.full(5, np.datetime64("NaT", "D"))
    >>> arm = np.array(["model", "model", "random", "random", "random"], dtype=object)
    >>> found = feed_back(table, None, RowChecks(np.arange(1, 6), arm, np.array([2, 1, 0, 0, 1]), day))
    >>> found.confirmed, found.table.is_labeled.tolist()
    (1, [True, True, False, False, False, False])
    >>> found.ratios[["rule", "failure_ratio", "soft_label"]].round(2).values.tolist()
    [['model', 0.5, 0.33], ['random', 0.33, 0.0]]
    """
    plan = plan or FeedbackPlan()
    checks = _until(checks, plan.until)
    if not len(checks):
        raise TableError("No outcome was recorded up to this day; choose a later day or record outcomes first.")
    places = HistoryColumns.of(rules)
    history = with_history(table, checks, places, use_holdout=plan.use_holdout)
    updated, confirmed, withheld = with_labels(history, checks, use_holdout=plan.use_holdout)
    proposed = _with_rule(rules or RuleSet(), updated, places)
    bounds = belief_bounds(proposed, table, checks.row, checks.outcome, checks.is_random)
    proposed = raised(proposed, bounds) if plan.raise_beliefs else proposed
    leaks = history_leaks(updated, checks.row, checks.day, history=places.names)
    return Feedback(table, updated, proposed, rules, checks, confirmed, withheld, bounds, leaks)


def _until(checks: RowChecks, until: str) -> RowChecks:
    if not until:
        return checks
    return checks.only(np.isnat(checks.day) | (checks.day <= np.datetime64(until, "D")))


def _with_rule(rules: RuleSet, table: Table, places: HistoryColumns) -> RuleSet:
    """The rules with one that reads checks: A.1 if there are random checks, else A.2."""
    if check_belief(rules, CheckRatio) or check_belief(rules, CheckRecord):
        return rules
    failed = (places.outcome_names[FAILED],)
    ratio = CheckRatio(rule_column=places.rule, outcome_column=places.outcome, random_rule=places.random, failed=failed)
    candidates: tuple[Any, ...] = (ratio, CheckRecord(checks_column=places.count, passes_column=places.passes))
    for belief in candidates:
        proposed = rules.add(Rule(_free(RULE_NAME, rules.names), belief, note="From the outcomes of checks."))
        try:
            proposed.fit(table)
        except SpuError:
            continue
        return proposed
    return rules


def _free(name: str, taken: tuple[str, ...]) -> str:
    return next(each for each in (name, *(f"{name} ({n})" for n in range(2, 1_000))) if each not in taken)


def _ratios(belief: CheckRatio, table: Table) -> CheckRatios | None:
    try:
        found = from_checks(belief, table)
    except SpuError:
        return None
    assert isinstance(found, CheckRatios)
    return found


def _ratio_lines(ratios: CheckRatios | None) -> pd.DataFrame:
    names = ("checks", "failure_ratio", "value", "value_low", "value_high")
    if ratios is None:
        return pd.DataFrame(columns=["rule", *names]).rename(columns=_S)
    return pd.DataFrame({"rule": list(ratios.names), **{name: getattr(ratios, name) for name in names}}).rename(
        columns=_S
    )


_S = {"value": "soft_label", "value_low": "soft_label_low", "value_high": "soft_label_high"}


def _ceiling(labels: SoftLabels) -> float:
    return float(auc_spu_ceiling(labels.value)) if 0.0 < labels.mean < 1.0 else float("nan")


FEW_CHECKS = 20


@dataclass(frozen=True, slots=True)
class BeliefBound:
    """Lower bound on the share of positives among the rows of a rule, from `checks` random checks of them."""

    rule: str
    id: str
    belief: float
    checks: int
    bound: float
    low: float

    @property
    def is_too_low(self) -> bool:
        """Whether the lower limit of the bound lies above the belief of the rule."""
        return self.checks >= FEW_CHECKS and self.low > self.belief

    @property
    def sentence(self) -> str:
        if self.checks < FEW_CHECKS:
            return (
                f"{self.rule!r} has a belief of {self.belief:.2f}; there are only {self.checks} random checks of its "
                "rows, too few for an estimate."
            )
        end = "so the belief is too low" if self.is_too_low else "which does not contradict the belief"
        return (
            f"{self.rule!r} has a belief of {self.belief:.2f}; {self.checks} random checks of its rows give a lower "
            f"bound of {self.bound:.2f} (confidence limit {self.low:.2f}), {end}."
        )


def belief_bounds(rules: RuleSet, table: Table, row: Any, outcome: Any, is_random: Any) -> tuple[BeliefBound, ...]:
    """The bound of each active rule with a fixed belief, from random checks only.

    >>> import pandas as pd
    >>> from spu_core.rules import Compare, Rule
    >>> table = Table.from_frame(pd.DataFrame({"speed": [9] * 40 + [1] * 60, "label": [1] + [0] * 99}))
    >>> rules = RuleSet((Rule("Fast", 0.1, Compare("speed", ">", 5)),))
    >>> outcome = np.array([1] * 30 + [0] * 10 + [1] * 6 + [0] * 54)
    >>> [bound] = belief_bounds(rules, table, np.arange(100), outcome, np.ones(100, dtype=bool))
    >>> bound.checks, round(bound.bound, 2), bound.is_too_low
    (40, 0.39, True)
    """
    fixed = [rule for rule in rules.active if isinstance(rule.belief, Constant)]
    row, outcome = np.asarray(row)[is_random], np.asarray(outcome)[is_random]
    if not fixed or not row.size:
        return ()
    try:
        fired = RuleSet(tuple(fixed)).fit(table).apply(table.frame).fired[row]
    except SpuError:
        return ()
    base = wilson_interval((outcome == FAILED).sum(), row.size)
    share = float((outcome == FAILED).mean())
    return tuple(_bound(rule, outcome[fired[:, place]], (share, float(base[1]))) for place, rule in enumerate(fixed))


def raised(rules: RuleSet, bounds: tuple[BeliefBound, ...]) -> RuleSet:
    """The rules with every belief that is too low raised to its lower bound."""
    for bound in bounds:
        if bound.is_too_low:
            note = f"Raised from {bound.belief:.2f} by {bound.checks} random checks."
            lifted = replace(rules[bound.id], belief=Constant(round(bound.bound, 3)), note=note)
            rules = rules.replace(bound.id, lifted)
    return rules


def _bound(rule: Any, outcome: np.ndarray, base: tuple[float, float]) -> BeliefBound:
    belief, checks = float(rule.belief.value), int(outcome.size)
    if not checks:
        return BeliefBound(rule.name, rule.id, belief, 0, 0.0, 0.0)
    hits = float((outcome != PASSED).mean())
    least = float(wilson_interval((outcome != PASSED).sum(), checks)[0])
    # MOVER: the lower limit of a difference, from the lower limit of one part and the upper limit of the other.
    low = hits - base[0] - math.hypot(hits - least, base[1] - base[0])
    return BeliefBound(rule.name, rule.id, belief, checks, max(hits - base[0], 0.0), max(low, 0.0))
