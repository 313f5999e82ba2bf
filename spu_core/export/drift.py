"""Whether new rows look like the training rows: each column and the score, compared in outline and said in words."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from spu_core.export.decode import decode
from spu_core.export.profile import LEVELS, ColumnProfile, Profile
from spu_core.models import FittedEncoder

SLIGHT = 0.1
STRONG = 0.25
FEWEST_ROWS = 30


@dataclass(frozen=True, kw_only=True)
class ColumnDrift:
    """How far one column has moved: `moved` is the share of rows that would have to lie elsewhere to look as before.

    `unseen` is the share of values that are levels training did not know (or met too rarely to keep).
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
    def is_slight(self) -> bool:
        return self._worst >= SLIGHT

    @property
    def is_strong(self) -> bool:
        return self._worst >= STRONG

    @property
    def words(self) -> str:
        """One sentence per thing that has changed; empty where nothing has."""
        return " ".join([*self._moved_words(), *self._missing_words(), *self._unseen_words()])

    @property
    def _worst(self) -> float:
        gaps = (self.moved - self.noise, self.missing_now - self.missing_before, self.unseen - self.unseen_before)
        return max(gaps[0], abs(gaps[1]), gaps[2])

    def _moved_words(self) -> list[str]:
        if self.moved - self.noise < SLIGHT:
            return []
        extent = "strongly" if self.moved - self.noise >= STRONG else "somewhat"
        middle = ""
        if self.middle_before != self.middle_now:
            middle = f"; its median went from {self.middle_before} to {self.middle_now}"
        return [
            f"{self.name!r} has moved {extent}: {self.moved:.0%} of the rows lie elsewhere than at training{middle}."
        ]

    def _missing_words(self) -> list[str]:
        if abs(self.missing_now - self.missing_before) < SLIGHT:
            return []
        return [
            f"{self.name!r} is missing in {self.missing_now:.0%} of the rows, at training in {self.missing_before:.0%}."
        ]

    def _unseen_words(self) -> list[str]:
        if self.unseen - self.unseen_before < 0.01:
            return []
        return [f"{self.name!r} holds levels that training did not know in {self.unseen:.1%} of the rows."]


@dataclass(frozen=True, kw_only=True)
class ScoreDrift:
    """How far scores have moved: `moved` is the mean distance between old and new quantiles, in training spreads.

    The spread is the distance between the 5 % and the 95 % quantile. Training scores are out of fold, new ones come
    from the refit, so a small movement is usual. Shares of rows would not do here: trees give scores in steps, and a
    step that moves by a hair moves all its rows.
    """

    moved: float
    noise: float
    middle_before: float
    middle_now: float

    @property
    def words(self) -> str:
        if self.moved - self.noise < SLIGHT:
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
    def hints(self) -> tuple[str, ...]:
        """What has changed, in words: the score first, then columns, the strongest change first."""
        if self.rows < FEWEST_ROWS:
            return (f"With {self.rows} rows nothing can be said about drift; {FEWEST_ROWS} are needed.",)
        ordered = sorted(self.columns, key=lambda column: -column._worst)
        found = tuple(words for words in (self.score.words, *(column.words for column in ordered)) if words)
        return found or ("Columns and scores look like those of the training rows.",)


@dataclass
class DriftCounter:
    """Counts chunk by chunk what the report needs; its size does not grow with the rows."""

    profile: Profile
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
        """What both have counted, of one profile."""
        merged = DriftCounter(self.profile, self.encoder, self.rows + other.rows)
        merged._counts = [mine + theirs for mine, theirs in zip(self._counts, other._counts, strict=True)]
        merged._missing = self._missing + other._missing
        return merged

    def report(self, places: np.ndarray, ordered_score: np.ndarray) -> DriftReport:
        """The drift of the columns at `places`, and of the scores, which come sorted."""
        found = tuple(self._drift(int(place)) for place in places)
        score = score_drift(self.profile.score, ordered_score)
        return DriftReport(rows=self.rows, columns=found, score=score)

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
            middle_now=self._text(place, _middle(column, count)) if column.quantiles and total else "",
        )

    def _text(self, place: int, value: float) -> str:
        return decode(self.encoder.columns[place], value)


def score_drift(before: ColumnProfile, ordered: np.ndarray) -> ScoreDrift:
    """The distance between the quantiles of old and new scores."""
    old = np.array(before.quantiles)
    new = ordered[np.ceil(LEVELS * ordered.size).astype(np.int64).clip(1) - 1]
    spread = max(float(old[-2] - old[1]), 1e-12)
    return ScoreDrift(
        moved=min(1.0, float(np.abs(new - old)[1:-1].mean()) / spread),
        noise=float(1.0 / np.sqrt(ordered.size)),
        middle_before=float(old[old.size // 2]),
        middle_now=float(new[new.size // 2]),
    )


def _edges(column: ColumnProfile) -> tuple[np.ndarray, np.ndarray]:
    """Distinct quantiles and the share of training values up to each."""
    edges, first = np.unique(np.array(column.quantiles), return_index=True)
    return edges, np.array(column.below)[first]


def _bins(column: ColumnProfile) -> int:
    return _edges(column)[0].size + 1 if column.quantiles else len(column.shares) + 1


def _shares_before(column: ColumnProfile) -> np.ndarray:
    if column.quantiles:
        return np.diff(np.concatenate([[0.0], _edges(column)[1], [1.0]])).clip(0.0)
    return np.array([*column.shares, max(0.0, 1.0 - sum(column.shares))])


def _noise(shares: np.ndarray, rows: int) -> float:
    """Twice the movement that chance alone shows on so many rows."""
    if not rows:
        return 0.0
    return float(np.sqrt(2.0 * shares * (1.0 - shares) / (np.pi * rows)).sum())


def _middle(column: ColumnProfile, count: np.ndarray) -> float:
    """The median to the nearest edge."""
    edges = _edges(column)[0]
    at = int(np.searchsorted(np.cumsum(count), count.sum() / 2))
    return float(edges[min(at, edges.size - 1)])
