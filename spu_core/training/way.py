"""Which way a training takes, said before it starts: in memory, from files in parts, or on more than one machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spu_core.training.candidate import Candidate
from spu_core.training.config import TrainConfig
from spu_core.training.estimate import BASE_BYTES, estimate_training

# Of what is free, the part a training may plan with; the rest belongs to the computer's other work.
USABLE = 0.8
# From files: soft label, rule score, label, fold, score, and what judging them needs for a moment (two candidates on
# 3,000,000 rows × 16 columns took 1.17 GB); fused, or refined soft labels, keep the scores of their steps beside them.
BYTES_PER_ROW = 230
FUSED_BYTES_PER_ROW = 130
# The parts of the files that are being read.
BUFFER_BYTES = 120_000_000
# Two sets of one-byte bins: of all rows, and of one training part.
BYTES_PER_BINNED_CELL = 2
# Only these read their rows in parts; a method with another learner reads them at once: encoded, and one training part.
STREAMED = ("lightgbm", "xgboost")
BYTES_PER_READ_CELL = 8


@dataclass(frozen=True)
class TrainingWay:
    """What a training needs in memory and from files, what is free, and which of the two is taken."""

    rows: int
    columns: int
    from_files: bool
    in_memory_bytes: float
    from_files_bytes: float
    free_bytes: float

    @property
    def fits(self) -> bool:
        """Whether the way that is taken fits into what is free."""
        needed = self.from_files_bytes if self.from_files else self.in_memory_bytes
        return needed <= USABLE * self.free_bytes

    @property
    def words(self) -> str:
        """For people, before anything starts.

        >>> TrainingWay(5_000_000, 30, True, 4.9e9, 1.3e9, 16e9).words
        '5,000,000 rows × 30 columns stay in files and are read in parts: about 1.3 GB of memory instead of 4.9 GB; \
16.0 GB are free.'
        """
        table = f"{self.rows:,} rows × {self.columns:,} columns"
        free = f"{size_words(self.free_bytes)} are free"
        if self.from_files:
            start = (
                f"{table} stay in files and are read in parts: about {size_words(self.from_files_bytes)} of memory "
                f"instead of {size_words(self.in_memory_bytes)}"
            )
            return f"{start}; {free}." if self.fits else f"{start}. Only {free}: {_WAY_OUT}"
        if self.fits:
            return f"{table} are trained in memory: about {size_words(self.in_memory_bytes)}; {free}."
        start = f"{table} need about {size_words(self.in_memory_bytes)} in memory, but only {free}"
        if self.from_files_bytes <= USABLE * self.free_bytes:
            return (
                f"{start}. Convert the file to a folder (`spu convert`), and it is trained from there in parts: "
                f"about {size_words(self.from_files_bytes)}."
            )
        return f"{start}: {_WAY_OUT}"


def training_way(
    rows: int,
    columns: int,
    candidates: Sequence[Candidate],
    config: TrainConfig,
    *,
    from_files: bool = False,
    refine: bool = False,
    free_bytes: float | None = None,
) -> TrainingWay:
    """What fits, and which way is taken: a table trains in memory, a folder from its files, whatever is free.

    So the same data give the same folds and scores on every machine; the free memory only decides what is advised.

    >>> training_way(1_000, 20, [Candidate("lightgbm")], TrainConfig(), free_bytes=8e9).words
    '1,000 rows × 20 columns are trained in memory: about 261 MB; 8.0 GB are free.'
    """
    import psutil

    in_memory = estimate_training(rows, columns, candidates, config).memory
    per_cell = BYTES_PER_BINNED_CELL if all(map(_is_streamed, candidates)) else BYTES_PER_READ_CELL
    fused = refine or any(candidate.method == "fused" for candidate in candidates)
    per_row = BYTES_PER_ROW + per_cell * columns + (FUSED_BYTES_PER_ROW if fused else 0)
    in_files = BASE_BYTES + BUFFER_BYTES + rows * per_row
    free = float(psutil.virtual_memory().available if free_bytes is None else free_bytes)
    return TrainingWay(rows, columns, from_files, in_memory, min(in_files, in_memory), free)


_WAY_OUT = "use fewer rows or columns, or a cluster (`--engine dask`)."


def _is_streamed(candidate: Candidate) -> bool:
    learners = candidate.entry.learners
    return not learners or candidate.settings.get("learner", learners[0]) in STREAMED


def size_words(count: float) -> str:
    """Bytes for people."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
