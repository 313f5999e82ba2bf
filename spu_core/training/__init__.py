"""Training: folds, cross-fitting, early stopping, tuning, progress, and the comparison of candidates."""

from __future__ import annotations

from spu_core.training.candidate import SHORTLIST, Candidate, TrainPlan, Tuning, methods_by_group, why_not, with_twins
from spu_core.training.comparison import Comparison, compare_runs, runs_on
from spu_core.training.config import EarlyStopping, TrainConfig
from spu_core.training.cross_fitting import Executor, LocalExecutor, cross_fit, estimate_class_prior, iter_cross_fit
from spu_core.training.effects import gain_importance, permutation_importance, shap_values
from spu_core.training.evaluation import EvaluationData
from spu_core.training.feature_selection import ColumnSet, FeatureSelection, select_features
from spu_core.training.folds import FoldAssignment
from spu_core.training.judging import RunMetrics
from spu_core.training.progress import TrainingCancelled, TrainProgress
from spu_core.training.recommendation import ORIGINS, NextStep, Recommendation, recommend
from spu_core.training.refined import refine_soft_labels, with_refined
from spu_core.training.rows import make_split
from spu_core.training.run import FittedCandidate, Run
from spu_core.training.tuning import TuningReport
from spu_core.training.views import (
    ReviewCurve,
    ReviewPoint,
    auc_figures,
    ceiling_curve,
    hindsight,
    mean_soft_label,
    perfect_link,
    review_curve,
    run_band,
    run_calibration,
    run_curve,
    segment_intervals,
    segment_table,
    segment_values,
    sketch,
    true_aucs,
)

__all__ = [
    "ORIGINS",
    "SHORTLIST",
    "Candidate",
    "ColumnSet",
    "Comparison",
    "EarlyStopping",
    "EvaluationData",
    "Executor",
    "FeatureSelection",
    "FittedCandidate",
    "FoldAssignment",
    "LocalExecutor",
    "NextStep",
    "Recommendation",
    "ReviewCurve",
    "ReviewPoint",
    "Run",
    "RunMetrics",
    "TrainConfig",
    "TrainPlan",
    "TrainProgress",
    "TrainingCancelled",
    "Tuning",
    "TuningReport",
    "auc_figures",
    "ceiling_curve",
    "compare_runs",
    "cross_fit",
    "estimate_class_prior",
    "gain_importance",
    "hindsight",
    "iter_cross_fit",
    "make_split",
    "mean_soft_label",
    "methods_by_group",
    "perfect_link",
    "permutation_importance",
    "recommend",
    "refine_soft_labels",
    "review_curve",
    "run_band",
    "run_calibration",
    "run_curve",
    "runs_on",
    "segment_intervals",
    "segment_table",
    "segment_values",
    "select_features",
    "shap_values",
    "sketch",
    "true_aucs",
    "why_not",
    "with_refined",
    "with_twins",
]
