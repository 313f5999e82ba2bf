"""Feedback of outcomes into the data: confirmed cases, records of checks, and the rules that read them.

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
from spu_core.labels.check_log import ADMITTED, FAILED, PASSED
from spu_core.metrics import auc_spu_ceiling
from spu_core.rules import CheckRatio, CheckRecord, Constant, Rule, RuleSet, from_checks
from spu_core.tables import ColumnType, Finding, Role, Severity, Table
from spu_core.theory.check_ratio import CheckRatios, wilson_interval
from spu_core.trust.outcomes.ratios import RANDOM

LAST_RULE, LAST_OUTCOME, COUNT, PASSES, CONFIRMED = (
    "last_check_rule", "last_check_outcome", "checks", "checks_passed", "confirmed",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class RowChecks:
    """Finished checks of rows of one table, in chronological order; `day` is NaT if it is unknown."""

    row: np.ndarray
    arm: np.ndarray
    outcome: np.ndarray
    day: np.ndarray

    def __len__(self) -> int:
        return self.row.size

    def only(self, keep: Any) -> RowChecks:
        return RowChecks(self.row[keep], self.arm[keep], self.outcome[keep], self.day[keep])

    @property
    def is_random(self) -> np.ndarray:
        return self.arm == RANDOM


def check_belief(rules: RuleSet, kind: type) -> Any:
    """The belief of this type: that of an active rule if there is one, else that of any rule, else None."""
    held = [rule for rule in rules if isinstance(rule.belief, kind)]
    chosen = next((rule for rule in held if rule.on), held[0] if held else None)
    return None if chosen is None else chosen.belief


@dataclass(frozen=True, slots=True)
class HistoryColumns:
    """Names of the columns that hold the history of checks, and of the outcomes in them."""

    rule: str
    outcome: str
    count: str
    passes: str
    outcome_names: dict[int, str]
    random: str

    @classmethod
    def of(cls, rules: RuleSet | None) -> HistoryColumns:
        ratio = check_belief(rules or RuleSet(), CheckRatio)
        record = check_belief(rules or RuleSet(), CheckRecord)
        admitted = ratio.admitted[0] if ratio and ratio.admitted else "admit"
        return cls(
            ratio.rule_column if ratio else LAST_RULE,
            ratio.outcome_column if ratio else LAST_OUTCOME,
            record.checks_column if record else COUNT,
            record.passes_column if record else PASSES,
            {PASSED: "pass", FAILED: ratio.failed[0] if ratio else "fail", ADMITTED: admitted},
            ratio.random_rule if ratio else RANDOM,
        )

    @property
    def names(self) -> tuple[str, ...]:
        return self.rule, self.outcome, self.count, self.passes


def with_history(table: Table, checks: RowChecks, places: HistoryColumns, *, use_holdout: bool) -> Table:
    """Add the latest check of every row, and the record of checks and passes of rows outside the holdout."""
    names = np.where(checks.is_random, places.random, checks.arm)
    outcomes = np.array([places.outcome_names[code] for code in checks.outcome.tolist()], dtype=object)
    counted = checks.only((checks.outcome != ADMITTED) & (use_holdout | ~checks.is_random))
    passed = counted.only(counted.outcome == PASSED)
    columns = {
        places.rule: _latest(table, places.rule, checks.row, names),
        places.outcome: _latest(table, places.outcome, checks.row, outcomes),
        places.count: _added(table, places.count, counted.row),
        places.passes: _added(table, places.passes, passed.row),
    }
    return with_columns(table, columns, Role.IGNORE)


def with_labels(table: Table, checks: RowChecks, *, use_holdout: bool) -> tuple[Table, int, int]:
    """The table with labels for rows that admitted, the number of new labels, and the number left out (holdout)."""
    admitted = checks.only(checks.outcome == ADMITTED)
    rows = np.unique(admitted.row if use_holdout else admitted.row[~admitted.is_random])
    fresh = rows[~table.is_labeled[rows]]
    withheld = 0 if use_holdout else int(np.unique(admitted.row[admitted.is_random]).size)
    if not fresh.size:
        return table, 0, withheld
    column = table.column_with(Role.LABEL)
    if column is None:
        flags = pd.Series(np.isin(np.arange(len(table)), fresh).astype(np.int64))
        return with_columns(table, {CONFIRMED: flags}, Role.LABEL), int(fresh.size), withheld
    values = table.frame[column].copy()
    values.iloc[fresh] = table.positive_values[0]
    labelled = table.with_frame(table.frame.assign(**{column: values}))
    return labelled, int(fresh.size), withheld


def with_columns(table: Table, columns: dict[str, pd.Series], role: Role) -> Table:
    """The table with columns added in this role; existing columns are replaced and keep their role."""
    frame = table.frame.assign(**columns)
    kinds = {
        name: ColumnType.CATEGORY if values.dtype == "str" else ColumnType.NUMBER for name, values in columns.items()
    }
    roles = {**dict.fromkeys(columns, role), **table.roles}
    return table.with_frame(frame, roles=roles, types={**kinds, **table.types})


def _latest(table: Table, column: str, rows: np.ndarray, values: np.ndarray) -> pd.Series:
    old = table.frame[column].astype(object) if column in table.frame else pd.Series(None, range(len(table)), object)
    changed = old.where(old.notna(), None).to_numpy(dtype=object, copy=True)
    # Checks are in chronological order, so the latest one overwrites the others.
    changed[rows] = values
    return pd.Series(changed, dtype="str")


def _added(table: Table, column: str, rows: np.ndarray) -> pd.Series:
    more = np.bincount(rows, minlength=len(table))
    old = table.frame[column].fillna(0).to_numpy(dtype=np.int64) if column in table.frame else np.zeros(len(table), int)
    return pd.Series(old + more)


NO_DATES = Finding(
    "no_dates",
    Severity.INFO,
    "The rows have no date, so it is unknown whether a check was before or after the features of its row.",
    "Give the role time to the column with the date of the features.",
)


def history_leaks(
    table: Table, row: Any, day: Any, *, history: tuple[str, ...] = (), days_after: int = 0
) -> tuple[Finding, ...]:
    """Findings about leaks from the future: `row` is the row of each check, `day` the day of the check.

    `history` names the columns that summarise checks (number, outcomes). Such a column is a leak if it is a feature and
    a check is later than the features of its row, because it is not yet known at scoring time. Features from more than
    `days_after` days after a check may show an effect of the check: the user was warned or banned.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"day": pd.to_datetime(["2026-03-01"] * 3), "checks": [1, 0, 2], "label": [0, 1, 0]})
    >>> table = Table.from_frame(frame, roles={"day": "time", "checks": "feature", "label": "label"})
    >>> found = history_leaks(table, [0, 2], ["2026-03-05", "2026-02-20"], history=("checks",))
    >>> [(each.code, each.severity.value) for each in found]
    [('history_after_features', 'error'), ('features_after_check', 'warning')]
    """
    times = table.times
    if times is None:
        return (NO_DATES,)
    if not np.issubdtype(times.dtype, np.datetime64):
        return (_not_dates(table),)
    row, day = np.asarray(row, dtype=np.int64), np.asarray(day).astype("datetime64[D]")
    if row.shape != day.shape:
        raise TableError(f"row has {row.size} entries, but day has {day.size}; each check needs both.")
    features = times.astype("datetime64[D]")[row]
    known = ~np.isnat(day) & ~np.isnat(features)
    after = row[known & (day > features)]
    before = row[known & (features > day + np.timedelta64(days_after, "D"))]
    found = []
    if after.size:
        found.append(_history(table, after, int(known.sum()), history))
    if before.size:
        found.append(_aftermath(before, int(known.sum()), days_after))
    return tuple(found)


def _history(table: Table, rows: np.ndarray, total: int, history: tuple[str, ...]) -> Finding:
    seen = [name for name in history if table.roles.get(name) is Role.FEATURE]
    count = f"{rows.size:,} of {total:,} checks happened after the date of the features of their row"
    lines = tuple(int(row) + 1 for row in np.unique(rows)[:5])
    if not seen:
        text = f"{count}. No column that summarises checks is a feature, so they are used as outcomes only."
        return Finding("history_after_features", Severity.INFO, text, "Do not use such columns as features.")
    names = ", ".join(map(repr, seen))
    text = f"{count}, but models use {names} as a feature. It is not yet known at scoring time."
    advice = f"Give {names} the role ignore; rules may still read it."
    return Finding("history_after_features", Severity.ERROR, text, advice, seen[0], lines)


def _aftermath(rows: np.ndarray, total: int, days_after: int) -> Finding:
    later = f"more than {days_after} days after" if days_after else "after"
    text = (
        f"The features of {rows.size:,} of {total:,} checked rows are from {later} their check, so they may show an "
        "effect of the check: a warned or banned user behaves differently."
    )
    advice = "Use the features from before the check."
    return Finding(
        "features_after_check", Severity.WARNING, text, advice, None, tuple(int(r) + 1 for r in np.unique(rows)[:5])
    )


def _not_dates(table: Table) -> Finding:
    column = table.column_with(Role.TIME)
    text = f"The time column {column!r} holds numbers, which cannot be compared with the days of checks."
    return Finding("no_dates", Severity.INFO, text, "Convert the time of the rows to dates.", column)


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
