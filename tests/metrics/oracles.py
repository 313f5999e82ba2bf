"""Slow, obvious definitions that the metrics are held to."""

from __future__ import annotations

import numpy as np


def auc_by_counting_pairs(soft_label, score, weight=None):
    """Probability that a positive outranks a negative, straight from the definition."""
    weight = np.ones(len(soft_label)) if weight is None else weight
    wins = (score[:, None] > score) + 0.5 * (score[:, None] == score)
    pairs = np.outer(weight * soft_label, weight * (1 - soft_label))
    return (wins * pairs).sum() / pairs.sum()


def rates_by_threshold(soft_label, score, threshold, weight=None):
    """(TPR_SPU, FPR_SPU) of flagging the rows above a threshold."""
    weight = np.ones(len(soft_label)) if weight is None else weight
    flagged = score > threshold
    positive, negative = weight * soft_label, weight * (1 - soft_label)
    return (positive * flagged).sum() / positive.sum(), (negative * flagged).sum() / negative.sum()


def ceiling_by_theorem_1(soft_label, weight=None):
    """½ + ∫F(1−F) / (2 ∫F ∫(1−F)), integrating the step function F exactly."""
    weight = np.ones(len(soft_label)) if weight is None else weight
    points = np.concatenate([[0.0], np.sort(soft_label), [1.0]])
    widths = np.diff(points)
    F = np.array([(weight * (soft_label <= left)).sum() for left in points[:-1]]) / weight.sum()
    return 0.5 + (widths * F * (1 - F)).sum() / (2 * (widths * F).sum() * (widths * (1 - F)).sum())


def influence_by_counting_pairs(soft_label, score):
    """ψ_i from the full matrix of wins."""
    wins = (score[:, None] > score) + 0.5 * (score[:, None] == score)
    beaten = wins @ (1 - soft_label) / (1 - soft_label).sum()
    beating = wins.T @ soft_label / soft_label.sum()
    auc = auc_by_counting_pairs(soft_label, score)
    share = soft_label.mean()
    return soft_label / share * (beaten - auc) + (1 - soft_label) / (1 - share) * (beating - auc)


def largest_vertical_gap(curve, thin):
    """How far the thin line is from the curve, over every vertex of the curve."""
    worst = 0.0
    for fpr, tpr in zip(curve.fpr, curve.tpr, strict=True):
        first, after = np.searchsorted(thin.fpr, [fpr], "left")[0], np.searchsorted(thin.fpr, [fpr], "right")[0]
        if after > first:
            low, high = thin.tpr[first], thin.tpr[after - 1]
        else:
            low = high = np.interp(fpr, thin.fpr[first - 1 : first + 1], thin.tpr[first - 1 : first + 1])
        worst = max(worst, low - tpr, tpr - high)
    return worst
