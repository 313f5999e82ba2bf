"""What a bundle remembers of its run: config, figures, folds and out-of-fold scores, enough to compare it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from spu_core.errors import BundleError
from spu_core.export.reading import need_fields
from spu_core.models import LabelSelection
from spu_core.training import Candidate, EvaluationData, Run, TrainConfig, TuningReport
from spu_core.versions import library_versions

# The parts of a evaluation that are one value per row, and the kind of number each holds.
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
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "config": dict,
    "metrics": (dict, type(None)),
    "seconds": (int, float),
    "rounds": list,
    "learning_curve": list,
    "tunings": list,
    "selections": list,
    "trained_on_refined": bool,
    "labels_note": (str, type(None)),
    "data_notes": list,
    "rows": int,
    "labeled": int,
    "soft_label_mean": (int, float),
    "versions": dict,
}


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """The plain facts of a run: `rows` and `labeled` count the training rows."""

    name: str
    config: TrainConfig
    metrics: Mapping[str, Any] | None
    seconds: float
    rounds: tuple[int, ...]
    learning_curve: tuple[tuple[float | None, ...], ...]
    tunings: tuple[TuningReport, ...]
    selections: tuple[LabelSelection, ...]
    trained_on_refined: bool
    labels_note: str | None
    data_notes: tuple[str, ...]
    rows: int
    labeled: int
    soft_label_mean: float
    versions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run) -> RunFacts:
        evaluation = run.evaluation
        return cls(
            name=run.name,
            config=run.config,
            metrics=None if run.metrics is None else plain(run.metrics.to_dict()),
            seconds=float(run.seconds),
            rounds=run.rounds,
            learning_curve=tuple(tuple(plain(list(curve))) for curve in run.learning_curve),
            tunings=run.tunings,
            selections=run.selections,
            trained_on_refined=run.trained_on_refined,
            labels_note=evaluation.labels_note,
            data_notes=evaluation.data_notes,
            rows=evaluation.soft_label.size,
            labeled=int(evaluation.is_labeled.sum()),
            soft_label_mean=float(evaluation.soft_label.mean()),
            versions=library_versions(),
        )

    def to_dict(self) -> dict[str, Any]:
        made = {
            "config": self.config.to_dict(),
            "tunings": [tuning_to_dict(one) for one in self.tunings],
            "selections": [asdict(one) for one in self.selections],
        }
        return {**{name: plain(getattr(self, name)) for name in _FIELDS if name not in made}, **made}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> RunFacts:
        found = {"selections": [], "data_notes": [], **found}  # unknown to schema 1 and 2
        need_fields(found, _FIELDS, "record of the run")
        _check_metrics(found["metrics"] or {})
        changed = {
            "config": TrainConfig.from_dict(found["config"]),
            "rounds": tuple(int(count) for count in found["rounds"]),
            "learning_curve": tuple(tuple(curve) for curve in found["learning_curve"]),
            "tunings": tuple(tuning_from_dict(one) for one in found["tunings"]),
            "selections": tuple(_selection(one) for one in found["selections"]),
            "data_notes": tuple(str(note) for note in found["data_notes"]),
            "versions": {str(name): str(value) for name, value in found["versions"].items()},
        }
        return cls(**{**found, **changed})


def _selection(found: Any) -> LabelSelection:
    if not isinstance(found, Mapping):
        raise BundleError("The bundle's record of the run lists a selection that is no object.")
    need_fields(found, {"label_auc": (int, float), "rule_auc": (int, float), "labels": int}, "selection of labels")
    return LabelSelection(**found)


def row_parts(run: Run) -> dict[str, np.ndarray]:
    """One value per row: the out-of-fold score, and what it was judged by."""
    parts = {name: getattr(run.evaluation, name) for name in ROW_PARTS}
    return {"score": run.need_score(), **{name: part for name, part in parts.items() if part is not None}}


def run_from(facts: RunFacts, candidate: Candidate, rows: Mapping[str, np.ndarray]) -> Run:
    """The run as it was, without its table: it can be compared and judged again, but not refitted."""
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
        selections=facts.selections,
        trained_on_refined=facts.trained_on_refined,
    )
    return run.judged_by(evaluation)


def check_rows(rows: Mapping[str, Any], count: int) -> dict[str, np.ndarray]:
    """Stored rows in which every part has one value per row, of its kind."""
    kinds = {"score": "f", **ROW_PARTS}
    for name, part in rows.items():
        if name not in kinds or not isinstance(part, np.ndarray):
            raise BundleError(f"The bundle stores rows of {name!r:.60}, which this version does not know.")
        if part.shape != (count,) or part.dtype.kind != kinds[name] or not np.isfinite(part).all():
            raise BundleError(f"The bundle's stored {name!r} is not one number for each of the {count:,} rows.")
    if rows and not {"score", "soft_label", "is_labeled", "rule_score", "fold", "judged"} <= set(rows):
        raise BundleError(f"The bundle stores only some parts of its rows: {sorted(rows)}.")
    return dict(rows)


def plain(value: Any) -> Any:
    """Values that JSON can hold; a number that is not finite becomes null."""
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _check_metrics(metrics: Mapping[str, Any]) -> None:
    """Figures are numbers, notes, lists of numbers, or intervals: a card will show them."""
    for name, value in metrics.items():
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
        whole = not isinstance(value, dict) or set(value) == _INTERVAL
        if not whole or not all(part is None or isinstance(part, int | float | str) for part in parts):
            raise BundleError(f"The bundle's figure {name!r:.60} is no number, interval or note.")


def tuning_to_dict(report: TuningReport) -> dict[str, Any]:
    return {
        "settings": plain(report.settings),
        "value": plain(report.value),
        "objective": report.objective,
        "trials": [[plain(settings), plain(value)] for settings, value in report.trials],
        "is_cut": report.is_cut,
    }


def tuning_from_dict(found: Mapping[str, Any]) -> TuningReport:
    trials = tuple((dict(settings), value) for settings, value in found["trials"])
    value = np.nan if found["value"] is None else float(found["value"])
    return TuningReport(dict(found["settings"]), value, str(found["objective"]), trials, bool(found["is_cut"]))
