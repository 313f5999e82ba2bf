"""Scoring new rows: into memory, from file to file, or as a stream of CSV."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from spu_core.export.bundle import Bundle
from spu_core.export.conform import text_columns
from spu_core.export.score_report import ScoreReport, ScoreTable, Scoring
from spu_core.export.score_work import OnProgress, ScoreWork
from spu_core.export.score_writing import write_stream, write_tables
from spu_core.export.sources import open_rows


def score_rows(bundle: Bundle, source: Any, scoring: Scoring | None = None) -> ScoreTable:
    """Score a frame, a path, bytes or a file object; the result is kept in memory."""
    with _work(bundle, source, scoring) as work:
        frames = list(work.tables())
        return ScoreTable(pd.concat(frames, ignore_index=True), work.report)


def score_file(
    bundle: Bundle,
    source: Any,
    target: str | os.PathLike[str],
    scoring: Scoring | None = None,
    *,
    raw: bool = False,
    on_progress: OnProgress | None = None,
) -> ScoreReport:
    """Score a file of any size into another one: parquet by its name, else CSV (safe in a spreadsheet unless `raw`)."""
    with _work(bundle, source, scoring, on_progress) as work:
        write_tables(work.tables(), Path(target), raw=raw)
        return work.report


def score_stream(
    bundle: Bundle, source: Any, target: TextIO, scoring: Scoring | None = None, *, raw: bool = False
) -> ScoreReport:
    """The same as CSV text to an open stream, such as standard output."""
    with _work(bundle, source, scoring) as work:
        write_stream(work.tables(), target, raw=raw)
        return work.report


def _work(bundle: Bundle, source: Any, scoring: Scoring | None, on_progress: OnProgress | None = None) -> ScoreWork:
    return ScoreWork(bundle, open_rows(source, text_columns(bundle)), scoring or Scoring(), on_progress)
