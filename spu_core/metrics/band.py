"""Confidence bands around ROC_SPU: at each FPR_SPU (pointwise), and for the whole curve at once (simultaneous).

The influence of row i on the TPR at FPR u is (s_i/a)(1[g_i>t_u] − R(u)) − R'(u) ((1−s_i)/b)(1[g_i>t_u] − u). The slope
R'(u) is estimated by the mean soft label around the threshold. Rows of one group are summed. The variance at u gives an
effective number of positives; the bounds are binomial bounds for this number, because they also hold near 0 and 1. The
simultaneous bounds use the quantile of the maximum of a Gaussian process with the same correlations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtr

from spu_core.checks import check_share
from spu_core.errors import ScoreError
from spu_core.metrics.auc import check_rows
from spu_core.metrics.influence import check_optional_groups, effective_number, small_sample_factor
from spu_core.metrics.intervals import ENOUGH
from spu_core.metrics.ranking import Masses, rank_rows

# Dense at low false positive rates, which matter most in practice.
DEFAULT_GRID = np.unique(np.concatenate([np.geomspace(1e-3, 0.1, 25), np.linspace(0.1, 0.99, 60)]))
DRAWS = 2000
# With a smaller effective number of negatives on one side of the threshold the linear approximation is too coarse (in
# simulations). The default grid leaves such points out.
ENOUGH_ON_EACH_SIDE = 8.0
# If there are more rows or groups, they are assigned at random to this many units. The standard error then has a
# relative error of 1.6 %.
MOST_UNITS = 2048


@dataclass(frozen=True, slots=True)
class RocBand:
    """TPR_SPU with its bounds at each FPR_SPU of a grid; the simultaneous bounds hold for all grid points at once.

    If there are too few rows for a band, the arrays are empty and `missing_because` gives the reason.
    """

    fpr: np.ndarray
    tpr: np.ndarray
    low: np.ndarray
    high: np.ndarray
    simultaneous_low: np.ndarray
    simultaneous_high: np.ndarray
    level: float
    missing_because: str | None = None

    @classmethod
    def missing(cls, level: float, because: str) -> RocBand:
        nothing = np.empty(0)
        return cls(nothing, nothing, nothing, nothing, nothing, nothing, level, because)


def roc_spu_band(
    soft_label: Any, score: Any, *, level: float = 0.95, grid: Any = None, sample_weight: Any = None, groups: Any = None
) -> RocBand:
    """Pointwise and simultaneous confidence bands of ROC_SPU.

    Parameters
    ----------
    soft_label : array-like of float
        Belief that each row is positive, in [0, 1].
    score : array-like of float
        Model output; higher means more suspicious.
    level : float, default 0.95
        Confidence level.
    grid : array-like of float, optional
        FPR_SPU values at which the band is computed. Default: a grid that begins where enough negatives are flagged.
    sample_weight : array-like of float, optional
        Weight of each row. Default: 1.
    groups : array-like, optional
        Group of each row. Rows of one group are treated as dependent.

    Returns
    -------
    RocBand
        `.fpr`, `.tpr`, `.low`, `.high`, `.simultaneous_low`, `.simultaneous_high`. If there are too few positives the
        band is empty, and `.missing_because` gives the reason.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> soft_label = rng.random(500)
    >>> band = roc_spu_band(soft_label, soft_label + rng.normal(size=500), grid=[0.1, 0.5])
    >>> bool((band.simultaneous_low <= band.low).all() and (band.low < band.tpr).all())
    True
    >>> roc_spu_band([1, 1, 0, 0, 0], [5, 3, 4, 2, 1]).missing_because
    'No confidence band: it needs an effective number of at least 10 positives, and there are 2.0.'
    """
    masses, score = check_rows(soft_label, score, sample_weight)
    level = check_share(level, "level", ScoreError)
    groups = check_optional_groups(groups, score.size)
    positives, negatives = (effective_number(mass, groups) for mass in masses.all())
    if (missing := _missing_because(positives, negatives, grouped=groups is not None)) is not None:
        return RocBand.missing(level, missing)
    curve = _Curve.of(masses, score, groups, DEFAULT_GRID if grid is None else _check_grid(grid))
    if grid is None:
        curve = curve.where_negatives_are_enough()
    if curve.fpr.size == 0:
        return RocBand.missing(level, "No confidence band: every threshold has too few negatives above or below it.")
    tail = 0.5 - 0.5 * level
    everywhere = min(tail, float(ndtr(-_sup_quantile(curve.moved, level))))
    bounds = *curve.bounds(tail), *curve.bounds(everywhere)
    return RocBand(curve.fpr, curve.tpr, *bounds, level)


def _missing_because(positives: float, negatives: float, *, grouped: bool) -> str | None:
    fewest, what = (positives, "positives") if positives <= negatives else (negatives, "negatives")
    if fewest >= ENOUGH:
        return None
    unit = f"groups with {what}" if grouped else what
    return (
        f"No confidence band: it needs an effective number of at least {ENOUGH:g} {unit}, and there are {fewest:.1f}."
    )


@dataclass(frozen=True, slots=True)
class _Curve:
    """The curve at a grid of FPRs, with the influence of each independent unit (a row, or a group of rows)."""

    fpr: np.ndarray
    tpr: np.ndarray
    moved: np.ndarray  # units × grid
    per_positive: float  # variance of the TPR over R(1−R), whole curve: one over the effective number of positives
    negatives: np.ndarray  # effective number of negatives above or below the threshold, in rows or units: the smallest

    @classmethod
    def of(cls, masses: Masses, score: np.ndarray, groups: np.ndarray | None, grid: np.ndarray) -> _Curve:
        positives, negatives = (effective_number(mass, groups) for mass in masses.all())
        ranking = rank_rows(score)
        best_first = ranking.order[::-1]
        positive, negative = masses.of(best_first)
        positive, negative = positive / positive.sum(), negative / negative.sum()
        end = (score.size - 2 - np.append(-1, ranking.last_of_tie()[:-1]))[::-1]
        cell, flagged = _cells(grid, negative.cumsum()[end].clip(max=1.0))
        unit = _units(groups, score.size)
        units = int(unit.max()) + 1
        place = unit[best_first] * len(flagged) + np.repeat(cell, np.diff(end, prepend=-1))

        def by_unit(mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """Flagged mass at each grid point, and all mass, of each unit."""
            held = np.bincount(place, weights=mass, minlength=units * len(flagged)).reshape(units, len(flagged))
            return held @ flagged, held.sum(axis=1)[:, None]

        (of_positive, own), (of_negative, own_negative) = by_unit(positive), by_unit(negative)
        tpr = of_positive.sum(axis=0)
        tpr[tpr > 1.0 - 1e-12] = 1.0
        as_positive = small_sample_factor(positives) * (of_positive - own * tpr)
        as_negative = small_sample_factor(negatives) * (of_negative - own_negative * grid)
        moved = as_positive - _steepest(positive, negative, end, grid, as_positive, as_negative) * as_negative
        variance, binomial = np.einsum("ij,ij->", as_positive, as_positive), (tpr * (1.0 - tpr)).sum()
        per_positive = variance / binomial if binomial > 1e-9 else 1.0 / positives
        per_positive = float(np.clip(per_positive, 1.0 / effective_number(positive), 1.0 / positives))
        on_each_side = [_effective_numbers(mass.clip(0.0)) for mass in (of_negative, own_negative - of_negative)]
        rows = effective_number(negative) * np.minimum(grid, 1.0 - grid)
        return cls(grid, tpr, moved, per_positive, np.minimum(rows, np.minimum(*on_each_side)))

    def where_negatives_are_enough(self) -> _Curve:
        kept = self.negatives >= ENOUGH_ON_EACH_SIDE
        return replace(
            self, fpr=self.fpr[kept], tpr=self.tpr[kept], moved=self.moved[:, kept], negatives=self.negatives[kept]
        )

    def bounds(self, tail: float) -> tuple[np.ndarray, np.ndarray]:
        """Bounds at each grid point; each side fails with probability `tail`.

        The variance gives an effective number of positives. With few positives on one side of the threshold this number
        is unreliable, so if it exceeds that of the whole curve, it is shrunk towards it.
        """
        variance, binomial = np.einsum("ij,ij->j", self.moved, self.moved), self.tpr * (1.0 - self.tpr)
        here = np.divide(variance, binomial, out=np.zeros(self.tpr.size), where=binomial > 0.0)
        count = np.minimum(self.tpr, 1.0 - self.tpr) / self.per_positive
        shrunk = (count * here + self.per_positive) / (count + 1.0)
        size = 1.0 / np.where(here > self.per_positive, here, shrunk)
        hits, misses = self.tpr * size, (1.0 - self.tpr) * size
        # A compromise: Clopper and Pearson add 0 and 1 (too wide), Jeffreys adds ½ and ½.
        low = betaincinv(hits + 0.25, misses + 0.75, tail)
        high = betaincinv(hits + 0.75, misses + 0.25, 1.0 - tail)
        return np.where(hits > 0.0, low, 0.0), np.where(misses > 0.0, high, 1.0)


def _cells(grid: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cell of each tie, best first, and the share of each cell that is flagged at each grid point (cells × grid).

    A tie covers the FPRs from that of the tie before it to its own, `right`. Ties between two neighbouring grid points
    share a cell. A tie that contains a grid point has its own cell, and a random part of it is flagged at that point.
    """
    left = np.append(0.0, right[:-1])
    end = np.searchsorted(grid, right, "left")
    start = np.minimum(np.searchsorted(grid, left, "right"), end)
    flagged = (np.arange(2 * grid.size + 1)[:, None] <= 2 * np.arange(grid.size)).astype(np.float64)
    for tie in np.flatnonzero(start < end):
        share = (grid - left[tie]) / (right[tie] - left[tie])
        flagged[start[tie] + end[tie]] = share.clip(0.0, 1.0)
    return start + end, flagged


