"""AUCs within folds: scores of different folds come from different models and need not share a scale.

Pooling all out-of-fold scores into one ranking would punish a candidate whose folds merely differ in level; the model
that is refitted on all rows has one level. So every AUC of a run is the mean over folds, weighted by their rows, and
its standard error comes from the influence values of each fold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit, ndtri

from spu_core.checks import check_groups
from spu_core.errors import SoftLabelError
from spu_core.metrics import Interval, auc_spu_influence, auc_spu_interval, standard_error
from spu_core.training.basis import Basis


@dataclass(frozen=True, eq=False)
class FoldedAuc:
    """A mean of AUCs within folds, with the influence of each row that counted; `by_fold` has None for folds that
    lack positive or negative mass."""

    value: float
    rows: np.ndarray
    influence: np.ndarray
    groups: np.ndarray | None
    by_fold: tuple[float | None, ...]

    @property
    def standard_error(self) -> float:
        return standard_error(self.influence, self.groups)


def fold_rows(basis: Basis) -> list[np.ndarray]:
    """Positions of the judged rows, fold by fold: within one, all rows were scored by the same model."""
    numbers = np.unique(basis.fold[basis.judged])
    return [np.flatnonzero(basis.judged & (basis.fold == number)) for number in numbers]


def folded_auc(target: np.ndarray, score: np.ndarray, basis: Basis) -> FoldedAuc | None:
    """AUC of a score against any belief, fold by fold; None where no fold has both kinds of mass."""
    by_fold: list[float | None] = []
    kept, influence = [], []
    for rows in fold_rows(basis):
        weight = basis.of("weight", rows)
        try:
            found = auc_spu_influence(target[rows], score[rows], sample_weight=weight)
        except SoftLabelError:
            by_fold.append(None)
            continue
        by_fold.append(found.auc)
        kept.append(rows)
        influence.append(found.value)
    if not kept:
        return None
    rows = np.concatenate(kept)
    value = float(np.average([auc for auc in by_fold if auc is not None], weights=[part.size for part in kept]))
    groups = None if basis.groups is None else check_groups(basis.groups[rows], rows.size)
    return FoldedAuc(value, rows, np.concatenate(influence), groups, tuple(by_fold))


def folded_interval(target: np.ndarray, score: np.ndarray, basis: Basis) -> Interval | None:
    """The mean over folds with its interval on the logit scale; None where no fold has both kinds of mass."""
    folded = folded_auc(target, score, basis)
    return None if folded is None else interval_of(folded, target, score, basis)


def interval_of(folded: FoldedAuc, target: np.ndarray, score: np.ndarray, basis: Basis) -> Interval:
    """The interval of a mean over folds, with the warning that few positives deserve."""
    pooled = auc_spu_interval(target[folded.rows], score[folded.rows], **basis.common(folded.rows))
    error = folded.standard_error
    if not 0.0 < folded.value < 1.0:
        # A perfect order leaves no spread to measure; the pooled interval has a rule for that.
        low, high = min(pooled.low, folded.value), max(pooled.high, folded.value)
    else:
        reach = float(ndtri(0.5 + 0.5 * basis.level)) * error / (folded.value * (1.0 - folded.value))
        low, high = float(expit(logit(folded.value) - reach)), float(expit(logit(folded.value) + reach))
    return replace(pooled, estimate=folded.value, low=low, high=high, standard_error=error)


def share_of(folded: FoldedAuc, target: np.ndarray, basis: Basis) -> Interval | None:
    """Share of the ceiling that is reached, (AUC_SPU − ½) / (ceiling − ½); None where the target is constant."""
    if np.ptp(target[folded.rows]) == 0.0:
        return None
    weight = basis.of("weight", folded.rows)
    ceiling = auc_spu_influence(target[folded.rows], target[folded.rows], sample_weight=weight)
    room = ceiling.auc - 0.5
    share = (folded.value - 0.5) / room
    error = standard_error((folded.influence - share * ceiling.value) / room, folded.groups)
    reach = float(ndtri(0.5 + 0.5 * basis.level)) * error
    # Folds have ceilings of their own, which may lie a trifle above the common one.
    return Interval(min(share, 1.0), max(share - reach, -1.0), min(share + reach, 1.0), error, basis.level)
