"""The cost of a training before it starts: an estimate of its time, and a plan for its memory.

The constants of the time were measured on one core of a server, with tables of 569 × 31 and 40,000 × 20. Most estimates
were within a factor of two. A busy machine takes longer, so the real times of earlier trainings correct the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import psutil

from spu_core.engines.executors import LOCAL_WORKERS, Engine, refused_when_spread
from spu_core.models.methods.fused import FOREST_TREES
from spu_core.tables import Role
from spu_core.training.config import Candidate, TrainConfig, TrainPlan
from spu_core.training.fit_pool import usable_processes
from spu_core.workspace import JobRecord, JobStatus, Workspace

# Learner → (seconds per round for any table, seconds per round for a million cells).
_PER_ROUND = {
    "lightgbm": (1e-3, 1e-2),
    "small trees": (2e-4, 4.3e-3),
    "xgboost": (1.5e-3, 1e-2),
    "logistic": (3e-2, 0.35),
    "neural_net": (1.5e-3, 0.12),
    "nnpu_net": (2.5e-3, 0.12),
    "extra_trees": (1.8e-3, 0.13),
    "nearest_neighbors": (3e-2, 3.0),
    "cnn": (2e-2, 8.0),
}
# Method → the setting that says how many more fits of the learner it makes.
_FITS = {"elkan_noto": "folds", "weighted_elkan_noto": "folds", "two_stage": "folds"}
_BAGS = ("bagging_pu", "soft_bagging")
_FUSED_FITS = 17
BYTES_PER_CELL = 8
# Python with its numeric libraries, without a table.
BASE_BYTES = 260_000_000
# The part of the free memory that a training may use; the rest is for other programs.
USABLE = 0.8
# A training from files keeps soft label, rule score, label, fold and score of each row, and needs more for a moment to
# evaluate them (two candidates on 3,000,000 rows × 16 columns took 1.17 GB). Fused and refined soft labels keep more.
BYTES_PER_ROW = 230
FUSED_BYTES_PER_ROW = 130
# The part of a file that is being read.
BUFFER_BYTES = 120_000_000
# Two sets of one-byte bins: of all rows, and of one training part.
BYTES_PER_BINNED_CELL = 2
# Learners that read their rows in parts. Others read them at once: all encoded rows, and one training part.
STREAMED = ("lightgbm", "xgboost")
BYTES_PER_READ_CELL = 8
# A folder on workers: the encoded rows, those of a fit twice more, their bins; and targets and weights.
BYTES_PER_HELD_CELL = 14
BYTES_PER_HELD_ROW = 64
# The calling process then keeps soft labels and scores, and needs more for a moment to evaluate them.
BYTES_PER_KEPT_ROW = 270
# Estimates without earlier trainings are within this factor, most of the time.
SPREAD = 2.0
# How many earlier trainings correct an estimate.
LATEST_TRAININGS = 8
_ADVICE = "use fewer rows or columns, or a cluster (`--engine dask`)."


@dataclass(frozen=True)
class TrainEstimate:
    """Seconds of the whole training, processor seconds by candidate, peak memory in bytes, and the error of the time.

    The time is expected between `seconds / spread` and `seconds * spread`.
    """

    seconds: float
    by_candidate: dict[str, float]
    memory: float
    spread: float = SPREAD

    @property
    def text(self) -> str:
        """A short text, rounded.

        >>> TrainEstimate(134.0, {}, 4.1e8).text
        '1 to 4 minutes and 410 MB'
        """
        return f"{self.time_text} and {size_text(self.memory)}"

    @property
    def time_text(self) -> str:
        """The time only, as a range."""
        return _range_text(self.seconds / self.spread, self.seconds * self.spread)

    def corrected(self, ratios: Sequence[float]) -> TrainEstimate:
        """The estimate after earlier trainings on this machine; `ratios` are their real times over their estimates.

        One training counts as much as what was known before (ratio 1, within a factor of two).

        >>> TrainEstimate(60.0, {}, 4e8).corrected([6.0, 6.0, 6.0]).time_text
        '2 to 9 minutes'
        """
        logs = [math.log(ratio) for ratio in ratios]
        shift = sum(logs) / (len(logs) + 1)
        squares = math.log(SPREAD) ** 2 + shift**2 + sum((each - shift) ** 2 for each in logs)
        spread = math.exp(math.sqrt(squares / (len(logs) + 1)))
        return replace(self, seconds=self.seconds * math.exp(shift), spread=spread)


def past_ratios(workspace: Workspace, jobs: Sequence[JobRecord], engine: str) -> tuple[float, ...]:
    """Real time over estimated time of the latest trainings on an engine; `jobs` are the newest first."""
    known = {dataset.id: dataset for dataset in workspace.datasets.list()}
    ratios = []
    for job in jobs:
        asked = job.parameters
        is_measured = job.kind == "train" and job.status is JobStatus.FINISHED and job.attempt == 1
        if not is_measured or asked.get("engine", "here") != engine or asked.get("dataset") not in known:
            continue
        assert job.started is not None
        assert job.ended is not None
        dataset, plan = known[asked["dataset"]], TrainPlan.from_json(asked["plan"])
        columns = sum(role == Role.FEATURE for role in dataset.roles.values()) - len(asked.get("left_out", ()))
        estimate = estimate_training(
            dataset.n_rows,
            columns,
            plan.candidates,
            plan.config,
            refine=bool(asked.get("refine", True)),
            processes=usable_processes(plan.config.threads),
        )
        ratios.append(max((job.ended - job.started).total_seconds(), 1.0) / estimate.seconds)
        if len(ratios) == LATEST_TRAININGS:
            break
    return tuple(ratios)


def estimate_training(
    rows: int,
    columns: int,
    candidates: Sequence[Candidate],
    config: TrainConfig,
    *,
    refine: bool = True,
    processes: int = 1,
) -> TrainEstimate:
    """A rough estimate of time and memory for training these candidates on a table of this size.

    Time is that of so many processes, memory that of one.

    >>> small = estimate_training(1_000, 20, [Candidate("lightgbm")], TrainConfig())
    >>> large = estimate_training(1_000_000, 20, [Candidate("lightgbm")], TrainConfig())
    >>> small.seconds < 10 < large.seconds
    True
    """
    cells = rows * max(columns, 1) / 1e6
    seconds = {candidate.name: _candidate_seconds(candidate, cells, config) for candidate in candidates}
    refining = _fit_seconds(Candidate("fused"), cells) if refine else 0.0
    # The frame, its encoded matrix, the bins of the trees, and one training part.
    memory = BASE_BYTES + 3.2 * BYTES_PER_CELL * cells * 1e6 + 200.0 * rows
    starting = 3.0
    return TrainEstimate(starting + (refining + sum(seconds.values())) / processes, seconds, memory)


@dataclass(frozen=True)
class MemoryPlan:
    """The memory that a training needs in one process: in memory, and from files. `from_files` says which is used."""

    rows: int
    columns: int
    from_files: bool
    in_memory_bytes: float
    from_files_bytes: float
    free_bytes: float

    @property
    def fits(self) -> bool:
        """Whether the training fits into the free memory."""
        needed = self.from_files_bytes if self.from_files else self.in_memory_bytes
        return needed <= USABLE * self.free_bytes

    def processes(self, most: int) -> int:
        """How many processes fit into the free memory, at most `most`. The encoded rows are shared, a fit is not.

        >>> MemoryPlan(5_000_000, 30, False, 4.9e9, 1.3e9, 16e9).processes(8)
        2
        """
        needed = self.from_files_bytes if self.from_files else self.in_memory_bytes
        more = (USABLE * self.free_bytes - needed) / max(needed - BASE_BYTES, 1.0)
        return max(1, min(most, 1 + int(more)))

    @property
    def text(self) -> str:
        """A sentence to show before the training starts.

        >>> MemoryPlan(5_000_000, 30, True, 4.9e9, 1.3e9, 16e9).text
        '5,000,000 rows × 30 columns stay in files and are read in parts: about 1.3 GB of memory instead of 4.9 GB; \
16.0 GB are free.'
        """
        table = f"{self.rows:,} rows × {self.columns:,} columns"
        free = f"{size_text(self.free_bytes)} are free"
        if self.from_files:
            start = (
                f"{table} stay in files and are read in parts: about {size_text(self.from_files_bytes)} of memory "
                f"instead of {size_text(self.in_memory_bytes)}"
            )
            return f"{start}; {free}." if self.fits else f"{start}. Only {free}: {_ADVICE}"
        if self.fits:
            return f"{table} are trained in memory: about {size_text(self.in_memory_bytes)}; {free}."
        start = f"{table} need about {size_text(self.in_memory_bytes)} in memory, but only {free}"
        if self.from_files_bytes <= USABLE * self.free_bytes:
            return (
                f"{start}. Convert the file to a folder (`spu convert`), and it is trained from there in parts: "
                f"about {size_text(self.from_files_bytes)}."
            )
        return f"{start}: {_ADVICE}"


def plan_memory(
    rows: int,
    columns: int,
    candidates: Sequence[Candidate],
    config: TrainConfig,
    *,
    from_files: bool = False,
    refine: bool = False,
    free_bytes: float | None = None,
) -> MemoryPlan:
    """Plan the memory of a training in one process: a table trains in memory, a folder from its files.

    Free memory changes the advice only, so the same data give the same folds and scores on every machine.

    >>> plan_memory(1_000, 20, [Candidate("lightgbm")], TrainConfig(), free_bytes=8e9).text
    '1,000 rows × 20 columns are trained in memory: about 261 MB; 8.0 GB are free.'
    """
    in_memory = estimate_training(rows, columns, candidates, config).memory
    per_cell = BYTES_PER_BINNED_CELL if all(map(_is_streamed, candidates)) else BYTES_PER_READ_CELL
    fused = refine or any(candidate.method == "fused" for candidate in candidates)
    per_row = BYTES_PER_ROW + per_cell * columns + (FUSED_BYTES_PER_ROW if fused else 0)
    in_files = BASE_BYTES + BUFFER_BYTES + rows * per_row
    free = float(psutil.virtual_memory().available if free_bytes is None else free_bytes)
    return MemoryPlan(rows, columns, from_files, in_memory, min(in_files, in_memory), free)


@dataclass(frozen=True)
class ClusterMemoryPlan:
    """The memory that a training needs on a cluster: on its workers, and in the calling process.

    `workers_bytes` counts all workers together for a folder (`is_spread`), each worker for a table. `free_bytes` is
    known only if the workers run on this computer.
    """

    rows: int
    columns: int
    is_spread: bool
    workers_bytes: float
    caller_bytes: float
    free_bytes: float | None = None

    @property
    def fits(self) -> bool:
        """Whether the training fits into the free memory, as far as that is known."""
        workers = self.workers_bytes * (1 if self.is_spread else LOCAL_WORKERS)
        return self.free_bytes is None or workers + self.caller_bytes <= USABLE * self.free_bytes

    @property
    def text(self) -> str:
        """A sentence to show before the training starts.

        >>> ClusterMemoryPlan(100_000_000, 30, True, 36e9, 18e9).text
        '100,000,000 rows × 30 columns are spread over the workers, which keep them in memory: about 36.0 GB among \
them, and 18.0 GB here.'
        >>> ClusterMemoryPlan(1_000_000, 30, False, 1.2e9, 1.2e9, 16e9).text
        '1,000,000 rows × 30 columns travel to every worker: about 1.2 GB on each, and 1.2 GB here; 16.0 GB are free.'
        """
        how, where = (
            ("are spread over the workers, which keep them in memory", "among them")
            if self.is_spread
            else ("travel to every worker", "on each")
        )
        sizes = f"about {size_text(self.workers_bytes)} {where}, and {size_text(self.caller_bytes)} here"
        start = f"{self.rows:,} rows × {self.columns:,} columns {how}: {sizes}"
        if self.free_bytes is None:
            return f"{start}."
        free = f"{size_text(self.free_bytes)} are free"
        if self.fits:
            return f"{start}; {free}."
        return f"{start}. Only {free}: use fewer rows or columns, or train in one process."


def plan_memory_on(engine: Engine, here: MemoryPlan) -> MemoryPlan | ClusterMemoryPlan:
    """The memory plan on this engine; `here` is the plan in one process."""
    if engine.name == "here":
        return here
    held = kept = here.in_memory_bytes
    if here.from_files:
        per_row = here.columns * BYTES_PER_HELD_CELL + BYTES_PER_HELD_ROW
        held = here.rows * per_row + LOCAL_WORKERS * (BASE_BYTES + BUFFER_BYTES)
        kept = here.rows * BYTES_PER_KEPT_ROW + BASE_BYTES
    free = None if engine.scheduler else here.free_bytes
    return ClusterMemoryPlan(here.rows, here.columns, here.from_files, held, kept, free)


def refused_on(engine: Engine, here: MemoryPlan, candidates: Sequence[Candidate], config: TrainConfig) -> str | None:
    """Why this engine cannot train some of the candidates; None if it can train all."""
    return refused_when_spread(candidates, config) if engine.name == "dask" and here.from_files else None


def _candidate_seconds(candidate: Candidate, cells: float, config: TrainConfig) -> float:
    part = cells * (1.0 - 1.0 / config.folds)
    parts = config.folds + (1 if config.hold_out or config.out_of_time else 0)
    tuning = candidate.tuning
    searched = 0.0
    if tuning is not None:
        # Half of the trials are stopped early.
        searched = 0.6 * tuning.trials * tuning.folds * _fit_seconds(candidate, part * (1.0 - 1.0 / tuning.folds))
        searched = searched if tuning.seconds is None else min(searched, tuning.seconds)
    return parts * (searched + _fit_seconds(candidate, part)) + searched + _fit_seconds(candidate, cells)


def _fit_seconds(candidate: Candidate, cells: float) -> float:
    """Seconds of one fit of the method on one core. A second core rarely helps on a busy machine."""
    settings = candidate.entry.complete(candidate.settings)
    learners = candidate.entry.learners
    if candidate.method == "fused":
        # The forest of each inner fold learns from a bounded number of rows.
        forest = _rounds_seconds("extra_trees", FOREST_TREES, min(cells, 1.0))
        return _FUSED_FITS * _rounds_seconds("small trees", settings["rounds"], cells) + settings["folds"] * forest
    if not learners:
        return 0.01 + 0.01 * cells
    learner = str(settings.get("learner", learners[0]))
    if candidate.method in _BAGS:
        bagged = "small trees" if learner == "lightgbm" else learner
        return float(settings["bags"]) * _rounds_seconds(bagged, _rounds(settings), cells)
    one = _rounds_seconds(learner, _rounds(settings), cells)
    if candidate.method in _FITS:
        return (1.0 + float(settings[_FITS[candidate.method]])) * one
    # Each step of SAR-EM starts from the one before, so it takes a little less than a fit.
    return one * max(1.0, 0.8 * float(settings.get("em_steps", 1)))


def _rounds(settings: dict[str, object]) -> float:
    """Rounds of the learner; one for learners without rounds."""
    found = settings.get("rounds", 1)
    return float(found) if isinstance(found, int | float) else 1.0


def _rounds_seconds(learner: str, rounds: float, cells: float) -> float:
    fixed, growing = _PER_ROUND.get(learner, (1e-3, 1e-2))
    return 0.02 + rounds * (fixed + growing * cells)


def _range_text(low: float, high: float) -> str:
    """A range of seconds, rounded; the unit is named once where both ends have it.

    >>> _range_text(12, 41), _range_text(30, 130), _range_text(100, 400), _range_text(2_000, 9_000)
    ('10 to 40 seconds', '30 seconds to 2 minutes', '2 to 7 minutes', '33 minutes to 2.5 hours')
    """
    (first, first_unit), (last, last_unit) = _rounded(low), _rounded(high)
    end = f"{last} {_one_or_more(last, last_unit)}"
    if (first, first_unit) == (last, last_unit):
        return f"about {end}"
    return f"{first} to {end}" if first_unit == last_unit else f"{first} {_one_or_more(first, first_unit)} to {end}"


def _one_or_more(number: str, unit: str) -> str:
    return unit.removesuffix("s") if number == "1" else unit


def _rounded(seconds: float) -> tuple[str, str]:
    if seconds < 55:
        return f"{max(5, 5 * round(seconds / 5))}", "seconds"
    if seconds < 90 * 60:
        return f"{max(1, round(seconds / 60))}", "minutes"
    return f"{seconds / 3600:.1f}", "hours"


def _is_streamed(candidate: Candidate) -> bool:
    learners = candidate.entry.learners
    return not learners or candidate.settings.get("learner", learners[0]) in STREAMED


def size_text(count: float) -> str:
    """A number of bytes as text."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
