"""Training on rows that no single machine holds: the workers keep the encoded rows, and fit each booster together.

What is believed about a row (soft label, label, fold: some 40 bytes) stays here, so runs are judged and compared like
any others. The rows are dealt to the workers at random, for the reason that `boosters` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from spu_core.engines.dask.boosters import Chunk, Schema, fit_together
from spu_core.engines.dask.cluster import Cluster
from spu_core.engines.dask.pieces import Piece, fit_encoder_on, pieces_of, soft_labels_on
from spu_core.engines.ways import refused_when_spread
from spu_core.errors import TrainingError
from spu_core.labels import SoftLabels
from spu_core.models import LEARNERS, Features, FittedEncoder, Model, TrainingRows
from spu_core.rules import FittedRules
from spu_core.tables import Table, TableFolder
from spu_core.training import Candidate, FittedCandidate, FoldAssignment, Run, TrainConfig, TrainProgress
from spu_core.training.cross_fitting import Fits
from spu_core.training.fitting import FoldFit, settings_from
from spu_core.training.folds import hash_rows
from spu_core.training.progress import Reporter
from spu_core.training.rows import PreparedData, prepare_folder

if TYPE_CHECKING:
    from distributed import Future

_DEALING_SEED = 7


@dataclass(frozen=True, eq=False)
class Share:
    """The rows that one worker holds: the future of their encoded matrix, and their numbers in the folder."""

    worker: str
    matrix: Future
    rows: np.ndarray


@dataclass(frozen=True, eq=False)
class RemoteMatrix:
    """Stands where a matrix would: it knows its shape and who holds which rows, and fetches a sample of them."""

    cluster: Cluster
    shape: tuple[int, int]
    shares: tuple[Share, ...]
    _samples: dict[int, np.ndarray] = field(default_factory=dict, repr=False)

    def __getitem__(self, key: Any) -> np.ndarray:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        if isinstance(rows, slice) and rows.start is None and rows.stop is None:
            return self._every(rows.step or 1)[:, columns]
        raise TrainingError(
            "This method reads all rows at once, but they are spread over a cluster; use lightgbm or xgboost (or a "
            "baseline of them), or train on a sample."
        )

    def _every(self, step: int) -> np.ndarray:
        """Every k-th row; kept, since portraits of columns ask for it once per column."""
        if step not in self._samples:
            numbers = np.arange(0, self.shape[0], step)
            sample = np.empty((numbers.size, self.shape[1]), dtype=np.float32)
            cluster = self.cluster.needing(share.worker for share in self.shares)
            for share in self.shares:
                held, chosen = _held(share, numbers)
                fetch = partial(_fetch, cluster, share, held)
                sample[chosen] = cluster.guarded(fetch, what="Fetching a sample")
            self._samples.clear()
            self._samples[step] = sample
        return self._samples[step]


@dataclass(frozen=True, eq=False)
class TogetherOn:
    """A place for `iter_cross_fit` on a folder: its workers keep the rows, label them, and fit boosters together."""

    cluster: Cluster
    holds_rows = False

    def label(self, table: Table | TableFolder, rules: FittedRules) -> SoftLabels:
        return soft_labels_on(self.cluster, _folder(table), rules)

    def prepare(
        self, table: Table | TableFolder, soft_labels: SoftLabels, config: TrainConfig, split: FoldAssignment | None
    ) -> PreparedData:
        return prepare_folder(_folder(table), soft_labels, config, split, encode=self._encode)

    def fits(self, rows: PreparedData, candidates: tuple[Candidate, ...], config: TrainConfig) -> Fits:
        folds = list(rows.split.folds())

        def fits(candidate: Candidate, reporter: Reporter) -> Iterator[FoldFit]:
            evidence = rows.rows_for(candidate)
            for place, fold in enumerate(folds):
                reporter.fold = fold.number
                report = partial(reporter.report, place / len(folds), "training on the cluster")
                report()
                cluster, what = self.cluster.while_waiting(report), f"Fold {fold.number} of {candidate.name}"
                model = _fit(cluster, candidate, config, evidence.take(fold.train), what)
                yield FoldFit(_score(cluster, model, evidence.take(fold.score), what), model.rounds_)

        return fits

    def refit(self, run: Run, on_progress: Callable[[TrainProgress], None] | None) -> FittedCandidate:
        rows, candidate = run.need_data(), run.candidate
        evidence, settings = rows.rows_for(candidate), _settings(candidate, run.config)
        model = _fit(self.cluster, candidate, run.config, evidence, f"The refit of {run.name}")
        return FittedCandidate(candidate, rows.encoder, model, settings, evidence.rule_columns)

    def _encode(self, folder: TableFolder) -> tuple[FittedEncoder, Features]:
        encoder = fit_encoder_on(self.cluster, folder)
        return encoder, Features.of(_deal(self.cluster, folder, encoder), encoder.columns)  # type: ignore[arg-type]


def _fit(cluster: Cluster, candidate: Candidate, config: TrainConfig, evidence: TrainingRows, what: str) -> Any:
    if refused := refused_when_spread([candidate], config):
        raise TrainingError(refused)
    entry = candidate.entry
    settings = entry.complete(_settings(candidate, config))
    if not settings["keep_rule_columns"]:
        evidence = evidence.without_rule_columns()
    assert entry.target is not None
    target = np.asarray(entry.target(evidence, settings), dtype=np.float64)
    schema = Schema(evidence.features.store.columns, evidence.features.active)
    shares = _shares(evidence)
    cluster = cluster.needing(share.worker for share in shares)
    chunks = cluster.guarded(
        lambda: [_chunk(cluster, share, schema.active, evidence, target) for share in shares], what=what
    )
    kind = LEARNERS[str(settings.get("learner", entry.learners[0]))]
    known = {setting.name for setting in kind.settings}
    learner = kind(**{name: value for name, value in settings.items() if name in known})
    return fit_together(cluster, learner, chunks, schema, what)


def _chunk(cluster: Cluster, share: Share, active: np.ndarray, evidence: TrainingRows, target: np.ndarray) -> Chunk:
    """The rows of a share that a fit learns from; they are cut out where they lie. Rows of weight 0 are left out."""
    held, chosen = _held(share, _numbers(evidence))
    weight = np.ones(chosen.size) if evidence.weight is None else evidence.weight[chosen]
    held, chosen, weight = held[weight > 0], chosen[weight > 0], weight[weight > 0]
    # Where they lie, not on whichever worker is free: then every fit deals them alike, and none gets the rows of all.
    sent = _send(cluster, share, held, target[chosen], weight)
    future = cluster.client.submit(cut, share.matrix, active, *sent, workers=[share.worker], pure=False)
    return Chunk(future, held.size, float(target[chosen] @ weight), float(weight.sum()))


def _send(cluster: Cluster, share: Share, *arrays: np.ndarray) -> list[Future]:
    """Numbers of rows to the worker that holds them; as arguments they would lie in the memory of the scheduler."""
    return cluster.client.scatter(list(arrays), workers=[share.worker], hash=False)


def _numbers(evidence: TrainingRows) -> np.ndarray:
    """The numbers of these rows in the folder, increasing."""
    rows = evidence.features.rows
    return np.arange(len(evidence)) if rows is None else rows


def _held(share: Share, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(places in the share, places in `numbers`) of the rows that both have, in the same order."""
    place = np.searchsorted(share.rows, numbers)
    found = place < share.rows.size
    found[found] = share.rows[place[found]] == numbers[found]
    return place[found], np.flatnonzero(found)


