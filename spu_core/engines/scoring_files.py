"""A file that was scored for somebody who looks at it: kept on disk, shown in part, handed out in a chosen form.

Small files are scored at once; others by a job, whose result stays beside the run and survives a refresh. A model from
elsewhere never scores in the process of whoever looks: a child does it, or a job once the model is kept as a run.
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
from spu_core.engines.control import start_worker
from spu_core.engines.jobs import Job, JobLimits
from spu_core.engines.reading import MEMORY, is_read_at_once, read_limits
from spu_core.engines.score import SCORED_ROWS
from spu_core.errors import BundleError
from spu_core.export import Bundle, ScoreReport, Scoring
from spu_core.export.trial import score_in_child
from spu_core.tables.spreadsheet import write_csv
from spu_core.workspace import DatasetRecord, ExportRecord, JobRecord, RunRecord, Workspace

# What the name of the file ends with, and what browsers call its content.
FORMS = {
    "csv": (".csv", "text/csv"),
    "raw_csv": ("-raw.csv", "text/csv"),
    "parquet": (".parquet", "application/octet-stream"),
}


@dataclass(frozen=True, eq=False)
class ScoredFile:
    """Scored rows in a file; where it is a temporary one, it goes when nobody holds this value any more."""

    report: ScoreReport
    path: Path
    folder: tempfile.TemporaryDirectory[str] | None = None

    def best(self, rows: int = 200) -> pd.DataFrame:
        """The rows with the highest scores, the highest first; ties may leave out some of the last."""
        found = pd.read_parquet(self.path, filters=[("rank", "<=", rows)])
        return found.sort_values("rank", kind="stable").head(rows).reset_index(drop=True)

    def to_bytes(self, form: str = "csv") -> bytes:
        """All rows as "csv" (safe in a spreadsheet), "raw_csv" (cells as they are) or "parquet"."""
        check_choice(form, FORMS, "form", BundleError)
        if form == "parquet":
            return self.path.read_bytes()
        import pyarrow.parquet as parquet

        text = io.StringIO(newline="")
        with parquet.ParquetFile(self.path) as file:
            for number, batch in enumerate(file.iter_batches()):
                write_csv(batch.to_pandas(), text, raw=form == "raw_csv", header=number == 0)
        return text.getvalue().encode()


def score_upload(bundle: Bundle, source: Any, scoring: Scoring | None = None) -> ScoredFile:
    """Score a file object or a path; only a chunk of it is in memory at a time."""
    return _scored(lambda path: bundle.score_file(source, path, scoring))


def score_foreign(data: bytes, stream: IO[bytes], scoring: Scoring | None = None) -> ScoredFile:
    """Score a file with the bytes of a bundle from elsewhere, whose model stays in a process of its own."""

    def score(path: Path) -> ScoreReport:
        rows = path.with_name("rows")
        with rows.open("wb") as copy:
            shutil.copyfileobj(stream, copy)
        report = score_in_child(data, rows, path, scoring or Scoring())
        rows.unlink()
        return report

    return _scored(score)


def _scored(score: Callable[[Path], ScoreReport]) -> ScoredFile:
    """What `score` writes into a file of a temporary folder."""
    folder = tempfile.TemporaryDirectory(prefix="spu-scored-")
    path = Path(folder.name) / "scored.parquet"
    try:
        return ScoredFile(score(path), path, folder)
    except BaseException:
        folder.cleanup()
        raise


def scores_at_once(run: RunRecord, stream: IO[bytes]) -> bool:
    """Whether a file is scored while one waits: a small text, by a model that was trained here.

    Only a worker should let a model from elsewhere loose on new rows, or unpack what others have packed.
    """
    return run.is_trained_here and is_read_at_once(stream)


def start_scoring(workspace: Workspace, run: str, stream: IO[bytes], name: str, flag_by: str) -> JobRecord:
    """Copy a file into the workspace and score it with a stored run in the background; returns at once."""
    upload = workspace.uploads.save(stream)
    parameters = {"run": run, "upload": upload, "name": name, "flag_by": flag_by}
    reading = read_limits(workspace.uploads.path(upload).stat().st_size)
    # The model needs its part, too, and the time of a file that takes long is mostly that of scoring.
    limits = JobLimits(memory=2 * (reading.memory or MEMORY), seconds=3 * reading.seconds)
    return start_worker(workspace, Job(kind="score", parameters=parameters, title=name, limits=limits))


def start_scoring_dataset(workspace: Workspace, run: str, dataset: DatasetRecord, flag_by: str) -> JobRecord:
    """Score a dataset of the workspace with a stored run in the background; returns at once."""
    parameters = {"run": run, "dataset": dataset.id, "flag_by": flag_by}
    return start_worker(workspace, Job(kind="score", parameters=parameters, title=dataset.name))


def scored_before(workspace: Workspace, run: str) -> tuple[ExportRecord, ...]:
    """The scored rows that are kept beside a run, the newest first."""
    return tuple(record for record in workspace.exports.list(run) if record.format == SCORED_ROWS)


def stored_scores(workspace: Workspace, export: str) -> ScoredFile:
    """Scored rows that a job has kept; the file was checked to be as it was saved."""
    record = workspace.exports.get(export)
    return ScoredFile(ScoreReport.from_dict(record.detail["report"]), workspace.exports.path(export))
