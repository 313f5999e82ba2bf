"""Cross-fitting: all candidates on the same folds, each row scored by a model that never saw it. Refined labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, Protocol, TypeAlias

import numpy as np

from spu_core.checks import check_kind
from spu_core.errors import AssumptionError, EngineError, TrainingError
from spu_core.labels import SoftLabels, soft_labels_for
from spu_core.models import Progress
from spu_core.rules import FittedRules, RuleSet
from spu_core.tables import Table
from spu_core.theory.prior import PriorEstimate, estimate_prior
from spu_core.training.config import Candidate, TrainConfig, with_distinct_names
from spu_core.training.evaluation import FOLLOWS_RULES, FROM_LABELS, SEEMS_TO_FOLLOW_RULES, EvaluationData
from spu_core.training.fit_pool import FitPool, FitTask, can_fork, reason_of, usable_processes
from spu_core.training.fitting import (
    CandidateFitter,
    Fit,
    FoldFit,
    ProgressRange,
    Reporter,
    TrainingCancelled,
    TrainProgress,
    fit_all_rows,
    fit_fold,
    progress_shown,
)
from spu_core.training.rows import FoldAssignment, PreparedData, prepare_rows
from spu_core.training.run import FittedCandidate, Run

REFINER = Candidate("fused")


def refine_soft_labels(
    table: Table,
    soft_labels: SoftLabels,
    config: TrainConfig | None = None,
    *,
    on_progress: Callable[[TrainProgress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> SoftLabels:
    """The posterior q of the fused method in place of S: 1 for confirmed cases, else labels and rules decide.

    The fused method is fitted once on all rows; the scores behind q are cross-fitted inside it. Nothing that was built
    from q may be judged by it.
    """
    config = config or TrainConfig()
    refuse_refined(soft_labels)
    data = prepare_rows(table, soft_labels, config)
    value = refined_value(data, fit_for_refining(data, config, refining_reporter(on_progress, should_stop)))
    return SoftLabels(
        value,
        soft_labels.rule_score,
        soft_labels.is_labeled,
        tuple(soft_labels.rule_columns),
        refined_from=np.asarray(soft_labels.value, dtype=np.float64),
    )


def refuse_refined(soft_labels: SoftLabels) -> None:
    if soft_labels.is_refined:
        raise TrainingError("These soft labels are refined already; refine the analyst's own.")


def refining_reporter(
    on_progress: Callable[[TrainProgress], None] | None, should_stop: Callable[[], bool] | None
) -> Reporter:
    return Reporter(["refined soft labels"], 1, on_progress, should_stop)


def fit_for_refining(data: PreparedData, config: TrainConfig, reporter: Reporter) -> Fit:
    """The fused method on all rows."""
    return fit_all_rows(CandidateFitter(REFINER, config, reporter), data.rows, step="refining")[0]


def refined_value(data: PreparedData, fit: Fit) -> np.ndarray:
    """The refined soft label of each row."""
    posterior = fit.model.refined_soft_label
    assert posterior is not None, "a fused model that was just fitted has its posterior"
    return np.where(data.rows.is_labeled, 1.0, np.clip(posterior, 0.0, 1.0))


def with_refined(runs: Sequence[Run], refined: SoftLabels) -> list[Run]:
    """The same runs with AUC_SPU on refined S among their figures, except for runs that were built from it."""
    if not refined.is_refined:
        raise TrainingError("with_refined needs the result of refine_soft_labels; use runs_on for other soft labels.")
    for run in runs:
        if run.fold.size != refined.value.size:
            raise TrainingError(
                f"{run.name!r} has scores of {run.fold.size:,} rows, "
                f"but there are {refined.value.size:,} refined labels."
            )
    return [run.judged_by(replace(run.evaluation, refined=refined.value)) for run in runs]


MOST_ROWS_FOR_PRIOR = 20_000
# The number of the task that comes first in a pool.
FIRST = 0

Fits: TypeAlias = Callable[[Candidate, Reporter], Iterator[FoldFit]]
"""The fits of one candidate, in the order of the folds; each is done when it is asked for."""

OnProgress: TypeAlias = Callable[[TrainProgress], None]


class Executor(Protocol):
    """Where a training is done."""

    def label(self, table: Table, rules: FittedRules) -> SoftLabels:
        """The soft labels that rules give every row."""

    def prepare(
        self, table: Table, soft_labels: SoftLabels, config: TrainConfig, split: FoldAssignment | None
    ) -> PreparedData:
        """Encode the rows, and make the folds."""

    def refine(self, data: PreparedData, config: TrainConfig, reporter: Reporter) -> Callable[[], Fit] | None:
        """A function that gives the fit behind refined soft labels, called after `fits`; None if it cannot be done."""

    def fits(self, data: PreparedData, candidates: tuple[Candidate, ...], config: TrainConfig) -> Fits:
        """Accept all candidates, before the first one is asked for."""

    def refit(self, run: Run, on_progress: OnProgress | None) -> FittedCandidate:
        """The candidate of a run, fitted on all rows."""


class LocalExecutor:
    """One fit after the other, in this process."""

    def label(self, table: Table, rules: FittedRules) -> SoftLabels:
        return soft_labels_for(table, rules)

    def prepare(
        self, table: Table, soft_labels: SoftLabels, config: TrainConfig, split: FoldAssignment | None
    ) -> PreparedData:
        return prepare_rows(table, soft_labels, config, split)

    def refine(self, data: PreparedData, config: TrainConfig, reporter: Reporter) -> Callable[[], Fit]:
        return partial(fit_for_refining, data, config, reporter)

    def fits(self, data: PreparedData, candidates: tuple[Candidate, ...], config: TrainConfig) -> Fits:
        folds = list(data.split.folds())
        spans = [ProgressRange().part(place, len(folds)) for place in range(len(folds))]

        def fits(candidate: Candidate, reporter: Reporter) -> Iterator[FoldFit]:
            fitter = CandidateFitter(candidate, config, reporter)
            return map(partial(fit_fold, fitter, data.rows_for(candidate)), spans, folds)

        return fits

    def refit(self, run: Run, on_progress: OnProgress | None) -> FittedCandidate:
        return run.fit_all(on_progress=on_progress)


class ProcessExecutor(LocalExecutor):
    """Fits in forked processes of this machine, with scores equal to the bit; use it as a context.

    `refits` says whether candidates will also be fitted on all rows; it is then done beside the fits of the folds.
    """

    def __init__(self, processes: int, *, refits: bool = False) -> None:
        self.processes, self.refits = processes, refits
        self._refining = False
        self._pool: FitPool | None = None
        self._refits: dict[str, int] = {}

    def __enter__(self) -> ProcessExecutor:
        return self

    def __exit__(self, *problem: object) -> None:
        if self._pool is not None:
            self._pool.close()

    def refine(self, data: PreparedData, config: TrainConfig, reporter: Reporter) -> Callable[[], Fit]:
        self._refining = True
        return lambda: self._opened.result(FIRST, _forward(reporter, ProgressRange()))[0]

    def fits(self, data: PreparedData, candidates: tuple[Candidate, ...], config: TrainConfig) -> Fits:
        _load_libraries(candidates)
        pool = self._pool = FitPool(data, config, self.processes)
        if self._refining:
            pool.submit(FitTask(REFINER, None, step="refining"))
        tasks = {}
        for candidate in candidates:
            tasks[candidate.name] = [pool.submit(FitTask(candidate, place)) for place in range(len(pool.folds))]
            if self.refits and config.early_stopping is None:
                self._refits[candidate.name] = pool.submit(FitTask(candidate, None))

        def fits(candidate: Candidate, reporter: Reporter) -> Iterator[FoldFit]:
            own = tasks[candidate.name]
            try:
                for place, (task, fold) in enumerate(zip(own, pool.folds, strict=True)):
                    reporter.fold = fold.number
                    yield pool.result(task, _forward(reporter, ProgressRange().part(place, len(own))))
            except TrainingError:
                pool.drop([*own, self._refits.pop(candidate.name, -1)])
                raise

        return fits

    def refit(self, run: Run, on_progress: OnProgress | None) -> FittedCandidate:
        task = self._refits.pop(run.name, None)
        if task is None:
            task = self._opened.submit(FitTask(run.candidate, None, run.rounds))
        reporter = Reporter([run.name], 1, on_progress)
        return run.with_fit(*self._opened.result(task, _forward(reporter, ProgressRange())))

    @property
    def _opened(self) -> FitPool:
        assert self._pool is not None, "fits() comes first"
        return self._pool


def _load_libraries(candidates: tuple[Candidate, ...]) -> None:
    """Import the libraries of boosters and forests once, before the fork."""
    learners = {candidate.settings.get("learner", candidate.method) for candidate in candidates}
    for name in {"lightgbm", "sklearn.ensemble", *({"xgboost"} & learners)}:
        import_module(name)


def _forward(reporter: Reporter, span: ProgressRange) -> Callable[[TrainProgress | None], None]:
    """Passes the progress of a fit in another process on. None repeats the last one, so that the caller can cancel."""
    share, step, rounds = span.low, "training", Progress(0, 1)

    def forward(progress: TrainProgress | None) -> None:
        nonlocal share, step, rounds
        loss = training_loss = None
        if progress is not None:
            share, step = span.at(progress.share), progress.step
            rounds = Progress(progress.iteration, progress.iterations)
            loss, training_loss = progress.loss, progress.training_loss
        reporter.report(share, step, replace(rounds, loss=loss, training_loss=training_loss))

    return forward


def cross_fit(
    table: Any,
    soft_labels: Any,
    candidates: Iterable[Candidate | str],
    config: TrainConfig | None = None,
    *,
    label: str | None = None,
    truth: str | None = None,
    group: str | None = None,
    time: str | None = None,
    split: FoldAssignment | None = None,
    on_progress: OnProgress | None = None,
    should_stop: Callable[[], bool] | None = None,
    n_jobs: int = 1,
    progress: bool | None = None,
) -> list[Run]:
    """Train candidates on the same folds, so that every row is scored by a model that never saw it.

    Parameters
    ----------
    table : Table, or pandas or polars frame
        The rows: `read_table(path)`, `open_folder(path)`, or a frame, whose columns get the roles that
        `Table.from_frame` guesses.
    soft_labels : SoftLabels, RuleSet or array-like of float
        Rules are fitted on the rows; values are the soft labels of rows that are not confirmed.
    candidates : iterable of Candidate or str
        What to train: keys of `METHODS`, or `Candidate` for a method with other settings.
    config : TrainConfig, optional
        Folds, seed, early stopping and the like; the defaults of `TrainConfig` if not given.
    label, truth, group, time : str, optional
        The columns with these roles, in place of those of the table.
    split : FoldAssignment, optional
        The fold of each row; made from `config` if not given.
    on_progress : callable, optional
        Called with a `TrainProgress` after every round, in place of the progress bar. An exception that it raises ends
        the training.
    should_stop : callable, optional
        Asked after every round; True cancels the training.
    n_jobs : int, default 1
        How many processes do the fits; −1 takes as many as the machine has processors. Scores are equal to the bit.
        Systems other than Linux use one.
    progress : bool, optional
        Whether to show a progress bar. By default in notebooks and terminals, after two seconds.

    Returns
    -------
    list of Run
        One run per candidate, in the given order. A candidate that fails becomes a run with an `error`, and the others
        go on.

    Raises
    ------
    TrainingError
        If an argument has the wrong type, or table, soft labels and config do not fit together.
    TrainingCancelled
        If `should_stop` returned True; its `runs` are those that were finished before.

    Examples
    --------
    >>> import pandas as pd
    >>> from spu_core.rules import Rule, RuleSet, column
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"age": rng.integers(20, 80, 200), "gain": rng.random(200)})
    >>> frame["label"] = ((frame["gain"] > 0.8) & (rng.random(200) < 0.5)).astype(int)
    >>> table = Table.from_frame(frame)
    >>> soft_labels = SoftLabels.from_values(np.where(frame["gain"] > 0.6, 0.5, 0.1), table.is_labeled)
    >>> runs = cross_fit(table, soft_labels, ["lightgbm", "labeled_vs_rest"], TrainConfig(folds=3))
    >>> [(run.name, run.score.size) for run in runs]
    [('lightgbm', 200), ('labeled_vs_rest', 200)]
    >>> rules = RuleSet((Rule("Gains", column("gain") > 0.6, belief=0.5),))
    >>> [run.name for run in cross_fit(frame, rules, ["lightgbm"], TrainConfig(folds=3), label="label")]
    ['lightgbm']
    >>> cross_fit("people.csv", soft_labels, ["lightgbm"])
    Traceback (most recent call last):
    spu_core.errors.TrainingError: The table must be a Table or a frame, got str; use read_table(path).
    """
    roles = {"label": label, "truth": truth, "group": group, "time": time}
    table = _as_table(table, {column: role for role, column in roles.items() if column is not None})
    soft_labels = _as_soft_labels(table, soft_labels)
    _check_arguments(table, soft_labels, config, split)
    runs: list[Run] = []
    shown = nullcontext(on_progress) if on_progress is not None else progress_shown(progress)
    with executor_for(n_jobs, config) as executor, shown as on_progress:
        try:
            runs.extend(
                iter_cross_fit(
                    table,
                    soft_labels,
                    candidates,
                    config,
                    split=split,
                    on_progress=on_progress,
                    should_stop=should_stop,
                    executor=executor,
                )
            )
        except TrainingCancelled as cancelled:
            cancelled.runs = tuple(runs)
            raise
    return runs


def iter_cross_fit(
    table: Table,
    soft_labels: SoftLabels,
    candidates: Iterable[Candidate | str],
    config: TrainConfig | None = None,
    *,
    split: FoldAssignment | None = None,
    on_progress: OnProgress | None = None,
    should_stop: Callable[[], bool] | None = None,
    executor: Executor | None = None,
    refine: bool = False,
    data: PreparedData | None = None,
) -> Iterator[Run]:
    """`cross_fit`, but each run is given as soon as it is finished; `executor` decides where the fits are done.

    With `refine`, runs are also judged by refined soft labels. `data` are the rows, where they were prepared before.
    """
    _check_arguments(table, soft_labels, config, split)
    config, listed, executor = config or TrainConfig(), with_distinct_names(candidates), executor or LocalExecutor()
    data = executor.prepare(table, soft_labels, config, split) if data is None else data
    evaluation, fit = evaluation_of(data, soft_labels, config), None
    if refine:
        refuse_refined(soft_labels)
        fit = executor.refine(data, config, refining_reporter(on_progress, should_stop))
    fits = executor.fits(data, listed, config)
    if fit is not None:
        evaluation = replace(evaluation, refined=refined_value(data, fit()))
    start = Run(
        name="",
        candidate=listed[0],
        config=config,
        evaluation=evaluation,
        trained_on_refined=soft_labels.is_refined,
        data=data,
    )
    folds = len(list(data.split.folds()))
    reporter = Reporter([candidate.name for candidate in listed], folds, on_progress, should_stop)
    return _runs(start, listed, reporter, fits)


def evaluation_of(data: PreparedData, soft_labels: SoftLabels, config: TrainConfig) -> EvaluationData:
    """What runs on these rows are judged by: the analyst's S, also where they learn from refined S."""
    rows = data.rows
    assert rows.rule_score is not None
    return EvaluationData(
        soft_label=np.asarray(soft_labels.of_analyst, dtype=np.float64),
        is_labeled=rows.is_labeled,
        rule_score=rows.rule_score,
        fold=data.split.fold,
        judged=data.split.judged,
        truth=rows.truth,
        weight=rows.weight,
        groups=rows.groups,
        refined=rows.soft_label if soft_labels.is_refined else None,
        randomly_checked=data.randomly_checked,
        labels_note=_labels_note(soft_labels, config) or data.leak,
        data_notes=data.notes,
        budget=config.review_budget,
        level=config.level,
    )


