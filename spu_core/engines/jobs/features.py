"""The job "features": find the columns that a candidate needs, by figures that need no truth."""

from __future__ import annotations

from typing import Any

from spu_core.engines.jobs import Job, JobContext
from spu_core.engines.processes import jobs_now
from spu_core.engines.stored_runs import soft_labels_by
from spu_core.tables import Role
from spu_core.training import Candidate, FeatureSelection, TrainConfig, select_features
from spu_core.training.fit_pool import usable_processes
from spu_core.workspace import JobRecord, Workspace

KIND = "features"


def latest_features(workspace: Workspace, job: Job) -> JobRecord | None:
    """The newest job with the same parameters, running or over."""
    same = (each for each in jobs_now(workspace) if each.kind == KIND and dict(each.parameters) == job.parameters)
    return next(same, None)


def features_result(job: JobRecord) -> FeatureSelection:
    """The selection of a finished job."""
    return FeatureSelection.from_dict(job.result)


def features(context: JobContext) -> dict[str, Any]:
    """`{"dataset": id, "rule_set": id, "rule_set_version": 3, "candidate": {…}, "config": {…}, "metric": "auc_spu",
    "direction": "drop"}` → the figures of the selection."""
    workspace, parameters = context.workspace, context.parameters
    context.progress(0.0, "loading the rows")
    table = workspace.datasets.open(context.need("dataset"))
    table = table.with_roles(dict.fromkeys(parameters.get("left_out", ()), Role.IGNORE))
    token = parameters.get("rule_set")
    version = None if token is None else workspace.rule_sets.get(token, parameters.get("rule_set_version"))
    config = TrainConfig.from_dict(dict(parameters.get("config", {})))
    return select_features(
        table,
        soft_labels_by(table, version),
        Candidate.from_dict(parameters.get("candidate", {"method": "lightgbm"})),
        config,
        metric=parameters.get("metric", "auc_spu"),
        direction=parameters.get("direction", "drop"),
        n_jobs=usable_processes(config.threads) if context.is_worker else 1,
        on_progress=lambda share, words: context.progress(share, "fitting sets of columns", {"words": words}),
    ).to_dict()
