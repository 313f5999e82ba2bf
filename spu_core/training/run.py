"""A run: one candidate with its out-of-fold scores and figures, and its model fitted on all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from spu_core.codec import encode
from spu_core.errors import TrainingError
from spu_core.html_table import Plotted, Tabular, short_repr
from spu_core.models import FittedEncoder, Model
from spu_core.training.config import Candidate, TrainConfig
from spu_core.training.evaluation import EvaluationData, RunMetrics, judge
from spu_core.training.fitting import CandidateFitter, Fit, Reporter, TrainProgress, TuningReport, fit_all_rows
from spu_core.training.rows import PreparedData


@dataclass(frozen=True, eq=False)
class FittedCandidate:
    """A candidate fitted on all rows, for use on new rows. Equal runs give equal scores to the bit."""

    candidate: Candidate
    encoder: FittedEncoder
    model: Model
    settings: Mapping[str, Any]
    rule_columns: tuple[str, ...] = ()
    tuning: TuningReport | None = None

    def score(self, frame: pd.DataFrame, rule_score: np.ndarray | None = None) -> np.ndarray:
        """One score per row of a table with the same columns."""
        return self.model.score_rows(self.encoder.transform(frame), rule_score)


@dataclass(frozen=True, eq=False)
class Run(Plotted, Tabular):
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
        The figures of the scores; None where the training failed. `metrics.auc_spu` is the mean of AUC_SPU over the
        folds, since scores of different folds come from different models; `auc_spu_score(S, run.score)` ranks all rows
        together and differs a little.
    error : str or None
        Why the training failed, in one sentence.
    seconds : float
        How long the fits of all folds took together.
    learning_curve : tuple of tuples
        The held-out losses of each fold that stopped early.
    rounds : tuple of int
        The number of rounds that each fold kept.
    tunings : tuple of TuningReport
        How each fold was tuned.
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
    trained_on_refined: bool = False
    data: PreparedData | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        if self.metrics is None:
            return short_repr("Run", self.name, "failed", None if self.error is None else repr(self.error)[1:-1])
        found = self.metrics.auc_spu
        return short_repr("Run", self.name, f"AUC_SPU {found.estimate:.3f} ({found.low:.3f} to {found.high:.3f})")

    def to_frame(self) -> pd.DataFrame:
        """The main figures with their intervals; no row where the training failed."""
        names = {
            "auc_spu": "AUC_SPU",
            "known_positive_auc": "AUC on confirmed cases",
            "refined_auc_spu": "AUC_SPU by refined soft labels",
            "true_auc": "true AUC",
        }
        found = [(words, getattr(self.metrics, name, None)) for name, words in names.items()]
        lines = [(words, each.estimate, each.low, each.high) for words, each in found if each is not None]
        return pd.DataFrame(lines, columns=["figure", "estimate", "low", "high"])

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
        reporter = Reporter([self.name], 1, on_progress, should_stop)
        fitter = CandidateFitter(self.candidate, self.config, reporter)
        return self.with_fit(*fit_all_rows(fitter, self.need_data().rows_for(self.candidate), self.rounds))

    def with_fit(self, fit: Fit, tuning: TuningReport | None) -> FittedCandidate:
        """The candidate with this fit on all rows."""
        data = self.need_data()
        columns = data.rows.rule_columns
        return FittedCandidate(self.candidate, data.encoder, fit.model, fit.settings, columns, tuning)

    def need_data(self) -> PreparedData:
        """The rows that the run was trained on; a run that was read from storage has none."""
        if self.data is None:
            raise TrainingError(f"{self.name!r} was read from storage without its table; train it again to refit it.")
        return self.data

    def to_dict(self) -> dict[str, Any]:
        """What a catalogue keeps beside the scores: plain values only."""
        kept = ("name", "candidate", "config", "metrics", "error", "seconds", "rounds", "is_cut")
        return encode({name: getattr(self, name) for name in kept})