def _units(groups: np.ndarray | None, rows: int) -> np.ndarray:
    """The independent unit of each row."""
    units = np.arange(rows) if groups is None else groups
    count = int(units.max()) + 1
    return units if count <= MOST_UNITS else np.random.default_rng(0).integers(0, MOST_UNITS, count)[units]


def _steepest(
    positive: np.ndarray,
    negative: np.ndarray,
    end: np.ndarray,
    grid: np.ndarray,
    as_positive: np.ndarray,
    as_negative: np.ndarray,
) -> np.ndarray:
    """The slope R' at each grid point, or one standard error of the FPR to its left or right: the one with the largest
    variance.

    At a kink, and where few negatives are flagged, the curve is not linear within one standard error.
    """
    sums = np.zeros((2, positive.size + 1))
    np.cumsum(positive, out=sums[0, 1:])
    np.cumsum(negative, out=sums[1, 1:])
    noise = np.sqrt(np.einsum("ij,ij->j", as_negative, as_negative))
    slopes = np.array([_slope(sums, end, place) for place in (grid, grid - noise, grid + noise)])
    mixed = np.einsum("ij,ij->j", as_positive, as_negative)
    variance = slopes**2 * noise**2 - 2.0 * slopes * mixed
    return np.take_along_axis(slopes, variance.argmax(axis=0)[None], axis=0)[0]


