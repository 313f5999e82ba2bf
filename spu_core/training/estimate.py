"""How long a training will take and how much memory it will need, before it starts: an estimate, no promise.

The constants were measured on one core of a server, with tables of 569 × 31 and 40,000 × 20; there most estimates lay
within a factor of two. A loaded machine takes longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spu_core.training.candidate import Candidate
from spu_core.training.config import TrainConfig

# Learner → (seconds that each round costs whatever the table, seconds per round for a million cells).
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
# Fits of the learner that one fit of the method makes, where it is more than one.
_FITS = {"elkan_noto": "folds", "weighted_elkan_noto": "folds", "two_stage": "folds"}
_BAGS = ("bagging_pu", "soft_bagging")
_FUSED_FITS = 17
BYTES_PER_CELL = 8
SMALL_CELLS = 1_000_000
# Python with its numeric libraries, before any table is read.
BASE_BYTES = 260_000_000


@dataclass(frozen=True)
class TrainEstimate:
    """Seconds of the whole training, seconds by candidate, and the peak of its memory in bytes."""

    seconds: float
    by_candidate: dict[str, float]
    memory: float

    @property
    def words(self) -> str:
        """For people, rounded as roughly as it is known.

        >>> TrainEstimate(134.0, {}, 4.1e8).words
        'about 2 minutes and 410 MB'
        """
        size = f"{self.memory / 1e9:.1f} GB" if self.memory >= 1e9 else f"{self.memory / 1e6:.0f} MB"
        return f"{self.time_words} and {size}"

    @property
    def time_words(self) -> str:
        """Only how long it takes."""
        return f"about {_duration(self.seconds)}"


def estimate_training(
    rows: int, columns: int, candidates: Sequence[Candidate], config: TrainConfig, *, refine: bool = True
) -> TrainEstimate:
    """What training these candidates on a table of this size will roughly cost.

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
    return TrainEstimate(starting + refining + sum(seconds.values()), seconds, memory)


def advised_threads(rows: int, columns: int) -> int:
    """Two threads for tables that keep them busy; on small ones they wait for each other more than they work.

    On a busy machine of two cores, fused took fifty times longer with two threads than with one on 569 rows.

    >>> advised_threads(569, 31), advised_threads(100_000, 30)
    (1, 2)
    """
    return 1 if rows * columns < SMALL_CELLS else 2


def _candidate_seconds(candidate: Candidate, cells: float, config: TrainConfig) -> float:
    part = cells * (1.0 - 1.0 / config.folds)
    parts = config.folds + (1 if config.hold_out or config.out_of_time else 0)
    tuning = candidate.tuning
    searched = 0.0
    if tuning is not None:
        # Half of the trials are given up early.
        searched = 0.6 * tuning.trials * tuning.folds * _fit_seconds(candidate, part * (1.0 - 1.0 / tuning.folds))
        searched = searched if tuning.seconds is None else min(searched, tuning.seconds)
    return parts * (searched + _fit_seconds(candidate, part)) + searched + _fit_seconds(candidate, cells)


def _fit_seconds(candidate: Candidate, cells: float) -> float:
    """One fit of the method on one core; a second one saves less than a busy machine costs."""
    settings = candidate.entry.complete(candidate.settings)
    learners = candidate.entry.learners
    if candidate.method == "fused":
        return _FUSED_FITS * _rounds_seconds("small trees", settings["rounds"], cells)
    if not learners:
        return 0.01 + 0.01 * cells
    learner = str(settings.get("learner", learners[0]))
    if candidate.method in _BAGS:
        bagged = "small trees" if learner == "lightgbm" else learner
        return float(settings["bags"]) * _rounds_seconds(bagged, _rounds(settings), cells)
    one = _rounds_seconds(learner, _rounds(settings), cells)
    if candidate.method in _FITS:
        return (1.0 + float(settings[_FITS[candidate.method]])) * one
    # Each turn of SAR-EM starts from the one before, so it takes a little less than a fit.
    return one * max(1.0, 0.8 * float(settings.get("em_steps", 1)))


def _rounds(settings: dict[str, object]) -> float:
    """Rounds that the learner grows by; one for those that solve at once."""
    found = settings.get("rounds", 1)
    return float(found) if isinstance(found, int | float) else 1.0


def _rounds_seconds(learner: str, rounds: float, cells: float) -> float:
    fixed, growing = _PER_ROUND.get(learner, (1e-3, 1e-2))
    return 0.02 + rounds * (fixed + growing * cells)


def _duration(seconds: float) -> str:
    if seconds < 55:
        return f"{max(5, 5 * round(seconds / 5))} seconds"
    if seconds < 90 * 60:
        minutes = max(1, round(seconds / 60))
        return f"{minutes} minute{'s' if minutes > 1 else ''}"
    return f"{seconds / 3600:.1f} hours"
