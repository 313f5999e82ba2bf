"""The job that trains a plan on a dataset under a rule set, and keeps every finished run as a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spu_core.engines.jobs import Task
from spu_core.errors import WorkspaceError
from spu_core.export import Bundle, Passport, Recipe, save_bundle
from spu_core.labels import SoftLabels, soft_labels_for
from spu_core.rules import FittedRules, RuleSet
from spu_core.tables import Role, Table
from spu_core.training import (
    RefinedLabels,
    Run,
    TrainPlan,
    TrainProgress,
    iter_cross_fit,
    refine_soft_labels,
    with_refined,
)
from spu_core.workspace import RuleSetVersion, RunDraft, Workspace

# Refined soft labels cost about as much as one more candidate.
_REFINING_SHARE = 0.1


def train(task: Task) -> dict[str, Any]:
    """`{"dataset": id, "rule_set": id, "rule_set_version": 3, "plan": "…JSON…", "refine": true}` → ids of the runs."""
    job = _TrainJob.of(task)
    report = _Report(task)
    refined = job.refine(report)
    for run in iter_cross_fit(job.table, job.soft_labels, job.plan.candidates, job.plan.config, on_progress=report):
        report.finished(job.keep(run, refined), run)
    return {"runs": report.runs, "errors": report.errors}


def soft_labels_of(table: Table, fitted: FittedRules | None) -> SoftLabels:
    """Soft labels by rules, from the table's own soft-label column, or by the labels alone."""
    if fitted is not None:
        return soft_labels_for(table, fitted)
    ready_made = table.soft_label
    value = np.zeros(len(table)) if ready_made is None else ready_made
    return SoftLabels.from_values(value, table.is_labeled)


@dataclass(frozen=True, eq=False)
class _TrainJob:
    """Everything that the parameters name, loaded."""

    workspace: Workspace
    job: str
    dataset: str
    table: Table
    version: RuleSetVersion | None
    fitted: FittedRules | None
    plan: TrainPlan
    wants_refined: bool

    @classmethod
    def of(cls, task: Task) -> _TrainJob:
        parameters, workspace = task.parameters, task.workspace
        table = workspace.datasets.load(_need(parameters, "dataset"))
        version = None
        if parameters.get("rule_set") is not None:
            version = workspace.rule_sets.get(parameters["rule_set"], parameters.get("rule_set_version"))
        fitted = None if version is None else RuleSet.from_json(version.text).fit(table)
        plan = TrainPlan.from_json(_need(parameters, "plan"))
        wants_refined = bool(parameters.get("refine", True)) and bool(table.is_labeled.any())
        return cls(workspace, task.job, parameters["dataset"], table, version, fitted, plan, wants_refined)

    @property
    def soft_labels(self) -> SoftLabels:
        return soft_labels_of(self.table, self.fitted)

    def refine(self, report: _Report) -> RefinedLabels | None:
        """Refined soft labels where labels exist to refine them by."""
        if not self.wants_refined:
            return None
        report.starts_at = _REFINING_SHARE
        return refine_soft_labels(self.table, self.soft_labels, self.plan.config, on_progress=report.refining)

    def keep(self, run: Run, refined: RefinedLabels | None) -> str | None:
        """Store a finished run as a bundle, refitted on all rows; None for one that failed."""
        if run.error is not None:
            return None
        judged = run if refined is None else with_refined([run], refined)[0]
        bundle = Bundle.of(judged, recipe=self._recipe(), passport=self._passport())

        def write(path: Path) -> None:
            save_bundle(bundle, path)

        return self.workspace.runs.save(self._draft(judged), write).id

    def _recipe(self) -> Recipe | None:
        if self.fitted is None:
            return None
        rules = self.fitted.rules
        return Recipe(rules=self.fitted, combine=rules.combine, floor=rules.floor)

    def _passport(self) -> Passport:
        return Passport(id_column=self.table.column_with(Role.ID), data_name=self.table.name)

    def _draft(self, run: Run) -> RunDraft:
        return RunDraft(
            name=run.name,
            dataset=self.dataset,
            candidate=run.candidate.to_dict(),
            rule_set=None if self.version is None else self.version.id,
            rule_set_version=None if self.version is None else self.version.number,
            job=self.job,
            config=run.config.to_dict(),
            summary=run.to_dict(),
        )


@dataclass
class _Report:
    """Turns progress of the training into progress of the job: what is done, what failed, how it learns."""

    task: Task
    starts_at: float = 0.0
    runs: list[str] = field(default_factory=list)
    errors: list[dict[str, str]] = field(default_factory=list)
    last: TrainProgress | None = None

    def __call__(self, progress: TrainProgress) -> None:
        self.last = progress
        self._tell(progress, self.starts_at + progress.share * (1.0 - self.starts_at), progress.candidate)

    def refining(self, progress: TrainProgress) -> None:
        self._tell(progress, progress.share * self.starts_at, "Refining soft labels by what the labels say")

    def finished(self, token: str | None, run: Run) -> None:
        if token is not None:
            self.runs.append(token)
        else:
            self.errors.append({"name": run.name, "error": run.error or "It failed without a word."})
        if self.last is not None:
            self._tell(self.last, self.starts_at + self.last.share * (1.0 - self.starts_at), f"{run.name} finished")

    def _tell(self, progress: TrainProgress, share: float, message: str) -> None:
        detail = {**asdict(progress), "runs": list(self.runs), "errors": list(self.errors)}
        self.task.progress(share, message, detail)


def _need(parameters: Mapping[str, Any], name: str) -> str:
    value = parameters.get(name)
    if not isinstance(value, str) or not value:
        raise WorkspaceError(f"A training job must name its {name}.")
    return value
