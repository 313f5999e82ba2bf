"""Confidence bands around ROC_SPU: at each FPR_SPU (pointwise), and for the whole curve at once (simultaneous).

The influence of row i on the TPR at FPR u is (s_i/a)(1[g_i>t_u] − R(u)) − R'(u) ((1−s_i)/b)(1[g_i>t_u] − u), where the
slope R'(u) is read from the mean soft label around the threshold. Its covariance over a grid of u needs only running
sums of s², s(1−s) and (1−s)².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtri

from spu_core.checks import check_share
from spu_core.errors import ScoreError
from spu_core.metrics.auc import check_rows
from spu_core.metrics.ranking import Masses, rank_rows

# Dense where analysts look: low false positive rates.
DEFAULT_GRID = np.unique(np.concatenate([np.geomspace(1e-3, 0.1, 25), np.linspace(0.1, 0.99, 60)]))
DRAWS = 4000


@dataclass(frozen=True, slots=True)
class RocBand:
    """TPR_SPU with its bounds at each FPR_SPU of a grid; the simultaneous bounds hold for all grid points at once."""

    fpr: np.ndarray
    tpr: np.ndarray
    low: np.ndarray
    high: np.ndarray
    simultaneous_low: np.ndarray
    simultaneous_high: np.ndarray
    level: float


def roc_spu_band(
    soft_label: Any, score: Any, *, level: float = 0.95, grid: Any = None, sample_weight: Any = None
) -> RocBand:
    """Pointwise and simultaneous confidence bands of ROC_SPU.

    >>> rng = np.random.default_rng(0)
    >>> soft_label = rng.random(500)
    >>> band = roc_spu_band(soft_label, soft_label + rng.normal(size=500), grid=[0.1, 0.5])
    >>> bool((band.simultaneous_low <= band.low).all() and (band.low < band.tpr).all())
    True
    """
    masses, score = check_rows(soft_label, score, sample_weight)
    level = check_share(level, "level", ScoreError)
    sums = _RunningSums.of(masses, score)
    # Below five flagged negatives the normal approximation has nothing to stand on.
    grid = DEFAULT_GRID[DEFAULT_GRID * sums.effective_negatives >= 5.0] if grid is None else _check_grid(grid)
    tpr, covariance = _curve_and_covariance(sums, grid)
    error = np.sqrt(np.diag(covariance).clip(0.0))
    pointwise = float(ndtri(0.5 + 0.5 * level))
    simultaneous = max(pointwise, _sup_quantile(covariance, tpr, level))
    unseen = 1.0 - (0.5 - 0.5 * level) ** (1.0 / max(1.0, sums.effective_positives))
    low, high = _bounds(tpr, error, pointwise, unseen)
    all_low, all_high = _bounds(tpr, error, simultaneous, unseen)
    return RocBand(grid, tpr, low, high, all_low, all_high, level)


@dataclass(frozen=True, slots=True)
class _RunningSums:
    """Sums over the rows flagged so far, best row first, as shares or per-row means of the whole."""

    fpr: np.ndarray
    tpr: np.ndarray
    squares: np.ndarray  # columns: (ws/a)², (ws/a)(w(1−s)/b), (w(1−s)/b)²
    positive: np.ndarray
    negative: np.ndarray

    @classmethod
    def of(cls, masses: Masses, score: np.ndarray) -> _RunningSums:
        ranking = rank_rows(score)
        positive, negative = masses.of(ranking.order[::-1])
        positive, negative = positive / positive.mean(), negative / negative.mean()
        squares = np.stack([positive**2, positive * negative, negative**2], axis=1).cumsum(axis=0)
        last = (score.size - 1 - np.append(-1, ranking.last_of_tie()[:-1]) - 1)[::-1]
        return cls(
            fpr=np.append(0.0, negative.cumsum()[last] / score.size),
            tpr=np.append(0.0, positive.cumsum()[last] / score.size),
            squares=np.concatenate([np.zeros((1, 3)), squares[last]]),
            positive=positive,
            negative=negative,
        )

    @property
    def effective_positives(self) -> float:
        return float(self.positive.sum() ** 2 / (self.positive**2).sum())

    @property
    def effective_negatives(self) -> float:
        return float(self.negative.sum() ** 2 / (self.negative**2).sum())

    def slope(self, rank: np.ndarray) -> np.ndarray:
        """R' at each rank: mean positive over mean negative mass in a symmetric window that shrinks at the ends."""
        count = self.positive.size
        half = np.minimum(np.ceil(0.4 * count**0.8), np.minimum(rank, count - rank).clip(5)).astype(int)
        sums = np.concatenate([np.zeros((1, 2)), np.stack([self.positive, self.negative], 1).cumsum(axis=0)])
        window = sums[(rank + half).clip(0, count)] - sums[(rank - half).clip(0, count)]
        return window[:, 0] / window[:, 1].clip(1e-12)


