"""How much each row moves AUC_SPU: the influence values from which every standard error is made.

ψ_i(A) = w_i [ (s_i/a)(V10_i − A) + ((1−s_i)/b)(V01_i − A) ], where V10_i is the share of negative mass that row i
outranks, V01_i the share of positive mass that outranks row i, a = Σws/N and b = Σw(1−s)/N. With soft labels of 0 and
1 this is DeLong's method.
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
    """AUC_SPU with the influence of each row, in the order of the rows; the values sum to zero."""

    auc: float
    value: np.ndarray


def auc_spu_influence(soft_label: Any, score: Any, *, sample_weight: Any = None) -> Influence:
    """AUC_SPU and how far each row moves it.

    >>> influence = auc_spu_influence([1.0, 0.5, 0.0], [0.9, 0.4, 0.1])
    >>> bool(abs(influence.value.sum()) < 1e-12)
    True
    """
    masses, score = check_rows(soft_label, score, sample_weight)
    return influence_of(masses, score)


def standard_error(value: np.ndarray, groups: np.ndarray | None = None) -> float:
    """Standard error of the mean of independent influence values; values of one group are summed first."""
    rows = value.size
    if groups is not None:
        value = np.bincount(groups, weights=value)
    count = value.size
    if count < 2:
        return float("nan")
    return float(np.sqrt(count / (count - 1) * np.einsum("i,i->", value, value)) / rows)


def check_optional_groups(groups: Any, length: int) -> np.ndarray | None:
    """Group codes where groups are given."""
    return None if groups is None else check_groups(groups, length)


def influence_of(masses: Masses, score: np.ndarray) -> Influence:
    """The same on checked input."""
    ranking = rank_rows(score)
    positive, negative, beaten, beating = _beaten_and_beating(ranking, masses)
    auc = float(np.einsum("i,i->", positive, beaten) / positive.sum())
    beaten = (beaten - auc) / positive.sum()
    beating = (beating - auc) / negative.sum()
    if ranking.ends_tie is not None:
        return Influence(auc, _spread_over_ties(ranking, masses, beaten, beating))
    value = np.empty(score.size)
    value[ranking.order] = (positive * beaten + negative * beating) * score.size
    return Influence(auc, value)


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


def _spread_over_ties(ranking: Ranking, masses: Masses, beaten: np.ndarray, beating: np.ndarray) -> np.ndarray:
    """Rows of one score share what they beat and what beats them, and differ in their masses."""
    assert ranking.ends_tie is not None
    score_number = np.cumsum(np.append(False, ranking.ends_tie[:-1]))
    value = np.empty(ranking.order.size)
    for block in ranking.blocks():
        rows, scores = ranking.order[block], score_number[block]
        positive, negative = masses.of(rows)
        value[rows] = (positive * beaten[scores] + negative * beating[scores]) * value.size
    return value
