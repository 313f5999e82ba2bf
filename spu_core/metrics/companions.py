"""How well scores in [0, 1] fit soft labels: log-loss and calibration. Neither needs true negatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_sample_weight, check_score, check_soft_label
from spu_core.errors import ScoreError


def soft_log_loss(soft_label: Any, score: Any, *, sample_weight: Any = None) -> float:
    """Mean of −[s ln g + (1−s) ln(1−g)] for scores in [0, 1]: the loss that training minimises. Lower is better.

    >>> soft_log_loss([0.5, 0.5], [0.5, 0.5])
    0.693...
    """
    soft_label = check_soft_label(soft_label)
    score = _check_probability(score, soft_label.size)
    # A wrong score of exactly 0 or 1 would have an infinite loss, so scores are clipped to [eps, 1 − eps].
    score = score.clip(np.finfo(np.float64).eps, 1.0 - np.finfo(np.float64).eps)
    loss = -(soft_label * np.log(score) + (1.0 - soft_label) * np.log1p(-score))
    weight = None if sample_weight is None else check_sample_weight(sample_weight, soft_label.size)
    return float(np.average(loss, weights=weight))


def calibration_to_soft_label(soft_label: Any, score: Any, *, bins: int = 10) -> pd.DataFrame:
    """Mean score and mean soft label in groups of equal size. This shows agreement with S, not with the truth.

    Columns: `rows`, `score`, `soft_label`, `standard_error` (of the mean soft label).
    """
    soft_label = check_soft_label(soft_label)
    score = _check_probability(score, soft_label.size)
    if bins < 1:
        raise ScoreError(f"bins must be at least 1, got {bins}.")
    edges = np.unique(np.quantile(score, np.linspace(0.0, 1.0, bins + 1)[1:-1]))
    frame = pd.DataFrame({"score": score, "soft_label": soft_label})
    grouped = frame.groupby(np.searchsorted(edges, score, side="right"))
    return pd.DataFrame(
        {
            "rows": grouped.size(),
            "score": grouped["score"].mean(),
            "soft_label": grouped["soft_label"].mean(),
            "standard_error": grouped["soft_label"].sem(),
        }
    ).reset_index(drop=True)


def calibration_gap(soft_label: Any, score: Any, *, bins: int = 10) -> float:
    """Mean distance between mean score and mean soft label over groups of equal size. Lower is better.

    >>> calibration_gap([0.0, 0.0, 1.0, 1.0], [0.1, 0.1, 0.9, 0.9], bins=2)
    0.0999...
    """
    table = calibration_to_soft_label(soft_label, score, bins=bins)
    return float(np.average((table["score"] - table["soft_label"]).abs(), weights=table["rows"]))


def _check_probability(score: Any, length: int) -> np.ndarray:
    score = check_score(score, length)
    bad = np.flatnonzero((score < 0.0) | (score > 1.0))
    if bad.size:
        raise ScoreError(
            f"score must lie in [0, 1], but row {bad[0]} holds {score[bad[0]]:g}; convert the scores to probabilities."
        )
    return score
