"""What scores are evaluated on, AUCs within folds, the figures of a run, and paired differences of runs.

Scores of different folds come from different models and need not share a scale. Pooling all out-of-fold scores into one
ranking would punish a candidate whose folds merely differ in level, although the model that is refitted on all rows has
one level. So every AUC of a run is the mean over folds, weighted by their rows.

Its standard error needs two corrections (docs/measurements.md has the derivation and the simulations):

- Influence values are centred at the mean over folds. Centred at its own AUC, a fold with one positive would add no
  spread at all.
- The models of the folds share training rows. Every pair of folds is used twice, once to train and once to judge, and
  both times with the same error. A learner that finds only noise therefore has twice the variance that independent
  folds would have; one that finds a clear signal has hardly more.

The difference of two equally good candidates is noise, whatever signal both have found, so its standard error always
has the full factor for shared training rows (`SHARED_TRAINING`). Tests concern these fitted models and take the soft
labels as given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import logit

from spu_core.checks import check_countable, check_groups
from spu_core.codec import encode
from spu_core.errors import SoftLabelError, TrainingError
from spu_core.metrics import (
    Difference,
    Interval,
    auc_spu_ceiling,
    auc_spu_influence,
    calibration_gap,
    roc_spu,
    soft_log_loss,
)
from spu_core.metrics.influence import Influence, Spread, effective_number, small_sample_factor, spread_of
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

    `refined` holds refined soft labels (None where they were not computed). `labels_note` says why confirmed cases
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
        """Rows on which confirmed cases are compared with the rest: the randomly checked ones where marked."""
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


NOT_REFINED = "Refined soft labels were not computed."
BUILT_FROM_IT = "built from it"
# The first of these that is known decides whether a model is worse than chance.
DECIDING = ("true_auc", "known_positive_auc", "auc_spu")
NO_LABELS = "No judged row is a confirmed case."


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetrics:
    """The figures of one run on out-of-fold scores; None where a figure does not exist, with a note that says why.

    AUCs are means over folds, since each fold has a model of its own; their intervals are about these models, not about
    the one that is fitted on all rows for export. `pooled_auc_spu` ranks all rows together, as the drawn curve does;
    far below `auc_spu` it means that the folds differ in the level of their scores.
    `tpr_spu_at_1` and `tpr_spu_at_5` hold TPR_SPU where FPR_SPU stays within 1 % and 5 %; `tpr_spu_at_budget` where the
    review budget is spent. `self_claimed` is the AUC_SPU the scores would reach if they were E[S|X]; far above
    `auc_spu` means overfitted or not calibrated to S.
    """

    rows: int
    auc_spu: Interval
    auc_spu_by_fold: tuple[float | None, ...]
    pooled_auc_spu: float
    ceiling: float
    share_of_ceiling: Interval | None
    tpr_spu_at_1: float
    tpr_spu_at_5: float
    tpr_spu_at_budget: float
    soft_log_loss: float | None
    calibration_gap: float | None
    self_claimed: float | None
    known_positive_auc: Interval | None
    known_positive_note: str | None
    refined_auc_spu: Interval | None
    refined_note: str | None
    true_auc: Interval | None

    @property
    def deciding(self) -> tuple[str, Interval]:
        """(name, interval) of the most reliable figure: true AUC, else known-positive AUC, else AUC_SPU."""
        return next((name, found) for name in DECIDING if (found := getattr(self, name)) is not None)

    @property
    def is_below_chance(self) -> bool:
        """Whether positives are ranked below other rows: the whole interval of the deciding figure lies below ½."""
        return self.deciding[1].high < 0.5

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers: an interval becomes its estimate, low, high and standard error."""
        return encode(self)


