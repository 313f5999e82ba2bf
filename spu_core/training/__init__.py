"""Training: folds, cross-fitting, early stopping, tuning, progress, and the comparison of candidates."""

from __future__ import annotations

from spu_core.training.candidate import Candidate, TrainPlan, Tuning
from spu_core.training.config import EarlyStopping, TrainConfig
from spu_core.training.cross_fitting import cross_fit, iter_cross_fit
from spu_core.training.folds import Part, Split
from spu_core.training.judging import Basis, RunMetrics
from spu_core.training.progress import TrainingCancelled, TrainProgress
from spu_core.training.rows import make_split
from spu_core.training.run import FittedCandidate, Run
from spu_core.training.tuning import TuningReport

__all__ = [
    "Basis",
    "Candidate",
    "EarlyStopping",
    "FittedCandidate",
    "Part",
    "Run",
    "RunMetrics",
    "Split",
    "TrainConfig",
    "TrainPlan",
    "TrainProgress",
    "TrainingCancelled",
    "Tuning",
    "TuningReport",
    "cross_fit",
    "iter_cross_fit",
    "make_split",
]