def estimate_class_prior(table: Table, *, most_rows: int = MOST_ROWS_FOR_PRIOR) -> PriorEstimate:
    """A range for the share of positives before anything is trained, from at most `most_rows` rows drawn at random.

    A model of labelled rows against the rest is cross-fitted, and the prior is estimated from its scores. The upper end
    of the range assumes that confirmed cases are a random sample of all positives, and is far too high where
    positives and negatives look alike; see `estimate_prior`.
    """
    labeled = int(np.count_nonzero(table.is_labeled))
    if not 0 < labeled < len(table):
        raise AssumptionError(
            f"To estimate the share of positives some rows must be confirmed and some not; {labeled:,} of "
            f"{len(table):,} are confirmed."
        )
    part = _drawn(table, most_rows)
    labels = SoftLabels.from_values(part.is_labeled.astype(np.float64), part.is_labeled)
    run = cross_fit(part, labels, ["labeled_vs_rest"], TrainConfig(folds=3))[0]
    if run.error:
        raise TrainingError(f"The share of positives cannot be estimated: {run.error}")
    return estimate_prior(part.is_labeled, run.score)


def _runs(start: Run, candidates: tuple[Candidate, ...], reporter: Reporter, fits: Fits) -> Iterator[Run]:
    """The run of each candidate; `start` holds what they have in common."""
    for place, candidate in enumerate(candidates):
        reporter.begin(place)
        run = replace(start, name=candidate.name, candidate=candidate)
        try:
            run = _judged(run, list(fits(candidate, reporter)))
        except EngineError:
            raise  # the executor has failed, not the candidate
        except Exception as problem:
            # What the caller raised (to cancel, say) ends the training; a failing library ends only this candidate.
            if reporter.raised is not None:
                raise reporter.raised from None
            run = replace(run, error=reason_of(problem))
        reporter.finish()
        yield run


