"""The true AUC that AUC_SPU would imply if Theorem 2 held: a what-if over π and S_P, not an estimate.

Theorem 2 assumes that S is independent of the score given the true class. Rules are functions of the columns, so soft
labels from rules usually violate it: in one simulation the implied value was 1.55 for a true AUC of .853. Only an audit
can test the assumption.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from spu_core.checks import check_choice
from spu_core.errors import AssumptionError
from spu_core.metrics import Interval, roc_spu
from spu_core.metrics.intervals import z_quantile
from spu_core.theory import AdmissibleRegion, ScarLink
from spu_core.training import Run

Quantity = Literal["true_auc", "tpr", "fpr"]
QUANTITIES = {"true_auc": "implied true AUC", "tpr": "implied TPR", "fpr": "implied FPR"}


@dataclass(frozen=True, slots=True)
class Marker:
    """A known point of the map: an estimate of π, with S_P if it is known."""

    name: str
    prior: float
    positive_mean: float | None = None


@dataclass(frozen=True, slots=True)
class Implied:
    """What one choice of π and S_P implies; a value outside [0, 1] refutes the assumption."""

    link: ScarLink
    true_auc: Interval
    tpr: Interval
    fpr: Interval

    @property
    def is_refuted(self) -> bool:
        """Whether an implied value is impossible."""
        return not all(_is_share(each.estimate) for each in (self.true_auc, self.tpr, self.fpr))

    @property
    def is_surely_refuted(self) -> bool:
        """Whether an implied value is impossible even with the sampling error."""
        return any(each.low > 1.0 or each.high < 0.0 for each in (self.true_auc, self.tpr, self.fpr))

    @property
    def sentence(self) -> str:
        """The assumptions and what they imply."""
        link = self.link
        assumed = (
            f"If {link.prior:.1%} of rows are positive, true positives have a mean soft label of "
            f"{link.positive_mean:.2f} and true negatives {link.negative_mean:.3f}, and if within each class the "
            "soft label does not depend on the score"
        )
        if self.is_refuted:
            named = (("true AUC", self.true_auc), ("TPR", self.tpr), ("FPR", self.fpr))
            wrong = [f"the {name} would be {each.estimate:.3f}" for name, each in named if not _is_share(each.estimate)]
            sure = "" if self.is_surely_refuted else " (but this can be due to sampling error)"
            return f"{assumed}, then {' and '.join(wrong)}, which is impossible{sure}: assumption refuted."
        auc = self.true_auc
        interval = f"{auc.level:.0%} confidence interval {auc.low:.3f} to {auc.high:.3f}, sampling error only"
        return f"{assumed}, then the true AUC is {auc.estimate:.3f} ({interval})."


@dataclass(frozen=True)
class WhatIf:
    """AUC_SPU and the rates at the operating point of one run, and the true figures that they would imply.

    `rate_covariance` is that of (TPR_SPU, FPR_SPU). Confidence intervals cover the sampling error of the SPU figures
    only, not wrong values of π and S_P or a wrong assumption.
    """

    mean: float
    auc_spu: Interval
    threshold: float
    tpr_spu: float
    fpr_spu: float
    rate_covariance: tuple[tuple[float, float], tuple[float, float]]

    @classmethod
    def of_run(cls, run: Run, threshold: float | None = None) -> WhatIf:
        """From the evaluated rows of a run. Default threshold: the one that uses the review budget."""
        evaluation, score = run.evaluation, run.need_score()[run.evaluation.judged]
        if run.metrics is None:
            raise AssumptionError(f"Run {run.name!r} has no metrics, so no true AUC can be derived.")
        soft_label, weight = evaluation.judged_soft_label, evaluation.judged_weight
        curve = roc_spu(soft_label, score, sample_weight=weight)
        point = curve.at_budget(evaluation.budget) if threshold is None else curve.at_threshold(threshold)
        mean = float(np.average(soft_label, weights=weight))
        rates = (point.tpr, point.fpr)
        covariance = _rate_covariance(soft_label, score > point.threshold, rates, weight, evaluation.judged_groups)
        return cls(mean, run.metrics.auc_spu, point.threshold, point.tpr, point.fpr, covariance)

    @property
    def region(self) -> AdmissibleRegion:
        """All (π, S_P) that E[S] allows."""
        return AdmissibleRegion(self.mean)

    def at(self, prior: float, positive_mean: float) -> Implied:
        """The figures that one choice of π and S_P implies; S_N follows from E[S] = πS_P + (1−π)S_N.

        >>> what_if = WhatIf(0.2, Interval(0.7, 0.68, 0.72, 0.01), 0.5, 0.3, 0.05, ((1e-4, 0.0), (0.0, 1e-5)))
        >>> round(what_if.at(0.3, 0.5).true_auc.estimate, 3), what_if.at(0.3, 0.3).is_refuted
        (0.856, True)
        """
        link = ScarLink.from_mean(self.mean, prior, positive_mean)
        rates = link.true_rates(self.tpr_spu, self.fpr_spu)
        tpr, fpr = (
            _interval(rate, self._error(weights), self.auc_spu.level)
            for rate, weights in zip(rates, _rate_weights(link), strict=True)
        )
        return Implied(link, link.true_auc_interval(self.auc_spu), tpr, fpr)

    def map(self, priors: Any, positive_means: Any, quantity: Quantity = "true_auc") -> np.ndarray:
        """Implied values, one row per prior and one column per S_P; NaN where E[S] does not allow both."""
        check_choice(quantity, QUANTITIES, "quantity", AssumptionError)
        prior, positive = np.asarray(priors, float)[:, None], np.asarray(positive_means, float)[None, :]
        negative = (self.mean - prior * positive) / (1.0 - prior)
        allowed = (positive > self.mean) & (negative >= -1e-12)
        a = prior * positive / self.mean
        c = prior * (1.0 - positive) / (1.0 - self.mean)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = {
                # b = 1 − a and d = 1 − c, so ad − bc = a − c.
                "true_auc": lambda: (self.auc_spu.estimate - 0.5 * (1.0 - a + c)) / (a - c),
                "tpr": lambda: ((1.0 - c) * self.tpr_spu - (1.0 - a) * self.fpr_spu) / (a - c),
                "fpr": lambda: (a * self.fpr_spu - c * self.tpr_spu) / (a - c),
            }[quantity]()
        return np.where(allowed, values, np.nan)

    def default(self, markers: tuple[Marker, ...] = ()) -> tuple[float, float]:
        """Initial (π, S_P): the first marker with a possible S_P, else π of a marker or E[S] with a middle S_P."""
        for marker in markers:
            if marker.positive_mean is not None and self.region.contains(marker.prior, marker.positive_mean):
                return marker.prior, marker.positive_mean
        prior = next((marker.prior for marker in markers), self.mean)
        low, high = self.region.positive_means(prior)
        return prior, 0.5 * (low + high)

    def moved(self, at: tuple[float, float], name: str, value: float) -> tuple[float, float]:
        """(π, S_P) after one of π, S_P and S_N was changed. E[S] is fixed, so another of the three changes too.

        Changing π or S_P keeps the other one if E[S] allows it; changing S_N changes S_P. Values that E[S] does not
        allow are moved into the allowed range.

        >>> what_if = WhatIf(0.2, Interval(0.7, 0.68, 0.72, 0.01), 0.5, 0.3, 0.05, ((1e-4, 0.0), (0.0, 1e-5)))
        >>> what_if.moved((0.3, 0.5), "prior", 0.8), what_if.moved((0.8, 0.25), "positive_mean", 0.5)
        ((0.8, 0.25), (0.4, 0.5))
        >>> prior, positive_mean = what_if.moved((0.3, 0.5), "negative_mean", 0.1)
        >>> prior, round(positive_mean, 3)
        (0.3, 0.433)
        """
        prior, positive_mean = at
        check_choice(name, ("prior", "positive_mean", "negative_mean"), "name", AssumptionError)
        if name == "prior":
            low, high = self.region.positive_means(value)
            return value, float(np.clip(positive_mean, low + 1e-3 * (high - low), high))
        if name == "positive_mean":
            value = max(value, self.mean + 1e-3 * (1.0 - self.mean))
            return min(prior, self.mean / value), value
        value = min(value, 0.999 * self.mean)
        follows = (self.mean - (1.0 - prior) * value) / prior
        # If S_P would exceed 1, π is increased.
        return (prior, follows) if follows <= 1.0 else ((self.mean - value) / (1.0 - value), 1.0)

    def _error(self, weights: tuple[float, float]) -> float:
        return float(np.sqrt(max(0.0, np.array(weights) @ np.array(self.rate_covariance) @ np.array(weights))))


def _is_share(value: float) -> bool:
    # The tolerance prevents that rounding refutes an assumption.
    return -1e-9 <= value <= 1.0 + 1e-9


def _rate_weights(link: ScarLink) -> tuple[tuple[float, float], tuple[float, float]]:
    """TPR and FPR as weighted sums of TPR_SPU and FPR_SPU."""
    return (link.d / link.slope, -link.b / link.slope), (-link.c / link.slope, link.a / link.slope)


def _interval(estimate: float, error: float, level: float) -> Interval:
    reach = z_quantile(level) * error
    return Interval(float(estimate), float(estimate - reach), float(estimate + reach), error, level)


def _rate_covariance(
    soft_label: np.ndarray,
    flagged: np.ndarray,
    rates: tuple[float, float],
    weight: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Covariance of both rates, from the influence of each row at a fixed threshold; groups are summed first."""
    weight = np.ones(soft_label.size) if weight is None else weight
    positive, negative = weight * soft_label, weight * (1.0 - soft_label)
    influence = np.stack(
        [
            positive / positive.sum() * (flagged - rates[0]),
            negative / negative.sum() * (flagged - rates[1]),
        ]
    )
    if groups is not None:
        code = np.unique(groups, return_inverse=True)[1]
        influence = np.stack([np.bincount(code, weights=part) for part in influence])
    first, second = np.einsum("in,jn->ij", influence, influence).tolist()
    return (first[0], first[1]), (second[0], second[1])
