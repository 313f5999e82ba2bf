"""Training on a folder that is spread over a cluster: workers hold the encoded rows and fit each booster together.

Soft label, label and fold of each row (some 40 bytes) stay in the calling process, so runs are evaluated and compared
like all others. Each row goes to a random worker; `dask_boosters` says why. Workers read the files themselves: they are
sent `FilePiece`s, which hold file names and types only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from spu_core.engines.executors.dask_boosters import Chunk, Schema, can_fit_together, fit_together
from spu_core.engines.executors.dask_cluster import Cluster
from spu_core.errors import EngineError, TrainingError
from spu_core.labels import SoftLabels
from spu_core.labels.soft_labels import PartLabels, columns_for, join_labels, part_labels
from spu_core.models import LEARNERS, Encoder, EncoderStatistics, Features, FittedEncoder, Model, TrainingRows
from spu_core.rules import FittedRules, RuleSet
from spu_core.tables import ColumnType, Table, parquet_store
from spu_core.training import Candidate, FittedCandidate, FoldAssignment, Run, TrainConfig, TrainProgress
from spu_core.training.cross_fitting import Fits
from spu_core.training.fitting import FoldFit, Reporter, settings_from
from spu_core.training.rows import PreparedData, hash_rows, prepare_rows

if TYPE_CHECKING:
    from distributed import Future


_ASSIGNMENT_SEED = 7

Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class Share:
    """The rows that one worker holds: the future of their encoded matrix, and their numbers in the folder."""

    worker: str
    matrix: Future
    rows: np.ndarray


@dataclass(frozen=True, eq=False)
class RemoteMatrix:
    """The encoded rows on the workers, where `Features` has a matrix otherwise. Only samples can be fetched."""

    cluster: Cluster
    shape: tuple[int, int]
    shares: tuple[Share, ...]
    _samples: dict[int, np.ndarray] = field(default_factory=dict, repr=False)

    def read(self, rows: np.ndarray | None, columns: Any = slice(None)) -> np.ndarray:
        """Refused: the rows do not fit into the memory of one process."""
        raise TrainingError(
            "This method reads all rows at once, but they are spread over a cluster; use lightgbm or xgboost (or a "
            "baseline of them), or train on a sample."
        )

    def every(self, step: int) -> np.ndarray:
        """Every `step`-th row, fetched from the workers. Kept, since the profile asks for it once per column."""
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
class DaskSpreadExecutor:
    """Spreads a folder over a Dask cluster: workers label and hold the rows, and fit each booster together."""

    cluster: Cluster

    def label(self, table: Table, rules: FittedRules) -> SoftLabels:
        """The soft labels of all rows, computed on the workers."""
        return soft_labels_on(self.cluster, _in_files(table), rules)

    def prepare(
        self, table: Table, soft_labels: SoftLabels, config: TrainConfig, split: FoldAssignment | None
    ) -> PreparedData:
        """Encode the rows on the workers, and make the folds here."""
        return prepare_rows(_in_files(table), soft_labels, config, split, encode=self._encode)

    def refine(self, data: PreparedData, config: TrainConfig, reporter: Reporter) -> None:
        """The fused method reads all rows at once, which no worker holds."""
        return

    def fits(self, rows: PreparedData, candidates: tuple[Candidate, ...], config: TrainConfig) -> Fits:
        """Fit one fold after the other, each on all workers."""
        folds = list(rows.split.folds())

        def fits(candidate: Candidate, reporter: Reporter) -> Iterator[FoldFit]:
            evidence = rows.rows_for(candidate)
            for place, fold in enumerate(folds):
                reporter.fold = fold.number
                report = partial(reporter.report, place / len(folds), "training on the cluster")
                report()
                cluster, what = self.cluster.with_on_wait(report), f"Fold {fold.number} of {candidate.name}"
                model = _fit(cluster, candidate, config, evidence.take(fold.train), what)
                yield FoldFit(_score(cluster, model, evidence.take(fold.score), what), model.rounds_)

        return fits

    def refit(self, run: Run, on_progress: Callable[[TrainProgress], None] | None) -> FittedCandidate:
        """Fit the candidate of a run on all rows."""
        rows, candidate = run.need_data(), run.candidate
        evidence, settings = rows.rows_for(candidate), _settings(candidate, run.config)
        model = _fit(self.cluster, candidate, run.config, evidence, f"The refit of {run.name}")
        return FittedCandidate(candidate, rows.encoder, model, settings, evidence.rule_columns)

    def _encode(self, folder: Table) -> tuple[FittedEncoder, Features]:
        encoder = fit_encoder_on(self.cluster, folder)
        return encoder, Features.of(_spread(self.cluster, folder, encoder), encoder.columns)


def refused_when_spread(candidates: Sequence[Candidate], config: TrainConfig) -> str | None:
    """Why some candidates cannot be trained on a folder that is spread over a cluster; None if all can.

    >>> refused_when_spread([Candidate("lightgbm"), Candidate("fused"), Candidate("rule_score")], TrainConfig())
    'fused, rule_score: on rows that are spread over a cluster only one booster with one target can be fitted. Use \
lightgbm, xgboost or labeled_vs_rest there, or train in one process, or on a sample.'
    """
    refused = [candidate.name for candidate in candidates if not _can_be_spread(candidate)]
    if refused:
        return (
            f"{', '.join(refused)}: on rows that are spread over a cluster only one booster with one target can be "
            "fitted. Use lightgbm, xgboost or labeled_vs_rest there, or train in one process, or on a sample."
        )
    if config.early_stopping is not None or any(candidate.tuning is not None for candidate in candidates):
        return (
            "Tuning and early stopping need rows of their own on each worker, which a cluster does not give; tune on "
            "a sample, then set the rounds and settings."
        )
    return None


def _can_be_spread(candidate: Candidate) -> bool:
    entry = candidate.entry
    if entry.target is None or not entry.learners:
        return False
    return can_fit_together(LEARNERS[str(candidate.settings.get("learner", entry.learners[0]))])


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
    """The training rows of a share, selected on its worker. Rows of weight 0 are left out."""
    held, chosen = _held(share, _numbers(evidence))
    weight = np.ones(chosen.size) if evidence.weight is None else evidence.weight[chosen]
    held, chosen, weight = held[weight > 0], chosen[weight > 0], weight[weight > 0]
    # On the worker that holds them, so that every fit has the same rows on the same workers.
    sent = _send(cluster, share, held, target[chosen], weight)
    future = cluster.client.submit(cut, share.matrix, active, *sent, workers=[share.worker], pure=False)
    return Chunk(future, held.size, float(target[chosen] @ weight), float(weight.sum()))


def _send(cluster: Cluster, share: Share, *arrays: np.ndarray) -> list[Future]:
    """Send arrays to the worker of a share. As arguments of a task they would fill the memory of the scheduler."""
    return cluster.client.scatter(list(arrays), workers=[share.worker], hash=False)


def _numbers(evidence: TrainingRows) -> np.ndarray:
    """The row numbers in the folder, increasing."""
    rows = evidence.features.rows
    return np.arange(len(evidence)) if rows is None else rows


def _held(share: Share, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows that are in both, in the same order: their positions in the share, and in `numbers`."""
    place = np.searchsorted(share.rows, numbers)
    found = place < share.rows.size
    found[found] = share.rows[place[found]] == numbers[found]
    return place[found], np.flatnonzero(found)


