"""True figures of any score from checked rows with known probabilities, and paired differences of two scores.

Every figure is a function of weighted sums over the checked rows, so each row has an influence
ψ = y·a + (1−y)·b: `a` if it is positive, `b` if it is negative. Both are known for all rows, checked or not; only y is
not. With a guess q of y (fitted to the verdicts) the expected influence f = q·a + (1−q)·b has a known mean over all
rows, and the estimate is corrected by λ times its mean over the checked rows minus that over all rows. This is the
difference estimator of survey sampling, and the power-tuned estimator of prediction-powered inference (PPI++). λ in
[0, 1] minimises the estimated variance: a useless guess gets λ ≈ 0, and no guess makes the estimate biased.

For the true AUC with λ = 0 this is DeLong's method, weighted by one over the probabilities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv, expit, logit
from scipy.stats import rankdata

from spu_core.metrics import Difference, Interval
from spu_core.metrics.influence import effective_number
from spu_core.metrics.intervals import t_quantile, z_quantile
from spu_core.trust.audit.population import Population

RIDGE = 1.0
# With fewer checked positives or negatives the estimate is the classical one: a fit would make intervals too narrow.
ENOUGH_TO_FIT = 10.0
STEPS = 8
# Degrees of freedom that the belief and λ cost together.
COST_OF_FIT = 2.0


@dataclass(frozen=True, eq=False)
class Sums:
    """Influence of each row of the population, if it is positive and if it is negative, and the figure itself."""

    value: float
    if_positive: np.ndarray
    if_negative: np.ndarray

    def __sub__(self, other: Sums) -> Sums:
        return Sums(
            self.value - other.value, self.if_positive - other.if_positive, self.if_negative - other.if_negative
        )

    def expected(self, belief: np.ndarray) -> np.ndarray:
        """The expected influence of each row with this probability of being positive."""
        return belief * self.if_positive + (1.0 - belief) * self.if_negative

    def doubt(self, belief: np.ndarray) -> np.ndarray:
        """The standard deviation of the influence of each row: how much its verdict would tell."""
        return np.abs(self.if_positive - self.if_negative) * np.sqrt(belief * (1.0 - belief))


Linearised = Callable[[Population, np.ndarray, np.ndarray, np.ndarray], Sums]


def true_auc(rows: Population, place: np.ndarray, positive: np.ndarray, negative: np.ndarray) -> Sums:
    """True AUC; ties count half. `positive` and `negative` are the masses of the rows at `place`."""
    beaten = _share_below(rows.score, rows.score[place], negative)
    beating = 1.0 - _share_below(rows.score, rows.score[place], positive)
    value = float(np.average(beaten[place], weights=positive))
    total = positive.sum() + negative.sum()
    return Sums(value, (beaten - value) * (total / positive.sum()), (beating - value) * (total / negative.sum()))


def _mean_over(column: Callable[[Population], Any], members: str) -> Linearised:
    """The mean of a column over the positives, the negatives, or the class over the rows that `column` flags."""

    def linearised(rows: Population, place: np.ndarray, positive: np.ndarray, negative: np.ndarray) -> Sums:
        z, total, nothing = np.asarray(column(rows), dtype=np.float64), positive.sum() + negative.sum(), 0.0
        if members == "rows":
            share = z.mean()
            value = float((z[place] * positive).sum() / (z[place] * (positive + negative)).sum())
            return Sums(value, z * (1.0 - value) / share, -z * value / share)
        mass = positive if members == "positives" else negative
        value = float(np.average(z[place], weights=mass))
        influence = (z - value) * (total / mass.sum())
        rest = np.full(rows.size, nothing)
        return Sums(value, influence, rest) if members == "positives" else Sums(value, rest, influence)

    return linearised


LINEARISED: dict[str, Linearised] = {
    "true_auc": true_auc,
    "precision": _mean_over(lambda rows: rows.is_flagged, "rows"),
    "recall": _mean_over(lambda rows: rows.is_flagged, "positives"),
    "prior": _mean_over(lambda rows: np.ones(rows.size), "rows"),
    "positive_mean": _mean_over(lambda rows: rows.soft_label, "positives"),
    "negative_mean": _mean_over(lambda rows: rows.soft_label, "negatives"),
}


@dataclass(frozen=True, eq=False)
class Sampled:
    """Checked and known rows of one population: `place` in it, the probability to be there, and the verdict."""

    population: Population
    place: np.ndarray
    probability: np.ndarray
    verdict: np.ndarray

    @classmethod
    def of(cls, population: Population, place: np.ndarray, probability: np.ndarray, verdict: np.ndarray) -> Sampled:
        """Add the known positives, which need no check, to the checked rows."""
        known = np.flatnonzero(population.is_known)
        ones = np.ones(known.size)
        return cls(
            population,
            np.concatenate([place, known]),
            np.concatenate([probability, ones]),
            np.concatenate([verdict, ones]),
        )

    @property
    def weight(self) -> np.ndarray:
        return 1.0 / self.probability

    @property
    def masses(self) -> tuple[np.ndarray, np.ndarray]:
        """The number of positives and of negatives that each row stands for."""
        return self.weight * self.verdict, self.weight * (1.0 - self.verdict)

    @property
    def numbers(self) -> tuple[float, float]:
        """Effective numbers of checked positives and negatives; rows that were certain to be checked do not count."""
        chosen = self.probability < 1.0
        return tuple(_number(mass[chosen]) for mass in self.masses)  # type: ignore[return-value]

    def sums(self, key: str) -> Sums:
        return LINEARISED[key](self.population, self.place, *self.masses)

    def fitted_belief(self) -> np.ndarray:
        """q of every row: a logistic regression of the verdicts on the soft label and the score, with a ridge."""
        design, slope, _ = self._fit()
        return self._belief(design @ slope)

    def plausible_beliefs(self) -> list[np.ndarray]:
        """Several q that the verdicts leave open: the sigma points of the normal approximation of their posterior."""
        design, slope, curvature = self._fit()
        steps = np.sqrt(slope.size) * np.linalg.cholesky(np.linalg.inv(curvature)).T
        return [self._belief(design @ (slope + sign * step)) for step in steps for sign in (1.0, -1.0)]

    def _belief(self, odds: np.ndarray) -> np.ndarray:
        return np.where(self.population.is_known, 1.0, expit(odds).clip(1e-4, 1.0 - 1e-4))

    def _fit(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The design of all rows, the coefficients, and the curvature of the penalised likelihood."""
        rows = self.population
        columns = [_standard(logit(rows.belief.clip(1e-3, 1.0 - 1e-3))), _standard(rankdata(rows.score))]
        design = np.stack([np.ones(rows.size), *columns], axis=1)
        drawn = ~rows.is_known[self.place]
        seen, verdict, weight = design[self.place[drawn]], self.verdict[drawn], self.weight[drawn]
        weight = weight / weight.mean()
        ridge = np.diag([1e-3, RIDGE, RIDGE])
        start = float(np.average(verdict, weights=weight).clip(0.5 / drawn.sum(), 1.0 - 0.5 / drawn.sum()))
        slope = np.array([logit(start), 0.0, 0.0])
        curvature = ridge
        for _ in range(STEPS):
            fitted = expit(seen @ slope)
            curvature = (seen * (weight * fitted * (1.0 - fitted))[:, None]).T @ seen + ridge
            gradient = seen.T @ (weight * (verdict - fitted)) - ridge @ slope + ridge[:, 0] * logit(start)
            slope = slope + np.linalg.solve(curvature, gradient)
        return design, slope, curvature


