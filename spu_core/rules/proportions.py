"""The lift of a rule among labelled rows, with an interval that stays honest for few or no hits."""

from __future__ import annotations

import math

from spu_core.theory.check_ratio import wilson_interval


def lift_interval(
    labeled_hits: int, n_labeled: int, hits: int, n_rows: int, level: float = 0.95
) -> tuple[float, float, float]:
    """P(fires | labelled) / P(fires) with its limits; NaN where no row is labelled or the rule never fires.

    The limits join the Wilson limits of both shares (MOVER-R, Donner and Zou 2012). They treat the shares as
    independent; labelled rows are among all rows, which makes the interval a little wide when many are labelled.

    >>> tuple(round(value, 2) for value in lift_interval(30, 100, 1_000, 10_000))
    (3.0, 2.18, 3.99)
    >>> lift_interval(0, 100, 1_000, 10_000)[:2]
    (0.0, 0.0)
    """
    if not n_labeled or not hits:
        return math.nan, math.nan, math.nan
    top, bottom = labeled_hits / n_labeled, hits / n_rows
    top_low, top_high = (float(limit) for limit in wilson_interval(labeled_hits, n_labeled, level))
    low, high = (float(limit) for limit in wilson_interval(hits, n_rows, level))
    smallest = _root(top * bottom, top_low * (2 * top - top_low), high * (2 * bottom - high), -1.0)
    largest = _root(top * bottom, top_high * (2 * top - top_high), low * (2 * bottom - low), 1.0)
    return top / bottom, max(smallest, 0.0), largest


def _root(product: float, top: float, bottom: float, sign: float) -> float:
    return (product + sign * math.sqrt(max(product**2 - top * bottom, 0.0))) / bottom
