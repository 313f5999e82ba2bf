"""What a bundle keeps beside the model: rules, texts about it, threshold, record of the run, and self-test rows.

Self-test rows are 20 synthetic rows with their scores, which every copy of a model must reproduce. They are made from
the summaries of the training columns (the median, nothing, unseen and extreme values, then mixtures), never from rows
of the table. They travel in the bundle, in the metadata of the ONNX model and in the folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_choice, check_share
from spu_core.codec import JsonFields, encode
from spu_core.errors import BundleError
from spu_core.export.drift import ColumnSummary
from spu_core.labels import COMBINERS, SoftLabels, assign_soft_labels
from spu_core.metrics import roc_spu
from spu_core.models.columns import Column, Family
from spu_core.rules import FittedRules, RuleMatrix
from spu_core.rules.beliefs import FrozenReadyMade, FrozenRecords
from spu_core.rules.columns import Kind
from spu_core.tables import Role, Table
from spu_core.training import Candidate, EvaluationData, Run, TrainConfig, TuningReport
from spu_core.versions import library_versions

ROWS = 20
MOST_VALUES = 24
UNSEEN = "(not in the training rows)"
EXTREME = {"number": (1e300, -1e300), "days": (100_000.0, -100_000.0), "flag": (1.0, 0.0), "text": (UNSEEN, UNSEEN)}
# The kinds of values that a model reads, as the ONNX model and the service take them.
INPUT_WORDS = {
    "text": "text as in the training table; the empty text means missing",
    "days": "days since 1970-01-01 in UTC, with fractions; NaN means missing",
    "flag": "1 or 0; NaN means missing",
    "number": "a number; NaN means missing",
}
_KIND_OF_FAMILY = {Family.TEXT: "text", Family.DATE: "days", Family.BOOLEAN: "flag"}
_KIND_OF_RULE = {Kind.TEXT: "text", Kind.DATE: "days", Kind.FLAG: "flag"}


def input_kind(column: Column | None, rule_kind: Kind | None = None) -> str:
    """The kind of values of a column: number, flag, days or text.

    The encoder decides, unless it does not know the column or found it empty; then the rules decide.

    >>> input_kind(Column("when", Family.DATE)), input_kind(None, Kind.TEXT)
    ('days', 'text')
    """
    if column is not None and (column.family is not Family.EMPTY or rule_kind is None):
        return _KIND_OF_FAMILY.get(column.family, "number")
    return "number" if rule_kind is None else _KIND_OF_RULE.get(rule_kind, "number")


@dataclass(frozen=True)
class SelfTestColumn:
    """The values of one column as plain JSON values; None is missing."""

    name: str
    kind: str
    values: tuple[float | str | None, ...]

    def __post_init__(self) -> None:
        check_choice(self.kind, INPUT_WORDS, f"The kind of column {self.name!r}", BundleError)
        fits = str if self.kind == "text" else (int, float)
        if not all(value is None or isinstance(value, fits) for value in self.values):
            raise BundleError(f"Column {self.name!r} holds a value of another kind than {self.kind}.")


@dataclass(frozen=True, eq=False)
class SelfTest(JsonFields):
    """Rows with their scores; the columns all have one value per row."""

    json_form = "The self-test", BundleError, {"complete": True}

    columns: tuple[SelfTestColumn, ...]
    score: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for column in self.columns if self.score else ():
            if len(column.values) != len(self.score):
                raise BundleError(f"Column {column.name!r} must have one value per score.")

    @property
    def frame(self) -> pd.DataFrame:
        """The rows as a table that a bundle can score."""
        return pd.DataFrame({column.name: _series(column.kind, column.values) for column in self.columns})


def self_test_rows(
    kinds: Mapping[str, str],
    columns: Mapping[str, tuple[Column, ColumnSummary]],
    label_rules: LabelRules | None,
) -> SelfTest:
    """Rows for inputs of these kinds, still without scores; `columns` are those that the encoder knows."""
    limited = {} if label_rules is None else dict(_limited(label_rules))
    made = []
    for place, (name, kind) in enumerate(kinds.items()):
        known = _known_values(kind, *columns[name]) if name in columns else []
        compared = [] if label_rules is None else list(_compared_values(kind, name, label_rules))
        values = limited.get(name) or _mixed(kind, [*known, *compared][:MOST_VALUES], place)
        made.append(SelfTestColumn(name, kind, values))
    return SelfTest(tuple(made))


def _mixed(kind: str, known: Sequence[Any], place: int) -> tuple[Any, ...]:
    """The usual value, nothing, two extremes; then all of them, at a pace that differs between columns."""
    usual = known[0] if known else None
    start = [usual, None, *EXTREME[kind]]
    pool = [*known, None, *EXTREME[kind]]
    return (*start, *(pool[(row * (place % 5 + 1) + place) % len(pool)] for row in range(ROWS - len(start))))


def _known_values(kind: str, column: Column, summary: ColumnSummary) -> list[Any]:
    """The median or the most frequent category, then others."""
    if column.is_category:
        return [float(level) if kind == "number" else level for level in column.levels[:MOST_VALUES]]
    numbers = (np.array(summary.quantiles) + column.offset).tolist()
    middle = numbers[len(numbers) // 2 :] + numbers[: len(numbers) // 2]
    # Whole days come back from a date exactly.
    rounded = [float(np.floor(number)) for number in middle] if kind == "days" else middle
    return list(dict.fromkeys(rounded[::2]))


def _compared_values(kind: str, name: str, label_rules: LabelRules) -> Iterable[Any]:
    """Values that the rules compare a column with, so that some rows meet a condition and others do not."""
    for rule in label_rules.rules.rules:
        for compare in () if rule.when is None else rule.when.comparisons:
            if compare.column == name and kind in ("text", "number"):
                fits = str if kind == "text" else (int, float)
                yield from (value if kind == "text" else float(value) for value in compare.values if _is(value, fits))


def _limited(label_rules: LabelRules) -> Iterable[tuple[str, tuple[Any, ...]]]:
    """Columns that may not hold just any number: ready-made beliefs and records of checks."""
    for belief in label_rules.rules.beliefs:
        if isinstance(belief, FrozenReadyMade):
            yield belief.column, tuple(None if row == 1 else row / (ROWS - 1) for row in range(ROWS))
        elif isinstance(belief, FrozenRecords):
            yield belief.checks_column, tuple(None if row == 1 else float(row) for row in range(ROWS))
            yield belief.passes_column, tuple(None if row == 2 else float(row // 2) for row in range(ROWS))


def _is(value: Any, kinds: Any) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _series(kind: str, values: Sequence[Any]) -> pd.Series:
    if kind == "text":
        return pd.Series(list(values), dtype=object)
    numbers = pd.Series([np.nan if value is None else float(value) for value in values], dtype=np.float64)
    return pd.to_datetime(numbers, unit="D") if kind == "days" else numbers


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
class ModelDetails(JsonFields):
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

    json_form = "The details of the model", BundleError, {}

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
class FlagPoint(JsonFields):
    """Where a bundle flags: rows with a score above `threshold`, which were `share` of the training rows out of fold.

    Both are kept: the threshold flags a row by its own score, the share fills a review queue of known size. They give
    different rows when new data differ from the training data. A threshold of ±∞ flags nothing or everything.

    >>> FlagPoint(threshold=0.5, share=0.02).flags(np.array([0.4, 0.5, 0.6]))
    array([False, False,  True])
    """

    json_form = "The operating point", BundleError, {"complete": True}

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

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> FlagPoint:
        # JSON has no infinity: such a threshold is stored as null, and its sign follows from the share.
        if found["threshold"] is None:
            found = {**found, "threshold": -np.inf if found["share"] >= 0.5 else np.inf}
        return super().from_dict(found)


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
class RunFacts(JsonFields):
    """The record of a run: configuration, metrics, notes and library versions.

    `rows` and `labeled` count the training rows. `selections` is what earlier versions recorded about selected labels.
    `seconds` is not stored: equal studies must give equal bytes.
    """

    json_form = "The record of the run", BundleError, {}

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
        return {name: value for name, value in super().to_dict().items() if name != "seconds"}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> RunFacts:
        found = {"selections": [], "data_notes": [], **found}  # unknown to schema 1 and 2
        facts = super().from_dict(found)
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
