"""Which part of the ROC square is drawn, and with which points: few, however many rows there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spu_core.metrics import RocSpu

ZOOMS = ("full", "low", "log")
LOW_FPR = 0.1
LOWEST_LOG_FPR = 1e-3
# All curves together; each point costs about 32 bytes on the wire.
MOST_POINTS = 2400
MOST_TO_CLICK = 120


@dataclass(frozen=True)
class RocView:
    """Which part of the square is drawn, and with how many points for each curve."""

    zoom: str
    right: float
    top: float
    points: int

    @classmethod
    def of(cls, zoom: str, curves: Sequence[RocSpu]) -> RocView:
        """The view that shows all these curves."""
        # The ceiling is drawn twice: as a line, and as the edge of the shaded region.
        points = max(40, min(400, MOST_POINTS // (len(curves) + 1)))
        if zoom != "low":
            return cls(zoom, 1.0, 1.0, points)
        reached = [float(np.interp(LOW_FPR, curve.fpr, curve.tpr)) for curve in curves]
        return cls(zoom, LOW_FPR, min(1.0, 1.08 * max(reached)), points)

    @property
    def left(self) -> float:
        return LOWEST_LOG_FPR if self.zoom == "log" else 0.0

    def leaves_room_above(self, curve: RocSpu, width: float = 0.3, height: float = 0.07) -> bool:
        """Whether a label of this share of the view fits into its upper left corner, above the curve."""
        right = self.left ** (1.0 - width) if self.zoom == "log" else width * self.right
        return float(np.interp(right, curve.fpr, curve.tpr)) < (1.0 - height) * self.top

    def of_curve(self, curve: RocSpu) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x, y and (threshold, flagged share) of the points to draw."""
        if self.zoom == "log":
            return self._on_log_grid(curve)
        error = 1e-3
        while (thin := curve.thin(error)).fpr.size > self.points:
            error *= 1.6
        shape = np.column_stack([thin.fpr, thin.tpr, thin.threshold, thin.flagged / curve.flagged[-1]])
        points = np.unique(np.concatenate([shape, self._to_click(curve)]), axis=0)
        return points[:, 0], points[:, 1], np.column_stack([_finite(points[:, 2], curve), points[:, 3]])

    def _to_click(self, curve: RocSpu) -> np.ndarray:
        """Points at even distances: a smooth curve needs few to be drawn, but an analyst wants to choose finely."""
        limits = np.linspace(0.0, self.right, min(MOST_TO_CLICK, self.points // 2))
        found = [curve.at_fpr(float(limit)) for limit in limits]
        return np.array([(point.fpr, point.tpr, point.threshold, point.flagged_share) for point in found])

    def _on_log_grid(self, curve: RocSpu) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A straight line between two points is bent on a log axis, so the curve is read at many rates."""
        rate = np.geomspace(self.left, 1.0, self.points)
        within = [curve.at_fpr(float(limit)) for limit in rate.clip(None, 1.0)]
        threshold = _finite(np.array([point.threshold for point in within]), curve)
        share = np.array([point.flagged_share for point in within])
        return rate, np.interp(rate, curve.fpr, curve.tpr), np.column_stack([threshold, share])


def _finite(threshold: np.ndarray, curve: RocSpu) -> np.ndarray:
    """JSON knows no infinity: the highest score flags nothing too, and just below the lowest flags everything."""
    return threshold.clip(np.nextafter(curve.score[-1], -np.inf), curve.score[0])
