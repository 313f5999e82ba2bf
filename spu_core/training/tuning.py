"""Tuning with Optuna inside the training rows, so that the rows a run is judged by do not influence its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from spu_core.errors import ScoreError, SoftLabelError, TrainingError, nearest_hint
from spu_core.metrics import auc_spu_score, known_positive_auc_score
from spu_core.models import Model, Setting, TrainingRows
from spu_core.training.candidate import Candidate, Tuning
from spu_core.training.folds import assign_folds, strata_of
from spu_core.training.progress import ProgressRange, TrainingCancelled

if TYPE_CHECKING:
    import optuna

# Ranges of useful values; the settings allow far more, which would waste most trials.
SEARCH_RANGES: dict[str, tuple[float, float]] = {
    "learning_rate": (0.01, 0.3),
    "num_leaves": (4, 128),
    "max_depth": (2, 10),
    "min_child_samples": (3, 100),
    "min_child_weight": (0.1, 30.0),
    "reg_lambda": (0.01, 100.0),
    "colsample_bytree": (0.4, 1.0),
    "subsample": (0.5, 1.0),
    "ridge": (1e-4, 1000.0),
    "neighbors": (5, 300),
    "min_leaf_rows": (1, 50),
    "column_share": (0.1, 1.0),
    "hidden": (8, 256),
    "weight_decay": (1e-4, 0.1),
    "bag_ratio": (0.5, 10.0),
}


@dataclass(frozen=True)
class TuningReport:
    """One search: the settings it chose, the value they reached, and every trial with its settings and value.

    A trial without value was pruned or failed. `value` is optimistic, since it was the best of many: never show it
    as the quality of the model.
    """

    settings: Mapping[str, Any]
    value: float
    objective: str
    trials: tuple[tuple[Mapping[str, Any], float | None], ...]
    is_cut: bool = False


class TrialFit(Protocol):
    """A fit of one trial: the settings it changes, the rows, its part of the progress, and the name of the step."""

    def __call__(self, changes: Mapping[str, Any], rows: TrainingRows, span: ProgressRange, step: str, /) -> Model: ...


def tune_settings(
    candidate: Candidate,
    settings: Mapping[str, Any],
    seed: int,
    rows: TrainingRows,
    span: ProgressRange,
    fit: TrialFit,
) -> TuningReport:
    """Search the settings of a candidate by cross-fitting inside these rows; `settings` are the first trial."""
    import optuna

    tuning = candidate.tuning
    assert tuning is not None
    space = search_space(candidate)
    quiet = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        study = optuna.create_study(
            direction="maximize",
            sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=max(5, tuning.trials // 4)),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=4),
        )
        search = _Search(tuning, _inner_folds(rows, tuning.folds, seed), rows, span, space, fit)
        study.enqueue_trial(_starting_point(candidate.entry.complete(settings), space))
        study.optimize(search.value_of, n_trials=tuning.trials, timeout=tuning.seconds, catch=(_TrialFailed,))
    finally:
        optuna.logging.set_verbosity(quiet)
    return _report(study, candidate)


def search_space(candidate: Candidate) -> dict[str, tuple[Setting, float, float]]:
    """The settings to search with their ranges: the tunable ones that the candidate does not fix, and those it asks
    for by `ranges`."""
    tuning = candidate.tuning
    asked = {} if tuning is None else dict(tuning.ranges)
    settings = {setting.name: setting for setting in candidate.entry.settings(candidate.settings.get("learner"))}
    for name in asked:
        if name not in settings or settings[name].kind not in ("integer", "number"):
            numbers = [key for key, setting in settings.items() if setting.kind in ("integer", "number")]
            raise TrainingError(f"tuning.ranges names {name!r}, which cannot be tuned. {nearest_hint(name, numbers)}")
    free = {name for name, setting in settings.items() if setting.tunable and name not in candidate.settings}
    space = {name: _range(settings[name], asked.get(name)) for name in settings if name in free | set(asked)}
    if not space:
        raise TrainingError(f"{candidate.name!r} has no free setting to tune; name some in tuning.ranges.")
    return space


def _range(setting: Setting, asked: tuple[float, float] | None) -> tuple[Setting, float, float]:
    if setting.low is None or setting.high is None:
        return setting, 0.0, 0.0
    low, high = asked or _usual_range(setting)
    if not setting.low <= low <= high <= setting.high:
        raise TrainingError(f"tuning.ranges: {setting.name} must be {setting.law}, got {low:g} to {high:g}.")
    return setting, low, high


def _usual_range(setting: Setting) -> tuple[float, float]:
    """The usual range of this name; a learner whose default lies elsewhere is searched around its default."""
    assert setting.low is not None
    assert setting.high is not None
    low, high = SEARCH_RANGES.get(setting.name, (setting.low, setting.high))
    if setting.default is None or low <= setting.default <= high:
        return low, high
    return max(setting.low, setting.default / 10), min(setting.high, setting.default * 10)


@dataclass(frozen=True, eq=False)
class _Search:
    """The objective of one study."""

    tuning: Tuning
    fold: np.ndarray
    rows: TrainingRows
    span: ProgressRange
    space: Mapping[str, tuple[Setting, float, float]]
    fit: TrialFit

    def value_of(self, trial: optuna.Trial) -> float:
        """Mean over inner folds; a trial that is behind the median of the others is given up."""
        import optuna

        trials, folds = self.tuning.trials, self.tuning.folds
        changes = {name: _suggest(trial, *entry) for name, entry in self.space.items()}
        span = self.span.part(min(trial.number, trials - 1), trials)
        values: list[float] = []
        for number in range(folds):
            step = f"tuning, trial {trial.number + 1} of {trials}"
            values.append(self._fold_value(changes, number, span.part(number, folds), step))
            trial.report(float(np.mean(values)), number)
            if number + 1 < folds and trial.should_prune():
                raise optuna.TrialPruned
        return float(np.mean(values))

    def _fold_value(self, changes: Mapping[str, Any], number: int, span: ProgressRange, step: str) -> float:
        inside, outside = self.rows.take(self.fold != number), self.rows.take(self.fold == number)
        try:
            score = self.fit(changes, inside, span, step).score_rows(outside.features, outside.rule_score)
            return _value(self.tuning.objective, outside, score)
        except TrainingCancelled:
            raise
        except TrainingError as problem:
            raise _TrialFailed(str(problem)) from problem


class _TrialFailed(Exception):  # noqa: N818  (concerns one trial, and is never seen outside)
    """These settings cannot be trained here; the search goes on."""


def _inner_folds(rows: TrainingRows, folds: int, seed: int) -> np.ndarray:
    # The random numbers must not be those of the outer folds or of early stopping.
    return assign_folds(strata_of(rows.soft_label, rows.is_labeled), rows.groups, folds, seed + 3_000_017)


def _value(objective: str, rows: TrainingRows, score: np.ndarray) -> float:
    try:
        if objective == "known_positive_auc":
            return known_positive_auc_score(rows.is_labeled, score, sample_weight=rows.weight)
        return auc_spu_score(rows.soft_label, score, sample_weight=rows.weight)
    except (ScoreError, SoftLabelError) as problem:
        raise TrainingError(f"An inner fold cannot be judged by {objective}: {problem}") from None


def _suggest(trial: optuna.Trial, setting: Setting, low: float, high: float) -> Any:
    if setting.kind == "flag":
        return trial.suggest_categorical(setting.name, [False, True])
    if setting.kind == "choice":
        return trial.suggest_categorical(setting.name, list(setting.choices))
    log = setting.log and low > 0
    if setting.kind == "integer":
        return trial.suggest_int(setting.name, int(low), int(high), log=log)
    return trial.suggest_float(setting.name, float(low), float(high), log=log)


def _starting_point(given: Mapping[str, Any], space: Mapping[str, tuple[Setting, float, float]]) -> dict[str, Any]:
    """The given settings, where they lie inside their ranges: tuning should never be worse than no tuning."""
    start = {}
    for name, (setting, low, high) in space.items():
        value = given[name]
        is_number = setting.kind in ("integer", "number")
        if value is not None and (not is_number or low <= value <= high):
            start[name] = value
    return start


def _report(study: optuna.Study, candidate: Candidate) -> TuningReport:
    tuning = candidate.tuning
    assert tuning is not None
    if all(trial.state.name != "COMPLETE" for trial in study.trials):
        raise TrainingError(f"No trial of {candidate.name!r} could be finished; try wider ranges or more rows.")
    trials = tuple(
        (dict(trial.params), trial.value if trial.state.name == "COMPLETE" else None) for trial in study.trials
    )
    is_cut = len(study.trials) < tuning.trials
    return TuningReport(dict(study.best_params), float(study.best_value), tuning.objective, trials, is_cut)