def _curve_and_covariance(sums: _RunningSums, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # A grid point inside a tie flags part of it at random, so everything runs linearly between curve points.
    fpr, first = np.unique(sums.fpr, return_index=True)
    last = np.append(first[1:], sums.fpr.size) - 1
    tpr = np.interp(grid, fpr, sums.tpr[last])
    flagged = np.stack([np.interp(grid, fpr, sums.squares[last, k]) for k in range(3)])
    count = sums.positive.size
    rank = np.interp(grid, np.append(0.0, sums.negative.cumsum() / count), np.arange(count + 1)).astype(int)
    return tpr, _covariance(flagged, sums.squares[-1], tpr, grid, sums.slope(rank)) / count**2


def _covariance(
    flagged: np.ndarray, total: np.ndarray, tpr: np.ndarray, fpr: np.ndarray, slope: np.ndarray
) -> np.ndarray:
    """Σ_i ψ_u(i) ψ_v(i) for all pairs of grid points."""

    def centred(part: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        both = np.minimum.outer(flagged[part], flagged[part])
        return (
            both
            - np.outer(flagged[part], second)
            - np.outer(first, flagged[part])
            + np.outer(first, second) * total[part]
        )

    mixed = centred(1, tpr, fpr) * slope[None, :]
    return centred(0, tpr, tpr) - mixed - mixed.T + centred(2, fpr, fpr) * np.outer(slope, slope)


def _sup_quantile(covariance: np.ndarray, tpr: np.ndarray, level: float) -> float:
    """The value that the largest standardised deviation over the grid exceeds with probability 1 − level."""
    error = np.sqrt(np.diag(covariance).clip(0.0))
    inner = (error > 0.0) & (tpr > 0.0) & (tpr < 1.0)
    if not inner.any():
        return 0.0
    correlation = covariance[np.ix_(inner, inner)] / np.outer(error[inner], error[inner])
    values, vectors = np.linalg.eigh(correlation)
    normal = np.random.default_rng(0).standard_normal((DRAWS, values.size))
    paths = normal @ (vectors * np.sqrt(values.clip(0.0))).T
    return float(np.quantile(np.abs(paths).max(axis=1), level))


def _bounds(tpr: np.ndarray, error: np.ndarray, quantile: float, unseen: float) -> tuple[np.ndarray, np.ndarray]:
    """Bounds on the logit scale; where TPR is 0 or 1 they open to what n rows could have missed.

    Near 0 and 1 the logit scale stretches without limit, so a bound is never further off than four times a plain one.
    """
    inner = (tpr > 0.0) & (tpr < 1.0)
    safe = np.where(inner, tpr, 0.5)
    reach = quantile * error / (safe * (1.0 - safe))
    low = np.where(inner, expit(logit(safe) - reach), np.where(tpr >= 1.0, 1.0 - unseen, 0.0))
    high = np.where(inner, expit(logit(safe) + reach), np.where(tpr <= 0.0, unseen, 1.0))
    furthest = np.maximum(4.0 * quantile * error, unseen)
    return np.maximum(low, tpr - furthest), np.minimum(high, tpr + furthest)


def _check_grid(grid: Any) -> np.ndarray:
    grid = np.unique(np.asarray(grid, dtype=np.float64))
    if grid.ndim != 1 or grid.size == 0 or not (grid[0] > 0.0 and grid[-1] < 1.0):
        raise ScoreError("grid must hold false positive rates strictly between 0 and 1.")
    return grid
