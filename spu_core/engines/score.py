"""The job that scores a dataset or an uploaded file with a stored run, and keeps the scored rows beside the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spu_core.engines.jobs import Task
from spu_core.engines.stored import stored_bundle
from spu_core.errors import WorkspaceError
from spu_core.export import ScoreProgress, Scoring
from spu_core.tables import TableFolder

SCORED_ROWS = "scored rows"
LOADING, WRITTEN = 0.05, 0.95


def score(task: Task) -> dict[str, Any]:
    """`{"run": id, "dataset": id}` or `{"run": id, "upload": id, "name": "new.csv"}` → the id of the scored rows.

    `flag_by` is "threshold" (the default) or "share". The rows are kept as Parquet with the report in their detail.
    """
    run = _need(task, "run")
    rows, name, detail = _rows(task)
    task.progress(0.0, "loading the model")
    bundle = stored_bundle(task.workspace, run)
    scoring = Scoring(flag_by=task.parameters.get("flag_by", "threshold"))
    found: dict[str, Any] = {}

    def tell(at: ScoreProgress) -> None:
        task.progress(LOADING + (WRITTEN - LOADING) * at.share, at.step, {"rows": at.rows})

    def write(path: Path) -> None:
        # The writer of a bundle's scores decides by the ending, and a draft has none.
        target = path.with_suffix(".parquet")
        report = bundle.score_file(rows, target, scoring, on_progress=tell)
        target.replace(path)
        found.update(rows=report.rows, flagged=report.flagged, notes=list(report.notes))
        detail["report"] = report.to_dict()

    task.progress(LOADING, "scoring")
    kept = task.workspace.exports.save(run, f"{name}, scored", SCORED_ROWS, write, detail)
    return {"export": kept.id, **found}


def _rows(task: Task) -> tuple[Path | TableFolder, str, dict[str, Any]]:
    """Where the rows are, what they are called, and where they came from."""
    if "upload" in task.parameters:
        name = str(task.parameters.get("name") or "upload")
        return task.workspace.uploads.path(_need(task, "upload")), name, {"file": name}
    token = _need(task, "dataset")
    datasets, record = task.workspace.datasets, task.workspace.datasets.get(token)
    detail = {"dataset": token, "fingerprint": record.fingerprint}
    opened = None if record.folder is None else datasets.open(token)
    return opened if isinstance(opened, TableFolder) else datasets.path(token), record.name, detail


def _need(task: Task, name: str) -> str:
    value = task.parameters.get(name)
    if not isinstance(value, str) or not value:
        raise WorkspaceError(f"A scoring job must name its {name}.")
    return value
