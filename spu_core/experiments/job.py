"""The job that runs an experiment in the background and keeps its result with the job."""

from __future__ import annotations

from typing import Any

from spu_core.engines.jobs import JobContext
from spu_core.errors import WorkspaceError
from spu_core.experiments import theorems
from spu_core.experiments.registry import experiment
from spu_core.experiments.result import ExperimentResult
from spu_core.experiments.settings import ExperimentSettings

KIND = "experiment"


def run_experiment(context: JobContext) -> dict[str, Any]:
    """`{"experiment": "theorems", "part": "theorem4", "scale": "smoke"}` → `{"result": JSON text}`; part is optional.

    Data are found as on the command line, by SPU_DATA; a path never comes from a job.
    """
    chosen = experiment(str(context.parameters.get("experiment", "")))
    settings = ExperimentSettings(scale=str(context.parameters.get("scale", "smoke")), threads=context.threads)
    part = context.parameters.get("part")
    if part is None:
        return {"result": chosen.run(settings, context.progress).to_json()}
    if chosen.name != "theorems":
        raise WorkspaceError(f"Experiment {chosen.name!r} has no parts; run all of it.")
    return {"result": theorems.run(settings, context.progress, parts=[str(part)]).to_json()}


def result_of(outcome: dict[str, Any]) -> ExperimentResult:
    """The result of a finished job."""
    text = outcome.get("result")
    if not isinstance(text, str):
        raise WorkspaceError("This job holds no result of an experiment; run the experiment again.")
    return ExperimentResult.from_json(text)
