"""Figures that an audit can estimate. Each is a function of two totals, P = Σy and T = Σzy; y is the true class.

This includes the true AUC, (Σ r y − P²/2) / (P (N − P)), since the rank r of every row is known. So each figure has a
linear approximation, whose variance determines the precision of the estimate and which rows to check.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from spu_core.checks import check_choice
from spu_core.errors import AssumptionError
from spu_core.trust.audit.population import Population

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
