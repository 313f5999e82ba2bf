"""What a training needs where it runs, said before it starts: in this process, or on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spu_core.engines.places import OWN_WORKERS, Engine
from spu_core.training import Candidate, TrainConfig
from spu_core.training.estimate import BASE_BYTES
from spu_core.training.way import BUFFER_BYTES, STREAMED, USABLE, TrainingWay, size_words

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


def way_on(engine: Engine, here: TrainingWay) -> TrainingWay | ClusterWay:
    """The way that a training takes on this engine; `here` is that in one process."""
    if engine.name == "here":
        return here
    held = kept = here.in_memory_bytes
    if here.from_files:
        per_row = here.columns * BYTES_PER_HELD_CELL + BYTES_PER_HELD_ROW
        held = here.rows * per_row + OWN_WORKERS * (BASE_BYTES + BUFFER_BYTES)
        kept = here.rows * BYTES_PER_KEPT_ROW + BASE_BYTES
    free = None if engine.scheduler else here.free_bytes
    return ClusterWay(here.rows, here.columns, here.from_files, held, kept, free)


def refused_on(engine: Engine, here: TrainingWay, candidates: Sequence[Candidate], config: TrainConfig) -> str | None:
    """Why this engine cannot train some of these, before it starts; a cluster spreads what comes from files."""
    return refused_when_spread(candidates, config) if engine.name == "dask" and here.from_files else None


def refused_when_spread(candidates: Sequence[Candidate], config: TrainConfig) -> str | None:
    """Why some of these cannot be trained on a folder that is spread over a cluster; None if all can.

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
    return candidate.settings.get("learner", entry.learners[0]) in STREAMED
