"""What an analyst should know before trusting soft labels from check ratios."""

from __future__ import annotations

import numpy as np

from spu_core.labels.check_log import FAILED, CheckLog
from spu_core.rules.combine import combiner_of
from spu_core.tables import Finding, Severity
from spu_core.theory.check_ratio import CheckRatios

# With fewer failed random checks the base ratio is known to no better than about a third of itself.
FEWEST_RANDOM_FAILURES = 10


def ratio_findings(ratios: CheckRatios, log: CheckLog, *, combine: str, prior: float | None) -> tuple[Finding, ...]:
    """All findings about the ratios, the log and the way beliefs are combined."""
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
            f"Checks of rule {name!r} fail in {ratios.failure_ratio[ratios.names.index(name)]:.1%}, less often than "
            f"random ones ({ratios.random_ratio:.1%}), so its soft label is 0.",
            "Switch the rule off, or find out whether it picks users who pass by technical means.",
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
            f"Only {failures} of {checks:,} random checks failed; the true ratio may lie anywhere between "
            f"{ratios.failure_low[base]:.1%} and {ratios.failure_high[base]:.1%}.",
            "Read the intervals of the soft labels, not their values, and check more users at random.",
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
            f"{share:.0%} of the users who failed were checked more than once under one rule. The more often innocent "
            "users are checked, the likelier one failure becomes, so P(Y=1|S=s) ≥ s holds for a failed check but not "
            "for a user who failed once in many.",
            "Use repeats='first', or check_record_labels, which weighs all checks of a user.",
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
            f"Beliefs are combined by {combine!r}, for which P(Y=1|S=s) ≥ s is not promised.",
            "Use combine='strongest', unless S is only used to rank.",
        )
    ]
