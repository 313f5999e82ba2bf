"""Models: an encoder, learners that fit beliefs in [0, 1], and methods = target source × learner."""

from __future__ import annotations

from spu_core.models.classifier import SoftLabelClassifier
from spu_core.models.columns import EncoderStatistics
from spu_core.models.encoder import Encoder, FittedEncoder
from spu_core.models.features import Features
from spu_core.models.fit_inputs import EarlyStop, FitMonitor, Progress, StopRule, TrainingRows, inner_folds
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
from spu_core.models.model import LabelSelection, Model, State
from spu_core.models.settings import Setting

__all__ = [
    "LEARNERS",
    "METHODS",
    "EarlyStop",
    "Encoder",
    "EncoderStatistics",
    "Features",
    "FitMonitor",
    "FittedEncoder",
    "LabelSelection",
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
    "State",
    "StopRule",
    "TrainingRows",
    "inner_folds",
    "method",
    "model_from_state",
]