def _judged(run: Run, fits: list[FoldFit]) -> Run:
    """The run with the scores and figures of its fits."""
    split = run.need_data().split
    score = np.empty(split.fold.size)
    for fold, fit in zip(split.folds(), fits, strict=True):
        score[fold.score] = fit.score
    score.setflags(write=False)
    run = replace(
        run,
        score=score,
        learning_curve=tuple(fit.losses for fit in fits if fit.losses),
        rounds=tuple(fit.rounds for fit in fits if fit.rounds is not None),
        tunings=tuple(fit.tuning for fit in fits if fit.tuning is not None),
        seconds=sum(fit.seconds for fit in fits),
    )
    return run.judged_by(run.evaluation)


def executor_for(n_jobs: Any, config: TrainConfig | None) -> AbstractContextManager[Executor]:
    """The executor with as many processes as `n_jobs` says."""
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or not (n_jobs == -1 or n_jobs >= 1):
        raise TrainingError(f"n_jobs must be a whole number of at least 1, or -1 for all processors, got {n_jobs!r}.")
    threads = 1 if config is None else config.threads
    processes = usable_processes(threads) if n_jobs == -1 else n_jobs if can_fork() else 1
    return ProcessExecutor(processes) if processes > 1 else nullcontext(LocalExecutor())


