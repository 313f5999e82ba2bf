"""AUC_SPU and its ceiling. Row i counts as soft_label[i] positives and 1 − soft_label[i] negatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from spu_core.checks import check_countable, check_flags, check_sample_weight, check_score, check_soft_label
from spu_core.metrics.ranking import Masses, Ranking, masses_by_score, rank_rows


def auc_spu_score(soft_label: Any, score: Any, *, sample_weight: Any = None) -> float:
    """AUC_SPU: the probability that a positive outranks a negative, without true negatives.

    Each row counts as `soft_label` positive and 1 − `soft_label` negative:
    AUC_SPU = Σ_ij s_i (1−s_j) (1[g_i > g_j] + ½·1[g_i = g_j]) / (Σ s · Σ (1−s)), computed exactly in one sort.

    Parameters
    ----------
    soft_label : array-like of float
        Belief that each row is positive, in [0, 1].
    score : array-like of float
        Model output; higher means more suspicious.
    sample_weight : array-like of float, optional
        Weight of each row. Default: 1.

    Returns
    -------
    float
        In [0, 1]; 0.5 for a random score. The maximum is `auc_spu_ceiling(soft_label)`.

    Raises
    ------
    SoftLabelError, ScoreError
        If an array is not valid, lengths differ, or the soft labels are all 0 or all 1.

    Examples
    --------
    >>> auc_spu_score([1.0, 0.5, 0.0], [0.9, 0.4, 0.1])
    0.9444...
    >>> auc_spu_score([1, 1, 0], [0.9, 0.4, 0.1])  # hard labels: the usual AUC
    1.0
    >>> auc_spu_score([0.2, 1.4], [0.1, 0.2])
    Traceback (most recent call last):
    spu_core.errors.SoftLabelError: soft_label must lie in [0, 1], but row 1 holds 1.4.
    """
    masses, score = check_rows(soft_label, score, sample_weight)
    return area(rank_rows(score), masses)


def auc_spu_ceiling(soft_label: Any, *, sample_weight: Any = None) -> float:
    """The largest AUC_SPU that any score can reach (Theorem 1).

    It equals the AUC_SPU of the soft label itself: ½ + E|S−S'| / (4p(1−p)) with p = E[S].

    Parameters
    ----------
    soft_label : array-like of float
        Belief that each row is positive, in [0, 1].
    sample_weight : array-like of float, optional
        Weight of each row. Default: 1.

    Returns
    -------
    float
        1 exactly if every soft label is 0 or 1; ½ if all are equal.

    Raises
    ------
    SoftLabelError, ScoreError
        If an array is not valid, lengths differ, or the soft labels are all 0 or all 1.

    Examples
    --------
    >>> auc_spu_ceiling([1.0, 0.5, 0.0])
    0.9444...
    >>> auc_spu_ceiling([1, 0, 0])
    1.0
    """
    masses, _ = check_rows(soft_label, soft_label, sample_weight)
    return area(rank_rows(masses.soft_label), masses)


def known_positive_auc_score(is_labeled: Any, score: Any, *, sample_weight: Any = None) -> float:
    """Known-positive AUC: the probability that a confirmed case outranks a row of the rest.

    Rules cannot improve it, unless they decided which rows were checked. It is usually below the true AUC, because the
    rest holds positives too.

    Parameters
    ----------
    is_labeled : array-like of bool
        Confirmed cases.
    score : array-like of float
        Model output; higher means more suspicious.
    sample_weight : array-like of float, optional
        Weight of each row. Default: 1.

    Returns
    -------
    float

    Examples
    --------
    >>> known_positive_auc_score([True, False, False], [0.7, 0.9, 0.1])
    0.5
    """
    return auc_spu_score(labels_as_mass(is_labeled), score, sample_weight=sample_weight)


def auc_spu_share_score(soft_label: Any, score: Any, *, sample_weight: Any = None) -> float:
    """Share of the ceiling that is reached: (AUC_SPU − ½) / (ceiling − ½), the Gini correlation of S and score.

    >>> auc_spu_share_score([1.0, 0.5, 0.0], [3, 2, 1])
    1.0
    """
    ceiling = auc_spu_ceiling(soft_label, sample_weight=sample_weight)
    if ceiling <= 0.5:
        return float("nan")  # constant soft labels: every score reaches ½, and so does the ceiling
    return (auc_spu_score(soft_label, score, sample_weight=sample_weight) - 0.5) / (ceiling - 0.5)


def check_rows(soft_label: Any, score: Any, sample_weight: Any = None) -> tuple[Masses, np.ndarray]:
    """Check the arguments of a metric; return the masses and the scores."""
    soft_label = check_soft_label(soft_label)
    score = check_score(score, soft_label.size)
    weight = None
    if sample_weight is not None:
        weight = check_sample_weight(sample_weight, soft_label.size)
        weight = weight / weight.max()  # the scale does not change a metric, and this avoids overflow
    check_countable(soft_label, weight)
    return Masses(soft_label, weight), score


def labels_as_mass(is_labeled: Any) -> np.ndarray:
    """Hard labels as soft labels 0 and 1."""
    return check_flags(is_labeled, None, "is_labeled").astype(np.float64)


def area(ranking: Ranking, masses: Masses) -> float:
    """AUC_SPU: positives outrank the negatives with lower scores, and half of those with the same score."""
    total = below = positives = 0.0
    for positive, negative in masses_by_score(ranking, masses):
        reached = np.cumsum(negative)
        beaten = reached - 0.5 * negative
        beaten += below
        # einsum sums products without BLAS, whose threads cost more than they save on small blocks.
        total += float(np.einsum("i,i->", positive, beaten))
        positives += float(positive.sum())
        below += float(reached[-1])
    return total / (positives * below)
