"""Drift: a summary of the training rows, and how far new rows differ from it, per column and for the score."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from spu_core.codec import JsonFields
from spu_core.errors import BundleError
from spu_core.models import Features, FittedEncoder
from spu_core.models.columns import Column, Family
from spu_core.training import Run

LEVELS = np.linspace(0.0, 1.0, 21)
SHOWN_LEVELS = 50
# Quantiles of more rows would hardly differ.
SAMPLE = 200_000


@dataclass(frozen=True, kw_only=True)
class ColumnSummary:
    """Summary of one encoded column: share of missing values, `quantiles` of a number or `shares` of a category.

    `below[k]` is the exact share of values up to quantile k; with ties it differs from the level of the quantile.
    `shares[k]` belongs to code k: 0 is a rare or unseen level, then the most frequent levels in order.
    """

    name: str
    missing: float
    quantiles: tuple[float, ...] = ()
    below: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.quantiles) != len(self.below):
            raise BundleError(f"quantiles and below of column {self.name!r} differ in length.")


@dataclass(frozen=True, kw_only=True)
class TrainingProfile(JsonFields):
    """Summaries of the training columns and of the out-of-fold scores, and the scores of test rows (`probe`).

    The test rows are made from the quantiles of every column. Their scores are stored at the export, so that loading
    the bundle can check that the model still gives the same scores.
    """

    json_form = "The profile", BundleError, {"complete": True}

    columns: tuple[ColumnSummary, ...]
    score: ColumnSummary
    rows: int
    probe: tuple[float, ...] = ()

    def probe_rows(self) -> np.ndarray:
        """The encoded test rows: quantiles of every number, codes of every category, and some missing values."""
        steps = np.arange(LEVELS.size)
        matrix = np.full((LEVELS.size, len(self.columns)), np.nan, dtype=np.float32)
        for place, column in enumerate(self.columns):
            if column.quantiles:
                # Columns step through their quantiles at different speeds, so that the rows differ.
                matrix[:, place] = np.array(column.quantiles)[(steps * (place % 5 + 1) + place) % LEVELS.size]
            elif column.shares:
                matrix[:, place] = (steps + place) % len(column.shares)
            if column.missing > 0:
                matrix[place % LEVELS.size, place] = np.nan
        return matrix

    def probe_rule_score(self) -> np.ndarray:
        return np.linspace(0.0, 1.0, LEVELS.size)


def training_profile(run: Run) -> TrainingProfile:
    """The summary of the rows that a run was trained on."""
    features = run.need_data().rows.features
    judged = run.need_score()[run.evaluation.judged]
    columns = tuple(profile_column(features, place) for place in range(len(features.columns)))
    return TrainingProfile(columns=columns, score=number_profile("score", judged, 0.0), rows=len(features))


def profile_column(features: Features, place: int) -> ColumnSummary:
    """The summary of one encoded column."""
    step = max(1, len(features) // SAMPLE)
    values = features.every(step)[:, place]
    present = values[~np.isnan(values)].astype(np.float64)
    column = features.columns[place]
    missing = 1.0 - present.size / max(values.size, 1)
    if column.is_category:
        return ColumnSummary(name=column.name, missing=missing, shares=code_shares(present, SHOWN_LEVELS + 1))
    return number_profile(column.name, present, missing)


def number_profile(name: str, values: np.ndarray, missing: float) -> ColumnSummary:
    """Twenty-one quantiles, each a value that occurs; none for no values.

    >>> number_profile("x", np.array([0.0, 0.0, 0.0, 5.0]), 0.0).below[0]
    0.75
    """
    if not values.size:
        return ColumnSummary(name=name, missing=missing)
    ordered = np.sort(values)
    quantiles = np.quantile(ordered, LEVELS, method="inverted_cdf")
    below = np.searchsorted(ordered, quantiles, side="right") / ordered.size
    return ColumnSummary(name=name, missing=missing, quantiles=tuple(quantiles.tolist()), below=tuple(below.tolist()))


def code_shares(codes: np.ndarray, most: int) -> tuple[float, ...]:
    """The share of each code among the values that are present, up to the last one that occurs.

    >>> code_shares(np.array([1.0, 1.0, 2.0, 0.0]), 50)
    (0.25, 0.5, 0.25)
    """
    if not codes.size:
        return ()
    count = np.bincount(codes.astype(np.int64).clip(0, most))
    return tuple((count[:most] / codes.size).tolist())


def value_text(column: Column, value: float) -> str:
    """The value that was encoded, as text in the terms of the table.

    >>> job = Column("job", Family.TEXT, is_category=True, levels=("clerk", "pilot"))
    >>> value_text(job, 2.0), value_text(job, 0.0), value_text(Column("day", Family.DATE), 19723.5)
    ('pilot', 'a rare or new category', '2024-01-01')
    """
    if np.isnan(value):
        return "missing"
    if column.is_category:
        code = int(value)
        return column.levels[code - 1] if 0 < code <= len(column.levels) else "a rare or new category"
    # The matrix is float32, so digits beyond the seventh are not the table's.
    number = float(value) + column.offset
    if column.family is Family.DATE:
        return str(np.datetime64("1970-01-01") + np.timedelta64(int(np.floor(number)), "D"))
    if column.family is Family.BOOLEAN:
        return "yes" if number else "no"
    return f"{number:.6g}" if abs(number) < 1e6 or number % 1 else f"{number:.0f}"


SLIGHT = 0.1
STRONG = 0.25
FEWEST_ROWS = 30


@dataclass(frozen=True, kw_only=True)
class ColumnDrift:
    """How far one column has moved: `moved` is the share of rows in other bins than at training (total variation).

    `noise` is the movement that chance alone can cause. `unseen` is the share of values that are categories which the
    training rows did not have, or too rarely.
    """

    name: str
    moved: float
    noise: float
    missing_before: float
    missing_now: float
    unseen: float = 0.0
    unseen_before: float = 0.0
    middle_before: str = ""
    middle_now: str = ""

    @property
    def summary(self) -> str:
        """One sentence per change; empty where nothing has changed."""
        return " ".join([*self._moved(), *self._missing_change(), *self._unseen_change()])

    @property
    def excess(self) -> float:
        """The largest change of values, missing values or unknown categories, beyond what chance can cause."""
        gaps = (self.moved - self.noise, self.missing_now - self.missing_before, self.unseen - self.unseen_before)
        return max(gaps[0], abs(gaps[1]), gaps[2])

    def _moved(self) -> list[str]:
        if self.moved - self.noise < SLIGHT:
            return []
        extent = "strongly" if self.moved - self.noise >= STRONG else "somewhat"
        middle = ""
        if self.middle_before != self.middle_now:
            middle = f"; its median went from {self.middle_before} to {self.middle_now}"
        return [
            f"{self.name!r} has moved {extent}: {self.moved:.0%} of the rows lie elsewhere than at training{middle}."
        ]

    def _missing_change(self) -> list[str]:
        if abs(self.missing_now - self.missing_before) < SLIGHT:
            return []
        return [
            f"{self.name!r} is missing in {self.missing_now:.0%} of the rows, at training in {self.missing_before:.0%}."
        ]

    def _unseen_change(self) -> list[str]:
        if self.unseen - self.unseen_before < 0.01:
            return []
        return [f"{self.name!r} has categories that training did not know in {self.unseen:.1%} of the rows."]


@dataclass(frozen=True, kw_only=True)
class ScoreDrift:
    """How far scores have moved: `moved` is the mean distance between old and new quantiles, in units of the spread.

    The spread is the distance between the 5 % and the 95 % quantile at training. Training scores are out of fold, new
    ones come from the model that was trained on all rows, so a small movement is normal. Shares of rows would be
    misleading: many rows of a tree model have the same score, and a tiny change moves all of them to another bin.
    """

    moved: float
    noise: float
    middle_before: float
    middle_now: float
    quantiles_now: tuple[float, ...] = ()

    @property
    def excess(self) -> float:
        """The movement beyond what chance can cause."""
        return self.moved - self.noise

    @property
    def summary(self) -> str:
        if self.excess < SLIGHT:
            return ""
        extent = "strongly" if self.moved - self.noise >= STRONG else "somewhat"
        way = "higher" if self.middle_now > self.middle_before else "lower"
        return (
            f"Scores have moved {extent}: they lie {self.moved:.0%} of the training spread from the old ones; "
            f"the median is {way}, {self.middle_now:.4g} after {self.middle_before:.4g}."
        )


@dataclass(frozen=True, kw_only=True)
class DriftReport:
    """All columns, and the score; `rows` is the number of new rows."""

    rows: int
    columns: tuple[ColumnDrift, ...]
    score: ScoreDrift

    @property
    def is_judged(self) -> bool:
        """Whether there are enough rows to judge drift."""
        return self.rows >= FEWEST_ROWS

    @property
    def has_equal_columns(self) -> bool:
        """Whether no value of any column has moved, beyond rounding."""
        moved = [max(each.moved, abs(each.missing_now - each.missing_before)) for each in self.columns]
        return bool(moved) and max(moved) < 1e-9

    @property
    def changed(self) -> tuple[ColumnDrift, ...]:
        """The columns that have changed, the strongest change first; none where there are too few rows."""
        found = [column for column in self.columns if column.summary] if self.is_judged else []
        return tuple(sorted(found, key=lambda column: -column.excess))

    @property
    def worst(self) -> float:
        """The largest change of the score or of a column, beyond what chance can cause."""
        return max((self.score.excess, *(column.excess for column in self.columns)))

    @property
    def hints(self) -> tuple[str, ...]:
        """What has changed, as sentences: the score first, then columns, the strongest change first."""
        if not self.is_judged:
            return ()
        return tuple(filter(None, (self.score.summary, *(column.summary for column in self.changed))))


@dataclass
class DriftCounter:
    """Counts chunk by chunk what the report needs; its memory does not grow with the rows."""

    profile: TrainingProfile
    encoder: FittedEncoder
    rows: int = 0
    _counts: list[np.ndarray] = field(default_factory=list)
    _edges: list[np.ndarray] = field(default_factory=list)
    _missing: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        self._counts = [np.zeros(_bins(column), dtype=np.int64) for column in self.profile.columns]
        # Quantiles are values that occurred, so float32, the type of encoded rows, holds them exactly.
        self._edges = [_edges(column)[0].astype(np.float32) for column in self.profile.columns]
        self._missing = np.zeros(len(self._counts), dtype=np.int64)

    def add(self, matrix: np.ndarray, places: np.ndarray) -> None:
        """Take encoded rows; only the columns at `places` are counted."""
        self.rows += len(matrix)
        for place in places:
            self._count(int(place), matrix[:, place])

    def merge(self, other: DriftCounter) -> DriftCounter:
        """The sum of two counters of one profile."""
        merged = DriftCounter(self.profile, self.encoder, self.rows + other.rows)
        merged._counts = [mine + theirs for mine, theirs in zip(self._counts, other._counts, strict=True)]
        merged._missing = self._missing + other._missing
        return merged

    def report(self, places: np.ndarray, ordered_score: np.ndarray) -> DriftReport:
        """The drift of the columns at `places`, and of the scores, which come sorted."""
        score = score_drift(self.profile.score, ordered_score)
        return DriftReport(rows=self.rows, columns=self.columns(places), score=score)

    def columns(self, places: np.ndarray) -> tuple[ColumnDrift, ...]:
        """The drift of the columns at `places`."""
        return tuple(self._drift(int(place)) for place in places)

    def _count(self, place: int, values: np.ndarray) -> None:
        column = self.profile.columns[place]
        present = values[~np.isnan(values)]
        self._missing[place] += values.size - present.size
        bins = self._counts[place].size
        if column.quantiles:
            at = np.searchsorted(self._edges[place], present, side="left")
        else:
            at = present.astype(np.int64).clip(0, bins - 1)
        self._counts[place] += np.bincount(at, minlength=bins)[:bins]

    def _drift(self, place: int) -> ColumnDrift:
        column, count = self.profile.columns[place], self._counts[place]
        total = int(count.sum())
        before = _shares_before(column)
        now = count / total if total else before
        unseen = (float(now[0]), float(before[0])) if column.shares and not column.quantiles else (0.0, 0.0)
        return ColumnDrift(
            name=column.name,
            moved=float(np.abs(now - before).sum() / 2),
            noise=_noise(before, total),
            missing_before=column.missing,
            missing_now=self._missing[place] / self.rows if self.rows else 0.0,
            unseen=unseen[0],
            unseen_before=unseen[1],
            middle_before=self._text(place, column.quantiles[len(column.quantiles) // 2]) if column.quantiles else "",
            middle_now=self._middle_text(place) if column.quantiles and total else "",
        )

    def _middle_text(self, place: int) -> str:
        """The median, rounded to the nearest edge; outside the training values only a limit is known."""
        column, count = self.profile.columns[place], self._counts[place]
        edges = _edges(column)[0]
        at = int(np.searchsorted(np.cumsum(count), count.sum() / 2))
        if at == edges.size:
            return f"more than {self._text(place, float(edges[-1]))}"
        is_below = at == 0 and edges.size > 2 and column.quantiles[len(column.quantiles) // 2] > edges[0]
        return self._text(place, float(edges[at])) + (" or less" if is_below else "")

    def _text(self, place: int, value: float) -> str:
        return value_text(self.encoder.columns[place], value)


def score_drift(before: ColumnSummary, ordered: np.ndarray) -> ScoreDrift:
    """The distance between the quantiles of old and new scores."""
    old = np.array(before.quantiles)
    new = ordered[np.ceil(LEVELS * ordered.size).astype(np.int64).clip(1) - 1]
    spread = max(float(old[-2] - old[1]), 1e-12)
    return ScoreDrift(
        moved=min(1.0, float(np.abs(new - old)[1:-1].mean()) / spread),
        noise=float(1.0 / np.sqrt(ordered.size)),
        middle_before=float(old[old.size // 2]),
        middle_now=float(new[new.size // 2]),
        quantiles_now=tuple(new[[1, 5, 10, 15, 19]].tolist()),
    )


def _edges(column: ColumnSummary) -> tuple[np.ndarray, np.ndarray]:
    """Distinct quantiles and the share of training values up to each."""
    edges, first = np.unique(np.array(column.quantiles), return_index=True)
    return edges, np.array(column.below)[first]


def _bins(column: ColumnSummary) -> int:
    return _edges(column)[0].size + 1 if column.quantiles else len(column.shares) + 1


def _shares_before(column: ColumnSummary) -> np.ndarray:
    if column.quantiles:
        return np.diff(np.concatenate([[0.0], _edges(column)[1], [1.0]])).clip(0.0)
    return np.array([*column.shares, max(0.0, 1.0 - sum(column.shares))])


def _noise(shares: np.ndarray, rows: int) -> float:
    """Twice the expected movement by chance on so many rows."""
    if not rows:
        return 0.0
    return float(np.sqrt(2.0 * shares * (1.0 - shares) / (np.pi * rows)).sum())
