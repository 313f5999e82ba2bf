"""The two passes over the rows to be scored: scores first, then ranks, flags and reasons."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from spu_core.errors import TableError
from spu_core.export.bundle import Bundle
from spu_core.export.conform import ColumnCheck, check_names, conform
from spu_core.export.drift import DriftCounter
from spu_core.export.flagging import share_threshold
from spu_core.export.parts import active_columns, reads_rule_score
from spu_core.export.reasons import contributions, top_reasons
from spu_core.export.score_report import ScoreProgress, ScoreReport, Scoring
from spu_core.export.sources import RowSource
from spu_core.rules import RuleMatrix

OnProgress: TypeAlias = Callable[[ScoreProgress], None]
# Reading and scoring take longer than ranking and writing.
FIRST_PASS = 0.6


@dataclass(eq=False)
class ScoreWork:
    """Two passes over the rows: scores first, kept on disk; then ranks, flags and reasons.

    Only one chunk of rows is in memory at a time. The scores of all rows lie in a temporary file, eight bytes each,
    and a sorted copy of them answers for ranks and shares: a rank is a statement about all rows, so these eight bytes
    a row are what grows with the file. They are mapped, so that the system may take them from memory when it is short.
    """

    bundle: Bundle
    source: RowSource
    scoring: Scoring
    on_progress: OnProgress | None = None
    _folder: tempfile.TemporaryDirectory[str] = field(default_factory=tempfile.TemporaryDirectory)

    def __enter__(self) -> ScoreWork:
        return self

    def __exit__(self, *_: object) -> None:
        self.__dict__.pop("ordered", None)
        self._folder.cleanup()

    @property
    def _scores(self) -> Path:
        return Path(self._folder.name) / "scores"

    @cached_property
    def columns(self) -> ColumnCheck:
        return check_names(self.bundle, self.source.names)

    @cached_property
    def drift(self) -> DriftCounter:
        return DriftCounter(self.bundle.profile, self.bundle.fitted.encoder)

    @cached_property
    def places(self) -> np.ndarray:
        return active_columns(self.bundle.fitted.model)

    @cached_property
    def total(self) -> int:
        """The first pass: every score goes to a file; the number of rows comes back."""
        done = 0
        with self._scores.open("wb") as stream:
            for score in self.scores():
                stream.write(score.tobytes())
                done += score.size
                self._tell("scoring", done, FIRST_PASS * min(1.0, done / max(self.source.about, 1)))
        if not self._scores.stat().st_size:
            raise TableError("The table has no rows to score.")
        return self._scores.stat().st_size // 8

    def scores(self) -> Iterator[np.ndarray]:
        """The scores, chunk by chunk; drift is counted on the way."""
        _ = self.columns
        # A name for the chunk would keep it, and the piece of the file it belongs to, while the next one is read.
        yield from map(self._score, self.source.chunks())

    @cached_property
    def ordered(self) -> np.ndarray:
        """All scores in increasing order, backed by a file."""
        total, path = self.total, Path(self._folder.name) / "ordered"
        shutil.copyfile(self._scores, path)
        ordered = np.memmap(path, dtype="<f8", mode="r+", shape=(total,))
        ordered.sort()
        return ordered

    @cached_property
    def threshold(self) -> float:
        if self.scoring.flag_by == "share":
            return share_threshold(self.ordered, self.bundle.point.share)
        return float(self.bundle.point.threshold)

    @property
    def report(self) -> ScoreReport:
        return ScoreReport(
            rows=self.total,
            flagged=int(self.total - np.searchsorted(self.ordered, self.threshold, side="right")),
            threshold=self.threshold,
            training_share=float(self.bundle.point.share),
            flag_by=self.scoring.flag_by,
            columns=self.columns,
            drift=self.drift.report(self.places, self.ordered),
        )

    def tables(self) -> Iterator[pd.DataFrame]:
        """The second pass: the result, chunk by chunk."""
        start, total = 0, self.total
        for chunk in self.source.chunks():
            score = np.fromfile(self._scores, dtype="<f8", count=len(chunk), offset=8 * start)
            if score.size != len(chunk):
                raise TableError("The file changed while it was scored; score it again.")
            table = self.table(chunk, score, start)
            start += len(chunk)
            del chunk
            yield table
            self._tell("ranking and writing", start, FIRST_PASS + (1.0 - FIRST_PASS) * start / total)
        if start != total:
            raise TableError("The file changed while it was scored; score it again.")

    def _score(self, chunk: pd.DataFrame) -> np.ndarray:
        fitting = conform(self.bundle, chunk)
        features = self.bundle.features(fitting)
        score = self.bundle.score_features(fitting, features)
        self.drift.add(features.matrix, self.places)
        return np.ascontiguousarray(score, dtype="<f8")

    def table(self, chunk: pd.DataFrame, score: np.ndarray, start: int) -> pd.DataFrame:
        """The result for some rows, the first of which is number `start` of all."""
        below = self._rows_up_to(score)
        # Rank 1 is the highest score; tied rows share the better rank.
        rank = self.ordered.size - below + 1
        flagged = score > self.threshold
        percentile = 100.0 * below / self.ordered.size
        found = {"id": self._ids(chunk, start), "score": score, "flagged": flagged, "rank": rank}
        table = pd.DataFrame({**found, "percentile": percentile})
        shown = self.scoring.explained if self.scoring.reasons else 0
        explained = np.flatnonzero(flagged & (rank <= shown))
        reasons, rules = self._reasons(chunk, explained)
        for number in range(self.scoring.reasons):
            table[f"reason_{number + 1}"] = _spread(reasons, number, explained, len(table))
        if self.bundle.recipe is not None and not self.columns.absent_for_rules:
            table["rules"] = rules
        return table

    def _rows_up_to(self, score: np.ndarray) -> np.ndarray:
        """How many of all rows score as high as each of these, or lower."""
        # Asked in order of score, the search walks through memory instead of jumping about: four times as fast.
        order = np.argsort(score)
        found = np.empty(score.size, dtype=np.int64)
        found[order] = np.searchsorted(self.ordered, score[order], side="right")
        return found

    def _tell(self, step: str, rows: int, share: float) -> None:
        if self.on_progress is not None:
            self.on_progress(ScoreProgress(step=step, rows=rows, share=share))

    def _ids(self, chunk: pd.DataFrame, start: int) -> Any:
        name = self.bundle.passport.id_column
        if name is not None and name in chunk.columns:
            return chunk[name].to_numpy()
        return np.arange(start + 1, start + len(chunk) + 1)

    def _reasons(self, chunk: pd.DataFrame, rows: np.ndarray) -> tuple[list[tuple[str, ...]], Any]:
        bundle, matrix = self.bundle, self._matrix(chunk)
        rules = None if matrix is None else fired_names(matrix)
        if not rows.size:
            return [], rules
        part = conform(bundle, chunk.iloc[rows])
        features = bundle.features(part)
        belief = None
        if reads_rule_score(bundle.fitted.model):
            belief = bundle.rule_score(part)
        found = contributions(bundle.fitted.model, features, belief, bundle.profile)
        return top_reasons(found, features, self.scoring.reasons), rules

    def _matrix(self, chunk: pd.DataFrame) -> RuleMatrix | None:
        recipe = self.bundle.recipe
        return None if recipe is None or self.columns.absent_for_rules else recipe.apply(chunk)


def fired_names(matrix: RuleMatrix) -> np.ndarray:
    """The names of the rules that fired on each row, joined by semicolons; empty where none did."""
    weight = 1 << np.arange(matrix.n_rules, dtype=object) if matrix.n_rules > 62 else 1 << np.arange(matrix.n_rules)
    pattern, place = np.unique(matrix.fired @ weight, return_inverse=True)
    words = ["; ".join(name for bit, name in enumerate(matrix.names) if int(value) >> bit & 1) for value in pattern]
    return np.array(words, dtype=object)[place]


def _spread(reasons: list[tuple[str, ...]], number: int, rows: Any, length: int) -> pd.Series:
    """One reason per explained row, nothing elsewhere."""
    words = np.full(length, "", dtype=object)
    for row, found in zip(rows, reasons, strict=True):
        words[row] = found[number] if number < len(found) else ""
    return pd.Series(words, dtype="str")
