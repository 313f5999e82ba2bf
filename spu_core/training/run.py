"""A run: one candidate with its out-of-fold scores and figures, and its model fitted on all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median_low
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import TrainingError
from spu_core.models import FittedEncoder, LabelSelection, Model
from spu_core.training.candidate import Candidate
from spu_core.training.config import TrainConfig
from spu_core.training.evaluation import EvaluationData
from spu_core.training.fitting import CandidateFitter
from spu_core.training.judging import RunMetrics, judge
from spu_core.training.progress import ProgressRange, Reporter, TrainProgress
from spu_core.training.rows import PreparedData
from spu_core.training.tuning import TuningReport


@dataclass(frozen=True, eq=False)
class FittedCandidate:
    """A candidate fitted on all rows, for use on new rows. Equal runs give equal scores to the bit."""

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

    Attributes
    ----------
    name : str
        Name of the candidate.
    candidate : Candidate
        The method with its settings.
    config : TrainConfig
        How it was trained and judged.
    evaluation : EvaluationData
        What its scores are judged by.
    score : ndarray or None
        For each row the score of a model that never saw the row; None where the training failed.
    metrics : RunMetrics or None
        The figures of the scores; None where the training failed.
    error : str or None
        Why the training failed, in one sentence.
    seconds : float
        How long the training took.
    learning_curve : tuple of tuples
        The held-out losses of each fold that stopped early.
    rounds : tuple of int
        The number of rounds that each fold kept.
    tunings : tuple of TuningReport
        How each fold was tuned.
    selections : tuple of LabelSelection
        For fused, what each fold found about the choice of labelled rows.
    trained_on_refined : bool
        Whether it learnt from refined soft labels.
    data : PreparedData or None
        The rows that it was trained on; None for a run that was read from storage.
    """

    name: str
    candidate: Candidate
    config: TrainConfig
    evaluation: EvaluationData
    score: np.ndarray | None = None
    metrics: RunMetrics | None = None
    error: str | None = None
    seconds: float = 0.0
    learning_curve: tuple[tuple[float, ...], ...] = ()
    rounds: tuple[int, ...] = ()
    tunings: tuple[TuningReport, ...] = ()
    selections: tuple[LabelSelection, ...] = ()
    trained_on_refined: bool = False
    data: PreparedData | None = field(default=None, repr=False)

    @property
    def fold(self) -> np.ndarray:
        return self.evaluation.fold

    @property
    def is_cut(self) -> bool:
        """Whether a time budget ended the tuning of some fold."""
        return any(report.is_cut for report in self.tunings)

    @property
    def stopping_note(self) -> str | None:
        """A note where early stopping was asked for and this method cannot be stopped; None otherwise."""
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
        labels = sum(selection.label_auc for selection in seen) / len(seen)
        rules = sum(selection.rule_auc for selection in seen) / len(seen)
        return (
            "Confirmed cases may not be typical: they differ from the rest in ways that the rules do not explain "
            f"(AUC on confirmed cases {labels:.2f} for scores learnt from the labels, {rules:.2f} for scores learnt "
            "from the rules), so the rules were given more weight. This AUC favours models that repeat such a "
            "selection; check some rows at random to find out."
        )

    @property
    def is_built_from_refined(self) -> bool:
        """Whether refined S may not judge this run: fused makes refined S, and some runs learn from it."""
        return self.trained_on_refined or self.candidate.method == "fused"

    @cached_property
    def held_out_metrics(self) -> RunMetrics | None:
        """The figures on rows held out at random, which no choice among candidates has seen; None without any."""
        rows = self.fold == -1
        if self.score is None or not rows.any() or self.config.out_of_time:
            return None
        return judge(self.score, self.evaluation.only(rows), built_from_refined=self.is_built_from_refined)

    def need_score(self) -> np.ndarray:
        """The scores, or the error that prevented them."""
        if self.score is None:
            raise TrainingError(f"{self.name!r} has no scores, since its training failed: {self.error}")
        return self.score

    @property
    def judged_score(self) -> np.ndarray:
        """The scores of the judged rows."""
        return self.need_score()[self.evaluation.judged]

    def judged_by(self, evaluation: EvaluationData) -> Run:
        """The same scores, judged by other evaluation data."""
        if self.score is None:
            return replace(self, evaluation=evaluation)
        metrics = judge(self.score, evaluation, built_from_refined=self.is_built_from_refined)
        return replace(self, evaluation=evaluation, metrics=metrics)

    def fit_all(
        self,
        *,
        on_progress: Callable[[TrainProgress], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> FittedCandidate:
        """Fit the candidate on all rows.

        Where the folds stopped early, the number of rounds is the median of those that the folds kept.

        Parameters
        ----------
        on_progress : callable, optional
            Called with a `TrainProgress` after every round.
        should_stop : callable, optional
            Asked after every round; True cancels the fit.

        Returns
        -------
        FittedCandidate

        Raises
        ------
        TrainingError
            If the training of the run failed, or the run was read from storage without its table.
        TrainingCancelled
            If `should_stop` returned True.
        """
        self.need_score()
        data = self.need_data()
        rows = data.rows_for(self.candidate)
        fitter = CandidateFitter(self.candidate, self.config, Reporter([self.name], 1, on_progress, should_stop))
        fitter, report, span = fitter.tuned(rows, ProgressRange())
        if fitter.stopping is not None and self.rounds:
            # median_low is a number of rounds that some fold has kept.
            fitter = fitter.with_changes({"rounds": median_low(self.rounds)})
        fit = fitter.fit_without_stopping(rows, span, "refitting")
        columns = data.rows.rule_columns
        return FittedCandidate(self.candidate, data.encoder, fit.model, fit.settings, columns, report)

    def need_data(self) -> PreparedData:
        """The rows that the run was trained on; a run that was read from storage has none."""
        if self.data is None:
            raise TrainingError(f"{self.name!r} was read from storage without its table; train it again to refit it.")
        return self.data

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
