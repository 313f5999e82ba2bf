"""Theorem 4: bound on the loss in true AUC of the best score by ROC_SPU, if E[S|X] follows P(Y=1|X) only roughly.

Assumption 4: |E[S|X] − h(P(Y=1|X))| ≤ ε for a function h with h' ≥ C; no interval of P(Y=1|X) of width δ holds more
than M·δ of the rows.

Proof of the sharp constants. Flag the same share of rows by η = P(Y=1|X) and by the other score. Rows flagged only by
η and rows flagged only by the other score have the same mass m, and all their η lie in one window of width w = 2ε/C: a
row whose h(η) is more than 2ε larger also has the larger E[S|X]. The density is at most M, so the expected positives of
the two sets differ by at most m(w − m/M) ≤ Mw²/4 = Mε²/C². Divide by π for the TPR and by 1 − π for the FPR. The AUC
lost is the mean of this gap over all shares of flagged rows, divided by π(1 − π).

The bound printed in the paper has 1/π in its FPR half, where the proof gives 1/(1−π), so it fails for large priors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from spu_core.checks import check_choice, check_number, check_score, check_share
from spu_core.errors import AssumptionError

Version = Literal["sharp", "corrected", "printed"]
VERSIONS: tuple[Version, ...] = get_args(Version)
NARROWEST_WINDOW = 0.02


@dataclass(frozen=True, slots=True)
class MonotoneBound:
    """The largest loss in TPR and FPR at the same number of flagged rows (part 1), and in AUC (part 2)."""

    tpr_loss: float
    fpr_loss: float
    auc_loss: float
    version: Version


def noisy_monotone_bound(
    *, noise: float, slope: float, density: float, prior: float, version: Version = "sharp"
) -> MonotoneBound:
    """Theorem 4: the largest loss in true TPR, FPR and AUC of a score that is optimal by ROC_SPU.

    Parameters
    ----------
    noise : float
        ε: the largest distance between E[S|X] and h(P(Y=1|X)). At least 0.
    slope : float
        C: the smallest slope of the link h. Above 0.
    density : float
        M: no interval of P(Y=1|X) of width δ holds more than M·δ of the rows. Above 0.
    prior : float
        Class prior π, in (0, 1).
    version : {"sharp", "corrected", "printed"}, default "sharp"
        `"sharp"` holds for every prior, and its TPR and FPR parts are attained. `"corrected"` is the bound of earlier
        versions of this program, twice as large. `"printed"` is the bound in the paper: its AUC part is safe up to
        π = 7/8 and wrong above 11/12, its FPR part is wrong above 4/5.

    Returns
    -------
    MonotoneBound
        `tpr_loss` and `fpr_loss` at the same number of flagged rows, and `auc_loss`.

    Raises
    ------
    AssumptionError
        If an argument is outside its range.

    Examples
    --------
    >>> round(noisy_monotone_bound(noise=0.01, slope=0.5, density=2.0, prior=0.2).auc_loss, 6)
    0.005
    >>> round(noisy_monotone_bound(noise=0.01, slope=0.5, density=2.0, prior=0.2, version="printed").auc_loss, 6)
    0.032
    """
    prior = check_share(prior, "prior")
    if check_number(noise, "noise", AssumptionError) < 0.0:
        raise AssumptionError(f"noise must not be negative, got {noise:g}.")
    for name, value in (("slope", slope), ("density", density)):
        if check_number(value, name, AssumptionError) <= 0.0:
            raise AssumptionError(f"{name} must be positive, got {value:g}.")
    unit = density * (noise / slope) ** 2
    if check_choice(version, VERSIONS, "version") == "printed":
        return MonotoneBound(4.0 * unit / prior, 4.0 * unit / prior, 8.0 * unit / prior, version)
    gap, rest = (unit if version == "sharp" else 2.0 * unit), 1.0 - prior
    return MonotoneBound(gap / prior, gap / rest, gap / (prior * rest), version)


@dataclass(frozen=True, slots=True)
class MonotoneLink:
    """An approximate link between P(Y=1|X) and E[S|X] with the smallest bound. Both sides are estimated."""

    slope: float
    noise: float
    density: float
    prior: float
    truth_score: np.ndarray
    link: np.ndarray

    def bound(self, version: Version = "sharp") -> MonotoneBound:
        return noisy_monotone_bound(
            noise=self.noise, slope=self.slope, density=self.density, prior=self.prior, version=version
        )


def estimate_monotone_link(soft_score: Any, truth_score: Any, *, slopes: Any = None) -> MonotoneLink:
    """Fit h to estimates of (P(Y=1|X), E[S|X]); the slope C is the one that gives the smallest bound.

    For each C the best h is C·η plus a monotone function. Its largest error is half of the largest decrease of S − C·η.

    >>> truth = np.linspace(0.1, 0.9, 50)
    >>> link = estimate_monotone_link(0.5 * truth + 0.1, truth)
    >>> bool(abs(link.slope - 0.5) < 0.01), bool(link.noise < 1e-6)
    (True, True)
    """
    soft_score = check_score(soft_score, None, "soft_score")
    truth_score = check_score(truth_score, soft_score.size, "truth_score")
    if truth_score.min() < 0.0 or truth_score.max() > 1.0 or truth_score.min() == truth_score.max():
        raise AssumptionError("truth_score must hold probabilities in [0, 1] that are not all the same.")
    order = np.argsort(truth_score, kind="stable")
    truth, soft = truth_score[order], soft_score[order]
    candidates = np.geomspace(1e-3, 2.0, 400) if slopes is None else check_score(slopes, None, "slopes")
    noises = np.array([_sup_error(truth, soft - slope * truth) for slope in candidates])
    # 1e-9 prevents that rounding errors favour a slope near 0.
    best = int(np.argmin((noises + 1e-9) / candidates))
    slope = float(candidates[best])
    link = slope * truth + _nearest_monotone(truth, soft - slope * truth)
    return MonotoneLink(slope, float(noises[best]), _largest_density(truth), float(truth.mean()), truth, link)


def _sup_error(truth: np.ndarray, values: np.ndarray) -> float:
    highest_so_far, lowest_to_come = _envelopes(truth, values)
    return float(max(0.0, (highest_so_far - lowest_to_come).max() / 2.0))


def _nearest_monotone(truth: np.ndarray, values: np.ndarray) -> np.ndarray:
    highest_so_far, lowest_to_come = _envelopes(truth, values)
    return 0.5 * (highest_so_far + lowest_to_come)


def _envelopes(truth: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Running maximum from the left and minimum from the right; rows of equal truth score share both."""
    highest = np.maximum.accumulate(values)
    lowest = np.minimum.accumulate(values[::-1])[::-1]
    last = np.searchsorted(truth, truth, side="right") - 1
    first = np.searchsorted(truth, truth, side="left")
    return highest[last], lowest[first]


def _largest_density(truth: np.ndarray) -> float:
    """M: the largest share of rows in a window of fixed width, divided by this width."""
    inside = np.searchsorted(truth, truth + NARROWEST_WINDOW, side="right") - np.arange(truth.size)
    return float(inside.max() / truth.size / NARROWEST_WINDOW)
