"""Confidence intervals and paired tests for AUC_SPU, its ceiling, the gap between them and the share reached.

They treat the soft labels as given and the rows (or groups of rows) as independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from spu_core.checks import check_score, check_share
from spu_core.errors import ScoreError, SoftLabelError
from spu_core.metrics.auc import check_rows, labels_as_mass
from spu_core.metrics.influence import check_optional_groups, influence_of, standard_error
from spu_core.metrics.ranking import Masses

# Below this many expected positives (or negatives) the nominal 95 % interval covered only 92 % in simulation.
ENOUGH_MASS = 40.0
ENOUGH_GROUPS = 20


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its confidence interval; `warning` says when the interval is too narrow to be trusted."""

    estimate: float
    low: float
    high: float
    standard_error: float
    level: float = 0.95
    warning: str | None = None

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Difference(Interval):
    """AUC_SPU of the first score minus that of the second on the same rows, with a two-sided p-value."""

    p_value: float = float("nan")

    @property
    def can_be_told_apart(self) -> bool:
        return self.p_value < 1.0 - self.level


def p_value_words(value: float | None) -> str:
    """How a p-value is written in a journal.

    >>> p_value_words(0.0001), p_value_words(0.0234), p_value_words(0.4)
    ('p < 0.001', 'p = 0.023', 'p = 0.40')
    """
    if value is None or np.isnan(value):
        return "no p-value"
    if value < 0.001:
        return "p < 0.001"
    return f"p = {value:.3f}" if value < 0.1 else f"p = {value:.2f}"


def auc_spu_interval(
    soft_label: Any, score: Any, *, level: float = 0.95, sample_weight: Any = None, groups: Any = None
) -> Interval:
    """AUC_SPU with a confidence interval on the logit scale; rows of one group are taken as dependent.

    >>> interval = auc_spu_interval([1, 0.7, 0.4, 0, 0.1, 0], [5, 4, 1, 2, 3, 0])
    >>> interval.low < interval.estimate < interval.high
    True
    >>> interval.warning
    'Only 2.2 expected positives (ΣS); below 40 such intervals tend to be too narrow.'
    """
    rows = _Rows.check(soft_label, score, level, sample_weight, groups)
    influence = influence_of(rows.masses, rows.score)
    error = standard_error(influence.value, rows.groups)
    low, high = logit_bounds(influence.auc, error, rows.level, rows.effective_masses())
    return Interval(influence.auc, low, high, error, rows.level, rows.warning)


def known_positive_auc_interval(
    is_labeled: Any, score: Any, *, level: float = 0.95, sample_weight: Any = None, groups: Any = None
) -> Interval:
    """Known-positive AUC with its interval: DeLong's, on confirmed positives against the rest."""
    labels = labels_as_mass(is_labeled)
    return auc_spu_interval(labels, score, level=level, sample_weight=sample_weight, groups=groups)


def auc_spu_ceiling_interval(
    soft_label: Any, *, level: float = 0.95, sample_weight: Any = None, groups: Any = None
) -> Interval:
    """The ceiling with a confidence interval; exactly 1 without uncertainty where every soft label is 0 or 1."""
    rows = _Rows.check(soft_label, soft_label, level, sample_weight, groups)
    ceiling = influence_of(rows.masses, rows.masses.soft_label)
    error = standard_error(ceiling.value, rows.groups)
    low, high = (1.0, 1.0)
    if ceiling.auc < 1.0:
        low, high = logit_bounds(ceiling.auc, error, rows.level, rows.effective_masses())
    return Interval(ceiling.auc, low, high, error, rows.level, rows.warning)


def ceiling_gap_interval(
    soft_label: Any, score: Any, *, level: float = 0.95, sample_weight: Any = None, groups: Any = None
) -> Interval:
    """How far AUC_SPU stays below the ceiling; never negative."""
    rows = _Rows.check(soft_label, score, level, sample_weight, groups)
    reached = influence_of(rows.masses, rows.score)
    ceiling = influence_of(rows.masses, rows.masses.soft_label)
    error = standard_error(ceiling.value - reached.value, rows.groups)
    return rows.symmetric(ceiling.auc - reached.auc, error, (0.0, 1.0))


def ceiling_share_interval(
    soft_label: Any, score: Any, *, level: float = 0.95, sample_weight: Any = None, groups: Any = None
) -> Interval:
    """Share of the ceiling that is reached, (AUC_SPU − ½) / (ceiling − ½), in [−1, 1]."""
    rows = _Rows.check(soft_label, score, level, sample_weight, groups)
    reached = influence_of(rows.masses, rows.score)
    ceiling = influence_of(rows.masses, rows.masses.soft_label)
    room = ceiling.auc - 0.5
    if room <= 1e-12:
        raise SoftLabelError("soft_label is the same in every row, so the ceiling is ½ and no share of it is defined.")
    share = (reached.auc - 0.5) / room
    error = standard_error((reached.value - share * ceiling.value) / room, rows.groups)
    return rows.symmetric(share, error, (-1.0, 1.0))


