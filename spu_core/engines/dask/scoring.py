"""Scoring a folder of parquet files on a cluster: each worker scores and writes whole files.

A rank is a statement about all rows, so there are two passes: the scores of all files come here (eight bytes a row),
and go back in order; then each file is written with flags, ranks and reasons, as one process would write it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from spu_core.engines.dask.cluster import Cluster
from spu_core.errors import BundleError, TableError
from spu_core.export import Bundle, Scoring, load_bundle
from spu_core.export.archive import digest
from spu_core.export.bundle import ScoreWork, text_columns
from spu_core.export.drift import DriftCounter
from spu_core.export.row_files import RowSource, open_rows, write_tables
from spu_core.export.score_report import ScoreReport
from spu_core.tables.folder_files import list_files

if TYPE_CHECKING:
    from distributed import Future


@dataclass(frozen=True, eq=False)
class Scored:
    """The first pass over one file: its scores, its columns, and what has moved against training."""

    score: np.ndarray
    names: tuple[str, ...]
    drift: DriftCounter


def score_folder_on(
    cluster: Cluster,
    bundle: str | os.PathLike[str] | bytes,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    scoring: Scoring | None = None,
) -> ScoreReport:
    """Score every parquet file below `source` into one of the same name below `target`, which all workers can see."""
    data = bundle if isinstance(bundle, bytes) else Path(bundle).read_bytes()
    work, client = _Work(load_bundle(data), scoring or Scoring()), cluster.client
    files = [(str(path), str(place)) for path, place in _places(Path(source).absolute(), Path(target).absolute())]
    sent = client.scatter(data, broadcast=True, hash=False)
    held, scored = _each(cluster, "Scoring", [(score_one, sent, path, work.scoring) for path, _ in files])
    whole = work.joined(scored)
    order = client.scatter(whole.ordered, broadcast=True, hash=False)
    starts = np.cumsum([0, *(each.score.size for each in scored)]).tolist()
    writes = [
        (write_one, sent, place, each, order, (start, whole.threshold), work.scoring)
        for place, each, start in zip(files, held, starts[:-1], strict=True)
    ]
    _each(cluster, "Writing the scores", writes)
    return whole.report


def score_one(data: bytes, path: str, scoring: Scoring) -> Scored:
    """The scores of one file, on a worker."""
    bundle = _opened(data)
    with ScoreWork(bundle, open_rows(path, text_columns(bundle)), scoring) as work:
        score = np.concatenate([np.empty(0), *work.scores()])
        return Scored(score, work.source.names, work.drift)


def write_one(
    data: bytes,
    place: tuple[str, str],
    scored: Scored,
    ordered: np.ndarray,
    cut: tuple[int, float],
    scoring: Scoring,
) -> None:
    """One file of results, on a worker."""
    bundle, (source, target), (start, threshold) = _opened(data), place, cut
    with ScoreWork(bundle, open_rows(source, text_columns(bundle)), scoring) as work:
        work.ordered, work.threshold = ordered, threshold
        write_tables(_tables(work, scored.score, start), Path(target), raw=True)


def _tables(work: ScoreWork, score: np.ndarray, start: int) -> Iterator[pd.DataFrame]:
    done = 0
    for chunk in work.source.chunks():
        yield work.table(chunk, score[done : done + len(chunk)], start + done)
        done += len(chunk)
    if not done:  # a file without rows stays one, with all columns
        yield work.table(pd.DataFrame(columns=list(work.source.names)), score, start)


@dataclass(frozen=True, eq=False)
class _Work:
    bundle: Bundle
    scoring: Scoring

    def joined(self, scored: list[Scored]) -> ScoreWork:
        """The passes over all files as if they had been one: order, threshold and report."""
        ordered = np.sort(np.concatenate([each.score for each in scored]))
        if not ordered.size:
            raise TableError("The folder has no rows to score.")
        drift = scored[0].drift
        for each in scored[1:]:
            drift = drift.merge(each.drift)
        work = ScoreWork(self.bundle, RowSource(scored[0].names, lambda: iter(()), ordered.size), self.scoring)
        work.total, work.ordered, work.drift = ordered.size, ordered, drift
        return work


def _each(cluster: Cluster, what: str, calls: list[tuple[Any, ...]]) -> tuple[list[Future], list[Any]]:
    """All calls at once, each on whichever worker is free: futures, which keep results where they are, and results."""

    def gather() -> tuple[list[Future], list[Any]]:
        futures = [cluster.client.submit(*call, pure=False) for call in calls]
        return futures, cluster.client.gather(futures)

    return cluster.guarded(gather, what=what)


@lru_cache(maxsize=2)
def _opened(data: bytes) -> Bundle:
    """The bundle on a worker; it was tried before it was sent."""
    return load_bundle(data, known_hash=digest(data))


def _places(source: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    """Each file with the file that will hold its scores; nothing is overwritten."""
    for path in list_files(source):
        place = target / path.relative_to(source)
        if place.exists():
            raise BundleError(f"{str(place)!r} exists already; give an empty folder for the scores.")
        place.parent.mkdir(parents=True, exist_ok=True)
        yield path, place