def judge(score: np.ndarray, evaluation: EvaluationData, *, built_from_refined: bool = False) -> RunMetrics:
    """All figures of the evaluation protocol for one score per row."""
    soft_label, judged_score = evaluation.judged_soft_label, score[evaluation.judged]
    folded = folded_auc(evaluation.soft_label, score, evaluation)
    if folded is None:
        check_countable(soft_label, evaluation.judged_weight)
        raise TrainingError("No fold has both positive and negative mass in its soft labels; use fewer folds.")
    curve = roc_spu(soft_label, judged_score, sample_weight=evaluation.judged_weight)
    as_probability = judged_score if _is_probability(judged_score) else None
    positives, note = _known_positive(score, evaluation)
    refined, refined_note = _refined(score, evaluation, built_from_refined)
    return RunMetrics(
        rows=int(evaluation.judged.sum()),
        auc_spu=interval_of(folded, evaluation.level),
        auc_spu_by_fold=folded.by_fold,
        pooled_auc_spu=curve.auc,
        ceiling=auc_spu_ceiling(soft_label, sample_weight=evaluation.judged_weight),
        share_of_ceiling=share_of(folded, evaluation.level),
        tpr_spu_at_1=curve.at_fpr(0.01).tpr,
        tpr_spu_at_5=curve.at_fpr(0.05).tpr,
        tpr_spu_at_budget=curve.at_budget(_affordable(evaluation)).tpr,
        soft_log_loss=_log_loss(as_probability, evaluation),
        calibration_gap=None if as_probability is None else calibration_gap(soft_label, as_probability),
        self_claimed=_self_claimed(score, evaluation),
        known_positive_auc=positives,
        known_positive_note=note,
        refined_auc_spu=refined,
        refined_note=refined_note,
        true_auc=_true_auc(score, evaluation),
    )


def _known_positive(score: np.ndarray, evaluation: EvaluationData) -> tuple[Interval | None, str | None]:
    rows = evaluation.positives_rows
    interval = (
        folded_interval(evaluation.is_labeled.astype(np.float64), score, evaluation.only(rows)) if rows.any() else None
    )
    if interval is None:
        return None, NO_LABELS
    if evaluation.randomly_checked is not None:
        return interval, f"On {int(rows.sum()):,} randomly checked rows."
    return interval, evaluation.labels_note


def _refined(score: np.ndarray, evaluation: EvaluationData, built_from_it: bool) -> tuple[Interval | None, str | None]:
    if evaluation.refined is None:
        return None, NOT_REFINED
    if built_from_it:
        return None, BUILT_FROM_IT
    return folded_interval(evaluation.refined, score, evaluation), None


def _true_auc(score: np.ndarray, evaluation: EvaluationData) -> Interval | None:
    return None if evaluation.truth is None else folded_interval(evaluation.truth.astype(np.float64), score, evaluation)


def _self_claimed(score: np.ndarray, evaluation: EvaluationData) -> float | None:
    """The ceiling formula applied to the scores themselves, fold by fold."""
    if not _is_probability(score[evaluation.judged]):
        return None
    folded = folded_auc(score, score, evaluation)
    return None if folded is None else folded.value


def _affordable(evaluation: EvaluationData) -> float:
    """A budget of more rows than there are reviews them all."""
    budget = evaluation.budget
    return (
        min(budget, int(evaluation.judged.sum())) if isinstance(budget, int) and evaluation.weight is None else budget
    )


def _is_probability(score: np.ndarray) -> bool:
    return bool(score.min() >= 0.0 and score.max() <= 1.0)


def _log_loss(score: np.ndarray | None, evaluation: EvaluationData) -> float | None:
    if score is None:
        return None
    return soft_log_loss(evaluation.judged_soft_label, score, sample_weight=evaluation.judged_weight)


# Below this effective number of confirmed cases no comparison by them is made.
ENOUGH_TO_COMPARE = 10.0
DRAWS = 10_000


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """AUC of `first` minus that of `second`; `p_holm` is corrected for all pairs of the comparison."""

    first: str
    second: str
    difference: Difference
    p_holm: float = float("nan")

    @property
    def is_clear(self) -> bool:
        """Whether the corrected p-value is below 1 − level."""
        return self.p_holm < 1.0 - self.difference.level

    can_be_told_apart = is_clear  # its name until version 0.3