def _slope(sums: np.ndarray, end: np.ndarray, fpr: np.ndarray) -> np.ndarray:
    """Positive over negative mass in a symmetric window of ranks, which is smaller at the ends of the curve. If the tie
    at the threshold is larger than half the window, the tie is used instead."""
    count = sums.shape[1] - 1
    rank = np.interp(fpr, sums[1], np.arange(count + 1)).astype(int).clip(0, count - 1)
    half = np.minimum(np.ceil(0.4 * count**0.8), np.minimum(rank, count - rank).clip(5)).astype(int)
    first, last = (rank - half).clip(0), (rank + half).clip(max=count)
    tie = np.searchsorted(end, rank)
    tie_first, tie_last = np.append(-1, end)[tie] + 1, end[tie] + 1
    large = tie_last - tie_first > half
    window = sums[:, np.where(large, tie_last, last)] - sums[:, np.where(large, tie_first, first)]
    return window[0] / window[1].clip(1e-12)


def _effective_numbers(mass: np.ndarray) -> np.ndarray:
    """(Σm)²/Σm² of each column; 0 where there is no mass."""
    squares = np.einsum("ij,ij->j", mass, mass)
    return np.divide(mass.sum(axis=0) ** 2, squares, out=np.zeros(squares.size), where=squares > 0.0)


def _sup_quantile(moved: np.ndarray, level: float) -> float:
    """The quantile, at `level`, of the largest standardised deviation over the grid."""
    covariance = moved.T @ moved
    error = np.sqrt(np.diag(covariance))
    varies = error > 1e-12
    if not varies.any():
        return 0.0
    correlation = covariance[np.ix_(varies, varies)] / np.outer(error[varies], error[varies])
    values, vectors = np.linalg.eigh(correlation)
    normal = np.random.default_rng(0).standard_normal((DRAWS, values.size))
    paths = normal @ (vectors * np.sqrt(values.clip(0.0))).T
    return float(np.quantile(np.abs(paths).max(axis=1), level))


def _check_grid(grid: Any) -> np.ndarray:
    grid = np.unique(np.asarray(grid, dtype=np.float64))
    if grid.ndim != 1 or grid.size == 0 or not (grid[0] > 0.0 and grid[-1] < 1.0):
        raise ScoreError("grid must hold false positive rates strictly between 0 and 1.")
    return grid
