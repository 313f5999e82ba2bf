"""Work as independent Dask tasks: the fits of a table that fits into one worker, and the scoring of a folder's files.

Fits: the rows are sent once to every worker. A fit is the same pure function as in one process, so scores are exactly
equal, and Dask repeats a fit whose worker is lost.

Scoring: each worker scores and writes whole files. Ranks depend on the scores of all rows, so there are two passes: the
first collects the scores of all files (eight bytes a row), the second writes each file with flags, ranks and reasons.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from spu_core.engines.executors.dask_cluster import SILENT, Cluster
from spu_core.errors import BundleError, TableError, TrainingError
from spu_core.export import Bundle, Scoring, load_bundle
from spu_core.export.archive import digest
from spu_core.export.bundle import ScoreWork, text_columns
from spu_core.export.drift import DriftCounter
from spu_core.export.row_files import RowSource, open_rows, write_tables
from spu_core.export.score_report import ScoreReport
from spu_core.tables.stores import list_files
from spu_core.training import Candidate, TrainConfig
from spu_core.training.cross_fitting import Fits, LocalExecutor
from spu_core.training.fitting import CandidateFitter, FoldFit, ProgressRange, Reporter, fit_fold
from spu_core.training.rows import FoldAssignment, PreparedData

if TYPE_CHECKING:
    from distributed import Future


_POLL_SECONDS = 0.3


@dataclass(frozen=True, eq=False)
class DaskTaskExecutor(LocalExecutor):
    """Runs each fit of each candidate as a task on a Dask cluster; all fits are submitted at once."""

    cluster: Cluster

    def fits(self, rows: PreparedData, candidates: tuple[Candidate, ...], config: TrainConfig) -> Fits:
        """Submit all fits; the result waits for those of one candidate."""
        numbers = [part.number for part in rows.split.folds()]
        futures = self.cluster.guarded(
            lambda: _submit(self.cluster, rows, candidates, config, len(numbers)), what="Sending the rows"
        )

        def fits(candidate: Candidate, reporter: Reporter) -> Iterator[FoldFit]:
            for step, (number, future) in enumerate(zip(numbers, futures[candidate.name], strict=True)):
                reporter.fold = number
                yield _result(self.cluster, future, reporter, step / len(numbers), f"A fit of {candidate.name}")

        return fits


def _submit(
    cluster: Cluster, rows: PreparedData, candidates: tuple[Candidate, ...], config: TrainConfig, parts: int
) -> dict[str, list[Future]]:
    """The futures of all fits. Candidates that see the same columns share the rows that are sent."""
    client = cluster.client
    sent: dict[int, Any] = {}
    futures = {}
    split = client.scatter(rows.split, broadcast=True, hash=False)
    for candidate in candidates:
        evidence = rows.rows_for(candidate)
        if id(evidence) not in sent:
            sent[id(evidence)] = client.scatter(evidence, broadcast=True, hash=False)
        futures[candidate.name] = [
            client.submit(fit_one, candidate, config, sent[id(evidence)], split, place, pure=False)
            for place in range(parts)
        ]
    return futures


def fit_one(candidate: Candidate, config: TrainConfig, evidence: Any, split: FoldAssignment, place: int) -> FoldFit:
    """One fit, on a worker."""
    folds = list(split.folds())
    reporter = Reporter([candidate.name], len(folds))
    return fit_fold(CandidateFitter(candidate, config, reporter), evidence, ProgressRange(), folds[place])


def _result(cluster: Cluster, future: Future, reporter: Reporter, share: float, what: str) -> FoldFit:
    """Wait for a fit. Meanwhile report progress, so that the caller can stop the training."""
    from distributed import KilledWorker, wait

    start = time.monotonic()
    while not future.done():
        reporter.report(share, "training")
        if cluster.client.status != "running":
            raise cluster.interruption(what, SILENT)
        if time.monotonic() - start > cluster.deadline.seconds:
            raise cluster.interruption(what, cluster.deadline.text)
        with cluster.client.as_current(), suppress(TimeoutError):
            wait(future, timeout=_POLL_SECONDS)
    try:
        return future.result()
    except CancelledError:  # no worker holds its rows any more
        raise cluster.interruption(what, "all workers that held the rows were lost.") from None
    except KilledWorker:
        raise TrainingError(
            "Its fits ended several workers, most likely for lack of memory; use fewer rows or columns, "
            "or workers with more memory."
        ) from None


@dataclass(frozen=True, eq=False)
class ScoredPart:
    """The first pass over one file: its scores, its columns, and its drift against the training rows."""

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
    """Score every parquet file below `source` into a file of the same name below `target`. Workers must see both."""
    data = bundle if isinstance(bundle, bytes) else Path(bundle).read_bytes()
    loaded, scoring, client = load_bundle(data), scoring or Scoring(), cluster.client
    files = [(str(path), str(place)) for path, place in _files(Path(source).absolute(), Path(target).absolute())]
    sent = client.scatter(data, broadcast=True, hash=False)
    held, scored = _each(cluster, "Scoring", [(score_one, sent, path, scoring) for path, _ in files])
    whole = _joined(loaded, scoring, scored)
    order = client.scatter(whole.ordered, broadcast=True, hash=False)
    starts = np.cumsum([0, *(each.score.size for each in scored)]).tolist()
    writes = [
        (write_one, sent, place, each, order, (start, whole.threshold), scoring)
        for place, each, start in zip(files, held, starts[:-1], strict=True)
    ]
    _each(cluster, "Writing the scores", writes)
    return whole.report


def score_one(data: bytes, path: str, scoring: Scoring) -> ScoredPart:
    """The scores of one file, on a worker."""
    bundle = _opened(data)
    with ScoreWork(bundle, open_rows(path, text_columns(bundle)), scoring) as work:
        score = np.concatenate([np.empty(0), *work.scores()])
        return ScoredPart(score, work.source.names, work.drift)


def write_one(
    data: bytes,
    place: tuple[str, str],
    scored: ScoredPart,
    ordered: np.ndarray,
    cut: tuple[int, float],
    scoring: Scoring,
) -> None:
    """Write the results of one file, on a worker."""
    bundle, (source, target), (start, threshold) = _opened(data), place, cut
    with ScoreWork(bundle, open_rows(source, text_columns(bundle)), scoring) as work:
        work.ordered, work.threshold = ordered, threshold
        write_tables(_tables(work, scored.score, start), Path(target), raw=True)


def _tables(work: ScoreWork, score: np.ndarray, start: int) -> Iterator[pd.DataFrame]:
    done = 0
    for chunk in work.source.chunks():
        yield work.table(chunk, score[done : done + len(chunk)], start + done)
        done += len(chunk)
    if not done:  # a file without rows gets a result without rows, with all columns
        yield work.table(pd.DataFrame(columns=list(work.source.names)), score, start)


def _joined(bundle: Bundle, scoring: Scoring, scored: list[ScoredPart]) -> ScoreWork:
    """The first passes of all files joined: order, threshold and report."""
    ordered = np.sort(np.concatenate([each.score for each in scored]))
    if not ordered.size:
        raise TableError("The folder has no rows to score.")
    drift = scored[0].drift
    for each in scored[1:]:
        drift = drift.merge(each.drift)
    work = ScoreWork(bundle, RowSource(scored[0].names, lambda: iter(()), ordered.size), scoring)
    work.total, work.ordered, work.drift = ordered.size, ordered, drift
    return work


def _each(cluster: Cluster, what: str, calls: list[tuple[Any, ...]]) -> tuple[list[Future], list[Any]]:
    """Submit all calls: their futures, which keep the results on the workers, and the results."""

    def gather() -> tuple[list[Future], list[Any]]:
        futures = [cluster.client.submit(*call, pure=False) for call in calls]
        return futures, cluster.client.gather(futures)

    return cluster.guarded(gather, what=what)


@lru_cache(maxsize=2)
def _opened(data: bytes) -> Bundle:
    """The bundle on a worker. It was checked before it was sent."""
    return load_bundle(data, known_hash=digest(data))


def _files(source: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    """Each file with the file for its scores; existing files are refused."""
    for path in list_files(source):
        place = target / path.relative_to(source)
        if place.exists():
            raise BundleError(f"{str(place)!r} exists already; give an empty folder for the scores.")
        place.parent.mkdir(parents=True, exist_ok=True)
        yield path, place