def compare_auc_spu(
    soft_label: Any,
    score_a: Any,
    score_b: Any,
    *,
    level: float = 0.95,
    sample_weight: Any = None,
    groups: Any = None,
) -> Difference:
    """AUC_SPU of `score_a` minus that of `score_b`, paired on the same rows.

    The p-value concerns these two fitted scores and takes the soft labels as given.

    >>> difference = compare_auc_spu([1, 0.7, 0.4, 0, 0.1, 0], [5, 4, 1, 2, 3, 0], [5, 4, 1, 2, 3, 0])
    >>> difference.estimate, difference.p_value, difference.can_be_told_apart
    (0.0, 1.0, False)
    """
    rows = _Rows.check(soft_label, score_a, level, sample_weight, groups)
    first = influence_of(rows.masses, rows.score)
    second = influence_of(rows.masses, check_score(score_b, rows.score.size, "score_b"))
    return _difference(first.auc - second.auc, first.value - second.value, rows)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Checked input of one interval."""

    masses: Masses
    score: np.ndarray
    groups: np.ndarray | None
    level: float

    @classmethod
    def check(cls, soft_label: Any, score: Any, level: float, sample_weight: Any, groups: Any) -> _Rows:
        masses, score = check_rows(soft_label, score, sample_weight)
        level = check_share(level, "level", ScoreError)
        return cls(masses, score, check_optional_groups(groups, score.size), level)

    @property
    def quantile(self) -> float:
        return float(ndtri(0.5 + 0.5 * self.level))

    def symmetric(self, estimate: float, error: float, limits: tuple[float, float]) -> Interval:
        low, high = estimate - self.quantile * error, estimate + self.quantile * error
        return Interval(estimate, max(low, limits[0]), min(high, limits[1]), error, self.level, self.warning)

    def effective_masses(self) -> tuple[float, float]:
        """ΣS and Σ(1−S), as many equally weighted rows would have them."""
        soft_label, weight = self.masses.soft_label, self.masses.weight
        if weight is None:
            return float(soft_label.sum()), float(soft_label.size - soft_label.sum())
        scale = float(weight.sum() / np.einsum("i,i->", weight, weight))
        positive = float(np.einsum("i,i->", weight, soft_label))
        return positive * scale, (float(weight.sum()) - positive) * scale

    @property
    def warning(self) -> str | None:
        few = few_masses(*self.effective_masses())
        if few is not None:
            return few
        if self.groups is not None and (count := int(self.groups.max()) + 1) < ENOUGH_GROUPS:
            return f"Only {count} groups; below {ENOUGH_GROUPS} such intervals tend to be too narrow."
        return None


def _difference(estimate: float, influence: np.ndarray, rows: _Rows) -> Difference:
    error = standard_error(influence, rows.groups)
    interval = rows.symmetric(estimate, error, (-1.0, 1.0))
    p_value = float(2.0 * ndtr(-abs(estimate) / error)) if error > 0.0 else float(estimate == 0.0)
    return Difference(estimate, interval.low, interval.high, error, rows.level, rows.warning, p_value)


def few_masses(positive: float, negative: float) -> str | None:
    """What to say where there are too few expected positives or negatives; None where there are enough."""
    if min(positive, negative) >= ENOUGH_MASS:
        return None
    few, what = (positive, "positives (ΣS)") if positive <= negative else (negative, "negatives (Σ(1−S))")
    return f"Only {few:.1f} expected {what}; below {ENOUGH_MASS:g} such intervals tend to be too narrow."


def logit_bounds(auc: float, error: float, level: float, masses: tuple[float, float]) -> tuple[float, float]:
    """Limits of an AUC on the logit scale; `masses` are ΣS and Σ(1−S) as equally weighted rows would have them."""
    if 0.0 < auc < 1.0:
        reach = float(ndtri(0.5 + 0.5 * level)) * error / (auc * (1.0 - auc))
        return float(expit(logit(auc) - reach)), float(expit(logit(auc) + reach))
    # Perfect order leaves no spread to measure. The rule of three still applies: a share p of pairs out of order
    # stays unseen in n rows with probability (1−p)^n.
    unseen = 1.0 - (0.5 - 0.5 * level) ** (1.0 / max(1.0, min(masses)))
    return (1.0 - unseen, 1.0) if auc >= 1.0 else (0.0, unseen)
