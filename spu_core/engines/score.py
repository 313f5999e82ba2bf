"""The job that scores a dataset of the workspace with a stored run, and keeps the scored rows beside the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spu_core.engines.jobs import Task
from spu_core.engines.stored import stored_bundle
from spu_core.errors import WorkspaceError
from spu_core.export import Scoring


def score(task: Task) -> dict[str, Any]:
    """`{"run": id, "dataset": id, "flag_by": "threshold"}` → the id of the scored rows (Parquet), and notes."""
    run, dataset = (_need(task, name) for name in ("run", "dataset"))
    task.progress(0.05, "loading the model")
    bundle = stored_bundle(task.workspace, run)
    rows = task.workspace.datasets.path(dataset)
    record = task.workspace.datasets.get(dataset)
    found: dict[str, Any] = {}

    def write(path: Path) -> None:
        # The writer of a bundle's scores decides by the ending, and a draft has none.
        target = path.with_suffix(".parquet")
        report = bundle.score_file(rows, target, Scoring(flag_by=task.parameters.get("flag_by", "threshold")))
        target.replace(path)
        found.update(rows=report.rows, flagged=report.flagged, notes=list(report.notes))

    task.progress(0.1, f"scoring {record.n_rows:,} rows")
    detail = {"dataset": dataset, "fingerprint": record.fingerprint}
    kept = task.workspace.exports.save(run, f"{record.name}, scored", "scored rows", write, detail)
    return {"export": kept.id, **found}


def _need(task: Task, name: str) -> str:
    value = task.parameters.get(name)
    if not isinstance(value, str) or not value:
        raise WorkspaceError(f"A scoring job must name its {name}.")
    return value
