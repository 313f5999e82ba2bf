"""The job "train": run a study on a dataset and store every finished run as a bundle.

`TrainingView` shows such a job: the state of each candidate, the stored runs, and the losses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from spu_core.engines.executors import Engine, open_executor
from spu_core.engines.jobs import JobContext
from spu_core.engines.study import Study, soft_labels_of
from spu_core.export import Bundle, load_bundle, save_bundle
from spu_core.rules import RuleSet
from spu_core.tables import Role, Table
from spu_core.training import Candidate, EvaluationData, FoldAssignment, Run, TrainPlan, TrainProgress, make_split
from spu_core.training.rows import group_codes
from spu_core.workspace import JobRecord, JobStatus, RuleSetVersion, RunDraft, RunRecord, Workspace

REFINING = "refined soft labels"
# Losses that are stored of each fit: enough to draw, few enough to store four times a second.
MOST_LOSSES = 150
# Settings that decide a split, besides the table and its soft labels.
_SPLIT_SETTINGS = ("folds", "seed", "hold_out", "out_of_time", "group_column", "time_column")


def train(context: JobContext) -> dict[str, Any]:
    """`{"dataset": id, "rule_set": id, "rule_set_version": 3, "plan": "…JSON…", "refine": true}` → ids of the runs.

    `"left_out": ["name"]` names columns that models must not see; `"processes": 2` limits the processes that do the
    fits; `"engine": "dask"` and `"scheduler": "tcp://…"` run them on a cluster. A job that is started again keeps the
    runs that it has stored.
    """
    parameters = context.parameters
    table = context.workspace.datasets.open(context.need("dataset"))
    table = table.with_roles(dict.fromkeys(parameters.get("left_out", ()), Role.IGNORE))
    version = _rule_set_version(context)
    rules = None if version is None else RuleSet.from_json(version.text)
    plan = TrainPlan.from_json(context.need("plan"))
    study = Study.of(table, rules, plan, refine=bool(parameters.get("refine", True)))
    return _run(context, study, table, version)


def _run(context: JobContext, study: Study, table: Table, version: RuleSetVersion | None) -> dict[str, Any]:
    report = _Report(context, study.refine and bool(table.is_labeled.any()), _stored_before(context))
    left = tuple(candidate for candidate in study.plan.candidates if candidate.name not in report.stored)
    if left:
        rest = replace(study, plan=replace(study.plan, candidates=left))
        split = earlier_split(context.workspace, context.parameters["dataset"], table, rest)
        wanted = context.parameters.get("processes") or (None if context.is_worker else 1)
        processes = rest.processes(table, wanted, context.memory)
        with open_executor(_engine(context), table, processes) as executor:
            for run, bundle in rest.run(table, report, on_refit=report.refitting, split=split, executor=executor):
                report.finished(run, None if bundle is None else _keep(context, run, bundle, version))
    return report.result()


def _engine(context: JobContext) -> Engine:
    """The engine that the job names; else the one of `SPU_DASK_SCHEDULER`, else this process."""
    return Engine.chosen(context.parameters.get("engine"), context.parameters.get("scheduler"))


def _stored_before(context: JobContext) -> dict[str, str]:
    """Runs that an earlier attempt of this job has stored: name of the candidate → id. A run may have been renamed."""
    runs = context.workspace.runs.list(context.parameters["dataset"])
    return {str(run.candidate.get("name") or run.name): run.id for run in reversed(runs) if run.job == context.job}


def _keep(context: JobContext, run: Run, bundle: Bundle, version: RuleSetVersion | None) -> str:
    def write(path: Path) -> None:
        save_bundle(bundle, path)

    draft = RunDraft(
        name=run.name,
        dataset=context.parameters["dataset"],
        candidate=run.candidate.to_dict(),
        rule_set=None if version is None else version.id,
        rule_set_version=None if version is None else version.number,
        job=context.job,
        config=run.config.to_dict(),
        summary=run.to_dict(),
    )
    return context.workspace.runs.save(draft, write).id


@dataclass
class _Report:
    """Reports the progress of the training as progress of the job: stored runs, errors and losses."""

    context: JobContext
    refines: bool
    stored: dict[str, str]
    errors: list[dict[str, str]] = field(default_factory=list)
    losses: dict[str, list[list[float]]] = field(default_factory=dict)
    last: TrainProgress | None = None

    def __call__(self, progress: TrainProgress) -> None:
        self.last = progress
        add_loss(self.losses, progress)
        self._report(progress, progress.candidate)

    def refitting(self, progress: TrainProgress) -> None:
        """Progress of the refit on all rows, for the candidate that was cross-fitted last."""
        assert self.last is not None
        now = replace(self.last, fold=None, step=progress.step)
        now = replace(now, iteration=progress.iteration, iterations=progress.iterations)
        self._report(now, f"{self.last.candidate}: refitting on all rows")

    def finished(self, run: Run, token: str | None) -> None:
        """Note a run that is stored under the id `token`, or has failed (None)."""
        if token is not None:
            self.stored[run.name] = token
        else:
            self.errors.append({"name": run.name, "error": run.error or "It failed without a message."})
        if self.last is not None:
            self._report(self.last, f"{run.name} finished")

    def result(self) -> dict[str, Any]:
        """The result of the job so far."""
        return {"runs": list(self.stored.values()), "errors": list(self.errors), "losses": thinned(self.losses)}

    def _report(self, progress: TrainProgress, message: str) -> None:
        if not self.context.is_due(message):
            return
        detail = {**asdict(progress), **self.result(), "finished": list(self.stored)}
        self.context.progress(self._share(progress), message, detail)

    def _share(self, progress: TrainProgress) -> float:
        """The share that is done. Refining comes first and costs about as much as one more candidate."""
        if not self.refines:
            return progress.share
        if progress.candidate == REFINING:
            return progress.share * 0.1
        return 0.1 + 0.9 * progress.share


def _rule_set_version(context: JobContext) -> RuleSetVersion | None:
    token = context.parameters.get("rule_set")
    return None if token is None else context.workspace.rule_sets.get(token, context.parameters.get("rule_set_version"))


def earlier_split(workspace: Workspace, dataset: str, table: Table, study: Study) -> FoldAssignment | None:
    """The split of the newest run of this dataset with the same split settings; None if there is none.

    Folds are stratified by soft labels, so another rule set would get other folds; paired comparisons need the same
    ones. A split with other groups or other latest rows is not used, since related rows would leak. The folds of a
    folder depend on a hash only, so they are the same anyway.
    """
    if not table.in_memory:
        return None
    config = study.plan.config
    for record in workspace.runs.list(dataset):
        if _split_settings(record.config) == _split_settings(config.to_dict()):
            own = make_split(table, soft_labels_of(table, study.rules), config)
            return _usable(_basis(workspace, record), own, group_codes(table, config))
    return None


def _split_settings(config: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(config.get(name) for name in _SPLIT_SETTINGS)


def _basis(workspace: Workspace, record: RunRecord) -> EvaluationData:
    return load_bundle(workspace.runs.path(record.id), known_hash=workspace.runs.sha256(record.id)).run.evaluation


def _usable(earlier: EvaluationData, own: FoldAssignment, groups: np.ndarray | None) -> FoldAssignment | None:
    same_rows = earlier.fold.size == own.fold.size
    if not same_rows or not _equal(earlier.groups, groups):
        return None
    if own.out_of_time and not np.array_equal(earlier.fold == -1, own.fold == -1):
        return None
    return FoldAssignment(np.asarray(earlier.fold), own.out_of_time, own.groups)


def _equal(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


@dataclass(frozen=True, slots=True)
class CandidateState:
    """One candidate of a training job; `state` is waiting, running, finished, failed or stopped."""

    name: str
    method: str
    state: str
    share: float = 0.0
    text: str = ""


@dataclass(frozen=True, eq=False)
class TrainingView:
    """A training job: its candidates in order, the ids of its stored runs, and its losses by candidate, fit and round.

    With early stopping (`holds_out`) the losses are those on held-out rows, else those on the training rows.
    """

    job: JobRecord
    candidates: tuple[CandidateState, ...]
    runs: tuple[str, ...]
    losses: Mapping[str, Sequence[Sequence[float]]]
    holds_out: bool
    seconds_left: float | None

    @property
    def is_active(self) -> bool:
        """Whether the job waits or runs."""
        return not self.job.status.is_over

    @property
    def is_refining(self) -> bool:
        """Whether soft labels are being refined, which comes before the first candidate."""
        return self.is_active and self.job.detail.get("candidate") == REFINING

    @property
    def can_restart(self) -> bool:
        """Whether the job ended before it was finished. A restart keeps the stored runs."""
        return self.job.status.is_over and self.job.status is not JobStatus.FINISHED

    @classmethod
    def of(cls, job: JobRecord) -> TrainingView:
        """The view of a job of kind "train"."""
        reported = {**job.detail, **job.result}
        plan = TrainPlan.from_json(job.parameters["plan"])
        errors = {error["name"]: error["error"] for error in reported.get("errors", [])}
        states = tuple(_state(job, reported, candidate, errors) for candidate in plan.candidates)
        runs, losses = tuple(reported.get("runs", ())), filled(reported.get("losses", {}))
        return cls(job, states, runs, losses, plan.config.early_stopping is not None, reported.get("seconds_left"))


def training_jobs(jobs: Sequence[JobRecord], dataset: str) -> tuple[TrainingView, ...]:
    """The training jobs of a dataset among `jobs`, the newest first."""
    return tuple(
        TrainingView.of(job) for job in jobs if job.kind == "train" and job.parameters.get("dataset") == dataset
    )


def add_loss(losses: dict[str, list[list[float]]], progress: Any) -> None:
    """Add the loss of a round; missed rounds are interpolated. A round number of 1 begins a new fit."""
    loss = progress.training_loss if progress.loss is None else progress.loss
    if loss is None or progress.step != "training":
        return
    fits = losses.setdefault(progress.candidate, [[]])
    if progress.iteration <= 1 and fits[-1]:
        fits.append([])
    fit = fits[-1]
    missed = max(progress.iteration - len(fit), 1)
    fit.extend(np.linspace(fit[-1] if fit else loss, loss, missed + 1)[1:].tolist())


def thinned(losses: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, Any]:
    """The curves with every n-th loss only, so that none has more than MOST_LOSSES.

    >>> kept = thinned({"a": [list(range(1000)), [1.0]]})
    >>> kept["every"], [len(fit) for fit in kept["fits"]["a"]]
    (7, [143, 1])
    """
    longest = max((len(fit) for fits in losses.values() for fit in fits), default=0)
    every = max(1, -(-longest // MOST_LOSSES))
    fits = {name: [[round(loss, 5) for loss in fit[::every]] for fit in fits] for name, fits in losses.items()}
    return {"every": every, "fits": fits}


def filled(kept: Mapping[str, Any]) -> dict[str, list[list[float]]]:
    """The curves by round, interpolated between the losses that `thinned` kept.

    >>> filled({"every": 2, "fits": {"a": [[0.8, 0.6], [0.5]]}})
    {'a': [[0.8, 0.7, 0.6], [0.5]]}
    """
    every = int(kept.get("every", 1))
    return {name: [_between(fit, every) for fit in fits] for name, fits in kept.get("fits", {}).items()}


def _between(fit: Sequence[float], every: int) -> list[float]:
    rounds = np.arange(max(len(fit) - 1, 0) * every + 1)
    return [round(float(loss), 5) for loss in np.interp(rounds, np.arange(len(fit)) * every, fit)] if fit else []


def _state(
    job: JobRecord, reported: Mapping[str, Any], candidate: Candidate, errors: Mapping[str, str]
) -> CandidateState:
    name, method = candidate.name, candidate.method
    if name in errors:
        return CandidateState(name, method, "failed", 1.0, errors[name])
    if name in reported.get("finished", ()) or job.status is JobStatus.FINISHED:
        return CandidateState(name, method, "finished", 1.0)
    if job.status.is_over:
        return CandidateState(name, method, "stopped")
    if name != reported.get("candidate"):
        return CandidateState(name, method, "waiting")
    before = int(reported.get("place", 1)) - 1
    share = float(reported.get("share", 0.0)) * int(reported.get("candidates", 1)) - before
    return CandidateState(name, method, "running", min(max(share, 0.0), 1.0), _where(reported))


def _where(reported: Mapping[str, Any]) -> str:
    """Fold, step and round, for example "fold 2 of 5, round 10 of 200"."""
    fold, folds = reported.get("fold"), int(reported.get("folds", 1))
    where = "held-out rows" if fold == -1 else "all rows" if fold is None else f"fold {int(fold) + 1} of {folds}"
    step = str(reported.get("step", ""))
    rounds = (
        f"round {reported['iteration']} of {reported['iterations']}" if int(reported.get("iterations", 1)) > 1 else ""
    )
    return ", ".join(part for part in (where, "" if step == "training" else step, rounds) if part)
