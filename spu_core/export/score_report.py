"""How rows are scored, what is reported about them, and the reasons for high scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_choice
from spu_core.codec import JsonFields
from spu_core.errors import BundleError
from spu_core.export.bundle_parts import FLAG_BY
from spu_core.export.drift import FEWEST_ROWS, STRONG, DriftReport, TrainingProfile, value_text
from spu_core.export.model_checks import active_columns, reads_rule_score
from spu_core.html_table import Tabular, count, html_table, short_repr
from spu_core.models import Features, Model
from spu_core.models.learners import SoftLightGBM, SoftXGBoost
from spu_core.models.model import ScaledModel
from spu_core.tables.spreadsheet import to_csv

MOST_COLUMNS = 300
# Columns that an explanation names; the others are summed up.
MOST_PARTS = 8
SEEN_BEFORE = (
    "No column has changed at all. If the model was trained on this file, it has seen these rows: their scores and "
    "flags say nothing about new rows."
)


class DriftLevel(StrEnum):
    """How far scored rows are from the training rows; `WARNING` asks for a look at them before scores are used."""

    UNKNOWN = "unknown"
    NORMAL = "normal"
    WATCH = "watch"
    WARNING = "warning"


@dataclass(frozen=True)
class ColumnCheck:
    """Columns that were ignored, and rule columns that are absent, so that no rule can be shown."""

    extra: tuple[str, ...] = ()
    absent_for_rules: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How rows are flagged and explained.

    Parameters
    ----------
    flag_by : {"threshold", "share"}
        "threshold" flags rows with a score above the stored threshold; "share" flags the stored share of this table,
        the highest scores first.
    reasons : int
        The number of reasons that a flagged row gets.
    explained : int
        Only so many rows, those with the highest scores, get reasons.
    """

    flag_by: str = "threshold"
    reasons: int = 3
    explained: int = 10_000

    def __post_init__(self) -> None:
        check_choice(self.flag_by, FLAG_BY, "flag_by", BundleError)
        for name in ("reasons", "explained"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                raise BundleError(f"{name} must be a whole number from 0 on, got {value!r}.")


@dataclass(frozen=True, kw_only=True)
class ScoreProgress:
    """How far a scoring is: the current step, the rows done in it, and the share of all work."""

    step: str
    rows: int
    share: float


@dataclass(frozen=True, kw_only=True)
class ScoreReport(JsonFields):
    """The result of a scoring; `threshold` is the one that was used."""

    json_form = "The report", BundleError, {}

    rows: int
    flagged: int
    threshold: float
    training_share: float
    flag_by: str
    columns: ColumnCheck
    drift: DriftReport

    def __repr__(self) -> str:
        return short_repr("ScoreReport", None, f"{self.flagged:,} of {count(self.rows, 'row')} flagged", self.level)

    @property
    def flag_rate(self) -> float:
        return self.flagged / self.rows if self.rows else 0.0

    @property
    def flags_differ(self) -> bool:
        """Whether the threshold flags another share of these rows than of the training rows out of fold."""
        # Two standard errors of a share on so many rows, and at least half of it.
        share, rows = self.training_share, max(self.rows, 1)
        usual = max(0.5 * share, 2.0 * np.sqrt(share * (1.0 - share) / rows))
        differs = self.flag_by == "threshold" and bool(abs(self.flag_rate - share) > usual)
        return differs and not self.are_training_rows

    @property
    def are_training_rows(self) -> bool:
        """Whether all columns have exactly the summaries of the training rows, of which the model knows the answers."""
        return self.drift.is_judged and self.drift.has_equal_columns

    @property
    def level(self) -> DriftLevel:
        """How far these rows are from the training rows."""
        if not self.drift.is_judged:
            return DriftLevel.UNKNOWN
        if self.flags_differ or self.drift.worst >= STRONG:
            return DriftLevel.WARNING
        return DriftLevel.WATCH if self.drift.hints else DriftLevel.NORMAL

    @property
    def conclusion(self) -> str:
        """One sentence: whether these rows are like the training rows, and if not, what differs."""
        if not self.drift.is_judged:
            return f"With {self.rows} rows drift cannot be judged; {FEWEST_ROWS} are needed."
        columns = len(self.drift.changed)
        more = "more" if self.flag_rate > self.training_share else "fewer"
        parts = [
            f"{more} rows are flagged than at training" if self.flags_differ else "",
            "scores have moved" if self.drift.score.summary else "",
            f"{columns} {'column has' if columns == 1 else 'columns have'} changed" if columns else "",
        ]
        found = [part for part in parts if part]
        if not found:
            return "These rows are like the training rows."
        return f"These rows differ from the training rows: {', '.join(found)}."

    @property
    def notes(self) -> tuple[str, ...]:
        """The report as sentences: flags, the conclusion, ignored columns, then what has changed."""
        return (self._flag_note(), self.conclusion, *self._column_notes(), *self.drift.hints)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; with more than 300 columns only the drift of those that have moved most."""
        found = super().to_dict()
        ordered = sorted(found["drift"]["columns"], key=lambda column: -column["moved"])
        found["drift"]["columns"] = ordered[:MOST_COLUMNS]
        if not self.drift.score.quantiles_now:  # unknown to reports of earlier versions
            del found["drift"]["score"]["quantiles_now"]
        return found

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> ScoreReport:
        """The report that `to_dict` gave, also read back from JSON."""
        if found.get("threshold") is None:
            # JSON has no infinity; such a threshold flags nothing or everything, as the counts show.
            found = {**found, "threshold": -np.inf if found.get("flagged") else np.inf}
        return super().from_dict(found)

    def _flag_note(self) -> str:
        rate = f"{self.flagged:,} of {self.rows:,} rows are flagged ({self.flag_rate:.2%}"
        if self.flag_by == "share":
            return f"{rate}, by the stored share); the score they exceed is {self.threshold:.6g}."
        return f"{rate}; at training {self.training_share:.2%} out of fold)."

    def _column_notes(self) -> list[str]:
        extra, lost = self.columns.extra, self.columns.absent_for_rules
        found = [SEEN_BEFORE] if self.are_training_rows else []
        found += [f"Ignored columns: {', '.join(map(repr, extra))}."] if extra else []
        if lost:
            found.append(f"Rules cannot be shown, since these columns are absent: {', '.join(map(repr, lost))}.")
        return found


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scored rows in their original order: id, score, flagged, rank, percentile, reasons, rules that fired."""

    frame: pd.DataFrame
    report: ScoreReport

    def __repr__(self) -> str:
        return short_repr("ScoreTable", None, count(self.report.rows, "row"), f"{self.report.flagged:,} flagged")

    def _repr_html_(self) -> str:
        return html_table(repr(self), self.frame)

    def to_csv(self, *, raw: bool = False) -> str:
        """CSV text that is safe in a spreadsheet; `raw` leaves cells as they are."""
        return to_csv(self.frame, raw=raw)


@dataclass(frozen=True, eq=False)
class Contributions:
    """Rows × columns: what each column adds to the score. `unit` is log-odds for boosters, else the score itself.

    `start` is what a row has before any column counts: the baseline of a booster, else the score of a row whose columns
    all have their usual values. The last column of `value` is the rule score where `has_rules`.
    """

    places: np.ndarray
    value: np.ndarray
    unit: str
    start: float
    end: np.ndarray
    has_rules: bool = False


@dataclass(frozen=True)
class RowExplanation(Tabular):
    """How the score of one row comes about, from `start` to `end`. Made by `Bundle.explain`.

    Attributes
    ----------
    start, end : float
        The level before any column counts, and that of the row, in `unit`.
    parts : tuple of (str, float)
        What single columns add, such as ("amount = 950", 1.2), the largest first.
    rest : float
        What all other columns add. For models that are not sums, also what columns add only together.
    unit : {"log-odds", "score"}
        The unit of all numbers.
    """

    start: float
    end: float
    parts: tuple[tuple[str, float], ...]
    rest: float
    unit: str

    def __repr__(self) -> str:
        return short_repr("RowExplanation", None, f"{self.unit} {self.end:.3f}, usually {self.start:.3f}")

    def to_frame(self) -> pd.DataFrame:
        """What each column adds, from the start to the end."""
        lines = [("start", self.start), *self.parts, ("all other columns", self.rest), ("end", self.end)]
        return pd.DataFrame(lines, columns=["from", self.unit])


def contributions(
    model: Model, features: Features, rule_score: np.ndarray | None, profile: TrainingProfile
) -> Contributions:
    """What each column adds to the score of each row; much slower than scoring, so meant for a few rows."""
    inner = model.part if isinstance(model, ScaledModel) else model
    if isinstance(inner, SoftLightGBM | SoftXGBoost):
        found = np.asarray(inner.contributions(features), dtype=np.float64)
        return Contributions(inner.active_, found[:, :-1], "log-odds", float(found[0, -1]), found.sum(axis=1))
    return _by_occlusion(model, features, rule_score, profile)


def top_reasons(
    found: Contributions, features: Features, most: int, fired: Sequence[str] | np.ndarray | None = None
) -> list[tuple[str, ...]]:
    """For each row the columns that raise its score most, with their values, e.g. `amount = 950 (+1.2)`.

    `fired` are the names of the rules that fired on each row, where they are known.
    """
    order = np.argsort(-found.value, axis=1, kind="stable")[:, :most]
    return [
        tuple(
            f"{_part_text(found, row, int(at), features, fired)} (+{found.value[row, at]:.2g})"
            for at in order[row]
            if found.value[row, at] > 0
        )
        for row in range(len(order))
    ]


def explain_one(found: Contributions, features: Features, fired: Sequence[str] | np.ndarray | None) -> RowExplanation:
    """The explanation of the first row."""
    value = found.value[0]
    order = [int(at) for at in np.argsort(-np.abs(value), kind="stable")[:MOST_PARTS] if value[at]]
    parts = tuple((_part_text(found, 0, at, features, fired), float(value[at])) for at in order)
    end = float(found.end[0])
    return RowExplanation(found.start, end, parts, end - found.start - sum(gain for _, gain in parts), found.unit)


def _rows_of(features: Features) -> np.ndarray:
    """The rows of a view, with all encoded columns."""
    matrix = np.asarray(features.store.matrix)
    return matrix if features.rows is None else matrix[features.rows]


def _part_text(
    found: Contributions, row: int, at: int, features: Features, fired: Sequence[str] | np.ndarray | None
) -> str:
    """A column with its value, or the rules that fired."""
    if found.has_rules and at == found.places.size:
        names = fired[row] if fired is not None else ""
        return f"rule {names}" if names and ";" not in names else f"rules {names}" if names else "the rules"
    column = features.store.columns[found.places[at]]
    return f"{column.name} = {value_text(column, float(_rows_of(features)[row, found.places[at]]))}"


def _by_occlusion(
    model: Model, features: Features, rule_score: np.ndarray | None, profile: TrainingProfile
) -> Contributions:
    """How far the score falls when a column gets its usual value: the median, or the most frequent category."""
    matrix, columns = _rows_of(features), features.store.columns
    base = model.score_rows(Features.of(matrix, columns), rule_score)
    places, gains, usual = active_columns(model), [], matrix[:1].copy()
    for place in places:
        usual[:, place] = _usual(profile, int(place))
        changed = matrix.copy()
        changed[:, place] = _usual(profile, int(place))
        gains.append(base - model.score_rows(Features.of(changed, columns), rule_score))
    with_rules = reads_rule_score(model) and rule_score is not None
    silent = np.zeros_like(base) if with_rules else None
    if with_rules:
        gains.append(base - model.score_rows(Features.of(matrix, columns), silent))
    value = np.column_stack(gains) if gains else np.zeros((base.size, 0))
    start = model.score_rows(Features.of(usual, columns), None if silent is None else silent[:1])
    return Contributions(places, value, "score", float(start[0]), base, with_rules)


def _usual(profile: TrainingProfile, place: int) -> float:
    column = profile.columns[place]
    if column.quantiles:
        return column.quantiles[len(column.quantiles) // 2]
    return float(np.argmax(column.shares)) if column.shares else np.nan
