"""A file that was scored for somebody who looks at it: kept on disk, shown in part, handed out in a chosen form."""

from __future__ import annotations

import io
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from spu_core.checks import check_choice
from spu_core.errors import BundleError
from spu_core.export import Bundle, ScoreReport, Scoring
from spu_core.export.spreadsheet import write_csv

# What the name of the file ends with, and what browsers call its content.
FORMS = {
    "csv": (".csv", "text/csv"),
    "raw_csv": ("-raw.csv", "text/csv"),
    "parquet": (".parquet", "application/octet-stream"),
}


@dataclass(frozen=True, eq=False)
class ScoredFile:
    """Scored rows in a temporary file that goes when nobody holds this value any more."""

    report: ScoreReport
    folder: tempfile.TemporaryDirectory[str]

    @property
    def path(self) -> Path:
        return Path(self.folder.name) / "scored.parquet"

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
    folder = tempfile.TemporaryDirectory(prefix="spu-scored-")
    try:
        report = bundle.score_file(source, Path(folder.name) / "scored.parquet", scoring)
    except BaseException:
        folder.cleanup()
        raise
    return ScoredFile(report, folder)
