"""A bootstrap interval for AUC_SPU: slow and with few assumptions, to check the influence method."""

from __future__ import annotations

from typing import Any

import numpy as np

from spu_core.checks import check_share
from spu_core.errors import ScoreError
from spu_core.metrics.auc import auc_spu_score, check_rows
from spu_core.metrics.influence import check_optional_groups
from spu_core.metrics.intervals import Interval
from spu_core.metrics.ranking import rank_rows


def bootstrap_auc_spu(
    soft_label: Any,
    score: Any,
    *,
    replicates: int = 2000,
    level: float = 0.95,
    groups: Any = None,
    seed: int = 0,
) -> Interval:
    """Percentile interval over resampled rows, or resampled groups.

    >>> bootstrap_auc_spu([1, 0.7, 0.4, 0, 0.1, 0], [5, 4, 1, 2, 3, 0], replicates=50).estimate
    0.858...
    """
    if replicates < 2:
        raise ScoreError(f"replicates must be at least 2, got {replicates}.")
    level = check_share(level, "level", ScoreError)
    masses, score = check_rows(soft_label, score)
    units = check_optional_groups(groups, score.size)
    draws = _replicates(masses.soft_label, score, units, replicates, np.random.default_rng(seed))
    low, high = np.quantile(draws, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
    return Interval(auc_spu_score(soft_label, score), float(low), float(high), float(draws.std(ddof=1)), level)


def _replicates(
    soft_label: np.ndarray, score: np.ndarray, units: np.ndarray | None, count: int, rng: np.random.Generator
) -> np.ndarray:
    """AUC_SPU of each resample; the rows are sorted once, a resample only changes how often each counts."""
    ranking = rank_rows(score)
    order = ranking.order
    starts = np.append(0, ranking.last_of_tie()[:-1] + 1)
    soft_label = soft_label[order]
    units = np.arange(score.size)[order] if units is None else units[order]
    size = int(units.max()) + 1
    draws = np.empty(count)
    for replicate in range(count):
        times = np.bincount(rng.integers(0, size, size), minlength=size)[units]
        positive = times * soft_label
        negative = times - positive
        if ranking.ends_tie is not None:
            positive, negative = np.add.reduceat(positive, starts), np.add.reduceat(negative, starts)
        reached = np.cumsum(negative)
        draws[replicate] = positive @ (reached - 0.5 * negative) / (positive.sum() * reached[-1])
    return draws[np.isfinite(draws)]