def _as_table(table: Any, roles: dict[str, str]) -> Table:
    if isinstance(table, Table):
        return table.with_roles(roles) if roles else table
    if isinstance(table, str | os.PathLike) or not hasattr(type(table), "columns"):
        hint = "use read_table(path)" if isinstance(table, str | os.PathLike) else "use Table.from_frame(frame)"
        raise TrainingError(f"The table must be a Table or a frame, got {type(table).__name__}; {hint}.")
    return Table.from_frame(table, roles=roles)


def _as_soft_labels(table: Table, soft_labels: Any) -> SoftLabels:
    if isinstance(soft_labels, RuleSet | FittedRules):
        return soft_labels_for(table, soft_labels)
    if isinstance(soft_labels, SoftLabels | str) or not hasattr(soft_labels, "__len__"):
        return soft_labels  # what is none of all this is refused with a sentence later
    return SoftLabels.from_values(soft_labels, table.is_labeled)


def _check_arguments(table: Any, soft_labels: Any, config: Any, split: Any) -> None:
    """Refuse what is no table, soft labels, config or split, and say how to make one."""
    is_text = isinstance(soft_labels, str)
    use = "for rules as text use RuleSet.from_json(text)" if is_text else "use a RuleSet, or a number for each row"
    wanted = (
        (table, Table, "The table must be a Table", "use Table.from_frame(frame)"),
        (soft_labels, SoftLabels, "The soft labels must be SoftLabels", use),
        (config, (TrainConfig, type(None)), "The config must be a TrainConfig", "use TrainConfig(folds=5)"),
        (split, (FoldAssignment, type(None)), "The split must be a FoldAssignment", "use FoldAssignment(fold)"),
    )
    for value, kind, name, use in wanted:
        check_kind(value, kind, name, use, TrainingError)


def _labels_note(soft_labels: SoftLabels, config: TrainConfig) -> str | None:
    if config.rules_chose_checks:
        return FOLLOWS_RULES
    if soft_labels.labels_chosen_by_rules:
        return SEEMS_TO_FOLLOW_RULES
    return FROM_LABELS if config.beliefs_from_labels else None


def _drawn(table: Table, most_rows: int) -> Table:
    if len(table) <= most_rows:
        return table
    rows = np.sort(np.random.default_rng(0).choice(len(table), most_rows, replace=False))
    return table.only(rows)
