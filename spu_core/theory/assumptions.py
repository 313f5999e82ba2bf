"""Assumption 1 on rows whose true class is known: do soft labels point to the positives at all?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from spu_core.checks import check_flags, check_share, check_soft_label
from spu_core.errors import AssumptionError


@dataclass(frozen=True, slots=True)
class MeanGap:
    """S_P − S_N with its interval, and the one-sided p-value against S_P ≤ S_N."""

    positive_mean: float
    negative_mean: float
    low: float
    high: float
    standard_error: float
    p_value: float
    level: float

    @property
    def estimate(self) -> float:
        return self.positive_mean - self.negative_mean

    @property
    def is_shown(self) -> bool:
        """Whether the rows show Assumption 1; if not, they may only be too few."""
        return self.p_value < 1.0 - self.level


def check_soft_labels_separate(soft_label: Any, truth: Any, *, level: float = 0.95) -> MeanGap:
    """Assumption 1, E[S|Y=1] > E[S|Y=0], with Welch's t test on rows of known truth.

    >>> check_soft_labels_separate([0.9, 0.8, 0.1, 0.2, 0.0], [1, 1, 0, 0, 0]).is_shown
    True
    """
    soft_label = check_soft_label(soft_label)
    truth = check_flags(truth, soft_label.size, "truth")
    level = check_share(level, "level")
    positive, negative = soft_label[truth], soft_label[~truth]
    if min(positive.size, negative.size) < 2:
        raise AssumptionError(
            f"truth has {positive.size} positives and {negative.size} negatives; a test needs at least 2 of each."
        )
    parts = np.array([positive.var(ddof=1) / positive.size, negative.var(ddof=1) / negative.size])
    error = float(np.sqrt(parts.sum()))
    gap = float(positive.mean() - negative.mean())
    reach, p_value = 0.0, float(gap <= 0.0)
    if error > 0.0:
        degrees = parts.sum() ** 2 / (parts**2 / [positive.size - 1, negative.size - 1]).sum()
        reach, p_value = float(stdtrit(degrees, 0.5 + 0.5 * level)) * error, float(stdtr(degrees, -gap / error))
    return MeanGap(float(positive.mean()), float(negative.mean()), gap - reach, gap + reach, error, p_value, level)
