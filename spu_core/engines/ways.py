"""What a training needs where it runs, said before it starts: in this process, or on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spu_core.engines.places import OWN_WORKERS, Engine
from spu_core.training import Candidate, TrainConfig
from spu_core.training.estimate import BASE_BYTES
from spu_core.training.way import BUFFER_BYTES, USABLE, TrainingWay, size_words, training_way

# On the workers that hold a folder: the encoded rows, those of a fit twice more, their bins; and targets and weights.
BYTES_PER_HELD_CELL = 14
BYTES_PER_HELD_ROW = 64
# Beside them, the caller: what is believed of each row, and what judging runs needs for a moment.
BYTES_PER_KEPT_ROW = 270


@dataclass(frozen=True)
class ClusterWay:
    """What a training takes of its workers (all together for a folder, each for a table) and of the caller.

    `free_bytes` is known where the workers run on this computer; what others have, their operators know.
    """

    rows: int
    columns: int
    is_spread: bool
    workers_bytes: float
    caller_bytes: float
    free_bytes: float | None = None

    @property
    def fits(self) -> bool:
        """Whether it fits into what is known to be free."""
        workers = self.workers_bytes * (1 if self.is_spread else OWN_WORKERS)
        return self.free_bytes is None or workers + self.caller_bytes <= USABLE * self.free_bytes

    @property
    def words(self) -> str:
        """For people, before anything starts.

        >>> ClusterWay(100_000_000, 30, True, 36e9, 18e9).words
        '100,000,000 rows × 30 columns are spread over the workers, which keep them in memory: about 36.0 GB among \
them, and 18.0 GB here.'
        >>> ClusterWay(1_000_000, 30, False, 1.2e9, 1.2e9, 16e9).words
        '1,000,000 rows × 30 columns travel to every worker: about 1.2 GB on each, and 1.2 GB here; 16.0 GB are free.'
        """
        how, place = (
            ("are spread over the workers, which keep them in memory", "among them")
            if self.is_spread
            else ("travel to every worker", "on each")
        )
        sizes = f"about {size_words(self.workers_bytes)} {place}, and {size_words(self.caller_bytes)} here"
        start = f"{self.rows:,} rows × {self.columns:,} columns {how}: {sizes}"
        if self.free_bytes is None:
            return f"{start}."
        free = f"{size_words(self.free_bytes)} are free"
        if self.fits:
            return f"{start}; {free}."
        return f"{start}. Only {free}: use fewer rows or columns, or train in one process."


def way_on(
    engine: Engine,
    rows: int,
    columns: int,
    candidates: Sequence[Candidate],
    config: TrainConfig,
    *,
    from_files: bool = False,
    refine: bool = False,
) -> TrainingWay | ClusterWay:
    """What fits, and which way is taken on this engine."""
    here = training_way(rows, columns, candidates, config, from_files=from_files, refine=refine)
    if engine.name == "here":
        return here
    held = kept = here.in_memory_bytes
    if from_files:
        per_row = columns * BYTES_PER_HELD_CELL + BYTES_PER_HELD_ROW
        held = rows * per_row + OWN_WORKERS * (BASE_BYTES + BUFFER_BYTES)
        kept = rows * BYTES_PER_KEPT_ROW + BASE_BYTES
    return ClusterWay(rows, columns, from_files, held, kept, None if engine.scheduler else here.free_bytes)
