"""ROC curve for soft labels. Row i counts as soft_label[i] positives and 1 − soft_label[i] negatives.

A row is flagged when its score is **greater** than the threshold. Rows with equal scores share one threshold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from spu_core.checks import check_flags, check_number, check_share, check_soft_label
from spu_core.errors import ScoreError
from spu_core.metrics.auc import check_rows
from spu_core.metrics.ranking import Masses, masses_by_score, rank_rows


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """TPR, FPR and flagged rows at one threshold; unpacks as (tpr, threshold)."""

    tpr: float
    threshold: float
    fpr: float
    flagged: float
    flagged_share: float

    def __iter__(self) -> Iterator[float]:
        return iter((self.tpr, self.threshold))


@dataclass(frozen=True, slots=True)
class RocSpu:
    """ROC curve for soft labels, made by `roc_spu`.

    Point k flags the rows of the k highest distinct scores. Point 0 flags nothing, so `fpr`, `tpr` and `flagged` have
    one entry more than `score`.

    Parameters
    ----------
    fpr, tpr : ndarray
        FPR_SPU and TPR_SPU of each point, from 0 to 1.
    flagged : ndarray
        Number (or weight) of flagged rows.
    score : ndarray
        Distinct scores, highest first.

    Examples
    --------
    >>> curve = roc_spu([1.0, 0.5, 0.0], [0.9, 0.4, 0.1])
    >>> point = curve.at_budget(1)
    >>> point.flagged, round(point.tpr, 3), point.threshold
    (1.0, 0.667, 0.65)
    """

    fpr: np.ndarray
    tpr: np.ndarray
    flagged: np.ndarray
    score: np.ndarray

    def __repr__(self) -> str:
        return f"<RocSpu: {self.fpr.size:,} points, AUC_SPU {self.auc:.3f}>"

    @property
    def auc(self) -> float:
        """The area under the curve, which is AUC_SPU."""
        return float(np.trapezoid(self.tpr, self.fpr))

    @property
    def threshold(self) -> np.ndarray:
        """A threshold for each point, halfway between neighbouring scores; +∞ flags nothing, −∞ everything."""
        return self._thresholds(np.arange(self.fpr.size))

    def at_fpr(self, limit: float) -> OperatingPoint:
        """The point with the highest TPR_SPU whose FPR_SPU is at most `limit`."""
        limit = check_share(limit, "limit", ScoreError, closed=True)
        return self._point(int(np.searchsorted(self.fpr, limit, side="right")) - 1)

    def at_threshold(self, threshold: float) -> OperatingPoint:
        """The point that flags the rows scored above `threshold`."""
        threshold = float(threshold) if threshold in (np.inf, -np.inf) else check_number(threshold, "threshold")
        count = int(np.searchsorted(-self.score, -threshold, side="left"))
        point = self._point(count)
        return OperatingPoint(point.tpr, threshold, point.fpr, point.flagged, point.flagged_share)

    def at_budget(self, budget: float) -> OperatingPoint:
        """The point that flags as many rows as the budget allows. An int is a number of rows, a float a share.

        Tied rows are flagged together or not at all, so fewer rows than the budget may be flagged.
        """
        limit = _rows_within(budget, float(self.flagged[-1]))
        # Sums of weights have rounding errors, which must not cost a row of the budget.
        limit *= 1.0 + 1e-12
        return self._point(int(np.searchsorted(self.flagged, limit, side="right")) - 1)

    def thin(self, max_error: float = 1e-3) -> ThinCurve:
        """Fewer points for a chart; the vertical distance from the curve is at most `max_error`."""
        kept = thin_curve(self.fpr, self.tpr, check_share(max_error, "max_error", ScoreError))
        return ThinCurve(self.fpr[kept], self.tpr[kept], self._thresholds(kept), self.flagged[kept], max_error)

    def _thresholds(self, points: np.ndarray) -> np.ndarray:
        last = self.score.size
        halfway = _halfway(self.score[(points - 1).clip(0)], self.score[points.clip(None, last - 1)])
        return np.where(points == 0, np.inf, np.where(points == last, -np.inf, halfway))

    def _point(self, index: int) -> OperatingPoint:
        flagged = float(self.flagged[index])
        return OperatingPoint(
            tpr=float(self.tpr[index]),
            threshold=float(self._thresholds(np.array([index]))[0]),
            fpr=float(self.fpr[index]),
            flagged=flagged,
            flagged_share=flagged / float(self.flagged[-1]),
        )


def roc_spu(soft_label: Any, score: Any, *, sample_weight: Any = None) -> RocSpu:
    """ROC curve for soft labels.

    TPR_SPU(T) = Σ w s 1[g>T] / Σ w s against FPR_SPU(T) = Σ w (1−s) 1[g>T] / Σ w (1−s). A row is flagged when its score
    is greater than the threshold. Rows with equal scores share one threshold.

    Parameters
    ----------
    soft_label : array-like of float
        Belief that each row is positive, in [0, 1].
    score : array-like of float
        Model output; higher means more suspicious.
    sample_weight : array-like of float, optional
        Weight of each row. Default: 1.

    Returns
    -------
    RocSpu
        `.fpr`, `.tpr`, `.threshold`, `.auc`, and the operating points `.at_fpr()`, `.at_budget()`, `.at_threshold()`.

    Raises
    ------
    SoftLabelError, ScoreError
        If an array is not valid, lengths differ, or the soft labels are all 0 or all 1.

    Examples
    --------
    >>> curve = roc_spu([1.0, 0.5, 0.0], [0.9, 0.4, 0.1])
    >>> curve.tpr.round(3).tolist(), curve.fpr.round(3).tolist()
    ([0.0, 0.667, 1.0, 1.0], [0.0, 0.0, 0.333, 1.0])
    >>> tpr, threshold = curve.at_fpr(0.05)
    >>> round(tpr, 3), threshold
    (0.667, 0.65)
    """
    masses, score = check_rows(soft_label, score, sample_weight)
    return _curve(masses, score, sample_weight)


def roc_spu_ceiling(soft_label: Any, *, sample_weight: Any = None) -> RocSpu:
    """The curve that no score can exceed: the ROC_SPU of the soft label itself (Theorem 1).

    Parameters
    ----------
    soft_label : array-like of float
        Belief that each row is positive, in [0, 1].
    sample_weight : array-like of float, optional
        Weight of each row. Default: 1.

    Returns
    -------
    RocSpu
        Its `.auc` is `auc_spu_ceiling(soft_label)`.

    Raises
    ------
    SoftLabelError, ScoreError
        If an array is not valid, lengths differ, or the soft labels are all 0 or all 1.

    Examples
    --------
    >>> roc_spu_ceiling([1.0, 0.5, 0.0]).auc
    0.9444...
    """
    masses, _ = check_rows(soft_label, soft_label, sample_weight)
    return _curve(masses, masses.soft_label, sample_weight)


def tpr_spu_score(soft_label: Any, flagged: Any, *, sample_weight: Any = None) -> float:
    """Share of the positive mass that is flagged: Σ w s 1[flagged] / Σ w s.

    Parameters
    ----------
    soft_label : array-like of float
        Belief that each row is positive, in [0, 1].
    flagged : array-like of bool
        Which rows are flagged.
    sample_weight : array-like of float, optional
        Weight of each row. Default: 1.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    SoftLabelError, ScoreError
        If an array is not valid, lengths differ, or the soft labels are all 0 or all 1.

    Examples
    --------
    >>> tpr_spu_score([1.0, 0.5, 0.0], [True, False, False])
    0.666...
    """
    masses, flagged = _check_flagged(soft_label, flagged, sample_weight)
    positive, _ = masses.of(np.arange(flagged.size))
    return float(positive[flagged].sum() / positive.sum())


def fpr_spu_score(soft_label: Any, flagged: Any, *, sample_weight: Any = None) -> float:
    """Share of the negative mass that is flagged: Σ w (1−s) 1[flagged] / Σ w (1−s).

    Parameters
    ----------
    soft_label : array-like of float
        Belief that each row is positive, in [0, 1].
    flagged : array-like of bool
        Which rows are flagged.
    sample_weight : array-like of float, optional
        Weight of each row. Default: 1.

    Returns
    -------
    float
        In [0, 1]. Lower is better.

    Raises
    ------
    SoftLabelError, ScoreError
        If an array is not valid, lengths differ, or the soft labels are all 0 or all 1.

    Examples
    --------
    >>> fpr_spu_score([1.0, 0.5, 0.0], [True, True, False])
    0.333...
    """
    masses, flagged = _check_flagged(soft_label, flagged, sample_weight)
    _, negative = masses.of(np.arange(flagged.size))
    return float(negative[flagged].sum() / negative.sum())


def _check_flagged(soft_label: Any, flagged: Any, sample_weight: Any) -> tuple[Masses, np.ndarray]:
    soft_label = check_soft_label(soft_label)
    flagged = check_flags(flagged, soft_label.size, "flagged")
    masses, _ = check_rows(soft_label, flagged, sample_weight)
    return masses, flagged


def _curve(masses: Masses, score: np.ndarray, sample_weight: Any) -> RocSpu:
    ranking = rank_rows(score)
    by_score = list(masses_by_score(ranking, masses))
    positive = np.concatenate([block for block, _ in by_score])[::-1]
    negative = np.concatenate([block for _, block in by_score])[::-1]
    last = ranking.last_of_tie()
    return RocSpu(
        fpr=_shares(negative),
        tpr=_shares(positive),
        flagged=_flagged_rows(ranking.order, last, sample_weight),
        score=score[ranking.order[last]][::-1],
    )


def _halfway(upper: np.ndarray, lower: np.ndarray) -> np.ndarray:
    halfway = 0.5 * upper + 0.5 * lower
    # There is no number between neighbouring floats. The lower one works, since rows must be above the threshold.
    return np.where((halfway < upper) & (halfway >= lower), halfway, lower)


def _shares(mass: np.ndarray) -> np.ndarray:
    """Cumulative shares from 0 to exactly 1."""
    reached = np.append(0.0, np.cumsum(mass))
    return reached / reached[-1]


def _flagged_rows(order: np.ndarray, last: np.ndarray, sample_weight: Any) -> np.ndarray:
    if sample_weight is None:
        return np.append(0.0, order.size - np.append(-1, last[:-1])[::-1] - 1.0)
    weight = np.asarray(sample_weight, dtype=np.float64)[order]
    starts = np.append(0, last[:-1] + 1)
    return np.append(0.0, np.cumsum(np.add.reduceat(weight, starts)[::-1]))


def _rows_within(budget: Any, total: float) -> float:
    if isinstance(budget, int | np.integer) and not isinstance(budget, bool):
        if budget < 0:
            raise ScoreError(f"budget must not be negative, got {budget}.")
        return float(budget)
    return check_share(budget, "budget", ScoreError, closed=True) * total


@dataclass(frozen=True, slots=True)
class ThinCurve:
    """Points for a chart. The area is not computed from them, but from the whole curve."""

    fpr: np.ndarray
    tpr: np.ndarray
    threshold: np.ndarray
    flagged: np.ndarray
    max_error: float


def thin_curve(x: np.ndarray, y: np.ndarray, max_error: float) -> np.ndarray:
    """Indices to keep of a curve that rises from (0, 0) to (1, 1).

    Half of `max_error` comes from keeping only the points on both sides of 2/max_error levels of y. The other half
    comes from dropping points that lie close to a straight line between kept points.
    """
    levels = np.linspace(0.0, 1.0, int(np.ceil(2.0 / max_error)) + 1)
    reached = np.searchsorted(y, levels, side="left")
    candidates = np.unique(np.concatenate([reached - 1, reached, [x.size - 1]]).clip(0, x.size - 1))
    return candidates[_swinging_door(x[candidates].tolist(), y[candidates].tolist(), max_error / 2)]


def _swinging_door(x: list[float], y: list[float], tolerance: float) -> list[int]:
    """Indices of points to keep; all other points lie within `tolerance` (vertically) of the line through them.

    The range of slopes (`flattest` to `steepest`) holds all lines from the last kept point that pass the points after
    it within the tolerance. When the next point is outside this range, the point before it is kept.
    """
    kept, at_x, at_y = [0], x[0], y[0]
    flattest, steepest = -math.inf, math.inf
    for i in range(1, len(x)):
        run, rise = x[i] - at_x, y[i] - at_y
        if run > 0.0 and not flattest <= rise / run <= steepest:
            kept.append(i - 1)
            at_x, at_y = x[i - 1], y[i - 1]
            flattest, steepest = -math.inf, math.inf
            run, rise = x[i] - at_x, y[i] - at_y
        if run > 0.0:
            if (lower := (rise - tolerance) / run) > flattest:
                flattest = lower
            if (upper := (rise + tolerance) / run) < steepest:
                steepest = upper
        elif rise > tolerance:  # a vertical step: the vertical line covers all points on it
            kept.append(i)
            at_x, at_y = x[i], y[i]
            flattest, steepest = -math.inf, math.inf
    return kept if kept[-1] == len(x) - 1 else [*kept, len(x) - 1]


@dataclass(frozen=True, slots=True)
class Gains:
    """Share of the positive mass that is found, against the share of rows reviewed, highest scores first."""

    curve: RocSpu

    @property
    def reviewed(self) -> np.ndarray:
        """Share of rows reviewed at each point."""
        return self.curve.flagged / self.curve.flagged[-1]

    @property
    def caught(self) -> np.ndarray:
        """Share of ΣS in the rows reviewed at each point."""
        return self.curve.tpr

    @property
    def lift(self) -> np.ndarray:
        """Positive mass found, divided by that of a random review of the same size; 1 where all rows are reviewed."""
        return np.divide(self.caught, self.reviewed, out=np.ones_like(self.caught), where=self.reviewed > 0.0)

    def at_budget(self, budget: float) -> tuple[float, float]:
        """(caught, lift) when reviewing `budget` rows (int) or a share of them (float)."""
        point = self.curve.at_budget(budget)
        return point.tpr, point.tpr / point.flagged_share if point.flagged_share else 1.0


def gains_spu(soft_label: Any, score: Any, *, sample_weight: Any = None) -> Gains:
    """Gains and lift of reviewing rows by descending score.

    >>> gains = gains_spu([1.0, 0.5, 0.0, 0.0], [4, 3, 2, 1])
    >>> gains.at_budget(1)
    (0.666..., 2.666...)
    """
    return Gains(roc_spu(soft_label, score, sample_weight=sample_weight))
