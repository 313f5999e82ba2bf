"""What scores are evaluated on, and AUCs within folds.

Scores of different folds come from different models and need not share a scale. Pooling all out-of-fold scores into one
ranking would punish a candidate whose folds merely differ in level, although the model that is refitted on all rows has
one level. So every AUC of a run is the mean over folds, weighted by their rows.

Its standard error needs two corrections (docs/training.md has the derivation and the simulations):

- Influence values are centred at the mean over folds. Centred at its own AUC, a fold with one positive would add no
  spread at all.
- The models of the folds share training rows. Every pair of folds is used twice, once to train and once to judge, and
  both times with the same error. A learner that finds only noise therefore has twice the variance that independent
  folds would have; one that finds a clear signal has hardly more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logit

from spu_core.checks import check_groups
from spu_core.errors import SoftLabelError
from spu_core.metrics import Interval, auc_spu_influence
from spu_core.metrics.influence import Influence, Spread, effective_number, spread_of
from spu_core.metrics.intervals import few_units_warning, t_quantile, z_quantile
from spu_core.metrics.ranking import Masses

FOLLOWS_RULES = (
    "The rules decided who was checked, so AUC on confirmed cases can be too high for models that follow the rules. "
    "Mark randomly checked rows to get an independent figure."
)
FROM_LABELS = (
    "Beliefs were taken from labels or checks, so AUC on confirmed cases is no longer independent of the rules."
)
# The same as a finding: nobody said so, but the rows look like it.
SEEMS_TO_FOLLOW_RULES = (
    "The rules may have decided who was checked: a rule fires on nearly every confirmed case. Then AUC on "
    "confirmed cases favours models that follow the rules; mark randomly checked rows to have an independent one."
)
# Variance over that of independent folds where models find only noise; exact for scores linear in the training rows.
SHARED_TRAINING = 2.0
# The number of directions that a learner can follow; it decides how fast the factor falls as the signal grows.
DIRECTIONS = 50.0


@dataclass(frozen=True, eq=False)
class EvaluationData:
    """What every score of one comparison is evaluated on; `judged` flags the rows that count.

    `refined` holds refined soft labels (None where they were not computed). `labels_note` says why confirmed positives
    are not independent of the rules, or which column gives them away. `random_outcomes` holds what random checks of the
    outcome loop found: 1 for a positive, 0 for a negative, NaN for rows that were not checked. `data_notes` are
    sentences about the rows and their split. `budget` is the review budget, `level` that of the confidence intervals.
    """

    soft_label: np.ndarray
    is_labeled: np.ndarray
    rule_score: np.ndarray
    fold: np.ndarray
    judged: np.ndarray
    truth: np.ndarray | None = None
    weight: np.ndarray | None = None
    groups: np.ndarray | None = None
    refined: np.ndarray | None = None
    randomly_checked: np.ndarray | None = None
    labels_note: str | None = None
    random_outcomes: np.ndarray | None = None
    data_notes: tuple[str, ...] = ()
    budget: float = 0.02
    level: float = 0.95

    def only(self, rows: np.ndarray) -> EvaluationData:
        """The same data with other rows judged."""
        return replace(self, judged=rows)

    @property
    def judged_soft_label(self) -> np.ndarray:
        return self.soft_label[self.judged]

    @property
    def judged_is_labeled(self) -> np.ndarray:
        return self.is_labeled[self.judged]

    @property
    def judged_weight(self) -> np.ndarray | None:
        return self.weight_of(self.judged)

    @property
    def judged_groups(self) -> np.ndarray | None:
        return None if self.groups is None else self.groups[self.judged]

    @property
    def judged_truth(self) -> np.ndarray | None:
        return None if self.truth is None else self.truth[self.judged]

    def weight_of(self, rows: np.ndarray) -> np.ndarray | None:
        """The weights of some rows; None where rows have no weights."""
        return None if self.weight is None else self.weight[rows]

    @property
    def positives_rows(self) -> np.ndarray:
        """Rows on which confirmed positives are compared with the rest: the randomly checked ones where marked."""
        return self.judged if self.randomly_checked is None else self.judged & self.randomly_checked

    def same_as(self, other: EvaluationData) -> bool:
        """Whether two runs are judged by the same S on the same rows."""
        if self is other:
            return True
        same_labels = np.array_equal(self.is_labeled, other.is_labeled)
        same_rows = np.array_equal(self.judged, other.judged)
        return same_labels and same_rows and np.array_equal(self.soft_label, other.soft_label)


@dataclass(frozen=True, eq=False)
class FoldedAuc:
    """A mean of AUCs within folds, with the influence of each row that counted; `by_fold` has None for folds that
    lack positive or negative mass."""

    value: float
    rows: np.ndarray
    influence: Influence
    masses: Masses
    groups: np.ndarray | None
    by_fold: tuple[float | None, ...]

    @property
    def shares_training(self) -> bool:
        """Whether several models were judged, each of which was trained on rows of the other folds."""
        return sum(auc is not None for auc in self.by_fold) > 1

    @property
    def effective_numbers(self) -> tuple[float, float]:
        """How many positives and negatives of equal mass (or groups) carry as much information."""
        positive, negative = self.masses.all()
        return effective_number(positive, self.groups), effective_number(negative, self.groups)

    @property
    def warning(self) -> str | None:
        """A warning where there are too few positives or negatives for a reliable interval."""
        return few_units_warning(*self.effective_numbers, grouped=self.groups is not None)

    def spread(self, influence: Influence) -> Spread:
        """Standard error of a figure with these influence values, as if the folds were independent."""
        return spread_of(influence, self.masses, self.groups)

    def factor(self, reach: float, distance: float, quantile: float) -> float:
        """How much wider than for independent folds an interval must be, from 1 to the root of `SHARED_TRAINING`.

        `reach` is half the width for independent folds, `distance` how far the figure lies from what pure noise would
        give, `quantile` that of the normal distribution. The full factor stands while noise cannot be excluded; beyond
        that, the share v of noise in the scores and the distance in standard errors z are tied by
        (1 − v)² / v = z² / D, where D is the number of directions that a learner can follow.
        """
        if not self.shares_training:
            return 1.0
        excess = (distance / reach) ** 2 - SHARED_TRAINING if reach > 0.0 else np.inf
        if not excess > 0.0:
            return shared_factor(self)
        ratio = excess * quantile**2 / DIRECTIONS
        noise = 0.0 if np.isinf(ratio) else 1.0 + 0.5 * ratio - np.sqrt(ratio + 0.25 * ratio * ratio)
        return float(np.sqrt(1.0 + (SHARED_TRAINING - 1.0) * noise))


def fold_rows(evaluation: EvaluationData) -> list[np.ndarray]:
    """Positions of the judged rows, fold by fold: within one, all rows were scored by the same model."""
    numbers = np.unique(evaluation.fold[evaluation.judged])
    return [np.flatnonzero(evaluation.judged & (evaluation.fold == number)) for number in numbers]


def folded_auc(target: np.ndarray, score: np.ndarray, evaluation: EvaluationData) -> FoldedAuc | None:
    """AUC of a score against any belief, fold by fold; None where no fold has both kinds of mass."""
    by_fold: list[float | None] = []
    kept, parts = [], []
    for rows in fold_rows(evaluation):
        weight = evaluation.weight_of(rows)
        try:
            found = auc_spu_influence(target[rows], score[rows], sample_weight=weight)
        except SoftLabelError:
            by_fold.append(None)
            continue
        by_fold.append(found.auc)
        kept.append(rows)
        parts.append(found)
    if not kept:
        return None
    rows = np.concatenate(kept)
    value = float(np.average([part.auc for part in parts], weights=[part.size for part in kept]))
    centred = [
        _centred_at(value, part, _masses(target, evaluation, own)) for part, own in zip(parts, kept, strict=True)
    ]
    influence = Influence(value, *(np.concatenate(side) for side in zip(*centred, strict=True)))
    groups = None if evaluation.groups is None else check_groups(evaluation.groups[rows], rows.size)
    return FoldedAuc(value, rows, influence, _masses(target, evaluation, rows), groups, tuple(by_fold))


def folded_interval(target: np.ndarray, score: np.ndarray, evaluation: EvaluationData) -> Interval | None:
    """The mean over folds with its interval on the logit scale; None where no fold has both kinds of mass."""
    folded = folded_auc(target, score, evaluation)
    return None if folded is None else interval_of(folded, evaluation.level)


def interval_of(folded: FoldedAuc, level: float, *, wider: float = 1.0) -> Interval:
    """The interval of a mean over folds: it is about the models of these folds, not about one fitted on all rows.

    `wider` stretches it where it must hold for several candidates at once.
    """
    value, spread = folded.value, folded.spread(folded.influence)
    inside = 0.0 < value < 1.0
    slope = value * (1.0 - value) if inside else 1.0
    distance = float(logit(value)) * slope if inside else 0.5
    error = spread.standard_error * _factor(folded, spread, distance, level, wider)
    found = Interval.on_logit(
        value,
        error * wider,
        level,
        degrees=spread.degrees,
        rows=min(folded.effective_numbers),
        warning=folded.warning,
    )
    return replace(found, standard_error=error)


def share_of(folded: FoldedAuc, level: float) -> Interval | None:
    """Share of the ceiling that is reached, (AUC_SPU − ½) / (ceiling − ½); None where the target is constant."""
    target = folded.masses.soft_label
    if np.ptp(target) == 0.0:
        return None
    ceiling = auc_spu_influence(target, target, sample_weight=folded.masses.weight)
    room = ceiling.auc - 0.5
    share = (folded.value - 0.5) / room
    spread = folded.spread((folded.influence - share * ceiling) * (1.0 / room))
    error = spread.standard_error * _factor(folded, spread, share, level)
    # Folds have ceilings of their own, which may lie slightly above the common one.
    return Interval.on_logit(
        min(share, 1.0),
        error,
        level,
        degrees=spread.degrees,
        rows=min(folded.effective_numbers),
        limits=(-1.0, 1.0),
        warning=folded.warning,
    )


def _factor(folded: FoldedAuc, spread: Spread, distance: float, level: float, wider: float = 1.0) -> float:
    reach = wider * t_quantile(level, spread.degrees) * spread.standard_error
    return folded.factor(reach, distance, z_quantile(level))


def shared_factor(folded: FoldedAuc) -> float:
    """The factor for figures that may be pure noise, such as the difference of two equally good candidates."""
    return float(np.sqrt(SHARED_TRAINING)) if folded.shares_training else 1.0


def _masses(target: np.ndarray, evaluation: EvaluationData, rows: np.ndarray) -> Masses:
    return Masses(target[rows], evaluation.weight_of(rows))


def _centred_at(value: float, part: Influence, masses: Masses) -> tuple[np.ndarray, np.ndarray]:
    """Influence of the rows of one fold around the mean over folds instead of the fold's own AUC."""
    shift = part.auc - value
    positive, negative = masses.all()
    return (
        part.as_positive + shift * positive / positive.mean(),
        part.as_negative + shift * negative / negative.mean(),
    )
