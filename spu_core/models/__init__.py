"""Models: an encoder, learners of soft labels, and methods (a target with a learner).

Order of imports: `columns`, `matrix_file` → `features` → `encoder`, `model`, `fit_inputs` → `learners` → `method` →
`methods`, which knows all of them and reads stored models → `classifier`. `scorers` stands alone.
"""

from __future__ import annotations

from spu_core.models.classifier import SoftLabelClassifier, auc_spu_scorer, known_positive_auc_scorer
from spu_core.models.columns import EncoderStatistics
from spu_core.models.encoder import Encoder, FittedEncoder
from spu_core.models.features import Features
from spu_core.models.learners import (
    LEARNERS,
    SoftCnn,
    SoftForest,
    SoftLearner,
    SoftLightGBM,
    SoftLogistic,
    SoftNeighbors,
    SoftNetwork,
    SoftXGBoost,
)
from spu_core.models.method import Method, Need
from spu_core.models.methods import METHODS, method, model_from_state
from spu_core.models.model import FitMonitor, Model, Progress, StopRule, TrainingRows
from spu_core.models.settings import Setting

__all__ = [
    "LEARNERS",
    "METHODS",
    "Encoder",
    "EncoderStatistics",
    "Features",
    "FitMonitor",
    "FittedEncoder",
    "Method",
    "Model",
    "Need",
    "Progress",
    "Setting",
    "SoftCnn",
    "SoftForest",
    "SoftLabelClassifier",
    "SoftLearner",
    "SoftLightGBM",
    "SoftLogistic",
    "SoftNeighbors",
    "SoftNetwork",
    "SoftXGBoost",
    "StopRule",
    "TrainingRows",
    "auc_spu_scorer",
    "known_positive_auc_scorer",
    "method",
    "model_from_state",
]
