"""Totals of the true class from audited rows, and bounds of figures that are functions of these totals.

Totals are Horvitz–Thompson estimates by stratum, or model-assisted: Σzy = Σ z m over all rows plus
Σ z (y − m) / probability over the audited rows. m is a linear function of the belief (a + b·belief), fitted to the
verdicts. A good m makes the estimate precise; a bad m does not make it biased. Bounds are exact in strata with few
expected positives, and normal in the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import betaincinv, expit, logit

from spu_core.checks import check_choice
from spu_core.errors import AssumptionError
from spu_core.metrics.intervals import z_quantile
from spu_core.trust.audit.population import Population, Target

Method = Literal["assisted", "horvitz_thompson"]
METHODS = ("assisted", "horvitz_thompson")


@dataclass(frozen=True, eq=False)
class Audited:
    """Audited rows: `place` is the index in the population, `verdict` in [0, 1]; `stratum` is that of every row."""

    population: Population
    stratum: np.ndarray
    place: np.ndarray
    verdict: np.ndarray

    def __post_init__(self) -> None:
        missing = np.flatnonzero((self.sizes > 0) & (self.checked < np.minimum(2, self.sizes)))
        if missing.size:
            names = ", ".join(f"{h + 1} ({self.checked[h]} of {self.sizes[h]:,} rows)" for h in missing)
            raise AssumptionError(
                f"Too few verdicts in stratum {names}: an estimate needs at least two in each stratum. "
                "Check more rows of the list."
            )

    @property
    def strata(self) -> int:
        return int(self.stratum.max()) + 1

    @property
    def row_stratum(self) -> np.ndarray:
        """The stratum of each audited row."""
        return self.stratum[self.place]

    @property
    def sizes(self) -> np.ndarray:
        return np.bincount(self.stratum[self.stratum >= 0], minlength=self.strata)

    @property
    def checked(self) -> np.ndarray:
        """Audited rows per stratum."""
        return np.bincount(self.row_stratum, minlength=self.strata)

    @property
    def found(self) -> np.ndarray:
        """Positives found per stratum; a split verdict counts in part."""
        return np.bincount(self.row_stratum, weights=self.verdict, minlength=self.strata)

    @property
    def weight(self) -> np.ndarray:
        """Number of rows that each audited row represents: one over its probability to be drawn."""
        return (self.sizes / np.maximum(self.checked, 1))[self.row_stratum]


@dataclass(frozen=True, eq=False)
class StratumTotals:
    """Estimated T = Σzy and P = Σy of each stratum with their covariances, and T and P of the known rows."""

    total: np.ndarray
    positives: np.ndarray
    covariance: np.ndarray
    known_total: float
    known_positives: float

    def sums(self, strata: Any = slice(None)) -> tuple[float, float, np.ndarray]:
        """T and P over some strata (without the known rows) and their 2 × 2 covariance."""
        return (
            float(self.total[strata].sum()),
            float(self.positives[strata].sum()),
            self.covariance[strata].sum(axis=0),
        )

    @property
    def whole(self) -> tuple[float, float]:
        """T and P of all rows."""
        return float(self.total.sum()) + self.known_total, float(self.positives.sum()) + self.known_positives


def expectation(audited: Audited, method: Method = "assisted") -> np.ndarray:
    """m of each row: 0 for Horvitz–Thompson, else a + b·belief, fitted to the verdicts with their weights."""
    population = audited.population
    if check_choice(method, METHODS, "method") == "horvitz_thompson":
        return np.zeros(population.size)
    belief, weight, verdict = population.belief[audited.place], audited.weight, audited.verdict
    middle = np.average(belief, weights=weight)
    mean = float(np.average(verdict, weights=weight))
    spread = float((weight * (belief - middle) ** 2).sum())
    slope = float((weight * (belief - middle) * (verdict - mean)).sum()) / spread if spread > 0.0 else 0.0
    return np.clip(mean + slope * (population.belief - middle), 0.0, 1.0)


def stratum_totals(audited: Audited, column: np.ndarray, expected: np.ndarray) -> StratumTotals:
    """T and P of every stratum; `column` holds z."""
    population, strata = audited.population, audited.strata
    rest = audited.verdict - expected[audited.place]
    parts = np.stack([column[audited.place] * rest, rest])
    mean = _by_stratum(audited, parts) / np.maximum(audited.checked, 1)
    open_rows = audited.stratum >= 0
    assumed = np.stack(
        [
            np.bincount(audited.stratum[open_rows], weights=values[open_rows], minlength=strata)
            for values in (column * expected, expected)
        ]
    )
    total, positives = assumed + audited.sizes * mean
    known = population.is_known
    return StratumTotals(
        total,
        positives,
        _covariance(audited, parts - mean[:, audited.row_stratum]),
        float(column[known].sum()),
        float(known.sum()),
    )


def _covariance(audited: Audited, centred: np.ndarray) -> np.ndarray:
    """N_h² (1 − n_h/N_h) s_h² / n_h for each stratum, as strata × 2 × 2."""
    sizes, checked = audited.sizes, audited.checked
    factor = sizes**2 * (1.0 - checked / np.maximum(sizes, 1)) / np.maximum(checked * (checked - 1), 1)
    pairs = np.stack([centred[0] * centred[0], centred[0] * centred[1], centred[1] * centred[1]])
    first, both, second = factor * _by_stratum(audited, pairs)
    return np.stack([np.stack([first, both], -1), np.stack([both, second], -1)], -2)


def _by_stratum(audited: Audited, values: np.ndarray) -> np.ndarray:
    return np.stack([np.bincount(audited.row_stratum, weights=v, minlength=audited.strata) for v in values])


EDGE = 1e-9
MOST_STEPS = 4000


@dataclass(frozen=True, slots=True)
class Bounds:
    low: float
    high: float


def audit_bounds(audited: Audited, totals: StratumTotals, target: Target, is_thin: np.ndarray, level: float) -> Bounds:
    """Bounds at `level`; strata with `is_thin` get exact limits."""
    error = 1.0 - level
    both = is_thin.any() and (~is_thin & (audited.checked < audited.sizes)).any()
    share = 0.5 * error if both else error
    reach = z_quantile(1.0 - share)
    thick_total, thick_positives, covariance = totals.sums(~is_thin)
    base = np.array([thick_total + totals.known_total, thick_positives + totals.known_positives])
    values = []
    for sign in (1.0, -1.0):
        steps = _possible(audited, target, np.flatnonzero(is_thin), 1.0 - share, sign)
        values.append(_limits(target, audited, base[:, None] + steps, covariance, reach))
    return Bounds(float(min(low for low, _ in values)), float(max(high for _, high in values)))


def count_limits(found: float, checked: int, size: int, level: float) -> tuple[int, int]:
    """Clopper–Pearson limits of the number of positives among `size` rows of which `checked` were checked.

    The limits are rounded outwards to whole rows.

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
    """(T, P) of the thin strata for every number of positives that the limits allow. T is the largest (`sign` 1) or
    smallest (`sign` −1) possible one for that number."""
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
    # For a given number of positives, T is largest if the rows with the largest z are positive.
    more = sign * np.sort(sign * np.concatenate(optional))[::-1]
    steps = np.stack([np.append(0.0, np.cumsum(more)), np.arange(more.size + 1)])
    if steps.shape[1] > MOST_STEPS:
        kept = np.unique(np.linspace(0, steps.shape[1] - 1, MOST_STEPS).round().astype(int))
        steps = steps[:, kept]
    return steps + np.sum(certain, axis=0)[:, None]


