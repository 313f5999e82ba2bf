"""Training: folds, cross-fitting, early stopping, tuning, progress, and the comparison of candidates."""

from __future__ import annotations

from spu_core.training.basis import Basis
from spu_core.training.candidate import Candidate, TrainPlan, Tuning
from spu_core.training.comparison import Comparison, compare_runs, runs_on
from spu_core.training.config import EarlyStopping, TrainConfig
from spu_core.training.cross_fitting import cross_fit, iter_cross_fit
from spu_core.training.effects import gain_importance, permutation_importance, shap_values
from spu_core.training.figures import Figure
from spu_core.training.folds import Part, Split
from spu_core.training.judging import RunMetrics
from spu_core.training.pairs import Pair
from spu_core.training.progress import TrainingCancelled, TrainProgress
from spu_core.training.refined import RefinedLabels, refine_soft_labels, with_refined
from spu_core.training.rows import make_split
from spu_core.training.run import FittedCandidate, Run
from spu_core.training.tuning import TuningReport, tune
from spu_core.training.verdict import Verdict

__all__ = [
    "Basis",
    "Candidate",
    "Comparison",
    "EarlyStopping",
    "Figure",
    "FittedCandidate",
    "Pair",
    "Part",
    "RefinedLabels",
    "Run",
    "RunMetrics",
    "Split",
    "TrainConfig",
    "TrainPlan",
    "TrainProgress",
    "TrainingCancelled",
    "Tuning",
    "TuningReport",
    "Verdict",
    "compare_runs",
    "cross_fit",
    "gain_importance",
    "iter_cross_fit",
    "make_split",
    "permutation_importance",
    "refine_soft_labels",
    "runs_on",
    "shap_values",
    "tune",
    "with_refined",
]
