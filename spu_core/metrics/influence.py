"""Influence of each row on AUC_SPU, from which every standard error is computed.

ψ_i(A) = w_i [ (s_i/a)(V10_i − A) + ((1−s_i)/b)(V01_i − A) ], where V10_i is the share of negative mass that row i
outranks, V01_i the share of positive mass that outranks row i, a = Σws/N and b = Σw(1−s)/N. The first term is the
influence of the row as a positive, the second its influence as a negative. They are kept apart, since the numbers of
positives and negatives can be very different. With soft labels of 0 and 1 this is DeLong's method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spu_core.checks import check_groups
from spu_core.metrics.auc import check_rows
from spu_core.metrics.ranking import Masses, Ranking, masses_by_score, rank_rows


@dataclass(frozen=True, slots=True)
class Influence:
    """AUC_SPU with the influence of each row, as a positive and as a negative, in the order of the rows.

    Both parts sum to zero. For a linear function of AUCs, subtract and scale the influence values.
    """

    auc: float
    as_positive: np.ndarray
    as_negative: np.ndarray

    @property
    def value(self) -> np.ndarray:
        """Influence of each row: the sum of both parts."""
        return self.as_positive + self.as_negative

    def __sub__(self, other: Influence) -> Influence:
        return Influence(
            self.auc - other.auc, self.as_positive - other.as_positive, self.as_negative - other.as_negative
        )

    def __mul__(self, factor: float) -> Influence:
        return Influence(self.auc * factor, self.as_positive * factor, self.as_negative * factor)

    __rmul__ = __mul__


@dataclass(frozen=True, slots=True)
class Spread:
    """A standard error with its degrees of freedom; both are NaN if they cannot be computed."""

    standard_error: float
    degrees: float


def auc_spu_influence(soft_label: Any, score: Any, *, sample_weight: Any = None) -> Influence:
    """AUC_SPU and the influence of each row.

    >>> influence = auc_spu_influence([1.0, 0.5, 0.0], [0.9, 0.4, 0.1])
    >>> bool(abs(influence.value.sum()) < 1e-12)
    True
    """
    masses, score = check_rows(soft_label, score, sample_weight)
    return influence_of(masses, score)


def spread_of(influence: Influence, masses: Masses, groups: np.ndarray | None = None) -> Spread:
    """Standard error and degrees of freedom of a figure with these influence values; rows of a group are summed first.

    m and n are the effective numbers of positives and negatives. The influence as a positive is multiplied by
    √(m/(m−1)), the influence as a negative by √(n/(n−1)). The degrees of freedom are Satterthwaite's, (Σu²)²/Σu⁴, and
    at most m−1 and n−1.
    """
    positive, negative = masses.all()
    numbers = effective_number(positive, groups), effective_number(negative, groups)
    first, second = small_sample_factor(numbers[0]), small_sample_factor(numbers[1])
    moved = _by_group(first * influence.as_positive + second * influence.as_negative, groups) / positive.size
    squares = moved * moved
    return spread_of_sums(float(squares.sum()), float(np.einsum("i,i->", squares, squares)), min(numbers))


def spread_of_sums(second: float, fourth: float, number: float) -> Spread:
    """Standard error and degrees of freedom from Σu² and Σu⁴ (u: influence of a row or group).

    `number` is the smaller of the effective numbers of positives and negatives.
    """
    if np.isnan(second):
        return Spread(float("nan"), float("nan"))
    return Spread(float(np.sqrt(second)), min(number - 1.0, second**2 / fourth) if fourth > 0.0 else number - 1.0)


def small_sample_factor(number: float) -> float:
    """√(m/(m−1)), the correction of a standard deviation for m values around their mean; NaN for m ≤ 1."""
    return float(np.sqrt(number / (number - 1.0))) if number > 1.0 + 1e-9 else float("nan")


def effective_number(mass: np.ndarray, groups: np.ndarray | None = None) -> float:
    """Effective number of units: (Σm)² / Σm², where a group counts as one unit.

    >>> effective_number(np.array([1.0, 1.0, 0.0])), effective_number(np.ones(4), np.array([0, 0, 0, 1]))
    (2.0, 1.6)
    """
    mass = _by_group(mass, groups)
    return float(mass.sum() ** 2 / np.einsum("i,i->", mass, mass))


def check_optional_groups(groups: Any, length: int) -> np.ndarray | None:
    """Group codes, or None if no groups are given."""
    return None if groups is None else check_groups(groups, length)


def influence_of(masses: Masses, score: np.ndarray) -> Influence:
    """`auc_spu_influence` for arguments that are already checked."""
    ranking = rank_rows(score)
    positive, negative, beaten, beating = _beaten_and_beating(ranking, masses)
    auc = float(np.einsum("i,i->", positive, beaten) / positive.sum())
    beaten = (beaten - auc) * (score.size / positive.sum())
    beating = (beating - auc) * (score.size / negative.sum())
    as_positive, as_negative = np.empty(score.size), np.empty(score.size)
    if ranking.ends_tie is None:
        as_positive[ranking.order], as_negative[ranking.order] = positive * beaten, negative * beating
        return Influence(auc, as_positive, as_negative)
    # Rows with equal scores have equal shares (`beaten`, `beating`) but different masses.
    score_number = np.cumsum(np.append(False, ranking.ends_tie[:-1]))
    for block in ranking.blocks():
        rows, scores = ranking.order[block], score_number[block]
        positive, negative = masses.of(rows)
        as_positive[rows], as_negative[rows] = positive * beaten[scores], negative * beating[scores]
    return Influence(auc, as_positive, as_negative)


def _by_group(value: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    return value if groups is None else np.bincount(groups, weights=value)


def _beaten_and_beating(ranking: Ranking, masses: Masses) -> tuple[np.ndarray, ...]:
    """Per distinct score: its masses, the share of negatives it outranks, the share of positives that outrank it."""
    by_score = list(masses_by_score(ranking, masses))
    positive = np.concatenate([block for block, _ in by_score])
    negative = np.concatenate([block for _, block in by_score])
    reached = np.cumsum(negative)
    beaten = (reached - 0.5 * negative) / reached[-1]
    reached = np.cumsum(positive)
    beating = 1.0 - (reached - 0.5 * positive) / reached[-1]
    return positive, negative, beaten, beating
