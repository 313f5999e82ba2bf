"""Appendix A.1: the soft label of a user who failed a check, from the share of failed checks of each rule.

One row is one check: a rule asked a user to verify. A check has one of three outcomes: *admitted* (the user admits, or
is recognised as positive), *failed* (the user fails **or skips** the check; the paper's event F), or *passed*. The
failure ratio of a rule is the number of failed checks divided by the number of all its checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spu_core.checks import check_flags, check_share
from spu_core.errors import AssumptionError, nearest_hint
from spu_core.metrics.intervals import z_quantile


@dataclass(frozen=True, slots=True, eq=False)
class CheckRatios:
    """One entry per rule, in order of name: counts, failure ratio and soft label, with confidence intervals.

    `failure_low` and `failure_high` are Wilson limits. `value_low` and `value_high` are limits of the soft label, from
    the ratio of two independent proportions (MOVER-R of Donner and Zou on the Wilson limits). Unlike the delta method
    on the log ratio, they are valid if no check failed. Checks are treated as independent.
    """

    names: tuple[str, ...]
    random_rule: str
    checks: np.ndarray
    failures: np.ndarray
    admissions: np.ndarray
    failure_ratio: np.ndarray
    failure_low: np.ndarray
    failure_high: np.ndarray
    value: np.ndarray
    value_low: np.ndarray
    value_high: np.ndarray
    level: float

    @property
    def random_ratio(self) -> float:
        """Failure ratio under the random rule."""
        return float(self.failure_ratio[self.names.index(self.random_rule)])

    @property
    def weaker_than_random(self) -> tuple[str, ...]:
        """Rules whose checks fail less often than random ones; their soft label is 0."""
        below = self.failure_ratio < self.random_ratio
        return tuple(name for name, is_below in zip(self.names, below, strict=True) if is_below)


def fit_check_ratios(rule_name: Any, failed: Any, admitted: Any, random_rule: str) -> CheckRatios:
    """Soft label 1 − (failure ratio under the random rule) / (failure ratio under R), clipped to [0, 1], for each R.

    The arrays hold one row per check; `failed` means failed or skipped. If negatives fail the checks of every rule
    equally often, and positives fail at least as often as negatives, then P(Y = 1 | failed, R) ≥ the soft label of R.

    >>> rule = ["random"] * 10 + ["aim"] * 10
    >>> failed = [1, 1] + [0] * 8 + [1] * 8 + [0] * 2
    >>> admitted = [0] * 19 + [1]
    >>> ratios = fit_check_ratios(rule, failed, admitted, "random")
    >>> ratios.names, ratios.failure_ratio.tolist(), ratios.value.tolist()
    (('aim', 'random'), [0.8, 0.2], [0.75, 0.0])
    """
    random_rule = str(random_rule)
    codes, names = _coded_rules(rule_name)
    failed, admitted = _outcomes(failed, admitted, codes.size)
    checks, failures, admissions = (
        np.bincount(codes[rows], minlength=len(names)) for rows in (np.ones_like(failed), failed, admitted)
    )
    return _ratios(names, (checks, failures, admissions), random_rule, 0.95)


def check_ratios_of_counts(
    checks: Mapping[str, int],
    failures: Mapping[str, int],
    admissions: Mapping[str, int],
    random_rule: str,
    *,
    level: float = 0.95,
) -> CheckRatios:
    """`fit_check_ratios` from counts by rule name, which can be collected in one pass over the checks.

    >>> check_ratios_of_counts({"random": 10, "aim": 10}, {"random": 2, "aim": 8}, {}, "random").value.tolist()
    [0.75, 0.0]
    """
    check_share(level, "level")
    names = sorted(name for name, count in checks.items() if count)
    counts = tuple(np.array([part.get(name, 0) for name in names]) for part in (checks, failures, admissions))
    return _ratios(names, counts, str(random_rule), level)


def _ratios(names: list[str], counts: tuple[np.ndarray, ...], random_rule: str, level: float) -> CheckRatios:
    if random_rule not in names:
        raise AssumptionError(
            f"There is no check of the random rule {random_rule!r}, which is needed as a baseline. "
            f"{nearest_hint(random_rule, names)}"
        )
    checks, failures, admissions = counts
    ratio = failures / checks
    low, high = wilson_interval(failures, checks, level)
    base = names.index(random_rule)
    value = _soft_label(np.full_like(ratio, ratio[base]), ratio)
    value_low, value_high = _soft_label_interval((ratio, low, high), base)
    return CheckRatios(
        tuple(names),
        random_rule,
        checks,
        failures,
        admissions,
        ratio,
        low,
        high,
        value,
        value_low,
        value_high,
        level,
    )


def wilson_interval(successes: Any, trials: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Wilson score limits of a proportion; they lie in [0, 1] and are valid for zero successes.

    >>> low, high = wilson_interval([0, 5], [10, 10])
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.237], [0.278, 0.763])
    """
    z = z_quantile(level)
    trials = np.asarray(trials, dtype=np.float64)
    share = np.asarray(successes) / trials
    middle = (share + z**2 / (2 * trials)) / (1 + z**2 / trials)
    half = z * np.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2) / (1 + z**2 / trials)
    # With a share of 0 or 1, rounding must not move a limit past the estimate.
    return np.minimum(np.maximum(middle - half, 0.0), share), np.maximum(np.minimum(middle + half, 1.0), share)


