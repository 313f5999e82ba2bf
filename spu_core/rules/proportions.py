"""The lift of a rule among labelled rows, with an interval that stays honest for few or no hits."""

from __future__ import annotations

import math

from spu_core.theory.check_ratio import wilson_interval


def lift_interval(
    labeled_hits: int, n_labeled: int, hits: int, n_rows: int, level: float = 0.95
) -> tuple[float, float, float]:
    """P(fires | labelled) / P(fires) with its limits; NaN where no row is labelled or the rule never fires.

    The limits join the Wilson limits of both shares (MOVER-R with correlation, Donner and Zou 2012); labelled rows are
    among all rows, so the two shares move together.

    >>> tuple(round(value, 2) for value in lift_interval(30, 100, 1_000, 10_000))
    (3.0, 2.2, 3.95)
    >>> lift_interval(0, 100, 1_000, 10_000)[:2]
    (0.0, 0.0)
    """
    if not n_labeled or not hits:
        return math.nan, math.nan, math.nan
    top, bottom = labeled_hits / n_labeled, hits / n_rows
    top_low, top_high = (float(limit) for limit in wilson_interval(labeled_hits, n_labeled, level))
    low, high = (float(limit) for limit in wilson_interval(hits, n_rows, level))
    shared = _correlation(top, n_labeled, bottom, n_rows)
    middle = top * bottom - shared * (top - top_low) * (high - bottom)
    smallest = _root(middle, top_low * (2 * top - top_low), high * (2 * bottom - high), -1.0)
    middle = top * bottom - shared * (top_high - top) * (bottom - low)
    largest = _root(middle, top_high * (2 * top - top_high), low * (2 * bottom - low), 1.0)
    lift = top / bottom
    # Where both shares are 1 or nearly so, rounding must not push a limit past the estimate.
    return lift, min(max(smallest, 0.0), lift), max(largest, lift)


def _correlation(top: float, n_labeled: int, bottom: float, n_rows: int) -> float:
    """Of both estimated shares: hits among labelled rows are counted in both."""
    spread = bottom * (1 - bottom) * n_rows
    return min(1.0, math.sqrt(top * (1 - top) * n_labeled / spread)) if spread > 0 else 0.0


def _root(middle: float, top: float, bottom: float, sign: float) -> float:
    return (middle + sign * math.sqrt(max(middle**2 - top * bottom, 0.0))) / bottom
