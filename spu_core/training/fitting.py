"""A fit: one candidate on some rows, with the settings of config and candidate, tuning and early stopping."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any

import numpy as np

from spu_core.errors import SoftLabelError, TrainingError
from spu_core.metrics import auc_spu_score, soft_log_loss
from spu_core.models import Model, StopRule, TrainingRows
from spu_core.training.candidate import Candidate
from spu_core.training.config import EarlyStopping, TrainConfig
from spu_core.training.folds import Fold, assign_folds, strata_of
from spu_core.training.progress import ProgressRange, Reporter
from spu_core.training.tuning import TuningReport, tune_settings

# Enough for a curve; together they cost boosted trees about 2 % of a fit of 200 rounds.
TRAINING_LOSSES = 12
FIRST_BLOCK_ROWS = 1024


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted candidate: its model, the settings it was given, and the losses of held-out rows in each round."""

    model: Model
    settings: Mapping[str, Any]
    losses: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class FoldFit:
    """What is kept of the fit of one fold: scores of the rows that it never saw, rounds, losses, tuning, seconds.

    The model itself is not kept: the models of all folds together may need more memory than the table.
    """

    score: np.ndarray
    rounds: int | None = None
    losses: tuple[float, ...] = ()
    tuning: TuningReport | None = None
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class CandidateFitter:
    """Fits one candidate as a config says, as often as needed."""

    candidate: Candidate
    config: TrainConfig
    reporter: Reporter
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the config, overridden by those of the candidate, then by those of tuning or a refit."""
        return {**settings_from(self.config, self.candidate), **self.candidate.settings, **self.changes}

    @property
    def stopping(self) -> EarlyStopping | None:
        """The config's early stopping, where the method can be stopped at all."""
        stops = self.candidate.entry.stops_early(self.settings.get("learner"))
        return self.config.early_stopping if stops else None

    def with_changes(self, changes: Mapping[str, Any]) -> CandidateFitter:
        return CandidateFitter(self.candidate, self.config, self.reporter, {**self.changes, **changes})

    def tuned(
        self, rows: TrainingRows, span: ProgressRange
    ) -> tuple[CandidateFitter, TuningReport | None, ProgressRange]:
        """(a fitter with the settings found on these rows, how they were found, what is left of the progress range).

        Without tuning nothing changes.
        """
        if self.candidate.tuning is None:
            return self, None, span

        def fit(changes: Mapping[str, Any], inside: TrainingRows, part: ProgressRange, step: str) -> Model:
            return self.with_changes(changes).fit(inside, part, step).model

        report = tune_settings(self.candidate, self.settings, self.config.seed, rows, span.part(0, 2), fit)
        return self.with_changes(report.settings), report, span.part(1, 2)

    def fit(self, rows: TrainingRows, span: ProgressRange, step: str = "training") -> Fit:
        """Train on all these rows, or on all but the inner split that stops it early."""
        losses: list[float] = []
        settings, stopping = self.settings, self.stopping
        # One kind of loss per training: where some methods report held-out losses, the others report none.
        training_losses = TRAINING_LOSSES if self.config.early_stopping is None else 0
        monitor = self.reporter.monitor(span, step, losses, training_losses)
        self.reporter.report(span.low, step)
        stop = None
        if stopping is not None:
            rows, held_out = _inner_split(rows, stopping.share, self.config.seed)
            stop = StopRule(held_out, stopping.patience, LOSSES[stopping.on])
        model = self.candidate.entry.fit(rows, settings, monitor=monitor, stop=stop)
        self.reporter.report(span.high, step)
        return Fit(model, settings, tuple(losses))

    def fit_without_stopping(self, rows: TrainingRows, span: ProgressRange, step: str) -> Fit:
        """Train on all these rows for the number of rounds in the settings."""
        settings = self.settings
        return Fit(self.candidate.entry.fit(rows, settings, monitor=self.reporter.monitor(span, step)), settings)


def fit_fold(fitter: CandidateFitter, rows: TrainingRows, span: ProgressRange, fold: Fold) -> FoldFit:
    """Train on the rows of the fold, tuned on them where the candidate asks for it, and score the other rows."""
    reporter, started = fitter.reporter, time.monotonic()
    reporter.fold = fold.number
    training = rows.take(fold.train)
    fitter, tuning, left = fitter.tuned(training, span)
    fit = fitter.fit(training, left)
    score = score_in_blocks(fit.model, rows.take(fold.score), lambda: reporter.report(span.high, "scoring"))
    seconds = time.monotonic() - started
    return FoldFit(score, fit.model.rounds_, fit.losses, tuning, seconds)


def fit_all_rows(
    fitter: CandidateFitter, rows: TrainingRows, rounds: Sequence[int] = (), step: str = "refitting"
) -> tuple[Fit, TuningReport | None]:
    """Train on all rows, tuned on them where the candidate asks for it.

    Where the folds stopped early, the number of rounds is the median of those that they kept.
    """
    fitter, report, span = fitter.tuned(rows, ProgressRange())
    if fitter.stopping is not None and rounds:
        # median_low is a number of rounds that some fold has kept.
        fitter = fitter.with_changes({"rounds": median_low(rounds)})
    return fitter.fit_without_stopping(rows, span, step), report


def score_in_blocks(model: Model, rows: TrainingRows, after_block: Callable[[], None]) -> np.ndarray:
    """The scores of the rows. `after_block` is called often, so that a slow model can be cancelled."""
    score, done, size = np.empty(len(rows)), 0, FIRST_BLOCK_ROWS
    while done < len(rows):
        started, block = time.monotonic(), np.arange(done, min(done + size, len(rows)))
        rule_score = None if rows.rule_score is None else rows.rule_score[block]
        score[block] = model.score_rows(rows.features.take(block), rule_score)
        after_block()
        done += block.size
        size = 2 * size if time.monotonic() - started < 0.2 else size
    return score


def settings_from(config: TrainConfig, candidate: Candidate) -> dict[str, Any]:
    """Seed, threads and rule columns of the config, as far as the method has these settings."""
    wanted: dict[str, Any] = {"seed": config.seed, "threads": config.threads}
    if config.rule_columns != "by method":
        wanted["keep_rule_columns"] = config.rule_columns == "kept"
    known = {setting.name for setting in candidate.entry.settings(candidate.settings.get("learner"))}
    return {name: value for name, value in wanted.items() if name in known}


def _inner_split(rows: TrainingRows, share: float, seed: int) -> tuple[TrainingRows, TrainingRows]:
    """(rows to learn from, rows to stop by), stratified; groups stay together."""
    strata = strata_of(rows.soft_label, rows.is_labeled)
    # The random numbers must not be those of the outer folds.
    fold = assign_folds(strata, rows.groups, max(2, round(1 / share)), seed + 2_000_003)
    return rows.take(fold != 0), rows.take(fold == 0)


def _auc_loss(target: np.ndarray, score: np.ndarray, *, sample_weight: np.ndarray | None = None) -> float:
    try:
        return 1.0 - auc_spu_score(target, score, sample_weight=sample_weight)
    except SoftLabelError as problem:
        raise TrainingError(
            f"The inner split cannot stop on AUC_SPU: {problem} Stop on soft_log_loss, or give more labels."
        ) from None


LOSSES = {"soft_log_loss": soft_log_loss, "auc_spu": _auc_loss}
