"""Candidates × folds of a table that fits one node, each fit a task of its own on some worker.

The rows travel once to every worker; a fit is then the same pure function that runs here, so scores are equal to the
bit, and Dask repeats a fit whose worker is lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spu_core.engines.dask.cluster import Cluster
from spu_core.engines.dask.guard import SILENT
from spu_core.errors import TrainingError
from spu_core.training import Candidate, TrainConfig
from spu_core.training.cross_fitting import Fits, LocalExecutor
from spu_core.training.fitting import CandidateFitter, FoldFit, fit_fold
from spu_core.training.folds import FoldAssignment
from spu_core.training.progress import ProgressRange, Reporter
from spu_core.training.rows import PreparedData

if TYPE_CHECKING:
    from distributed import Future

_ASK_EVERY = 0.3


@dataclass(frozen=True, eq=False)
class TasksOn(LocalExecutor):
    """A place for `iter_cross_fit`: all fits of all candidates at once, on the workers of a cluster."""

    cluster: Cluster

    def fits(self, rows: PreparedData, candidates: tuple[Candidate, ...], config: TrainConfig) -> Fits:
        numbers = [fold.number for fold in rows.split.folds()]
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
    """Every fit as a future; rows are sent as the candidate may see them, once for all that see them alike."""
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
    """Wait for a fit, telling the caller that it goes on and asking whether to stop."""
    from distributed import KilledWorker, wait

    start = time.monotonic()
    while not future.done():
        reporter.report(share, "training")
        if cluster.client.status != "running":
            raise cluster.interrupted(what, SILENT)
        if time.monotonic() - start > cluster.deadline.seconds:
            raise cluster.interrupted(what, cluster.deadline.words)
        with cluster.client.as_current(), suppress(TimeoutError):
            wait(future, timeout=_ASK_EVERY)
    try:
        return future.result()
    except CancelledError:  # its rows are nowhere any more
        raise cluster.interrupted(what, "all workers that held the rows were lost.") from None
    except KilledWorker:
        raise TrainingError(
            "Its fits ended the worker again and again, most likely for lack of memory; use fewer rows or columns, "
            "or workers with more memory."
        ) from None
