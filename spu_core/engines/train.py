"""The job that runs a study on a dataset of the workspace, and keeps every finished run as a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from spu_core.engines.jobs import Task
from spu_core.engines.places import Engine, open_place
from spu_core.engines.same_folds import earlier_split
from spu_core.engines.study import Study
from spu_core.engines.watching import add_loss, thinned
from spu_core.errors import WorkspaceError
from spu_core.export import Bundle, save_bundle
from spu_core.rules import RuleSet
from spu_core.tables import Role, Table, TableFolder
from spu_core.training import Run, TrainPlan, TrainProgress
from spu_core.workspace import RuleSetVersion, RunDraft

REFINING = "refined soft labels"


def train(task: Task) -> dict[str, Any]:
    """`{"dataset": id, "rule_set": id, "rule_set_version": 3, "plan": "…JSON…", "refine": true}` → ids of the runs.

    `"left_out": ["name"]` names columns that models must not see; `"engine": "dask"` and `"scheduler": "tcp://…"` send
    the fits to a cluster. A job that is tried again keeps what it has stored.
    """
    parameters = task.parameters
    table = task.workspace.datasets.open(_need(parameters, "dataset"))
    table = table.with_roles(dict.fromkeys(parameters.get("left_out", ()), Role.IGNORE))
    version = _rule_set_version(task)
    rules = None if version is None else RuleSet.from_json(version.text)
    plan = TrainPlan.from_json(_need(parameters, "plan"))
    study = Study.of(table, rules, plan, refine=bool(parameters.get("refine", True)))
    return _run(task, study, table, version)


def _run(task: Task, study: Study, table: Table | TableFolder, version: RuleSetVersion | None) -> dict[str, Any]:
    report = _Report(task, study.refine and bool(table.is_labeled.any()), _stored_before(task))
    left = tuple(candidate for candidate in study.plan.candidates if candidate.name not in report.stored)
    if left:
        rest = replace(study, plan=replace(study.plan, candidates=left))
        split = earlier_split(task.workspace, task.parameters["dataset"], table, rest)
        with open_place(_engine(task), table) as place:
            for run, bundle in rest.run(table, report, on_refit=report.refitting, split=split, place=place):
                report.finished(run, None if bundle is None else _keep(task, run, bundle, version))
    return report.result()


def _engine(task: Task) -> Engine:
    """The engine that the job names; without one, the server's `SPU_DASK_SCHEDULER` decides."""
    return Engine.chosen(task.parameters.get("engine"), task.parameters.get("scheduler"))


def _stored_before(task: Task) -> dict[str, str]:
    """Runs that an earlier try of this job has stored: name → id."""
    runs = task.workspace.runs.list(task.parameters["dataset"])
    return {run.name: run.id for run in reversed(runs) if run.job == task.job}


def _keep(task: Task, run: Run, bundle: Bundle, version: RuleSetVersion | None) -> str:
    def write(path: Path) -> None:
        save_bundle(bundle, path)

    draft = RunDraft(
        name=run.name,
        dataset=task.parameters["dataset"],
        candidate=run.candidate.to_dict(),
        rule_set=None if version is None else version.id,
        rule_set_version=None if version is None else version.number,
        job=task.job,
        config=run.config.to_dict(),
        summary=run.to_dict(),
    )
    return task.workspace.runs.save(draft, write).id


@dataclass
class _Report:
    """Turns progress of the training into progress of the job: what is done, what failed, how it learns."""

    task: Task
    refines: bool
    stored: dict[str, str]
    errors: list[dict[str, str]] = field(default_factory=list)
    losses: dict[str, list[list[float]]] = field(default_factory=dict)
    last: TrainProgress | None = None

    def __call__(self, progress: TrainProgress) -> None:
        self.last = progress
        add_loss(self.losses, progress)
        self._tell(progress, progress.candidate)

    def refitting(self, progress: TrainProgress) -> None:
        """The refit on all rows belongs to the candidate that was cross-fitted last."""
        assert self.last is not None
        now = replace(self.last, fold=None, step=progress.step)
        now = replace(now, iteration=progress.iteration, iterations=progress.iterations)
        self._tell(now, f"{self.last.candidate}: refitting on all rows")

    def finished(self, run: Run, token: str | None) -> None:
        if token is not None:
            self.stored[run.name] = token
        else:
            self.errors.append({"name": run.name, "error": run.error or "It failed without a word."})
        if self.last is not None:
            self._tell(self.last, f"{run.name} finished")

    def result(self) -> dict[str, Any]:
        """What the job leaves behind."""
        return {"runs": list(self.stored.values()), "errors": list(self.errors), "losses": thinned(self.losses)}

    def _tell(self, progress: TrainProgress, message: str) -> None:
        detail = {**asdict(progress), **self.result(), "finished": list(self.stored)}
        self.task.progress(self._share(progress), message, detail)

    def _share(self, progress: TrainProgress) -> float:
        """Refining costs about as much as one more candidate, and comes first."""
        if not self.refines:
            return progress.share
        if progress.candidate == REFINING:
            return progress.share * 0.1
        return 0.1 + 0.9 * progress.share


def _rule_set_version(task: Task) -> RuleSetVersion | None:
    token = task.parameters.get("rule_set")
    return None if token is None else task.workspace.rule_sets.get(token, task.parameters.get("rule_set_version"))


def _need(parameters: Mapping[str, Any], name: str) -> str:
    value = parameters.get(name)
    if not isinstance(value, str) or not value:
        raise WorkspaceError(f"A training job must name its {name}.")
    return value
