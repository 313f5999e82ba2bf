"""The job "echo": train the candidate of a stored run with and without the columns that its rules read."""

from __future__ import annotations

from typing import Any

from spu_core.engines.jobs import Job, JobContext, JobLimits
from spu_core.engines.processes import jobs_now
from spu_core.engines.stored_runs import left_out_of, soft_labels_by
from spu_core.tables import Role
from spu_core.training import Candidate, TrainConfig, TrainProgress
from spu_core.trust.echo import EchoReport, echo_check
from spu_core.workspace import DatasetRecord, JobRecord, RuleSetVersion, RunRecord, Workspace

KIND = "echo"


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
    return Job(kind=KIND, parameters=parameters, title=f"Echo check of {run.name}"[:80], limits=limits)


def latest_echo(workspace: Workspace, job: Job) -> JobRecord | None:
    """The newest job with the same parameters, running or over."""
    same = (each for each in jobs_now(workspace) if each.kind == KIND and dict(each.parameters) == job.parameters)
    return next(same, None)


def echo_result(job: JobRecord) -> EchoReport:
    """The report of a finished job."""
    return EchoReport.from_dict(job.result)


def echo(context: JobContext) -> dict[str, Any]:
    """`{"run": id, "dataset": id, "rule_set": id, "rule_set_version": 3}` → the figures of the report."""
    workspace, parameters = context.workspace, context.parameters
    record = workspace.runs.get(parameters["run"])
    table = workspace.datasets.load(parameters["dataset"])
    table = table.with_roles(dict.fromkeys(left_out_of(workspace, record), Role.IGNORE))
    token = parameters.get("rule_set")
    version = None if token is None else workspace.rule_sets.get(token, parameters.get("rule_set_version"))

    def report(at: TrainProgress) -> None:
        context.progress(at.share, f"training {at.candidate}", {"seconds_left": at.seconds_left})

    context.progress(0.0, "loading the rows")
    candidate, config = Candidate.from_dict(dict(record.candidate)), TrainConfig.from_dict(dict(record.config))
    return echo_check(table, soft_labels_by(table, version), candidate, config, on_progress=report).to_dict()