def _fetch(cluster: Cluster, share: Share, held: np.ndarray) -> np.ndarray:
    """Some rows of a share, brought here."""
    return cluster.client.submit(take, share.matrix, *_send(cluster, share, held), pure=False).result()


def take(matrix: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Some rows, on a worker."""
    return matrix[places]


def cut(matrix: np.ndarray, active: np.ndarray, places: np.ndarray, target: np.ndarray, weight: np.ndarray) -> Any:
    """(matrix, target, weight) of some rows and columns, on a worker."""
    return np.ascontiguousarray(matrix[np.ix_(places, active)]), target, weight


def _score(cluster: Cluster, model: Model, evidence: TrainingRows, what: str) -> np.ndarray:
    """Scores of these rows, in their order; each worker scores those that it holds."""
    columns = evidence.features.store.columns
    shares = _shares(evidence)
    cluster = cluster.needing(share.worker for share in shares)
    held = [_held(share, _numbers(evidence)) for share in shares]

    def gather() -> list[np.ndarray]:
        sent = cluster.client.scatter(model, broadcast=True, hash=False)
        futures = [
            cluster.client.submit(score_share, sent, share.matrix, columns, *_send(cluster, share, places), pure=False)
            for share, (places, _) in zip(shares, held, strict=True)
        ]
        return cluster.client.gather(futures)

    score = np.empty(len(evidence))
    for (_, chosen), found in zip(held, cluster.guarded(gather, what=what), strict=True):
        score[chosen] = found
    return score


def score_share(model: Model, matrix: np.ndarray, columns: Any, places: np.ndarray) -> np.ndarray:
    """The scores of some rows, on a worker."""
    return model.score_rows(Features.of(matrix[places], columns), None)


def _deal(cluster: Cluster, folder: TableFolder, encoder: FittedEncoder) -> RemoteMatrix:
    """Every row encoded, and dealt to one of the workers by a hash of its number."""
    from distributed import wait

    workers = cluster.workers
    home = _homes(0, len(folder), len(workers))

    def gather() -> tuple[Share, ...]:
        shares = _submit_dealing(cluster, workers, folder, encoder, home)
        wait([share.matrix for share in shares])
        for share in shares:
            if share.matrix.status == "error":
                share.matrix.result()
        return shares

    shares = cluster.needing(workers).guarded(gather, what="Encoding the rows")
    return RemoteMatrix(cluster, (len(folder), len(encoder.columns)), shares)


def _submit_dealing(
    cluster: Cluster, workers: tuple[str, ...], folder: TableFolder, encoder: FittedEncoder, home: np.ndarray
) -> tuple[Share, ...]:
    """The shares of all workers, being made. Only they are held: workers let go of a piece as soon as it is dealt."""
    client, shares = cluster.client, []
    encoded = [client.submit(encode_piece, piece, encoder, len(workers), pure=False) for piece in pieces_of(folder)]
    for number, worker in enumerate(workers):
        dealt = [client.submit(pick, part, number, pure=False) for part in encoded]
        matrix = client.submit(np.concatenate, dealt, workers=[worker], pure=False)
        shares.append(Share(worker, matrix, np.flatnonzero(home == number)))
    return tuple(shares)


def _homes(start: int, rows: int, workers: int) -> np.ndarray:
    """Which worker holds each of the rows from `start` on."""
    numbers = np.arange(start, start + rows)
    return (hash_rows(numbers, _DEALING_SEED) % np.uint64(workers)).astype(np.int16)


def encode_piece(piece: Piece, encoder: FittedEncoder, workers: int) -> list[np.ndarray]:
    """The encoded rows of a piece, sorted by the worker that will hold them; on a worker."""
    blocks = [encoder.transform(part.frame).matrix for part in piece.parts(encoder.names)]
    matrix = np.concatenate(blocks)
    home = _homes(piece.start, len(matrix), workers)
    return [matrix[home == number] for number in range(workers)]


def pick(parts: list[np.ndarray], number: int) -> np.ndarray:
    return parts[number]


def _shares(evidence: TrainingRows) -> tuple[Share, ...]:
    matrix: Any = evidence.features.store.matrix
    assert isinstance(matrix, RemoteMatrix)
    return matrix.shares


def _settings(candidate: Candidate, config: TrainConfig) -> dict[str, Any]:
    return {**settings_from(config, candidate), **candidate.settings}


def _folder(table: Table | TableFolder) -> TableFolder:
    if isinstance(table, TableFolder):
        return table
    raise TrainingError("Only a folder of parquet files can be spread over a cluster; open it with open_folder().")
