"""Bounds of an audited figure: normal where enough positives are expected, exact in strata where they are few.

Where a stratum expects fewer than five positives (or negatives), a normal interval is too short: finding none would
prove too much. There the number of positives gets exact Clopper–Pearson limits (conservative also for draws without
replacement), and the figure its worst and best value over everything they allow: any number of positives within the
limits, lying anywhere in the stratum. Half of the allowed error goes to these strata, half to the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, expit, logit, ndtri

from spu_core.trust.audit_targets import Target
from spu_core.trust.audit_totals import Audited, StratumTotals

EDGE = 1e-9
MOST_STEPS = 4000


@dataclass(frozen=True, slots=True)
class Bounds:
    low: float
    high: float


def audit_bounds(audited: Audited, totals: StratumTotals, target: Target, is_thin: np.ndarray, level: float) -> Bounds:
    """Bounds at `level`; `is_thin` marks the strata that get exact limits."""
    error = 1.0 - level
    both = is_thin.any() and (~is_thin & (audited.checked < audited.sizes)).any()
    share = 0.5 * error if both else error
    reach = float(ndtri(1.0 - 0.5 * share))
    thick_total, thick_positives, covariance = totals.sums(~is_thin)
    base = np.array([thick_total + totals.known_total, thick_positives + totals.known_positives])
    values = []
    for sign in (1.0, -1.0):
        steps = _possible(audited, target, np.flatnonzero(is_thin), 1.0 - share, sign)
        values.append(_limits(target, audited, base[:, None] + steps, covariance, reach))
    return Bounds(float(min(low for low, _ in values)), float(max(high for _, high in values)))


def count_limits(found: float, checked: int, size: int, level: float) -> tuple[int, int]:
    """Clopper–Pearson limits of the positives among `size` rows of which `checked` were seen; whole rows, outwards.

    >>> count_limits(0, 59, 1000, 0.9)
    (0, 50)
    >>> count_limits(3, 10, 10, 0.95)
    (3, 3)
    """
    least, most = int(np.floor(found)), int(np.ceil(found))
    if checked >= size:
        return least, most
    tail = 0.5 * (1.0 - level)
    low = 0.0 if least == 0 else float(betaincinv(least, checked - least + 1, tail))
    high = 1.0 if most >= checked else float(betaincinv(most + 1, checked - most, 1.0 - tail))
    return max(least, int(np.floor(size * low))), min(size - (checked - most), int(np.ceil(size * high)))


def _possible(audited: Audited, target: Target, thin: np.ndarray, level: float, sign: float) -> np.ndarray:
    """(T, P) of the thin strata for every number of positives the limits allow, with T as large as it can be for that
    number (`sign` 1) or as small (−1)."""
    column = target.column(audited.population)
    checked = np.zeros(audited.population.size, dtype=bool)
    checked[audited.place] = True
    certain, optional = [np.zeros(2)], [np.zeros(0)]
    for stratum in thin:
        least, most = count_limits(
            audited.found[stratum],
            int(audited.checked[stratum]),
            int(audited.sizes[stratum]),
            level ** (1.0 / thin.size),
        )
        seen = audited.row_stratum == stratum
        verdict = audited.verdict[seen]
        certain.append(np.array([(column[audited.place[seen]] * verdict).sum(), verdict.sum()]))
        unseen = sign * np.sort(sign * column[(audited.stratum == stratum) & ~checked])[::-1]
        first = min(max(0, least - int(np.ceil(verdict.sum()))), unseen.size)
        last = min(max(first, most - int(np.floor(verdict.sum()))), unseen.size)
        certain.append(np.array([unseen[:first].sum(), first]))
        optional.append(unseen[first:last])
    # For a given number of positives T is largest where the largest z come first.
    more = sign * np.sort(sign * np.concatenate(optional))[::-1]
    steps = np.stack([np.append(0.0, np.cumsum(more)), np.arange(more.size + 1)])
    if steps.shape[1] > MOST_STEPS:
        kept = np.unique(np.linspace(0, steps.shape[1] - 1, MOST_STEPS).round().astype(int))
        steps = steps[:, kept]
    return steps + np.sum(certain, axis=0)[:, None]


def _limits(
    target: Target, audited: Audited, sums: np.ndarray, covariance: np.ndarray, reach: float
) -> tuple[float, float]:
    """The lowest and the highest limit over all possible sums, each with the normal error of the other strata."""
    total, positives = sums
    size = audited.population.size
    # A figure of no positives at all does not exist; the nearest that does stands for it.
    positives = positives.clip(min(EDGE * size, 1.0), size - min(EDGE * size, 1.0))
    value = np.clip(target.value(total, positives, audited.population), EDGE, 1.0 - EDGE)
    by_total, by_count = target.slopes(total, positives, audited.population)
    variance = (
        by_total**2 * covariance[0, 0] + 2.0 * by_total * by_count * covariance[0, 1] + by_count**2 * covariance[1, 1]
    )
    error, room = np.sqrt(np.maximum(variance, 0.0)), value * (1.0 - value)
    margin = reach * error / room
    # So near to 0 or 1 the logit scale breaks down; the plain one does not.
    is_edge = error > 0.5 * room
    low = np.where(is_edge, value - reach * error, expit(logit(value) - margin))
    high = np.where(is_edge, value + reach * error, expit(logit(value) + margin))
    return float(low.min().clip(0.0, 1.0)), float(high.max().clip(0.0, 1.0))
