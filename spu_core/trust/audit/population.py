"""The rows of an audit with scores and soft labels, and the figures that an audit can estimate of them.

Each figure is a function of two totals, P = Σy and T = Σzy; y is the true class. This includes the true AUC,
(Σ r y − P²/2) / (P (N − P)), since the rank r of every row is known. So each figure has a linear approximation, whose
variance determines the precision of the estimate and which rows to check.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit, logit

from spu_core.checks import check_choice, check_flags, check_number, check_score, check_share, check_soft_label
from spu_core.errors import AssumptionError
from spu_core.metrics import roc_spu
from spu_core.training import Run

BANDS = 20
LEAST_BELIEF = 0.002


@dataclass(frozen=True, eq=False)
class Population:
    """All rows of an audit. Every estimate is for exactly these rows, not for future rows.

    Made by `Population.of_run(run)` from a trained run, or by `Population.of` from arrays.

    Parameters
    ----------
    score, soft_label : array
        For each row.
    is_known : array of bool
        Confirmed positives. They are never drawn, but count in every estimate.
    threshold : float
        Rows with higher scores are flagged.
    row : array of int
        Row numbers in the table, from 0.
    belief : array
        The probability of being positive that a plan assumes: the mean of the row's soft label and the mean soft label
        of rows with similar scores.
    """

    score: np.ndarray
    soft_label: np.ndarray
    is_known: np.ndarray
    threshold: float
    row: np.ndarray
    belief: np.ndarray

    @classmethod
    def of(
        cls, score: Any, soft_label: Any, *, threshold: float, is_known: Any = None, row: Any = None, prior: Any = None
    ) -> Population:
        """Check the arrays and compute the beliefs. With a `prior`, beliefs are shifted so that their mean equals it.

        >>> rows = Population.of([0.9, 0.4, 0.1], [1, 0.5, 0], threshold=0.5, is_known=[True, False, False])
        >>> rows.size, rows.is_flagged.tolist(), int(rows.is_open.sum())
        (3, [True, False, False], 2)
        """
        soft_label = check_soft_label(soft_label)
        score = check_score(score, soft_label.size)
        count = soft_label.size
        known = np.zeros(count, bool) if is_known is None else check_flags(is_known, count, "is_known")
        if known.all():
            raise AssumptionError("Every row is a confirmed case, so an audit is not needed.")
        row = np.arange(count) if row is None else np.asarray(row)
        belief = _belief(score, soft_label, known, prior)
        return cls(score, soft_label, known, check_number(threshold, "threshold"), row, belief)

    @classmethod
    def of_run(cls, run: Run, threshold: float | None = None, *, prior: float | None = None) -> Population:
        """The evaluated rows of a run with its out-of-fold scores; confirmed cases are known.

        Parameters
        ----------
        run : Run
            A finished run.
        threshold : float, optional
            Rows with higher scores are flagged. Default: the threshold that uses the review budget of the run.
        prior : float, optional
            Share of positives, if known. Beliefs are shifted so that their mean equals it.
        """
        evaluation, score = run.evaluation, run.need_score()[run.evaluation.judged]
        soft_label = evaluation.judged_soft_label
        if threshold is None:
            threshold = _finite(roc_spu(soft_label, score).at_budget(evaluation.budget).threshold, score)
        return cls.of(
            score,
            soft_label,
            threshold=threshold,
            is_known=evaluation.judged_is_labeled,
            row=np.flatnonzero(evaluation.judged),
            prior=prior,
        )

    @property
    def size(self) -> int:
        return int(self.score.size)

    @cached_property
    def is_open(self) -> np.ndarray:
        """Rows whose class is unknown."""
        return ~self.is_known

    @cached_property
    def is_flagged(self) -> np.ndarray:
        return self.score > self.threshold

    @cached_property
    def rank(self) -> np.ndarray:
        """Number of rows that each row outranks; ties count half. Σ rank·y gives the true AUC."""
        _, code, count = np.unique(self.score, return_inverse=True, return_counts=True)
        return (np.cumsum(count) - 0.5 * count)[code]

    def sample(self, most: int, seed: int = 0) -> Population:
        """A random sample of at most `most` rows, which is enough for a plan."""
        if self.size <= most:
            return self
        return self.only(np.sort(np.random.default_rng(seed).choice(self.size, most, replace=False)))

    def only(self, rows: np.ndarray) -> Population:
        """A part of the rows, by position or flag."""
        score, soft_label, known = self.score[rows], self.soft_label[rows], self.is_known[rows]
        return Population(score, soft_label, known, self.threshold, self.row[rows], self.belief[rows])


def _belief(score: np.ndarray, soft_label: np.ndarray, known: np.ndarray, prior: float | None) -> np.ndarray:
    edges = np.unique(np.quantile(score, np.linspace(0.0, 1.0, BANDS + 1)[1:-1]))
    band = np.searchsorted(edges, score, side="left")
    # Known rows have S = 1 because they were checked, so they must not influence the beliefs of the others.
    count = np.bincount(band, weights=~known, minlength=edges.size + 1)
    total = np.bincount(band, weights=soft_label * ~known, minlength=edges.size + 1)
    alike = np.divide(total, count, out=np.zeros_like(total), where=count > 0)[band]
    belief = (0.5 * soft_label + 0.5 * alike).clip(LEAST_BELIEF, 1.0 - LEAST_BELIEF)
    if prior is not None:
        belief = _moved_to(belief, known, check_share(prior, "prior"))
    return np.where(known, 1.0, belief)


def _moved_to(belief: np.ndarray, known: np.ndarray, prior: float) -> np.ndarray:
    """Beliefs shifted by one number on the log-odds scale, so that their mean is the prior."""
    wanted = prior * belief.size - known.sum()
    rest = logit(belief[~known])
    if not 0.0 < wanted < rest.size:
        raise AssumptionError(
            f"prior {prior:g} means {prior * belief.size:,.0f} positives, but {int(known.sum()):,} of "
            f"{belief.size:,} rows are known positives; choose another prior."
        )
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if expit(rest + middle).sum() < wanted else (low, middle)
    return expit(logit(belief) + low).clip(1e-6, 1.0 - 1e-6)


def _finite(threshold: float, score: np.ndarray) -> float:
    """A finite threshold that flags the same rows: the highest score, or a number just below the lowest."""
    return float(np.clip(threshold, np.nextafter(score.min(), -np.inf), score.max()))


Numbers = Any  # a float, or an array of them


@dataclass(frozen=True, slots=True)
class Target:
    """One figure: its name and description, the z of each row, its value, and its derivatives by T and P."""

    key: str
    title: str
    description: str
    column: Callable[[Population], np.ndarray]
    value: Callable[[Numbers, Numbers, Population], Numbers]
    slopes: Callable[[Numbers, Numbers, Population], tuple[Numbers, Numbers]]
    flagged_only: bool = False

    def influence(self, population: Population, total: float, positives: float) -> np.ndarray:
        """The change of the figure, to first order, if a row is positive."""
        by_total, by_count = self.slopes(total, positives, population)
        return by_total * self.column(population) + by_count

    def of_truth(self, population: Population, truth: Any) -> float:
        """The figure if every class is known.

        >>> rows = Population.of([0.9, 0.4, 0.1], [1, 0.5, 0], threshold=0.5)
        >>> TARGETS["true_auc"].of_truth(rows, [1, 0, 0]), TARGETS["precision"].of_truth(rows, [1, 0, 0])
        (1.0, 1.0)
        """
        truth = np.asarray(truth, dtype=np.float64)
        return float(self.value(float((self.column(population) * truth).sum()), float(truth.sum()), population))


def target_named(key: str) -> Target:
    """One of the targets, or an error that lists them."""
    return TARGETS[check_choice(key, TARGETS, "target", AssumptionError)]


def _ones(population: Population) -> np.ndarray:
    return np.ones(population.size)


def _flagged(population: Population) -> np.ndarray:
    return population.is_flagged.astype(np.float64)


def _flagged_count(population: Population) -> float:
    count = float(population.is_flagged.sum())
    if count == 0.0:
        raise AssumptionError(
            f"No row has a score above {population.threshold:g}, so precision is undefined; lower the threshold."
        )
    return count


def _auc(total: Numbers, positives: Numbers, population: Population) -> Numbers:
    return (total - 0.5 * positives**2) / (positives * (population.size - positives))


def _auc_slopes(total: Numbers, positives: Numbers, population: Population) -> tuple[Numbers, Numbers]:
    pairs = positives * (population.size - positives)
    auc = _auc(total, positives, population)
    return 1.0 / pairs, -(positives + auc * (population.size - 2.0 * positives)) / pairs


def _rest(total: Numbers, positives: Numbers, population: Population) -> Numbers:
    return (population.soft_label.sum() - total) / (population.size - positives)


def _rest_slopes(total: Numbers, positives: Numbers, population: Population) -> tuple[Numbers, Numbers]:
    count = population.size - positives
    return -1.0 / count, _rest(total, positives, population) / count


def _ratio(total: Numbers, positives: Numbers, population: Population) -> Numbers:
    return total / positives


def _ratio_slopes(total: Numbers, positives: Numbers, population: Population) -> tuple[Numbers, Numbers]:
    return 1.0 / positives, -total / positives**2


TARGETS = {
    "true_auc": Target(
        "true_auc",
        "True AUC",
        "The probability that a true positive has a higher score than a true negative.",
        lambda population: population.rank,
        _auc,
        _auc_slopes,
    ),
    "precision": Target(
        "precision",
        "Precision",
        "The share of true positives among the flagged rows.",
        _flagged,
        lambda total, positives, population: total / _flagged_count(population),
        lambda total, positives, population: (1.0 / _flagged_count(population), 0.0 * positives),
        flagged_only=True,
    ),
    "recall": Target(
        "recall",
        "Recall",
        "The share of all true positives that are flagged (the true TPR).",
        _flagged,
        _ratio,
        _ratio_slopes,
    ),
    "prior": Target(
        "prior",
        "π, share of positives",
        "The share of true positives among all rows.",
        _ones,
        lambda total, positives, population: total / population.size,
        lambda total, positives, population: (1.0 / population.size, 0.0 * positives),
    ),
    "positive_mean": Target(
        "positive_mean",
        "S_P",
        "The mean soft label of true positives.",
        lambda population: population.soft_label,
        _ratio,
        _ratio_slopes,
    ),
    "negative_mean": Target(
        "negative_mean",
        "S_N",
        "The mean soft label of true negatives.",
        lambda population: population.soft_label,
        _rest,
        _rest_slopes,
    ),
}