@dataclass(frozen=True, slots=True)
class Corrected:
    """An estimate after the correction by expected influence, its standard error and the λ that was chosen."""

    value: float
    standard_error: float
    power: float
    numbers: tuple[float, float]
    degrees: float

    @property
    def is_exact(self) -> bool:
        """Whether the class of every row is known, so that there is no error."""
        return max(self.numbers) == 0.0 and self.standard_error == 0.0

    @property
    def is_unknown(self) -> bool:
        """Whether too few positives or negatives were checked to measure the error: fewer than two of a class."""
        return bool(np.isnan(self.standard_error)) or min(self.numbers) <= 1.0

    @property
    def reach(self) -> float:
        """Half the width of a 95 % interval, as far as the standard error tells."""
        return t_quantile(0.95, self.degrees) * self.standard_error if self.degrees > 0.0 else float("nan")


def corrected(sampled: Sampled, sums: Sums, belief: np.ndarray | None) -> Corrected:
    """The estimate with the best λ, or with λ = 0 if that promises a narrower interval or there is no belief."""
    plain = _with_power(sampled, sums, None)
    if belief is None or min(sampled.numbers) < ENOUGH_TO_FIT:
        return plain
    tuned = _with_power(sampled, sums, sums.expected(belief))
    return tuned if tuned.reach < plain.reach or np.isnan(plain.reach) else plain