def _soft_label(base: np.ndarray, ratio: np.ndarray) -> np.ndarray:
    """1 − base / ratio in [0, 1]; 0 for a rule without failed checks."""
    quotient = np.divide(base, ratio, out=np.ones_like(ratio), where=ratio > 0)
    return np.clip(1.0 - quotient, 0.0, 1.0)


def _soft_label_interval(limits: tuple[np.ndarray, np.ndarray, np.ndarray], base: int) -> tuple[np.ndarray, np.ndarray]:
    """Limits of the soft label, from the MOVER-R limits of base / ratio."""
    ratio, low, high = limits
    p0, low0, high0 = ratio[base], low[base], high[base]
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = _mover_root(p0 * ratio, high0 * (2 * p0 - high0), low * (2 * ratio - low), 1.0)
        smallest = _mover_root(p0 * ratio, low0 * (2 * p0 - low0), high * (2 * ratio - high), -1.0)
    # If the lower limit of the denominator is 0, the quotient has no upper limit.
    largest = np.where(low > 0, largest, np.inf)
    value_low = np.clip(1.0 - largest, 0.0, 1.0)
    value_high = np.clip(1.0 - np.nan_to_num(smallest), 0.0, 1.0)
    # The soft label of the random rule is 0 by definition.
    value_low[base] = value_high[base] = 0.0
    return value_low, value_high


def _mover_root(product: np.ndarray, top: np.ndarray, bottom: np.ndarray, sign: float) -> np.ndarray:
    root = np.sqrt(np.maximum(product**2 - top * bottom, 0.0))
    return (product + sign * root) / bottom


def _coded_rules(rule_name: Any) -> tuple[np.ndarray, list[str]]:
    import pandas as pd

    rules = np.asarray(rule_name, dtype=object)
    if rules.ndim != 1 or rules.size == 0:
        raise AssumptionError("rule_name must be one row per check, and at least one check is needed.")
    codes, unique = pd.factorize(rules)
    if codes.min() < 0:
        raise AssumptionError(
            f"rule_name is missing in row {int(np.argmin(codes))}; every check needs the rule that asked for it."
        )
    texts = [str(name) for name in unique]
    names = sorted(set(texts))
    return np.array([names.index(text) for text in texts])[codes], names


def _outcomes(failed: Any, admitted: Any, length: int) -> tuple[np.ndarray, np.ndarray]:
    failed, admitted = check_flags(failed, None, "failed"), check_flags(admitted, None, "admitted")
    for name, flags in (("failed", failed), ("admitted", admitted)):
        if flags.size != length:
            raise AssumptionError(
                f"{name} has {flags.size} rows, but rule_name has {length}; both need one row per check."
            )
    both = np.flatnonzero(failed & admitted)
    if both.size:
        raise AssumptionError(
            f"Row {both[0]} is both failed and admitted; a check has exactly one outcome (an admission is no failure)."
        )
    return failed, admitted
