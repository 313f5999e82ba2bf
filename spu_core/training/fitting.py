"""A fit: one candidate on some rows, with its settings, tuning, early stopping, and progress that can be cancelled.

Tuning (Optuna) sees only training rows, so the rows that a run is judged by do not influence its settings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from statistics import median_low
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from spu_core.errors import ScoreError, SoftLabelError, TrainingError, nearest_hint
from spu_core.metrics import auc_spu_score, known_positive_auc_score, soft_log_loss
from spu_core.models import FitMonitor, Model, Progress, Setting, StopRule, TrainingRows
from spu_core.training.config import Candidate, EarlyStopping, TrainConfig, Tuning
from spu_core.training.rows import Fold, assign_folds, strata_of

if TYPE_CHECKING:
    import optuna


@dataclass(frozen=True, slots=True)
class TrainProgress:
    """How far a training is. `fold` is −1 for held-out rows and None for a refit on all rows.

    `share` is the share of the whole work that is done; `seconds_left` is an estimate, None until there is one.
    """

    candidate: str
    place: int
    candidates: int
    fold: int | None
    folds: int
    step: str
    iteration: int
    iterations: int
    loss: float | None
    share: float
    seconds: float
    seconds_left: float | None
    training_loss: float | None = None


class TrainingCancelled(TrainingError):  # noqa: N818  (a cancelled training is not an error)
    """The caller asked to stop; `runs` are the candidates that were finished before."""

    def __init__(self, message: str = "The training was cancelled.", runs: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.runs = tuple(runs)


@dataclass(frozen=True, slots=True)
class ProgressRange:
    """The part of a candidate's work that one step covers, as shares from 0 to 1."""

    low: float = 0.0
    high: float = 1.0

    def part(self, place: int, of: int) -> ProgressRange:
        """Part `place` (from 0) of `of` equal ones.

        >>> ProgressRange(0.0, 0.5).part(1, 2)
        ProgressRange(low=0.25, high=0.5)
        """
        width = (self.high - self.low) / of
        return ProgressRange(self.low + place * width, self.low + (place + 1) * width)

    def at(self, share: float) -> float:
        return self.low + share * (self.high - self.low)


@dataclass
class Reporter:
    """Turns rounds of single fits into progress of the whole training, and asks after each round whether to stop."""

    names: Sequence[str]
    folds: int
    on_progress: Callable[[TrainProgress], None] | None = None
    should_stop: Callable[[], bool] | None = None
    raised: BaseException | None = None
    place: int = 0
    fold: int | None = None
    finished_seconds: list[float] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    candidate_started: float = field(default_factory=time.monotonic)

    def begin(self, place: int) -> None:
        self.place, self.candidate_started = place, time.monotonic()

    def finish(self) -> float:
        """Seconds the candidate took."""
        self.finished_seconds.append(time.monotonic() - self.candidate_started)
        return self.finished_seconds[-1]

    def monitor(
        self, span: ProgressRange, step: str, losses: list[float] | None = None, training_losses: int = 0
    ) -> FitMonitor:
        """The monitor of one fit; held-out losses are appended to `losses`."""

        def after_round(progress: Progress) -> None:
            if losses is not None and progress.loss is not None:
                losses.append(progress.loss)
            self.report(span.at(progress.share), step, progress)

        return FitMonitor(after_round, training_losses=0 if self.on_progress is None else training_losses)

    def report(self, share: float, step: str, progress: Progress | None = None) -> None:
        """Tell the caller and ask whether to stop; what the caller raises ends the training, not one candidate."""
        try:
            if self.on_progress is not None:
                self.on_progress(self._progress(share, step, progress or Progress(0, 1)))
            if self.should_stop is not None and self.should_stop():
                raise TrainingCancelled
        except BaseException as problem:
            self.raised = problem
            raise

    def _progress(self, share: float, step: str, progress: Progress) -> TrainProgress:
        now = time.monotonic()
        return TrainProgress(
            candidate=self.names[self.place],
            place=self.place + 1,
            candidates=len(self.names),
            fold=self.fold,
            folds=self.folds,
            step=step,
            iteration=progress.iteration,
            iterations=progress.iterations,
            loss=progress.loss,
            share=(self.place + share) / len(self.names),
            seconds=now - self.started,
            seconds_left=self._seconds_left(now - self.candidate_started, share),
            training_loss=progress.training_loss,
        )

    def _seconds_left(self, spent: float, share: float) -> float | None:
        """The rest of this candidate at its own speed, and the mean of all so far for each one to come."""
        if share < 0.02 and not self.finished_seconds:
            return None
        mean = sum(self.finished_seconds) / len(self.finished_seconds) if self.finished_seconds else None
        whole = spent / share if share >= 0.02 else max(spent, mean or 0.0)
        typical = whole if mean is None else (sum(self.finished_seconds) + whole) / (len(self.finished_seconds) + 1)
        return whole - spent + typical * (len(self.names) - self.place - 1)


SHOWN_AFTER = 2.0  # seconds; what is over sooner needs no bar


@contextmanager
def progress_shown(wanted: bool | None) -> Iterator[Callable[[TrainProgress], None] | None]:
    """A progress bar on standard error, where `wanted`; None: in notebooks and terminals. Yields `on_progress`."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter if wanted is None else wanted):
        yield None
        return
    if console.is_jupyter:
        yield _in_notebook()
        return
    # Names of runs are shown as they are, even if they look like markup.
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task("training", total=1.0)

    def show(at: TrainProgress) -> None:
        if at.seconds >= SHOWN_AFTER and not bar.live.is_started:
            bar.start()
        bar.update(task, completed=at.share, description=f"{at.candidate}, {at.step}")

    try:
        yield show
    finally:
        bar.stop()


def _in_notebook() -> Callable[[TrainProgress], None]:
    """A bar of IPython, since that of rich needs widgets, which may be missing."""
    bar: Any = None

    def show(at: TrainProgress) -> None:
        nonlocal bar
        if bar is None and at.seconds >= SHOWN_AFTER:
            bar = import_module("IPython.display").ProgressBar(100)
            bar.display()
        if bar is not None and round(100 * at.share) != bar.progress:
            bar.progress = round(100 * at.share)

    return show


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
