"""One candidate on some rows: settings from config and candidate, early stopping on an inner split, tuning inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spu_core.errors import SoftLabelError, TrainingError
from spu_core.metrics import auc_spu_score, soft_log_loss
from spu_core.models import Evidence, Model, StopRule
from spu_core.training.candidate import Candidate
from spu_core.training.config import EarlyStopping, TrainConfig
from spu_core.training.folds import assign_folds, strata_of
from spu_core.training.progress import Reporter, Span

# Enough for a curve; together they cost boosted trees about 2 % of a fit of 200 rounds.
TRAINING_LOOKS = 12


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted candidate: its model, the settings it was given, the rounds it kept, the losses while it grew."""

    model: Model
    settings: Mapping[str, Any]
    rounds: int | None = None
    losses: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Fitter:
    """Fits one candidate as a config says, as often as needed."""

    candidate: Candidate
    config: TrainConfig
    reporter: Reporter
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """What the config decides, then what the candidate says, then what tuning or a refit changes."""
        return {**settings_from(self.config, self.candidate), **self.candidate.settings, **self.changes}

    @property
    def stopping(self) -> EarlyStopping | None:
        """The config's early stopping, where the method can be stopped at all."""
        stops = self.candidate.entry.stops_early(self.settings.get("learner"))
        return self.config.early_stopping if stops else None

    def with_changes(self, changes: Mapping[str, Any]) -> Fitter:
        return Fitter(self.candidate, self.config, self.reporter, {**self.changes, **changes})

    def fit(self, rows: Evidence, span: Span, step: str = "training") -> Fit:
        """Train on all these rows, or on all but the inner split that stops it early."""
        losses: list[float] = []
        # One kind of loss at a time: where some methods stop by held-out rows, the others stay silent.
        looks = TRAINING_LOOKS if self.config.early_stopping is None else 0
        watch = self.reporter.watch(span, step, losses, looks)
        self.reporter.report(span.low, step)
        stopping = self.stopping
        if stopping is None:
            model = self.candidate.entry.fit(rows, self.settings, watch=watch)
        else:
            inner, held_out = _inner_split(rows, stopping.share, self.config.seed)
            stop = StopRule(held_out, stopping.patience, LOSSES[stopping.on])
            model = self.candidate.entry.fit(inner, self.settings, watch=watch, stop=stop)
        self.reporter.report(span.high, step)
        return Fit(model, self.settings, getattr(model, "rounds_", None), tuple(losses))

    def fit_as_is(self, rows: Evidence, span: Span, step: str) -> Fit:
        """Train on all these rows without early stopping: the rounds are in the settings."""
        model = self.candidate.entry.fit(rows, self.settings, watch=self.reporter.watch(span, step))
        return Fit(model, self.settings, getattr(model, "rounds_", None))


def settings_from(config: TrainConfig, candidate: Candidate) -> dict[str, Any]:
    """Seed, threads and rule columns of the config, as far as the method knows these settings."""
    wanted: dict[str, Any] = {"seed": config.seed, "threads": config.threads}
    if config.rule_columns != "by method":
        wanted["keep_rule_columns"] = config.rule_columns == "kept"
    known = {setting.name for setting in candidate.entry.settings(candidate.settings.get("learner"))}
    return {name: value for name, value in wanted.items() if name in known}


def _inner_split(rows: Evidence, share: float, seed: int) -> tuple[Evidence, Evidence]:
    """(rows to learn from, rows to stop by), stratified, groups kept together."""
    strata = strata_of(rows.soft_label, rows.is_labeled)
    # Another stream than that of the outer folds.
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
