"""What a bundle keeps beside the model: the rules, texts about the model, the threshold, and the record of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_choice, check_share
from spu_core.codec import decode, encode
from spu_core.errors import BundleError
from spu_core.labels import COMBINERS, SoftLabels, assign_soft_labels
from spu_core.metrics import roc_spu
from spu_core.rules import FittedRules, RuleMatrix
from spu_core.tables import Role, Table
from spu_core.training import Candidate, EvaluationData, Run, TrainConfig, TuningReport
from spu_core.versions import library_versions

LONGEST_TEXT = 10_000
_TEXTS = ("data_name", "fingerprint", "purpose", "licence", "contact", "chosen_because")


@dataclass(frozen=True, kw_only=True)
class LabelRules:
    """How soft labels were made from rules: the fitted rules, the combiner and the floor."""

    rules: FittedRules
    combine: str = "noisy_or"
    floor: float = 0.0

    def __post_init__(self) -> None:
        check_choice(self.combine, COMBINERS, "combine", BundleError)
        check_share(self.floor, "floor", BundleError, closed=True)

    def apply(self, frame: pd.DataFrame) -> RuleMatrix:
        """Which rules fire on which row, and with what belief."""
        return self.rules.apply(frame)

    def rule_score(self, matrix: RuleMatrix) -> np.ndarray:
        """The combined rule score, as training saw it."""
        nobody = np.zeros(len(matrix), dtype=bool)
        return assign_soft_labels(matrix, nobody, self.combine, self.floor).rule_score


@dataclass(frozen=True, kw_only=True)
class ModelDetails:
    """Texts about a model, and the id column of its table; all of them are optional.

    Parameters
    ----------
    id_column : str, optional
        The column that identifies rows in scored tables.
    data_name, fingerprint : str
        Name and fingerprint of the training table.
    purpose, licence, contact : str
        What the model is for, under which licence it is given away, and whom to ask.
    chosen_because : str
        Why this run was chosen among the candidates.
    history : tuple of str
        Changes, the latest last.
    """

    id_column: str | None = None
    data_name: str = ""
    fingerprint: str = ""
    purpose: str = ""
    licence: str = ""
    contact: str = ""
    chosen_because: str = ""
    history: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in _TEXTS:
            _check_text(getattr(self, name), name)
        if self.id_column is not None:
            _check_text(self.id_column, "id_column")
        object.__setattr__(self, "history", tuple(_check_text(entry, "history") for entry in self.history))

    @classmethod
    def of(cls, table: Table, **texts: Any) -> ModelDetails:
        """The id column, the name and the fingerprint of a table, with the given texts."""
        own = {"id_column": table.column_with(Role.ID), "data_name": table.name, "fingerprint": table.fingerprint}
        return cls(**{**own, **texts})

    def to_dict(self) -> dict[str, Any]:
        return encode(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> ModelDetails:
        return decode(cls, found, "The details of the model", BundleError)


def label_rules_of(soft_labels: SoftLabels, rules: FittedRules | None) -> LabelRules | None:
    """The rules of soft labels, to store them in a bundle; None where the soft labels were not made from rules."""
    if rules is None or soft_labels.combine is None:
        return None
    return LabelRules(rules=rules, combine=soft_labels.combine, floor=soft_labels.floor)


def _check_text(value: Any, name: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise BundleError(f"{name} must be text of at most {LONGEST_TEXT:,} characters, got {str(value)[:40]!r}.")
    return value


FLAG_BY = ("threshold", "share")


@dataclass(frozen=True, kw_only=True)
class FlagPoint:
    """Where a bundle flags: rows with a score above `threshold`, which were `share` of the training rows out of fold.

    Both are kept: the threshold flags a row by its own score, the share fills a review queue of known size. They give
    different rows when new data differ from the training data. A threshold of ±∞ flags nothing or everything.

    >>> FlagPoint(threshold=0.5, share=0.02).flags(np.array([0.4, 0.5, 0.6]))
    array([False, False,  True])
    """

    threshold: float
    share: float
    chosen_by: str = "the analyst"

    def __post_init__(self) -> None:
        if isinstance(self.threshold, bool) or not isinstance(self.threshold, int | float | np.floating):
            raise BundleError(f"threshold must be a number, got {self.threshold!r}.")
        if np.isnan(self.threshold):
            raise BundleError("threshold must be a number, got NaN.")
        check_share(self.share, "share", BundleError, closed=True)

    @classmethod
    def at_budget(cls, run: Run, budget: float | None = None) -> FlagPoint:
        """The threshold that flags as many out-of-fold scores as a review budget allows (by default the run's own)."""
        budget = run.config.review_budget if budget is None else budget
        curve = _curve(run)
        most = float(curve.flagged[-1])
        point = curve.at_budget(min(budget, int(most)) if isinstance(budget, int) else budget)
        reason = (
            f"a review budget of {budget:,} rows" if isinstance(budget, int) else f"a review budget of {budget:.4g}"
        )
        if not point.flagged and budget > 0:
            point = curve.at_threshold(float(np.nextafter(curve.score[0], -np.inf)))
            reason += f"; the {point.flagged:,.0f} highest scores are equal, so they are flagged together"
        return cls(threshold=point.threshold, share=min(point.flagged_share, 1.0), chosen_by=reason)

    @classmethod
    def at_threshold(cls, run: Run, threshold: float) -> FlagPoint:
        """A given threshold, with the share that it flags out of fold."""
        share = _curve(run).at_threshold(threshold).flagged_share
        return cls(threshold=float(threshold), share=min(share, 1.0))

    def flags(self, score: np.ndarray) -> np.ndarray:
        return score > self.threshold

    def to_dict(self) -> dict[str, Any]:
        """Plain values; JSON has no infinity, so an infinite threshold is None and its sign follows from the share."""
        return encode(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> FlagPoint:
        if found["threshold"] is None:
            found = {**found, "threshold": -np.inf if found["share"] >= 0.5 else np.inf}
        return decode(cls, found, "The operating point", BundleError, complete=True)


def share_threshold(sorted_score: np.ndarray, share: float) -> float:
    """The threshold that flags at most this share of the rows; tied rows are flagged together or not at all.

    >>> share_threshold(np.array([0.1, 0.2, 0.3, 0.4]), 0.5)
    0.2
    """
    allowed = int(np.floor(share * sorted_score.size * (1 + 1e-12)))
    if allowed >= sorted_score.size:
        return -np.inf
    return float(sorted_score[sorted_score.size - allowed - 1])


def _curve(run: Run) -> Any:
    evaluation, score = run.evaluation, run.need_score()
    return roc_spu(evaluation.judged_soft_label, score[evaluation.judged], sample_weight=evaluation.judged_weight)


# The arrays with one value per row that a run is judged by, and the NumPy kind of each.
ROW_PARTS = {
    "soft_label": "f",
    "is_labeled": "b",
    "rule_score": "f",
    "fold": "i",
    "judged": "b",
    "truth": "b",
    "weight": "f",
    "groups": "i",
    "refined": "f",
    "randomly_checked": "b",
}
_INTERVAL = {"estimate", "low", "high", "standard_error", "level", "warning"}


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """The record of a run: configuration, metrics, notes and library versions.

    `rows` and `labeled` count the training rows. `selections` is what earlier versions recorded about selected labels.
    `seconds` is not stored: equal studies must give equal bytes.
    """

    name: str
    config: TrainConfig
    metrics: Mapping[str, Any] | None
    rounds: tuple[int, ...]
    learning_curve: tuple[tuple[float | None, ...], ...]
    tunings: tuple[TuningReport, ...]
    selections: tuple[Mapping[str, Any], ...]
    trained_on_refined: bool
    labels_note: str | None
    data_notes: tuple[str, ...]
    rows: int
    labeled: int
    soft_label_mean: float
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @classmethod
    def of(cls, run: Run) -> RunFacts:
        evaluation = run.evaluation
        return cls(
            name=run.name,
            config=run.config,
            metrics=None if run.metrics is None else run.metrics.to_dict(),
            seconds=float(run.seconds),
            rounds=run.rounds,
            learning_curve=tuple(map(tuple, encode(run.learning_curve))),
            tunings=run.tunings,
            selections=(),
            trained_on_refined=run.trained_on_refined,
            labels_note=evaluation.labels_note,
            data_notes=evaluation.data_notes,
            rows=evaluation.soft_label.size,
            labeled=int(evaluation.is_labeled.sum()),
            soft_label_mean=float(evaluation.soft_label.mean()),
            versions=library_versions(),
        )

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in encode(self).items() if name != "seconds"}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> RunFacts:
        found = {"selections": [], "data_notes": [], **found}  # unknown to schema 1 and 2
        facts = decode(cls, found, "The record of the run", BundleError)
        _check_metrics(facts.metrics or {})
        return facts


def row_parts(run: Run) -> dict[str, np.ndarray]:
    """Arrays with one value per row: the out-of-fold score, and what it was judged by."""
    parts = {name: getattr(run.evaluation, name) for name in ROW_PARTS}
    return {"score": run.need_score(), **{name: part for name, part in parts.items() if part is not None}}


def run_from(facts: RunFacts, candidate: Candidate, rows: Mapping[str, np.ndarray]) -> Run:
    """The run without its table: it can be compared and judged again, but not trained again."""
    if "score" not in rows:
        raise BundleError(
            f"The bundle of {facts.name!r} was saved without its training rows, so it cannot be compared; "
            "save it again with keep_rows=True."
        )
    config = facts.config
    parts = {name: rows.get(name) for name in ROW_PARTS}
    notes = {"labels_note": facts.labels_note, "data_notes": facts.data_notes}
    evaluation = EvaluationData(**parts, **notes, budget=config.review_budget, level=config.level)  # type: ignore[arg-type]
    run = Run(
        name=facts.name,
        candidate=candidate,
        config=config,
        evaluation=evaluation,
        score=rows["score"],
        seconds=facts.seconds,
        learning_curve=tuple(
            tuple(np.nan if loss is None else loss for loss in curve) for curve in facts.learning_curve
        ),
        rounds=facts.rounds,
        tunings=facts.tunings,
        trained_on_refined=facts.trained_on_refined,
    )
    return run.judged_by(evaluation)


def check_rows(rows: Mapping[str, Any], count: int) -> dict[str, np.ndarray]:
    """Check that every array has one finite value of the right type per row."""
    kinds = {"score": "f", **ROW_PARTS}
    for name, part in rows.items():
        if name not in kinds or not isinstance(part, np.ndarray):
            raise BundleError(f"The bundle stores rows of {name!r:.60}, which this version does not know.")
        if part.shape != (count,) or part.dtype.kind != kinds[name] or not np.isfinite(part).all():
            raise BundleError(f"The bundle's stored {name!r} is not one number for each of the {count:,} rows.")
    if rows and not {"score", "soft_label", "is_labeled", "rule_score", "fold", "judged"} <= set(rows):
        raise BundleError(f"The bundle stores only some parts of its rows: {sorted(rows)}.")
    return dict(rows)


def _check_metrics(metrics: Mapping[str, Any]) -> None:
    """Refuse metrics other than numbers, notes, lists of numbers and intervals: a model card could not show them."""
    for name, value in metrics.items():
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
        whole = not isinstance(value, dict) or set(value) == _INTERVAL
        if not whole or not all(part is None or isinstance(part, int | float | str) for part in parts):
            raise BundleError(f"The bundle's figure {name!r:.60} is not a number, interval or note.")
