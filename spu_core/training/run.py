"""A run: one candidate with its out-of-fold scores and figures; and the model refitted on all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median_low
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import TrainingError
from spu_core.models import Evidence, FittedEncoder, Model, Selection
from spu_core.training.basis import Basis
from spu_core.training.candidate import Candidate
from spu_core.training.config import TrainConfig
from spu_core.training.fitting import Fit, Fitter
from spu_core.training.judging import RunMetrics, judge
from spu_core.training.progress import Reporter, Span, TrainProgress
from spu_core.training.rows import TrainingRows
from spu_core.training.tuning import TuningReport, tune_settings


@dataclass(frozen=True, eq=False)
class FittedCandidate:
    """A candidate fitted on all rows: what production runs. Equal runs give equal scores to the bit."""

    candidate: Candidate
    encoder: FittedEncoder
    model: Model
    settings: Mapping[str, Any]
    rule_columns: tuple[str, ...] = ()
    tuning: TuningReport | None = None

    @property
    def needs_rule_score(self) -> bool:
        """Whether rows must come with their rule score."""
        return self.candidate.entry.scores_with_rules

    def score(self, frame: pd.DataFrame, rule_score: np.ndarray | None = None) -> np.ndarray:
        """One score per row of a table with the same columns."""
        return self.model.score_rows(self.encoder.transform(frame), rule_score)


@dataclass(frozen=True, eq=False)
class Run:
    """One trained candidate with its results.

    `score` holds for each row what a model that never saw it says; `fold` says which model (−1: held out of all
    folds). A candidate that failed has an `error` in words, no scores and no metrics. `learning_curve` has the losses
    of each fit, where it stopped early. `is_cut` marks a run whose tuning was ended by its time budget.
    """

    name: str
    candidate: Candidate
    config: TrainConfig
    basis: Basis
    score: np.ndarray | None = None
    metrics: RunMetrics | None = None
    error: str | None = None
    seconds: float = 0.0
    learning_curve: tuple[tuple[float, ...], ...] = ()
    rounds: tuple[int, ...] = ()
    tunings: tuple[TuningReport, ...] = ()
    selections: tuple[Selection, ...] = ()
    trained_on_refined: bool = False
    rows: TrainingRows | None = field(default=None, repr=False)

    @property
    def fold(self) -> np.ndarray:
        return self.basis.fold

    @property
    def is_cut(self) -> bool:
        return any(report.is_cut for report in self.tunings)

    @property
    def stopping_note(self) -> str | None:
        """Says so where early stopping was asked for and this method cannot be stopped; None otherwise."""
        entry, learner = self.candidate.entry, self.candidate.settings.get("learner")
        if self.config.early_stopping is None or entry.stops_early(learner):
            return None
        return f"{entry.why_not_stopped(learner)} It was trained in full."

    @property
    def selection_note(self) -> str | None:
        """A warning where, in most folds, fused found that the labels look selected; None for all other methods."""
        seen = [selection for selection in self.selections if selection.share > 0]
        if 2 * len(seen) <= len(self.selections):
            return None
        labels, rules = (sum(getattr(s, name) for s in seen) / len(seen) for name in ("label_auc", "rule_auc"))
        return (
            "The labels may be selected: who is labelled is foreseen far better from the labels than from the rules "
            f"(known-positive AUC {labels:.2f} against {rules:.2f}), although the rules are borne out, so they were "
            "given more say. Known-positive AUC favours whoever repeats such a selection; rows checked at random would "
            "tell."
        )

    @property
    def is_built_from_refined(self) -> bool:
        """Fused makes refined S from its own stack; what learns from refined S is no fairer judge of itself."""
        return self.trained_on_refined or self.candidate.method == "fused"

    @cached_property
    def held_out_metrics(self) -> RunMetrics | None:
        """The figures on rows held out at random, which no choice among candidates has seen; None without any."""
        rows = self.fold == -1
        if self.score is None or not rows.any() or self.config.out_of_time:
            return None
        return judge(self.score, self.basis.only(rows), built_from_refined=self.is_built_from_refined)

    def need_score(self) -> np.ndarray:
        """The scores, or the error that prevented them."""
        if self.score is None:
            raise TrainingError(f"{self.name!r} has no scores, since its training failed: {self.error}")
        return self.score

    def judged_by(self, basis: Basis) -> Run:
        """The same scores with the figures another basis gives."""
        if self.score is None:
            return replace(self, basis=basis)
        metrics = judge(self.score, basis, built_from_refined=self.is_built_from_refined)
        return replace(self, basis=basis, metrics=metrics)

    def fit_all(
        self,
        *,
        on_progress: Callable[[TrainProgress], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> FittedCandidate:
        """The candidate refitted on all rows; early stopping becomes the median of the rounds the folds kept."""
        self.need_score()
        rows = self.need_rows()
        fitter = Fitter(self.candidate, self.config, Reporter([self.name], 1, on_progress, should_stop))
        fit, report = self._refit(fitter, evidence_for(self.candidate, rows))
        columns = rows.evidence.rule_columns
        return FittedCandidate(self.candidate, rows.encoder, fit.model, fit.settings, columns, report)

    def need_rows(self) -> TrainingRows:
        if self.rows is None:
            raise TrainingError(f"{self.name!r} was read from storage without its table; train it again to refit it.")
        return self.rows

    def to_dict(self) -> dict[str, Any]:
        """What a catalogue keeps beside the scores: plain values only."""
        return {
            "name": self.name,
            "candidate": self.candidate.to_dict(),
            "config": self.config.to_dict(),
            "metrics": None if self.metrics is None else self.metrics.to_dict(),
            "error": self.error,
            "seconds": self.seconds,
            "rounds": list(self.rounds),
            "is_cut": self.is_cut,
        }

    def _refit(self, fitter: Fitter, evidence: Evidence) -> tuple[Fit, TuningReport | None]:
        span, report = Span(), None
        if self.candidate.tuning is not None:
            report = tune_settings(fitter, evidence, span.part(0, 2))
            fitter, span = fitter.with_changes(report.settings), span.part(1, 2)
        if fitter.stopping is not None and self.rounds:
            # median_low is a number of rounds that some fold has kept.
            fitter = fitter.with_changes({"rounds": median_low(self.rounds)})
        return fitter.fit_as_is(evidence, span, "refitting"), report


def evidence_for(candidate: Candidate, rows: TrainingRows) -> Evidence:
    """The rows as the candidate may see them."""
    return rows.without_rules if candidate.without_rules else rows.evidence