def compare_pairs(aucs: Mapping[str, FoldedAuc], level: float = 0.95) -> tuple[PairedDifference, ...]:
    """Every pair, the better one first, with p-values corrected by Holm's method."""
    order = sorted(aucs, key=lambda name: -aucs[name].value)
    pairs = [PairedDifference(a, b, paired_difference(aucs[a], aucs[b], level)) for a, b in combinations(order, 2)]
    corrected = holm([pair.difference.p_value for pair in pairs])
    return tuple(replace(pair, p_holm=p) for pair, p in zip(pairs, corrected, strict=True))


def without_tests(pairs: Sequence[PairedDifference], reason: str) -> tuple[PairedDifference, ...]:
    """The same differences and intervals without p-values, with the reason as their warning."""
    blank = float("nan")
    return tuple(
        replace(pair, p_holm=blank, difference=replace(pair.difference, p_value=blank, warning=reason))
        for pair in pairs
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the chance of even one false difference stays below the level.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    corrected = np.empty(p.size)
    corrected[order] = np.minimum(raised, 1.0)
    return [float(value) for value in corrected]


def simultaneous_intervals(aucs: Mapping[str, FoldedAuc], level: float = 0.95) -> dict[str, Interval]:
    """AUC intervals that hold for all candidates at once, and so for whichever of them is chosen (max-T)."""
    if len(aucs) < 2 or not _is_measurable(aucs):
        return {name: interval_of(folded, level) for name, folded in aucs.items()}
    wider = _JointErrors.of(list(aucs.values())).widening(level)
    return {name: interval_of(folded, level, wider=wider) for name, folded in aucs.items()}


@dataclass(frozen=True, eq=False)
class _JointErrors:
    """Errors of several figures on the same rows: their covariance, and draws of Student's t with it."""

    covariance: np.ndarray
    degrees: float
    draws: np.ndarray
    factor: float

    @classmethod
    def of(cls, aucs: Sequence[FoldedAuc]) -> _JointErrors:
        units = np.stack([_by_unit(folded) for folded in aucs])
        covariance = units @ units.T
        degrees = min(folded.spread(folded.influence).degrees for folded in aucs)
        rng = np.random.default_rng(0)
        values, vectors = np.linalg.eigh(covariance)
        normal = rng.standard_normal((DRAWS, len(aucs))) @ (vectors * np.sqrt(values.clip(0.0))).T
        draws = normal / np.sqrt(rng.chisquare(degrees, (DRAWS, 1)) / degrees)
        return cls(covariance, degrees, draws, shared_factor(aucs[0]))

    def widening(self, level: float) -> float:
        """How much wider than a single interval one must be to hold for all figures at once."""
        error = np.sqrt(np.diag(self.covariance))
        seen = error > 0.0
        if not seen.any():
            return 1.0
        largest = float(np.quantile(np.abs(self.draws[:, seen] / error[seen]).max(axis=1), level))
        return max(1.0, largest / t_quantile(level, self.degrees))


def joint_covariance(aucs: Sequence[FoldedAuc]) -> tuple[np.ndarray, float]:
    """Covariance of the errors of several figures on the same rows, and their degrees of freedom.

    It allows for training rows that folds share, as the paired tests do.
    """
    errors = _JointErrors.of(aucs)
    return errors.covariance * errors.factor**2, errors.degrees


def _is_measurable(aucs: Mapping[str, FoldedAuc]) -> bool:
    """Whether there is more than one positive and one negative (or group with them) to see a spread."""
    return all(min(folded.effective_numbers) > 1.0 for folded in aucs.values())


def _by_unit(folded: FoldedAuc) -> np.ndarray:
    """Influence by row or group, scaled so that the sum of squares is the squared standard error."""
    positives, negatives = folded.effective_numbers
    part = folded.influence
    value = small_sample_factor(positives) * part.as_positive + small_sample_factor(negatives) * part.as_negative
    by_unit = value if folded.groups is None else np.bincount(folded.groups, weights=value)
    return by_unit / folded.rows.size


def paired_difference(first: FoldedAuc, second: FoldedAuc, level: float) -> Difference:
    """The first minus the second, on the same rows, with the full factor for shared training rows."""
    spread = first.spread(first.influence - second.influence)
    return Difference.between(
        first.value - second.value,
        shared_factor(first) * spread.standard_error,
        level,
        degrees=spread.degrees,
        warning=first.warning,
    )
