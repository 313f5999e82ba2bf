"""The figures of a run: AUCs with intervals, rates at operating points, calibration to S."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spu_core.checks import check_countable
from spu_core.codec import encode
from spu_core.errors import TrainingError
from spu_core.metrics import Interval, auc_spu_ceiling, calibration_gap, roc_spu, soft_log_loss
from spu_core.training.evaluation import EvaluationData, folded_auc, folded_interval, interval_of, share_of

NOT_REFINED = "Refined soft labels were not computed."
BUILT_FROM_IT = "built from it"
# The first of these that is known decides whether a model is worse than chance.
DECIDING = ("true_auc", "known_positive_auc", "auc_spu")
NO_LABELS = "No judged row is a confirmed positive."


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
