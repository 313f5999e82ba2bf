"""Beliefs from security checks: the two methods of Appendix A as beliefs of a rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from spu_core.checks import check_number
from spu_core.errors import RuleError
from spu_core.rules.beliefs import Belief
from spu_core.rules.columns import Columns, Kind, level_text
from spu_core.rules.frozen import FrozenBelief, FrozenRatios, FrozenRecords
from spu_core.rules.values import one_line
from spu_core.theory.check_prior import CheckPrior, fit_check_prior
from spu_core.theory.check_ratio import CheckRatios, check_ratios_of_counts


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRatio(Belief):
    """Appendix A.1: what a failed check says, from how often the checks of each rule fail.

    One column names the rule that asked for the check, one its outcome. Failed and skipped checks get the ratio of
    their rule; passed ones, and rules never seen at fitting, are silent. So are admitted ones, which only count as
    checks: they are confirmed positives, get S = 1 from the label, and the rule score must not know labels.
    """

    kind: ClassVar[str] = "check_ratio"
    rule_column: str
    outcome_column: str
    random_rule: str
    failed: tuple[str, ...] = ("fail", "skip")
    admitted: tuple[str, ...] = ("admit",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "failed", _texts(self.failed, "failed"))
        object.__setattr__(self, "admitted", _texts(self.admitted, "admitted"))
        both = set(self.failed) & set(self.admitted)
        if not self.failed or both:
            raise RuleError(f"A check ends in one way; failed is {self.failed}, admitted is {self.admitted}.")

    @property
    def needs(self) -> Mapping[str, Kind | None]:
        return {self.rule_column: None, self.outcome_column: None}

    @property
    def words(self) -> str:
        against = one_line(self.random_rule)
        return f"check ratio of {one_line(self.rule_column)} against {against!r} where the check failed"

    def ratios(self, columns: Columns) -> CheckRatios:
        """How often the checks of each rule fail, and the soft label that this gives, each with its interval."""
        checks, failures, admissions = self.counts(columns)
        if not checks:
            raise self.no_checks()
        return check_ratios_of_counts(checks, failures, admissions, self.random_rule)

    def counts(self, columns: Columns) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """Checks, failures and admissions of each rule that asked for checks; those of parts add up."""
        rule, outcome = columns.coded(self.rule_column), columns.coded(self.outcome_column)
        checked = (rule.codes >= 0) & (outcome.codes >= 0)
        outcomes = [level_text(level) for level in outcome.levels]
        names = [level_text(level) for level in rule.levels]
        flags = (
            checked,
            checked & outcome.where(np.isin(outcomes, self.failed)),
            checked & outcome.where(np.isin(outcomes, self.admitted)),
        )
        checks, failures, admissions = (_count_by_name(names, rule.codes[rows]) for rows in flags)
        return checks, failures, admissions

    def no_checks(self) -> RuleError:
        return RuleError(
            f"No row has both {self.rule_column!r} and {self.outcome_column!r}, so no check can be counted."
        )

    def freeze(self, columns: Columns) -> FrozenBelief:
        return self.frozen(self.ratios(columns))

    def frozen(self, ratios: CheckRatios) -> FrozenBelief:
        """The belief with these ratios written down."""
        values = dict(zip(ratios.names, ratios.value.tolist(), strict=True))
        return FrozenRatios(self.rule_column, self.outcome_column, self.failed, values)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRecord(Belief):
    """Appendix A.2: 1 − E[θ | k passes of n checks] for rows that failed or skipped a check; others are silent."""

    kind: ClassVar[str] = "check_record"
    checks_column: str
    passes_column: str
    penalty: float | None = None

    def __post_init__(self) -> None:
        if self.penalty is not None and check_number(self.penalty, "penalty", RuleError) < 0:
            raise RuleError(f"penalty must not be negative, got {self.penalty:g}.")

    @property
    def needs(self) -> Mapping[str, Kind | None]:
        return {self.checks_column: Kind.NUMBER, self.passes_column: Kind.NUMBER}

    @property
    def words(self) -> str:
        return f"check record of {one_line(self.passes_column)} out of {one_line(self.checks_column)}"

    def prior(self, columns: Columns) -> CheckPrior:
        """How the chance to pass a check is spread over the rows."""
        unfitted = FrozenRecords(self.checks_column, self.passes_column, (), ())
        checks, passes, _ = unfitted.records(columns)
        return fit_check_prior(checks, passes, penalty=self.penalty)

    def freeze(self, columns: Columns) -> FrozenBelief:
        return self.frozen(self.prior(columns))

    def frozen(self, prior: CheckPrior) -> FrozenBelief:
        """The belief with this prior written down."""
        return FrozenRecords(
            self.checks_column, self.passes_column, tuple(prior.grid.tolist()), tuple(prior.density.tolist())
        )


def _count_by_name(names: list[str], codes: np.ndarray) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, count in zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True):
        if count:
            found[name] = found.get(name, 0) + count
    return found


def _texts(values: Any, name: str) -> tuple[str, ...]:
    entries = (values,) if isinstance(values, str) else tuple(values)
    if not all(isinstance(entry, str) for entry in entries):
        raise RuleError(f"{name} of a check ratio must list outcomes as texts, got {values!r}.")
    return entries
