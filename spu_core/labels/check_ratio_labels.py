"""Appendix A.1: soft labels of users from the outcomes of the checks that each rule asked for.

A user who failed or skipped a check that rule R asked for gets 1 − (failure ratio under the random rule) / (failure
ratio under R). An admitted user gets 1; all others get the floor. Then P(Y = 1 | S = s) ≥ s, if negatives fail the
checks of all rules equally often and positives fail at least as often as negatives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_choice, check_share
from spu_core.errors import SoftLabelError, TableError
from spu_core.labels.check_log import ADMITTED, FAILED, CheckLog
from spu_core.labels.soft_labels import SoftLabels, assign_soft_labels
from spu_core.rules import RuleMatrix
from spu_core.rules.combine import combiner_of
from spu_core.tables import Finding, Severity
from spu_core.theory.check_ratio import CheckRatios, fit_check_ratios

REPEATS: dict[str, Callable[[CheckLog], CheckLog]] = {"every": lambda log: log, "first": CheckLog.firsts}


@dataclass(frozen=True, eq=False)
class CheckRatioLabels:
    """Soft labels, one per entry of `users`, with the failure ratios and findings."""

    users: np.ndarray
    labels: SoftLabels
    ratios: CheckRatios
    findings: tuple[Finding, ...]

    @property
    def rules(self) -> pd.DataFrame:
        """One row per rule: counts, failure ratio and soft label, with confidence intervals."""
        names = ("checks", "failures", "admissions", "failure_ratio", "failure_low", "failure_high")
        columns = {name: getattr(self.ratios, name) for name in names}
        soft = {f"soft_label{end}": getattr(self.ratios, f"value{end}") for end in ("", "_low", "_high")}
        return pd.DataFrame({"rule": list(self.ratios.names), **columns, **soft})

    @property
    def reading(self) -> str:
        """What the soft labels mean, in sentences. If users were checked repeatedly, the bound is for failed checks."""
        ratio, best = self.ratios, int(np.argmax(self.ratios.value))
        is_repeated = any(finding.code == "repeated_checks" for finding in self.findings)
        who = "the failed checks whose rule has S = s come from positives, P(Y=1|F,R) ≥ s"
        who = who if is_repeated else "the users with S = s are positive, P(Y=1|S=s) ≥ s"
        return (
            f"{ratio.random_ratio:.1%} of the random checks fail. S is a lower bound: at least a share s of {who}, if "
            "innocent users fail the checks of every rule equally often, and positives at least as often. The "
            f"strongest rule is {ratio.names[best]!r}: {ratio.failure_ratio[best]:.1%} of its checks fail, so S = "
            f"{ratio.value[best]:.2f} ({ratio.level:.0%} confidence interval {ratio.value_low[best]:.2f} to "
            f"{ratio.value_high[best]:.2f})."
        )


def check_ratio_labels(
    checks: Any,
    *,
    random_rule: str,
    combine: str = "strongest",
    users: Any = None,
    prior: float | None = None,
    repeats: str = "every",
    floor: float = 0.0,
) -> CheckRatioLabels:
    """Soft labels from a log of checks (Appendix A.1).

    A user who failed or skipped a check that rule R asked for gets 1 − (failure ratio under the random rule) / (failure
    ratio under R).

    Parameters
    ----------
    checks : DataFrame or mapping of arrays
        One row per check, with `user`, `rule`, `outcome` and, if known, `day`. Outcomes are pass, fail, skip (counted
        as fail) and admit.
    random_rule : str
        Name of the rule that asks at random.
    combine : str, default "strongest"
        Combiner for users who failed checks of several rules.
    users : array-like, optional
        Users to label, in this order. Default: all users of the log. Users who were never checked get the floor.
    prior : float, optional
        Class prior. If given, a soft label below it becomes a finding.
    repeats : {"every", "first"}, default "every"
        `"first"` counts only the first check of a user under a rule, which keeps the lower bound P(Y=1 | S=s) ≥ s.
        `"every"` labels each user who ever failed.
    floor : float, default 0
        Soft label of users without a failed check.

    Returns
    -------
    CheckRatioLabels
        `.users`, `.labels` (SoftLabels), `.ratios` and `.findings`.

    Raises
    ------
    SoftLabelError, TableError
        If an argument or the log is not valid.

    Examples
    --------
    >>> checks = {
    ...     "user": ["a", "b", "c", "d", "e", "f"],
    ...     "rule": ["random", "random", "random", "aim", "aim", "aim"],
    ...     "outcome": ["pass", "pass", "skip", "fail", "fail", "admit"],
    ... }
    >>> result = check_ratio_labels(checks, random_rule="random", users=["d", "f", "a", "z"])
    >>> result.labels.value.tolist()
    [0.5, 1.0, 0.0, 0.0]
    """
    count = REPEATS[check_choice(repeats, REPEATS, "repeats", SoftLabelError)]
    if prior is not None:
        prior = check_share(prior, "prior")
    log = CheckLog.read(checks)
    counted = count(log)
    failed, admitted = counted.outcome == FAILED, counted.outcome == ADMITTED
    ratios = fit_check_ratios(counted.rule, failed, admitted, random_rule)
    wanted = log.users if users is None else np.asarray(users)
    position = _positions(log.users, wanted)
    labels = assign_soft_labels(
        _failures(counted, ratios, position), _admitted(log, position), combine=combine, floor=floor
    )
    findings = ratio_findings(ratios, counted, combine=combine, prior=prior)
    return CheckRatioLabels(wanted, labels, ratios, findings + _unlisted_users(log, position))


def _positions(known: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The position of each wanted user in the log; −1 for users who were never checked."""
    if wanted.ndim != 1 or wanted.size == 0:
        raise TableError("users must list at least one user, in one dimension.")
    missing = np.flatnonzero(pd.isna(wanted))
    if missing.size:
        raise TableError(f"users is missing in row {missing[0]}; every user to label needs a name.")
    return pd.Index(known).get_indexer(pd.Index(wanted))


