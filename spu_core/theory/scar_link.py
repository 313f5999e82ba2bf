"""Theorem 2: if S and X are independent given Y, the SPU metrics are linear functions of the true metrics.

Rules are functions of X, so soft labels from rules usually violate this assumption. An implied true AUC is a what-if,
not an estimate, until an audit has tested the assumption. A value above 1 refutes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spu_core.checks import check_flags, check_share, check_soft_label
from spu_core.errors import AssumptionError
from spu_core.metrics import Interval


@dataclass(frozen=True)
class ScarLink:
    """The linear map of Theorem 2 between true metrics and SPU metrics.

    It holds if S is independent of the score given Y. Rules are functions of X, so soft labels from rules usually
    violate this assumption: treat an implied true AUC as a what-if.

    Parameters
    ----------
    prior : float
        Class prior π = P(Y=1), in (0, 1).
    positive_mean : float
        S_P = E[S | Y=1], in [0, 1].
    negative_mean : float
        S_N = E[S | Y=0], in [0, 1] and below `positive_mean`.

    Raises
    ------
    AssumptionError
        If `positive_mean` does not exceed `negative_mean` (Assumption 1).

    See Also
    --------
    ScarLink.from_truth : The link of rows whose true class is known.
    ScarLink.from_mean : The link for a given E[S]; two of the three numbers are free.

    Examples
    --------
    >>> link = ScarLink(prior=0.1, positive_mean=0.5, negative_mean=0.1)
    >>> round(link.auc_spu(1.0), 3), round(link.true_auc(link.auc_spu(0.8)), 3)
    (0.65, 0.8)
    >>> ScarLink(prior=0.1, positive_mean=0.1, negative_mean=0.1)
    Traceback (most recent call last):
    spu_core.errors.AssumptionError: positive_mean must exceed negative_mean (Assumption 1), got 0.1 and 0.1: ...
    """

    prior: float
    positive_mean: float
    negative_mean: float

    def __post_init__(self) -> None:
        check_share(self.prior, "prior")
        check_share(self.positive_mean, "positive_mean", closed=True)
        check_share(self.negative_mean, "negative_mean", closed=True)
        if self.positive_mean <= self.negative_mean:
            raise AssumptionError(
                f"positive_mean must exceed negative_mean (Assumption 1), got {self.positive_mean:g} and "
                f"{self.negative_mean:g}: soft labels must be higher for positives than for negatives on average."
            )

    @classmethod
    def from_mean(cls, mean: float, prior: float, positive_mean: float) -> ScarLink:
        """The link with E[S] = mean. Two of the three numbers are free; the third follows."""
        AdmissibleRegion(mean).check(prior, positive_mean)
        return cls(prior, positive_mean, max(0.0, (mean - prior * positive_mean) / (1.0 - prior)))

    @classmethod
    def from_truth(cls, soft_label: Any, truth: Any) -> ScarLink:
        """The link of rows whose true class is known."""
        soft_label = check_soft_label(soft_label)
        truth = check_flags(truth, soft_label.size, "truth")
        if truth.all() or not truth.any():
            raise AssumptionError("truth holds one class only; S_P and S_N need rows of both classes.")
        return cls(float(truth.mean()), float(soft_label[truth].mean()), float(soft_label[~truth].mean()))

    @property
    def mean(self) -> float:
        """E[S] = π S_P + (1−π) S_N."""
        return self.prior * self.positive_mean + (1.0 - self.prior) * self.negative_mean

    @property
    def a(self) -> float:
        """Share of the positive mass that lies on true positives."""
        return self.prior * self.positive_mean / self.mean

    @property
    def b(self) -> float:
        """Share of the positive mass that lies on true negatives."""
        return (1.0 - self.prior) * self.negative_mean / self.mean

    @property
    def c(self) -> float:
        """Share of the negative mass that lies on true positives."""
        return self.prior * (1.0 - self.positive_mean) / (1.0 - self.mean)

    @property
    def d(self) -> float:
        """Share of the negative mass that lies on true negatives."""
        return (1.0 - self.prior) * (1.0 - self.negative_mean) / (1.0 - self.mean)

    @property
    def slope(self) -> float:
        """Slope of AUC_SPU as a function of the true AUC: ad − bc = a − c, positive by Assumption 1."""
        return self.a - self.c

    @property
    def perfect_level(self) -> float:
        """AUC_SPU of a perfect classifier of Y: ½(1 + a − c), below the ceiling of Theorem 1."""
        return self.auc_spu(1.0)

    def auc_spu(self, true_auc: float) -> float:
        """AUC_SPU = ½(b+c) + (ad−bc)·AUC."""
        return 0.5 * (self.b + self.c) + self.slope * true_auc

    def true_auc(self, auc_spu: float) -> float:
        """The true AUC that this AUC_SPU implies; a value above 1 refutes the assumption."""
        return (auc_spu - 0.5 * (self.b + self.c)) / self.slope

    def true_auc_interval(self, interval: Interval) -> Interval:
        """The implied true AUC with a confidence interval. It covers the sampling error, not a wrong assumption."""
        implied = self.true_auc(interval.estimate)
        refuted = (
            f"Assumption refuted: the implied true AUC would be {implied:.2f}, above 1." if implied > 1.0 else None
        )
        return Interval(
            implied,
            self.true_auc(interval.low),
            self.true_auc(interval.high),
            interval.standard_error / self.slope,
            interval.level,
            refuted or interval.warning,
        )

    def spu_rates(self, tpr: Any, fpr: Any) -> tuple[Any, Any]:
        """(TPR_SPU, FPR_SPU) of true rates; numbers or arrays."""
        return self.a * tpr + self.b * fpr, self.c * tpr + self.d * fpr

    def true_rates(self, tpr_spu: Any, fpr_spu: Any) -> tuple[Any, Any]:
        """(TPR, FPR) that these SPU rates imply; values outside [0, 1] refute the assumption."""
        return (
            (self.d * tpr_spu - self.b * fpr_spu) / self.slope,
            (self.a * fpr_spu - self.c * tpr_spu) / self.slope,
        )


@dataclass(frozen=True)
class AdmissibleRegion:
    """All (π, S_P) that E[S] = mean allows: mean < S_P ≤ min(1, mean/π), where S_N = (mean − πS_P)/(1−π) ≥ 0.

    >>> AdmissibleRegion(mean=0.2).positive_means(prior=0.4)
    (0.2, 0.5)
    """

    mean: float

    def __post_init__(self) -> None:
        check_share(self.mean, "mean")

    def positive_means(self, prior: float) -> tuple[float, float]:
        """The open lower and closed upper limit of S_P at this prior."""
        return self.mean, min(1.0, self.mean / check_share(prior, "prior"))

    def contains(self, prior: float, positive_mean: float) -> bool:
        low, high = self.positive_means(prior)
        return low < positive_mean <= high * (1.0 + 1e-12)

    def check(self, prior: float, positive_mean: float) -> None:
        """Raise an error if E[S] does not allow this pair; the message names the allowed range."""
        low, high = self.positive_means(prior)
        if not self.contains(prior, positive_mean):
            raise AssumptionError(
                f"With E[S] = {self.mean:g} and prior {prior:g}, positive_mean must be above {low:g} and at most "
                f"{high:g}, got {positive_mean:g}."
            )
