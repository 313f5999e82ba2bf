"""What scores are judged by, and the figures every run is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from spu_core.errors import ScoreError, SoftLabelError
from spu_core.metrics import (
    Interval,
    auc_spu_ceiling,
    auc_spu_interval,
    auc_spu_score,
    calibration_gap,
    ceiling_share_interval,
    known_positive_auc_interval,
    roc_spu,
    soft_log_loss,
)

BUILT_FROM_IT = "built from it"
NO_LABELS = "No judged row is a confirmed positive."
FOLLOWS_RULES = (
    "The rules decided who was checked, so confirmed positives follow the rules and this figure can be flattered "
    "by them; mark randomly checked rows to have an independent one."
)
FROM_LABELS = "Beliefs were taken from labels or checks, so this figure is no longer independent of the rules."


@dataclass(frozen=True, eq=False)
class Basis:
    """What every score of one comparison is judged by; `judged` flags the rows that count.

    `refined` is the second opinion on S (None where it was not computed). `labels_note` says why confirmed positives
    are not independent of the rules, where they are not.
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
    budget: float = 0.02
    level: float = 0.95

    def only(self, rows: np.ndarray) -> Basis:
        """The same basis with other rows judged."""
        return replace(self, judged=rows)

    def of(self, name: str, rows: np.ndarray | None = None) -> Any:
        """One part on the judged rows (or those given); None where the part is."""
        values = getattr(self, name)
        return None if values is None else values[self.judged if rows is None else rows]

    def common(self, rows: np.ndarray | None = None) -> dict[str, Any]:
        """The keyword arguments of every interval."""
        parts = {"sample_weight": self.of("weight", rows), "groups": self.of("groups", rows)}
        return {"level": self.level, **parts}

    @property
    def positives_rows(self) -> np.ndarray:
        """Rows on which confirmed positives are compared with the rest: the randomly checked ones where marked."""
        return self.judged if self.randomly_checked is None else self.judged & self.randomly_checked

    def same_as(self, other: Basis) -> bool:
        """Whether two runs are judged by the same S on the same rows."""
        names = ("soft_label", "judged", "is_labeled")
        return self is other or all(np.array_equal(getattr(self, n), getattr(other, n)) for n in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetrics:
    """The figures of one run on out-of-fold scores; None where a figure does not exist, with a note that says why.

    `tpr_spu_at_1` and `tpr_spu_at_5` hold TPR_SPU where FPR_SPU stays within 1 % and 5 %; `tpr_spu_at_budget` where the
    review budget is spent. `self_claimed` is the AUC_SPU the scores would reach if they were E[S|X]; far above
    `auc_spu` means overfitted or not calibrated to S.
    """

    rows: int
    auc_spu: Interval
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
    auc_spu_by_fold: tuple[float | None, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers: an interval becomes its estimate, low, high and standard error."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}


def judge(score: np.ndarray, basis: Basis, *, built_from_refined: bool = False) -> RunMetrics:
    """All figures of DESIGN's evaluation protocol for one score per row."""
    soft_label, judged_score = basis.of("soft_label"), score[basis.judged]
    curve = roc_spu(soft_label, judged_score, sample_weight=basis.of("weight"))
    as_probability = judged_score if _is_probability(judged_score) else None
    positives, note = _known_positive(score, basis)
    refined, refined_note = _refined(score, basis, built_from_refined)
    return RunMetrics(
        rows=int(basis.judged.sum()),
        auc_spu=auc_spu_interval(soft_label, judged_score, **basis.common()),
        ceiling=auc_spu_ceiling(soft_label, sample_weight=basis.of("weight")),
        share_of_ceiling=_or_none(lambda: ceiling_share_interval(soft_label, judged_score, **basis.common())),
        tpr_spu_at_1=curve.at_fpr(0.01).tpr,
        tpr_spu_at_5=curve.at_fpr(0.05).tpr,
        tpr_spu_at_budget=curve.at_budget(_affordable(basis)).tpr,
        soft_log_loss=_probability_figure(soft_log_loss, soft_label, as_probability),
        calibration_gap=_probability_figure(calibration_gap, soft_label, as_probability),
        self_claimed=None if as_probability is None else _or_none(lambda: auc_spu_ceiling(as_probability)),
        known_positive_auc=positives,
        known_positive_note=note,
        refined_auc_spu=refined,
        refined_note=refined_note,
        true_auc=_true_auc(score, basis),
        auc_spu_by_fold=_by_fold(score, basis),
    )


def _known_positive(score: np.ndarray, basis: Basis) -> tuple[Interval | None, str | None]:
    rows = basis.positives_rows
    labels = basis.is_labeled[rows]
    if not labels.any() or labels.all():
        return None, NO_LABELS
    interval = known_positive_auc_interval(labels, score[rows], **basis.common(rows))
    if basis.randomly_checked is not None:
        return interval, f"On {int(rows.sum()):,} randomly checked rows."
    return interval, basis.labels_note


def _refined(score: np.ndarray, basis: Basis, built_from_it: bool) -> tuple[Interval | None, str | None]:
    if basis.refined is None:
        return None, "Refined soft labels were not computed."
    if built_from_it:
        return None, BUILT_FROM_IT
    refined = basis.of("refined")
    return _or_none(lambda: auc_spu_interval(refined, score[basis.judged], **basis.common())), None


def _true_auc(score: np.ndarray, basis: Basis) -> Interval | None:
    truth = basis.of("truth")
    if truth is None or truth.all() or not truth.any():
        return None
    return auc_spu_interval(truth.astype(np.float64), score[basis.judged], **basis.common())


def _by_fold(score: np.ndarray, basis: Basis) -> tuple[float | None, ...]:
    return tuple(_fold_auc(score, basis, rows) for rows in fold_rows(basis))


def fold_rows(basis: Basis) -> list[np.ndarray]:
    """Positions of the judged rows, fold by fold: within one, all rows were scored by the same model."""
    numbers = np.unique(basis.fold[basis.judged])
    return [np.flatnonzero(basis.judged & (basis.fold == number)) for number in numbers]


def _fold_auc(score: np.ndarray, basis: Basis, rows: np.ndarray) -> float | None:
    parts = basis.soft_label[rows], score[rows]
    return _or_none(lambda: auc_spu_score(*parts, sample_weight=basis.of("weight", rows)))


def _affordable(basis: Basis) -> float:
    """A budget of more rows than there are reviews them all."""
    budget = basis.budget
    return min(budget, int(basis.judged.sum())) if isinstance(budget, int) and basis.weight is None else budget


def _is_probability(score: np.ndarray) -> bool:
    return bool(score.min() >= 0.0 and score.max() <= 1.0)


def _probability_figure(figure: Callable[..., float], soft_label: np.ndarray, score: np.ndarray | None) -> float | None:
    return None if score is None else figure(soft_label, score)


def _or_none(figure: Callable[[], Any]) -> Any:
    """The figure, or None where no positive or negative mass is left to define it."""
    try:
        return figure()
    except (ScoreError, SoftLabelError):
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, Interval):
        names = ("estimate", "low", "high", "standard_error", "level", "warning")
        return {name: getattr(value, name) for name in names}
    return list(value) if isinstance(value, tuple) else value
