"""The share of positives among all rows, from the scores of labelled and unlabelled rows.

BBE (best bin estimation) gives an upper estimate if labelled rows are a random sample of the positives (SCAR). It is
much too high if positives and negatives look alike. It is too low if easy positives are labelled first. So the result
is a range, from the share of labelled rows to the upper estimate. It is not one number and not a confidence interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spu_core.checks import check_flags, check_score
from spu_core.errors import AssumptionError

MOST_BINS = 4096
FEWEST_LABELS = 20


@dataclass(frozen=True, slots=True)
class PriorEstimate:
    """A range for π: from ρ, the share of labelled rows, to an upper estimate that holds under SCAR only.

    `prior` is BBE, ρ + (1−ρ)π_U; `low` and `high` are its sampling noise, without its bias. Show `range`, not `prior`.
    """

    prior: float
    low: float
    high: float
    unlabeled_prior: float
    labeled_share: float
    elkan_noto: float | None
    warning: str | None = None

    @property
    def range(self) -> tuple[float, float]:
        """The share of labelled rows, and the upper estimate with its sampling noise."""
        return self.labeled_share, self.high

    @property
    def sentence(self) -> str:
        """The range in a sentence."""
        low, high = self.range
        return (
            f"Between {low:.1%} (confirmed cases alone) and {high:.1%} (upper estimate). The true share can be much "
            "lower than the upper end. If easy cases were confirmed first, it can also be higher."
        )


def estimate_prior(
    is_labeled: Any, score: Any, *, replicates: int = 200, level: float = 0.95, seed: int = 0
) -> PriorEstimate:
    """A range for the class prior π, from labelled and unlabelled scores.

    The lower end is the share of labelled rows. The upper end is the estimate of BBE (best bin estimation): at high
    scores nearly all rows are positive, so the share of unlabelled rows there, divided by the share of labelled rows
    there, estimates π_U, the share of positives among the unlabelled rows. It assumes that labelled rows are a random
    part of the positives (SCAR). It is too high where positives and negatives look alike, and too low where easy
    positives are labelled first.

    Parameters
    ----------
    is_labeled : array-like of bool
        Confirmed cases. Both labelled and unlabelled rows are needed.
    score : array-like of float
        Out-of-fold scores. Scores in [0, 1] are also read as P(labelled | x), for the estimate of Elkan and Noto.
    replicates : int, default 200
        Bootstrap draws for the sampling noise of the upper estimate. At least 2.
    level : float, default 0.95
        Level of that noise band.
    seed : int, default 0
        Seed of the draws.

    Returns
    -------
    PriorEstimate
        Show its `.range` or `.sentence`, not a single number.

    Raises
    ------
    AssumptionError
        If all rows are labelled, or none is.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random(4000) < 0.3
    >>> is_labeled = truth & (rng.random(4000) < 0.3)
    >>> estimate = estimate_prior(is_labeled, np.where(truth, 0.3, 0.0) + 0.1 * rng.random(4000))
    >>> low, high = estimate.range
    >>> bool(is_labeled.mean() == low < truth.mean() < high < 0.36)
    True
    """
    score = check_score(score)
    labels = check_flags(is_labeled, score.size, "is_labeled")
    if labels.all() or not labels.any():
        raise AssumptionError("is_labeled must hold both labelled and unlabelled rows to estimate a prior from.")
    labeled, unlabeled = _counts_from_the_top(score, labels)
    share = float(labels.mean())
    hidden = _best_bin_estimate(labeled, unlabeled)
    draws = _resampled(labeled, unlabeled, replicates, np.random.default_rng(seed))
    low, high = np.quantile(draws, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
    return PriorEstimate(
        prior=share + (1.0 - share) * hidden,
        low=share + (1.0 - share) * float(low),
        high=share + (1.0 - share) * float(high),
        unlabeled_prior=hidden,
        labeled_share=share,
        elkan_noto=_elkan_noto(score, labels),
        warning=_warning(int(labels.sum())),
    )


def _counts_from_the_top(score: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labelled and unlabelled rows per bin, highest scores first. Few distinct scores get a bin each."""
    distinct, place = np.unique(score, return_inverse=True)
    if distinct.size > MOST_BINS:
        edges = np.unique(np.quantile(score, np.linspace(0.0, 1.0, MOST_BINS + 1)[1:-1]))
        place = np.searchsorted(edges, score, side="right")
    size = int(place.max()) + 1
    labeled = np.bincount(place[labels], minlength=size)
    unlabeled = np.bincount(place[~labels], minlength=size)
    return labeled[::-1], unlabeled[::-1]


def _best_bin_estimate(labeled: np.ndarray, unlabeled: np.ndarray) -> float:
    delta, gamma = 0.1, 0.01
    labeled_count, unlabeled_count = labeled.sum(), unlabeled.sum()
    labeled_share = labeled.cumsum() / labeled_count
    unlabeled_share = unlabeled.cumsum() / unlabeled_count
    reached = labeled_share > 0.0
    labeled_share, unlabeled_share = labeled_share[reached], unlabeled_share[reached]
    noise = np.sqrt(np.log(4.0 / delta) / 2.0 / unlabeled_count) + np.sqrt(np.log(4.0 / delta) / 2.0 / labeled_count)
    ratio = unlabeled_share / labeled_share
    best = int(np.argmin(ratio + (1.0 + gamma) * noise / labeled_share))
    return float(min(1.0, ratio[best]))


def _resampled(labeled: np.ndarray, unlabeled: np.ndarray, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """The estimate on resampled rows. It uses bin counts only, so the counts are resampled."""
    if replicates < 2:
        raise AssumptionError(f"replicates must be at least 2, got {replicates}.")
    draws_labeled = rng.multinomial(labeled.sum(), labeled / labeled.sum(), size=replicates)
    draws_unlabeled = rng.multinomial(unlabeled.sum(), unlabeled / unlabeled.sum(), size=replicates)
    return np.array([_best_bin_estimate(one, other) for one, other in zip(draws_labeled, draws_unlabeled, strict=True)])


def _elkan_noto(score: np.ndarray, labels: np.ndarray) -> float | None:
    """π = ρ/c with c = mean P(labelled|x) over held-out labelled rows."""
    if score.min() < 0.0 or score.max() > 1.0:
        return None
    labeling_rate = float(score[labels].mean())
    return min(1.0, float(labels.mean()) / labeling_rate) if labeling_rate > 0.0 else None


def _warning(labeled_count: int) -> str | None:
    if labeled_count >= FEWEST_LABELS:
        return None
    return f"Only {labeled_count} labelled rows; below {FEWEST_LABELS} the estimate is mostly noise."