def _limits(
    target: Target, audited: Audited, sums: np.ndarray, covariance: np.ndarray, reach: float
) -> tuple[float, float]:
    """The lowest and highest limit over all possible sums, with the normal error of the other strata."""
    total, positives = sums
    size = audited.population.size
    # Without positives (or negatives) a figure is undefined, so their number is kept slightly above 0.
    positives = positives.clip(min(EDGE * size, 1.0), size - min(EDGE * size, 1.0))
    value = np.clip(target.value(total, positives, audited.population), EDGE, 1.0 - EDGE)
    by_total, by_count = target.slopes(total, positives, audited.population)
    variance = (
        by_total**2 * covariance[0, 0] + 2.0 * by_total * by_count * covariance[0, 1] + by_count**2 * covariance[1, 1]
    )
    error, room = np.sqrt(np.maximum(variance, 0.0)), value * (1.0 - value)
    margin = reach * error / room
    # The logit scale is not reliable very close to 0 and 1, so the linear scale is used there.
    is_edge = error > 0.5 * room
    low = np.where(is_edge, value - reach * error, expit(logit(value) - margin))
    high = np.where(is_edge, value + reach * error, expit(logit(value) + margin))
    return float(low.min().clip(0.0, 1.0)), float(high.max().clip(0.0, 1.0))
