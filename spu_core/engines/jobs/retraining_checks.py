"""Jobs that train one candidate on several sets of columns.

"echo" trains the candidate of a stored run with and without the columns that its rules read; "features" finds the
columns that a candidate needs, by figures that need no truth.
"""

from __future__ import annotations

from typing import Any

from spu_core.engines.jobs import Job, JobContext, JobLimits
from spu_core.engines.stored_runs import left_out_of, soft_labels_by
from spu_core.labels import SoftLabels
from spu_core.tables import Role, Table
from spu_core.training import Candidate, FeatureSelection, TrainConfig, TrainProgress, select_features
from spu_core.training.fit_pool import usable_processes
from spu_core.trust.echo import EchoReport, echo_check
from spu_core.workspace import DatasetRecord, JobRecord, RuleSetVersion, RunRecord


def echo_job(run: RunRecord, dataset: DatasetRecord, rules: RuleSetVersion | None) -> Job:
    """The job that checks a run on a dataset with the soft labels of these rules. Equal arguments give equal jobs."""
    parameters = {
        "run": run.id,
        "dataset": dataset.id,
        "dataset_version": dataset.version,
        "rule_set": None if rules is None else rules.id,
        "rule_set_version": None if rules is None else rules.number,
    }
    limits = JobLimits(threads=TrainConfig.from_dict(dict(run.config)).threads)
    return Job(kind="echo", parameters=parameters, title=f"Echo check of {run.name}"[:80], limits=limits)


def echo_result(job: JobRecord) -> EchoReport:
    """The report of a finished job."""
    return EchoReport.from_dict(job.result)


def echo(context: JobContext) -> dict[str, Any]:
    """`{"run": id, "dataset": id, "rule_set": id, "rule_set_version": 3}` → the figures of the report."""
    workspace, parameters = context.workspace, context.parameters
    record = workspace.runs.get(parameters["run"])
    table = workspace.datasets.load(parameters["dataset"])
    table = table.with_roles(dict.fromkeys(left_out_of(workspace, record), Role.IGNORE))

    def report(at: TrainProgress) -> None:
        context.progress(at.share, f"training {at.candidate}", {"seconds_left": at.seconds_left})

    context.progress(0.0, "loading the rows")
    candidate, config = Candidate.from_dict(dict(record.candidate)), TrainConfig.from_dict(dict(record.config))
    return echo_check(table, _soft_labels(context, table), candidate, config, on_progress=report).to_dict()


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
    config = TrainConfig.from_dict(dict(parameters.get("config", {})))
    return select_features(
        table,
        _soft_labels(context, table),
        Candidate.from_dict(parameters.get("candidate", {"method": "lightgbm"})),
        config,
        metric=parameters.get("metric", "auc_spu"),
        direction=parameters.get("direction", "drop"),
        n_jobs=usable_processes(config.threads) if context.is_worker else 1,
        on_progress=lambda share, words: context.progress(share, "fitting sets of columns", {"words": words}),
    ).to_dict()


def _soft_labels(context: JobContext, table: Table) -> SoftLabels:
    """The soft labels by the rules that the job names."""
    token, number = context.parameters.get("rule_set"), context.parameters.get("rule_set_version")
    return soft_labels_by(table, None if token is None else context.workspace.rule_sets.get(token, number))
