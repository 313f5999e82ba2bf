"""The job "score": score a dataset or an uploaded file with a stored run, and store the scored rows with the run.

Small files are scored at once; others by a job, so that the result survives a refresh of the page. A model from
elsewhere never runs in the process of the dashboard: a child process runs it, or a job once the model is stored as a
run.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pandas as pd

from spu_core.checks import check_choice
from spu_core.codec import dump_json
from spu_core.engines.jobs import Job, JobContext, JobLimits
from spu_core.engines.jobs.read import MEMORY, is_read_at_once, read_limits
from spu_core.engines.processes import start_worker
from spu_core.engines.stored_runs import stored_bundle
from spu_core.errors import BundleError
from spu_core.export import Bundle, ScoreProgress, ScoreReport, Scoring
from spu_core.export.bundle_storage import score_in_child
from spu_core.export.monitoring import ScoringEvent
from spu_core.tables import Table
from spu_core.tables.spreadsheet import write_csv
from spu_core.workspace import DatasetRecord, ExportRecord, JobRecord, RunRecord, Workspace

SCORED_ROWS = "scored rows"
SCORE_REPORT = "score report"
# Shares of the work that are done when the model is loaded, and when all rows are scored.
LOADING, WRITTEN = 0.05, 0.95
# Form → (end of the file name, media type).
SCORE_FORMS = {
    "csv": (".csv", "text/csv"),
    "raw_csv": ("-raw.csv", "text/csv"),
    "parquet": (".parquet", "application/octet-stream"),
}


def score(context: JobContext) -> dict[str, Any]:
    """`{"run": id, "dataset": id}` or `{"run": id, "upload": id, "name": "new.csv"}` → the id of the scored rows.

    `flag_by` is "threshold" (the default) or "share". The rows are stored as Parquet, the report in their detail.
    """
    run = context.need("run")
    rows, name, detail = _rows(context)
    context.progress(0.0, "loading the model")
    bundle = stored_bundle(context.workspace, run)
    scoring = Scoring(flag_by=context.parameters.get("flag_by", "threshold"))
    found: dict[str, Any] = {}

    def show_progress(at: ScoreProgress) -> None:
        context.progress(LOADING + (WRITTEN - LOADING) * at.share, at.step, {"rows": at.rows})

    def write(path: Path) -> None:
        # The ending of the name decides the format, and a draft has none.
        target = path.with_suffix(".parquet")
        report = bundle.score_file(rows, target, scoring, on_progress=show_progress)
        target.replace(path)
        found.update(rows=report.rows, flagged=report.flagged, notes=list(report.notes))
        detail["report"] = report.to_dict()

    context.progress(LOADING, "scoring")
    kept = context.workspace.exports.save(run, f"{name}, scored", SCORED_ROWS, write, detail)
    return {"export": kept.id, **found}


def _rows(context: JobContext) -> tuple[Path | Table, str, dict[str, Any]]:
    """Source of the rows, their name, and the detail to store with the scores."""
    if "upload" in context.parameters:
        name = str(context.parameters.get("name") or "upload")
        return context.workspace.uploads.path(context.need("upload")), name, {"file": name}
    token = context.need("dataset")
    datasets, record = context.workspace.datasets, context.workspace.datasets.get(token)
    detail = {"dataset": token, "fingerprint": record.fingerprint}
    return datasets.path(token) if record.folder is None else datasets.open(token), record.name, detail


@dataclass(frozen=True, eq=False)
class ScoredFile:
    """Scored rows in a file. A temporary file is deleted together with this object."""

    report: ScoreReport
    path: Path
    folder: tempfile.TemporaryDirectory[str] | None = None

    def best(self, rows: int = 200) -> pd.DataFrame:
        """The rows with the highest scores, the highest first. Of tied rows at the end, some are left out."""
        found = pd.read_parquet(self.path, filters=[("rank", "<=", rows)])
        return found.sort_values("rank", kind="stable").head(rows).reset_index(drop=True)

    def best_places(self, rows: int = 200) -> list[int]:
        """The positions in the file, from 0, of the rows that `best` returns."""
        rank = pd.read_parquet(self.path, columns=["rank"])["rank"]
        return rank[rank <= rows].sort_values(kind="stable").head(rows).index.tolist()

    def to_bytes(self, form: str = "csv") -> bytes:
        """All rows as "csv" (safe in a spreadsheet), "raw_csv" (cells as they are) or "parquet"."""
        check_choice(form, SCORE_FORMS, "form", BundleError)
        if form == "parquet":
            return self.path.read_bytes()
        import pyarrow.parquet as parquet

        text = io.StringIO(newline="")
        with parquet.ParquetFile(self.path) as file:
            for number, batch in enumerate(file.iter_batches()):
                write_csv(batch.to_pandas(), text, raw=form == "raw_csv", header=number == 0)
        return text.getvalue().encode()


def score_upload(bundle: Bundle, source: Any, scoring: Scoring | None = None) -> ScoredFile:
    """Score a file object or a path, chunk by chunk."""
    return _scored(lambda path: bundle.score_file(source, path, scoring))


def score_foreign(data: bytes, stream: IO[bytes], scoring: Scoring | None = None) -> ScoredFile:
    """Score a file with a bundle from elsewhere, given as bytes; its model runs in a child process."""

    def score(path: Path) -> ScoreReport:
        rows = path.with_name("rows")
        with rows.open("wb") as copy:
            shutil.copyfileobj(stream, copy)
        report = score_in_child(data, rows, path, scoring or Scoring())
        rows.unlink()
        return report

    return _scored(score)


def _scored(score: Callable[[Path], ScoreReport]) -> ScoredFile:
    """The file that `score` writes into a temporary folder."""
    folder = tempfile.TemporaryDirectory(prefix="spu-scored-")
    path = Path(folder.name) / "scored.parquet"
    try:
        return ScoredFile(score(path), path, folder)
    except BaseException:
        folder.cleanup()
        raise


def scores_at_once(run: RunRecord, stream: IO[bytes]) -> bool:
    """Whether it is safe and quick to score a file in this process: a small text, by a model that was trained here."""
    return run.is_trained_here and is_read_at_once(stream)


def start_scoring(workspace: Workspace, run: str, stream: IO[bytes], name: str, flag_by: str) -> JobRecord:
    """Copy a file into the workspace and score it with a stored run, in the background."""
    upload = workspace.uploads.save(stream)
    parameters = {"run": run, "upload": upload, "name": name, "flag_by": flag_by}
    reading = read_limits(workspace.uploads.path(upload).stat().st_size)
    # More than for reading alone: the model needs memory, too, and scoring takes longer than reading.
    limits = JobLimits(memory=2 * (reading.memory or MEMORY), seconds=3 * reading.seconds)
    return start_worker(workspace, Job(kind="score", parameters=parameters, title=name, limits=limits))


def start_scoring_dataset(workspace: Workspace, run: str, dataset: DatasetRecord, flag_by: str) -> JobRecord:
    """Score a dataset with a stored run, in the background."""
    parameters = {"run": run, "dataset": dataset.id, "flag_by": flag_by}
    return start_worker(workspace, Job(kind="score", parameters=parameters, title=dataset.name))


def scored_before(workspace: Workspace, run: str) -> tuple[ExportRecord, ...]:
    """The scored rows that are stored with a run, the newest first."""
    return tuple(record for record in workspace.exports.list(run) if record.format == SCORED_ROWS)


def remember_scoring(workspace: Workspace, run: str, name: str, report: ScoreReport) -> None:
    """Store the report of a scoring whose rows are not stored; not again where the newest one is the same."""
    if workspace.is_read_only:
        return
    detail = {"file": name, "report": report.to_dict()}
    last = next((record for record in workspace.exports.list(run) if record.format == SCORE_REPORT), None)
    if last is None or last.detail != detail:
        text = dump_json(detail, indent=1)
        workspace.exports.save(run, name, SCORE_REPORT, lambda path: path.write_text(text, encoding="utf-8"), detail)


def scoring_history(workspace: Workspace, run: str) -> tuple[ScoringEvent, ...]:
    """All files that were scored with a stored run, the oldest first."""
    kept = (each for each in workspace.exports.list(run) if each.format in (SCORED_ROWS, SCORE_REPORT))
    events = [
        ScoringEvent(each.made, str(each.detail.get("file") or each.name), ScoreReport.from_dict(each.detail["report"]))
        for each in kept
    ]
    return tuple(reversed(events))


def stored_scores(workspace: Workspace, export: str) -> ScoredFile:
    """Scored rows that a job has stored; a damaged file is refused."""
    record = workspace.exports.get(export)
    return ScoredFile(ScoreReport.from_dict(record.detail["report"]), workspace.exports.path(export))
