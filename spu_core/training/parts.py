"""The fits of a cross-fitting, and the executor that runs them: in this process, or on a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from spu_core.labels import SoftLabels, soft_labels_for
from spu_core.models import Evidence, Model, Selection
from spu_core.rules import FittedRules
from spu_core.tables import Table, TableFolder
from spu_core.training.candidate import Candidate
from spu_core.training.config import TrainConfig
from spu_core.training.fitting import Fit, Fitter
from spu_core.training.folds import Part, Split
from spu_core.training.progress import Reporter, Span, TrainProgress
from spu_core.training.rows import TrainingRows, prepare_rows
from spu_core.training.run import FittedCandidate, Run, evidence_for
from spu_core.training.tuning import TuningReport, tune_settings

SCORED_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class PartFit:
    """What one fit leaves behind: scores of the rows that it never saw, rounds, losses, how it was tuned.

    The model itself is let go: those of all folds together may outweigh the table.
    """

    score: np.ndarray
    rounds: int | None = None
    losses: tuple[float, ...] = ()
    tuning: TuningReport | None = None
    selection: Selection | None = None


Fits: TypeAlias = Callable[[Candidate, Reporter], Iterator[PartFit]]
"""The fits of one candidate, in the order of the parts."""


class Executor(Protocol):
    """Runs the fits of a training. `holds_rows`: whether methods that read all rows at once can run there."""

    holds_rows: bool

    def label(self, table: Table | TableFolder, rules: FittedRules) -> SoftLabels:
        """The soft labels that rules give to every row."""

    def prepare(
        self, table: Table | TableFolder, soft_labels: SoftLabels, config: TrainConfig, split: Split | None
    ) -> TrainingRows:
        """Encode the rows, and make the folds."""

    def fits(self, rows: TrainingRows, candidates: tuple[Candidate, ...], config: TrainConfig) -> Fits:
        """Accept all fits of all candidates; an executor may start them before the first one is asked for."""

    def refit(self, run: Run, on_progress: Callable[[TrainProgress], None] | None) -> FittedCandidate:
        """The candidate of a run, fitted on all rows."""


class LocalExecutor:
    """One fit after the other, in this process."""

    holds_rows = True

    def label(self, table: Table | TableFolder, rules: FittedRules) -> SoftLabels:
        return soft_labels_for(table, rules)

    def prepare(
        self, table: Table | TableFolder, soft_labels: SoftLabels, config: TrainConfig, split: Split | None
    ) -> TrainingRows:
        return prepare_rows(table, soft_labels, config, split)

    def fits(self, rows: TrainingRows, candidates: tuple[Candidate, ...], config: TrainConfig) -> Fits:
        parts = list(rows.split.parts())

        def fits(candidate: Candidate, reporter: Reporter) -> Iterator[PartFit]:
            evidence, fitter = evidence_for(candidate, rows), Fitter(candidate, config, reporter)
            for place, part in enumerate(parts):
                reporter.fold = part.number
                yield fit_part(fitter, evidence, part, Span().part(place, len(parts)))

        return fits

    def refit(self, run: Run, on_progress: Callable[[TrainProgress], None] | None) -> FittedCandidate:
        return run.fit_all(on_progress=on_progress)


def fit_part(fitter: Fitter, evidence: Evidence, part: Part, span: Span) -> PartFit:
    """Train on the rows of the part, tuned inside them where the candidate asks for it, and score the others."""
    fit, tuning = _fit(fitter, evidence.take(part.train), span)
    score = _score(fit.model, evidence.take(part.score), lambda: fitter.reporter.report(span.high, "scoring"))
    return PartFit(score, fit.rounds, fit.losses, tuning, getattr(fit.model, "selection", None))


def _score(model: Model, unseen: Evidence, after_block: Callable[[], None]) -> np.ndarray:
    """Block by block, so that a wish to stop is heard while a slow model scores; a score never depends on its block."""
    score, done, size = np.empty(len(unseen)), 0, SCORED_AT_ONCE
    while done < len(unseen):
        started, rows = time.monotonic(), np.arange(done, min(done + size, len(unseen)))
        rule_score = None if unseen.rule_score is None else unseen.rule_score[rows]
        score[rows] = model.score_rows(unseen.features.take(rows), rule_score)
        after_block()
        done += rows.size
        size = 2 * size if time.monotonic() - started < 0.2 else size
    return score


def _fit(fitter: Fitter, rows: Evidence, span: Span) -> tuple[Fit, TuningReport | None]:
    if fitter.candidate.tuning is None:
        return fitter.fit(rows, span), None
    tuned = tune_settings(fitter, rows, span.part(0, 2))
    return fitter.with_changes(tuned.settings).fit(rows, span.part(1, 2)), tuned