def _with_power(sampled: Sampled, sums: Sums, expected: np.ndarray | None) -> Corrected:
    place, numbers = sampled.place, sampled.numbers
    weight = sampled.weight / sampled.weight.sum()
    influence = sampled.verdict * sums.if_positive[place] + (1.0 - sampled.verdict) * sums.if_negative[place]
    # A row that is certain to be checked has no error. The reduction for the share of rows that are checked is made
    # only as far as there are enough positives and negatives to measure their spread.
    trust = min(numbers) / (min(numbers) + ENOUGH_TO_FIT) if min(numbers) >= ENOUGH_TO_FIT else 0.0
    spread = np.where(sampled.probability < 1.0, (1.0 - trust * sampled.probability) * weight**2, 0.0)
    shift, power = 0.0, 0.0
    if expected is not None:
        guess = expected[place] - np.average(expected[place], weights=weight)
        scale = float((spread * guess**2).sum())
        power = float(np.clip((spread * guess * influence).sum() / scale, 0.0, 1.0)) if scale > 0.0 else 0.0
        shift = power * (np.average(expected[place], weights=weight) - expected.mean())
        influence = influence - power * guess
    # The fit of the belief and of λ costs degrees of freedom, as far as it is used.
    lost = 1.0 + COST_OF_FIT * power
    lift = [number / (number - lost) if number > lost else np.nan for number in numbers]
    factor = np.where(sampled.verdict > 0.0, lift[0] * sampled.verdict, 0.0)
    factor = factor + np.where(sampled.verdict < 1.0, lift[1] * (1.0 - sampled.verdict), 0.0)
    error = float(np.sqrt(np.where(spread > 0.0, spread * influence**2 * factor, 0.0).sum()))
    return Corrected(sums.value - shift, error, power, numbers, min(numbers) - lost)


def auc_interval(found: Corrected, level: float) -> Interval:
    """Student's t on the logit scale, or a score interval with few positives; 0 to 1 with fewer than two of a class."""
    value = float(np.clip(found.value, 0.0, 1.0))
    if found.is_exact:
        return Interval(value, value, value, 0.0, level)
    if found.is_unknown:
        return Interval(value, 0.0, 1.0, float("nan"), level)
    if min(found.numbers) < ENOUGH_TO_FIT:
        return _score_interval(value, found, level)
    return Interval.on_logit(value, found.standard_error, level, degrees=found.degrees, rows=min(found.numbers))


def _score_interval(value: float, found: Corrected, level: float) -> Interval:
    """All AUCs that a test with their own standard error does not reject (Newcombe 2006, method 5).

    The variance is that of Hanley and McNeil at the AUC in question; where the verdicts show a larger one, it is scaled
    to it. Estimated variances alone would be too small too often with few positives.
    """
    grid = np.linspace(0.0, 1.0, 2001)
    m, n = found.numbers
    rest = 0.5 * (m + n) - 1.0
    spread = grid * (1.0 - grid) * (1.0 + rest * (1.0 - grid) / (2.0 - grid) + rest * grid / (1.0 + grid)) / (m * n)
    here = float(np.interp(value, grid, spread))
    scale = max(1.0, found.standard_error**2 / here) if here > 0.0 else 1.0
    kept = grid[np.abs(grid - value) <= z_quantile(level) * np.sqrt(scale * spread)]
    low, high = (float(kept[0]), float(kept[-1])) if kept.size else (value, value)
    return Interval(value, min(low, value), max(high, value), found.standard_error, level)


def share_interval(found: Corrected, level: float, rows: float) -> Interval:
    """Korn and Graubard: Clopper–Pearson limits for the number of random rows that would be as precise."""
    value, error = float(np.clip(found.value, 0.0, 1.0)), found.standard_error
    if found.is_exact:
        return Interval(value, value, value, 0.0, level)
    number = value * (1.0 - value) / error**2 if error > 0.0 else rows
    number = min(number, rows) if 0.0 < value < 1.0 else rows
    tail, hits = 0.5 * (1.0 - level), value * number
    low = 0.0 if hits <= 0.0 else float(betaincinv(hits, number - hits + 1.0, tail))
    high = 1.0 if hits >= number else float(betaincinv(hits + 1.0, number - hits, 1.0 - tail))
    return Interval(value, low, high, error, level)


def difference_interval(found: Corrected, level: float) -> Difference:
    """Student's t; −1 to 1 without a p-value where fewer than two positives or negatives were checked."""
    if found.is_exact:
        return Difference(found.value, found.value, found.value, 0.0, level, p_value=float(found.value == 0.0))
    if found.is_unknown:
        return Difference(found.value, -1.0, 1.0, float("nan"), level)
    return Difference.between(found.value, found.standard_error, level, degrees=found.degrees)


def _share_below(values: np.ndarray, at: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """The share of the mass at lower values, half of that at equal ones."""
    order = np.argsort(at, kind="stable")
    reached = np.append(0.0, np.cumsum(mass[order]))
    ends = [reached[np.searchsorted(at[order], values, side=side)] for side in ("left", "right")]
    return 0.5 * (ends[0] + ends[1]) / reached[-1]


def _number(mass: np.ndarray) -> float:
    return effective_number(mass) if mass.sum() > 0.0 else 0.0


def _standard(values: np.ndarray) -> np.ndarray:
    spread = float(values.std())
    return (values - values.mean()) / spread if spread > 0.0 else np.zeros(values.size)