def _fetch(cluster: Cluster, share: Share, held: np.ndarray) -> np.ndarray:
    """Some rows of a share, fetched to this process."""
    return cluster.client.submit(take, share.matrix, *_send(cluster, share, held), pure=False).result()


def take(matrix: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Some rows, on a worker."""
    return matrix[places]


def cut(matrix: np.ndarray, active: np.ndarray, places: np.ndarray, target: np.ndarray, weight: np.ndarray) -> Any:
    """Matrix, target and weight of some rows and columns, on a worker."""
    return np.ascontiguousarray(matrix[np.ix_(places, active)]), target, weight


def _score(cluster: Cluster, model: Model, evidence: TrainingRows, what: str) -> np.ndarray:
    """Scores of these rows, in their order. Each worker scores the rows that it holds."""
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


def _spread(cluster: Cluster, folder: Table, encoder: FittedEncoder) -> RemoteMatrix:
    """Encode every row and send it to one of the workers, chosen by a hash of its number."""
    from distributed import wait

    workers = cluster.workers
    home = _homes(0, len(folder), len(workers))

    def gather() -> tuple[Share, ...]:
        shares = _submit_spreading(cluster, workers, folder, encoder, home)
        wait([share.matrix for share in shares])
        for share in shares:
            if share.matrix.status == "error":
                share.matrix.result()
        return shares

    shares = cluster.needing(workers).guarded(gather, what="Encoding the rows")
    return RemoteMatrix(cluster, (len(folder), len(encoder.columns)), shares)


def _submit_spreading(
    cluster: Cluster, workers: tuple[str, ...], folder: Table, encoder: FittedEncoder, home: np.ndarray
) -> tuple[Share, ...]:
    """Submit the tasks that make the shares. Only shares are kept; encoded pieces are released after use."""
    client, shares = cluster.client, []
    encoded = [client.submit(encode_piece, piece, encoder, len(workers), pure=False) for piece in pieces_of(folder)]
    for number, worker in enumerate(workers):
        dealt = [client.submit(pick, part, number, pure=False) for part in encoded]
        matrix = client.submit(np.concatenate, dealt, workers=[worker], pure=False)
        shares.append(Share(worker, matrix, np.flatnonzero(home == number)))
    return tuple(shares)


def _homes(start: int, rows: int, workers: int) -> np.ndarray:
    """The number of the worker for each row from `start` on."""
    numbers = np.arange(start, start + rows)
    return (hash_rows(numbers, _ASSIGNMENT_SEED) % np.uint64(workers)).astype(np.int16)


def encode_piece(piece: FilePiece, encoder: FittedEncoder, workers: int) -> list[np.ndarray]:
    """The encoded rows of a piece, one matrix for each worker that will hold them. Runs on a worker."""
    blocks = [encoder.transform(part.frame).matrix for part in piece.parts(encoder.names)]
    matrix = np.concatenate(blocks)
    home = _homes(piece.start, len(matrix), workers)
    return [matrix[home == number] for number in range(workers)]


def pick(parts: list[np.ndarray], number: int) -> np.ndarray:
    """The matrix for one worker, on a worker."""
    return parts[number]


def _shares(evidence: TrainingRows) -> tuple[Share, ...]:
    matrix: Any = evidence.features.store.matrix
    assert isinstance(matrix, RemoteMatrix)
    return matrix.shares


def _settings(candidate: Candidate, config: TrainConfig) -> dict[str, Any]:
    return {**settings_from(config, candidate), **candidate.settings}


def _in_files(table: Table) -> Table:
    if table.in_memory:
        raise TrainingError("Only a folder of parquet files can be spread over a cluster; open it with open_folder().")
    return table


@dataclass(frozen=True, eq=False)
class FilePiece:
    """One file of a table, and the number of its first row. No row is in it, so that it can be sent."""

    table: Table
    start: int

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[Table]:
        """Its rows as tables, on a worker; `frame.index` holds their row numbers in the whole table."""
        path = parquet_store(self.table).files[0].path
        if not path.exists():
            raise EngineError(
                f"A worker cannot read {str(path)!r}: put the folder on a disk that all workers share, under one path."
            )
        for frame in self.table.frames(columns):
            frame.index = frame.index + self.start
            yield self.table.part(frame)


def pieces_of(folder: Table) -> list[FilePiece]:
    """One piece for each file that has rows, in order."""
    store = parquet_store(folder)
    pieces, start = [], 0
    for file in store.files:
        if file.rows:
            # Absolute paths: a worker may have another current folder.
            one = replace(store, files=(replace(file, path=file.path.absolute()),))
            pieces.append(FilePiece(replace(folder, store=one), start))
        start += file.rows
    return pieces


def on_pieces(
    cluster: Cluster, work: Callable[..., Found], pieces: list[FilePiece], *shared: Any, what: str
) -> list[Found]:
    """`work(piece, *shared)` for every piece, on the workers; results in the order of the pieces."""

    def gather() -> list[Found]:
        futures: list[Future] = cluster.client.map(
            work, pieces, *([value] * len(pieces) for value in shared), pure=False
        )
        return cluster.client.gather(futures)

    return cluster.guarded(gather, what=what)


def fit_encoder_on(cluster: Cluster, folder: Table) -> FittedEncoder:
    """The encoder of all rows: the categories and frequencies of all pieces merged."""
    names = folder.features
    codes = tuple(name for name in names if folder.types[name] is ColumnType.CATEGORY)
    found = EncoderStatistics(())
    for each in on_pieces(cluster, statistics_of, pieces_of(folder), names, codes, what="Looking at the columns"):
        found = found.merge(each)
    return Encoder().fit_statistics(found)


def statistics_of(piece: FilePiece, names: tuple[str, ...], codes: tuple[str, ...]) -> EncoderStatistics:
    """The statistics of a piece for the encoder, on a worker."""
    found = EncoderStatistics(())
    for part in piece.parts(names):
        found = found.merge(EncoderStatistics.of(part.frame, codes))
    return found


def soft_labels_on(cluster: Cluster, folder: Table, rules: RuleSet | FittedRules) -> SoftLabels:
    """Soft labels of all rows, piece by piece on the workers. They equal those computed in memory."""
    fitted = rules.fit(folder) if isinstance(rules, RuleSet) else rules
    names = columns_for(folder, fitted)
    found = on_pieces(cluster, label_piece, pieces_of(folder), names, fitted, what="Assigning soft labels")
    return join_labels(folder, fitted, chain.from_iterable(found))


def label_piece(piece: FilePiece, names: tuple[str, ...], fitted: FittedRules) -> list[PartLabels]:
    """The soft labels of a piece without its rule matrix, on a worker."""
    return list(part_labels(piece.parts(names), fitted))
