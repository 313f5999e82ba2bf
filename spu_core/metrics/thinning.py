"""Few points that draw a long curve: at no FPR is the drawn line further than `max_error` from the curve."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class ThinCurve:
    """Points to draw. It has no area on purpose: an area is computed from the whole curve."""

    fpr: np.ndarray
    tpr: np.ndarray
    threshold: np.ndarray
    flagged: np.ndarray
    max_error: float


def thin_curve(x: np.ndarray, y: np.ndarray, max_error: float) -> np.ndarray:
    """Indices to keep of a curve that rises from (0, 0) to (1, 1).

    Half of the error is spent on taking only the points on both sides of 2/max_error levels of y, the other half on
    dropping those that a straight line between kept points passes closely.
    """
    levels = np.linspace(0.0, 1.0, int(np.ceil(2.0 / max_error)) + 1)
    reached = np.searchsorted(y, levels, side="left")
    candidates = np.unique(np.concatenate([reached - 1, reached, [x.size - 1]]).clip(0, x.size - 1))
    return candidates[_swinging_door(x[candidates].tolist(), y[candidates].tolist(), max_error / 2)]


def _swinging_door(x: list[float], y: list[float], tolerance: float) -> list[int]:
    """Indices of points such that the line through them passes every other within `tolerance`, vertically.

    From each kept point a cone holds all lines that pass the points since within the tolerance. It closes when the
    next point falls outside; the point before is then kept and opens the next cone.
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
        elif rise > tolerance:  # a vertical step: the line to it covers all that lies between
            kept.append(i)
            at_x, at_y = x[i], y[i]
            flattest, steepest = -math.inf, math.inf
    return kept if kept[-1] == len(x) - 1 else [*kept, len(x) - 1]
