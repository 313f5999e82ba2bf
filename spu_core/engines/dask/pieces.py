"""A folder of files as pieces that travel: a worker gets names and types, and reads the rows by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from spu_core.engines.dask.cluster import Cluster
from spu_core.errors import EngineError
from spu_core.labels.soft_labels import (
    FolderSoftLabels,
    PartLabels,
    columns_for,
    join_labels,
    soft_labels_of_part,
)
from spu_core.models import Encoder, EncoderStatistics, FittedEncoder
from spu_core.rules import FittedRules, RuleSet
from spu_core.tables import ColumnType, TableFolder, TablePart

if TYPE_CHECKING:
    from distributed import Future

Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class Piece:
    """One file of a folder, with the number of its first row; plain values only, so that it can be sent."""

    state: dict[str, Any]
    start: int

    def folder(self) -> TableFolder:
        """The piece as a folder of its own, on a worker; files that it cannot see are said."""
        folder = TableFolder(**self.state)
        path = folder.files[0].path
        if not path.exists():
            raise EngineError(
                f"A worker cannot read {str(path)!r}: put the folder on a disk that all workers share, under one path."
            )
        return folder

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[TablePart]:
        """Its rows as tables; `frame.index` holds their numbers in the whole folder."""
        folder = self.folder()
        for frame in folder.frames(columns):
            frame.index = frame.index + self.start
            yield folder.part(frame)


def pieces_of(folder: TableFolder) -> list[Piece]:
    """A piece for each file that has rows, in order."""
    state = {each.name: getattr(folder, each.name) for each in fields(folder)}
    # Read-only views of dictionaries cannot be sent.
    state |= {"roles": dict(folder.roles), "stand_ins": dict(folder.stand_ins)}
    pieces, start = [], 0
    for file in folder.files:
        if file.rows:
            # A worker may have been started in another folder.
            pieces.append(Piece({**state, "files": (replace(file, path=file.path.absolute()),)}, start))
        start += file.rows
    return pieces


def on_pieces(
    cluster: Cluster, work: Callable[..., Found], pieces: list[Piece], *shared: Any, what: str
) -> list[Found]:
    """`work(piece, *shared)` of every piece, on whichever worker is free; results in the order of the pieces."""

    def gather() -> list[Found]:
        futures: list[Future] = cluster.client.map(
            work, pieces, *([value] * len(pieces) for value in shared), pure=False
        )
        return cluster.client.gather(futures)

    return cluster.guarded(gather, what=what)


def fit_encoder_on(cluster: Cluster, folder: TableFolder) -> FittedEncoder:
    """The encoder of all rows: levels and frequencies of the pieces are merged before anything is trained."""
    names = folder.features
    codes = tuple(name for name in names if folder.types[name] is ColumnType.CATEGORY)
    found = EncoderStatistics(())
    for each in on_pieces(cluster, statistics_of, pieces_of(folder), names, codes, what="Looking at the columns"):
        found = found.merge(each)
    return Encoder().fit_statistics(found)


def statistics_of(piece: Piece, names: tuple[str, ...], codes: tuple[str, ...]) -> EncoderStatistics:
    """What the encoder must know of a piece, on a worker."""
    found = EncoderStatistics(())
    for part in piece.parts(names):
        found = found.merge(EncoderStatistics.of(part.frame, codes))
    return found


def soft_labels_on(cluster: Cluster, folder: TableFolder, rules: RuleSet | FittedRules) -> FolderSoftLabels:
    """Soft labels of all rows, piece by piece on the workers: exactly those of the same rows in memory."""
    fitted = rules.fit(folder) if isinstance(rules, RuleSet) else rules
    names = columns_for(folder, fitted)
    found = on_pieces(cluster, label_piece, pieces_of(folder), names, fitted, what="Assigning soft labels")
    return join_labels(folder, fitted, chain.from_iterable(found))


def label_piece(piece: Piece, names: tuple[str, ...], fitted: FittedRules) -> list[PartLabels]:
    """The soft labels of a piece without the matrix of rules, on a worker."""
    return [PartLabels.of(soft_labels_of_part(part, fitted)) for part in piece.parts(names)]
