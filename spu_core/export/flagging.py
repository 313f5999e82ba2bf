"""Where a bundle flags: a threshold on the score, and the share of training rows that it flagged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spu_core.checks import check_share
from spu_core.errors import BundleError
from spu_core.metrics import roc_spu
from spu_core.training import Run

FLAG_BY = ("threshold", "share")


@dataclass(frozen=True, kw_only=True)
class FlagPoint:
    """Rows scored above `threshold` are flagged; out of fold these were `share` of the training rows.

    Both are kept: the threshold flags a row for what it is, the share fills a review queue of known size. They part
    when new data differ from the training data, which is worth knowing. A threshold of ±∞ flags nothing or everything.

    >>> FlagPoint(threshold=0.5, share=0.02).flags(np.array([0.4, 0.5, 0.6]))
    array([False, False,  True])
    """

    threshold: float
    share: float
    chosen_by: str = "the analyst"

    def __post_init__(self) -> None:
        if isinstance(self.threshold, bool) or not isinstance(self.threshold, int | float | np.floating):
            raise BundleError(f"threshold must be a number, got {self.threshold!r}.")
        if np.isnan(self.threshold):
            raise BundleError("threshold must be a number, got NaN.")
        check_share(self.share, "share", BundleError, closed=True)

    @classmethod
    def at_budget(cls, run: Run, budget: float | None = None) -> FlagPoint:
        """The point that spends a review budget (by default the run's own) on the out-of-fold scores."""
        budget = run.config.review_budget if budget is None else budget
        curve = _curve(run)
        most = float(curve.flagged[-1])
        point = curve.at_budget(min(budget, int(most)) if isinstance(budget, int) else budget)
        words = f"a review budget of {budget:,} rows" if isinstance(budget, int) else f"a review budget of {budget:.4g}"
        return cls(threshold=point.threshold, share=min(point.flagged_share, 1.0), chosen_by=words)

    @classmethod
    def at_threshold(cls, run: Run, threshold: float) -> FlagPoint:
        """The point of a threshold, with the share that it flags out of fold."""
        share = _curve(run).at_threshold(threshold).flagged_share
        return cls(threshold=float(threshold), share=min(share, 1.0))

    def flags(self, score: np.ndarray) -> np.ndarray:
        return score > self.threshold

    def to_dict(self) -> dict[str, Any]:
        """Plain values; JSON has no infinity, so that of a threshold is left to the share."""
        threshold = float(self.threshold) if np.isfinite(self.threshold) else None
        return {"threshold": threshold, "share": float(self.share), "chosen_by": self.chosen_by}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> FlagPoint:
        threshold = found["threshold"]
        if threshold is None:
            threshold = -np.inf if found["share"] >= 0.5 else np.inf
        return cls(threshold=threshold, share=found["share"], chosen_by=str(found["chosen_by"]))


def share_threshold(sorted_score: np.ndarray, share: float) -> float:
    """The threshold that flags at most this share of the rows; tied rows are flagged together or not at all.

    >>> share_threshold(np.array([0.1, 0.2, 0.3, 0.4]), 0.5)
    0.2
    """
    allowed = int(np.floor(share * sorted_score.size * (1 + 1e-12)))
    if allowed >= sorted_score.size:
        return -np.inf
    return float(sorted_score[sorted_score.size - allowed - 1])


def _curve(run: Run) -> Any:
    evaluation, score = run.evaluation, run.need_score()
    return roc_spu(evaluation.judged_soft_label, score[evaluation.judged], sample_weight=evaluation.judged_weight)