def _failures(log: CheckLog, ratios: CheckRatios, position: np.ndarray) -> RuleMatrix:
    """Users × rules: fired where the user failed or skipped a check of that rule."""
    codes, names = pd.factorize(log.rule)
    rule = np.array([ratios.names.index(str(name)) for name in names])[codes]
    failed = np.zeros((log.users.size + 1, len(ratios.names)), dtype=bool)
    rows = log.outcome == FAILED
    failed[log.user[rows], rule[rows]] = True
    # Position −1 (never checked) selects the extra last row, where no rule fired.
    fired = failed[position]
    return RuleMatrix.from_arrays(ratios.names, fired * ratios.value, fired)


def _admitted(log: CheckLog, position: np.ndarray) -> np.ndarray:
    admitted = np.zeros(log.users.size + 1, dtype=bool)
    admitted[log.user[log.outcome == ADMITTED]] = True
    return admitted[position]


def _unlisted_users(log: CheckLog, position: np.ndarray) -> tuple[Finding, ...]:
    """A finding about users of the log who are not to be labelled. If none is, the names do not match."""
    known = np.unique(position[position >= 0]).size
    if known == log.users.size:
        return ()
    severity = "warning" if known == 0 else "info"
    message = f"{log.users.size - known:,} of {log.users.size:,} checked users are not among the users to label."
    advice = "Their checks still count in the failure ratios." if known else "Compare the user names in both tables."
    return (Finding("unlisted_users", severity, message, advice),)  # type: ignore[arg-type]


# With fewer failed random checks the relative error of the base ratio is above about one third.
FEWEST_RANDOM_FAILURES = 10


def ratio_findings(ratios: CheckRatios, log: CheckLog, *, combine: str, prior: float | None) -> tuple[Finding, ...]:
    """All findings about the ratios, the log and the combiner."""
    return (
        *_weak_rules(ratios),
        *_few_random_failures(ratios),
        *([] if prior is None else _below_prior(ratios, prior)),
        *_repeats(log),
        *_duplicates(log),
        *_combiner(combine),
    )


def _weak_rules(ratios: CheckRatios) -> list[Finding]:
    return [
        Finding(
            "weaker_than_random",
            Severity.WARNING,
            f"{ratios.failure_ratio[ratios.names.index(name)]:.1%} of the checks of rule {name!r} fail, fewer than of "
            f"random checks ({ratios.random_ratio:.1%}), so its soft label is 0.",
            "Switch the rule off, or find out whether it selects users who can pass by technical means.",
        )
        for name in ratios.weaker_than_random
    ]


def _few_random_failures(ratios: CheckRatios) -> list[Finding]:
    base = ratios.names.index(ratios.random_rule)
    failures, checks = int(ratios.failures[base]), int(ratios.checks[base])
    if failures >= FEWEST_RANDOM_FAILURES:
        return []
    return [
        Finding(
            "few_random_failures",
            Severity.WARNING,
            f"Only {failures} of {checks:,} random checks failed. The {ratios.level:.0%} confidence interval of the "
            f"failure ratio is {ratios.failure_low[base]:.1%} to {ratios.failure_high[base]:.1%}.",
            "Use the confidence intervals of the soft labels, and check more users at random.",
        )
    ]


def _below_prior(ratios: CheckRatios, prior: float) -> list[Finding]:
    return [
        Finding(
            "not_above_prior",
            Severity.WARNING,
            f"Rule {name!r} gives S = {value:.3f}, which is not above the class prior {prior:.3f}; Assumption 1 "
            "(E[S|Y=1] > E[S|Y=0]) follows only if every non-zero S is above it.",
            "Switch the rule off, or keep it and verify Assumption 1 on audited users.",
        )
        for name, value in zip(ratios.names, ratios.value.tolist(), strict=True)
        if 0.0 < value <= prior
    ]


def _repeats(log: CheckLog) -> list[Finding]:
    failed = np.unique(log.user[log.outcome == FAILED])
    often = np.unique(log.user[log.is_repeated])
    both = np.intersect1d(failed, often, assume_unique=True).size
    if not both:
        return []
    share = both / failed.size
    return [
        Finding(
            "repeated_checks",
            Severity.WARNING if share > 0.1 else Severity.INFO,
            f"{share:.0%} of the users who failed were checked more than once under one rule. The more often "
            "innocent users are checked, the more likely they fail once. So P(Y=1|S=s) ≥ s holds for a failed check, "
            "but not for a user who failed one of many checks.",
            "Use repeats='first', or check_record_labels, which uses all checks of a user.",
        )
    ]


def _duplicates(log: CheckLog) -> list[Finding]:
    if not log.duplicates:
        return []
    return [
        Finding(
            "duplicate_checks",
            Severity.WARNING,
            f"{log.duplicates:,} rows repeat the user, rule and day of another row.",
            "Remove them, unless users are checked several times a day.",
        )
    ]


def _combiner(combine: str) -> list[Finding]:
    if combiner_of(combine).keeps_bound:
        return []
    return [
        Finding(
            "bound_not_kept",
            Severity.WARNING,
            f"Beliefs are combined by {combine!r}, for which P(Y=1|S=s) ≥ s need not hold.",
            "Use combine='strongest', unless S is used only for ranking.",
        )
    ]
