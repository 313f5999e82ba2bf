"""Models: an encoder, learners that fit beliefs in [0, 1], and methods = target source × learner."""

from __future__ import annotations

from spu_core.models.classifier import SoftLabelClassifier
from spu_core.models.encoder import Encoder, FittedEncoder
from spu_core.models.encoder_statistics import EncoderStatistics
from spu_core.models.evidence import Evidence, StopRule, inner_folds
from spu_core.models.features import Features
from spu_core.models.hedge import Selection
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
from spu_core.models.registry import METHODS, method
from spu_core.models.settings import Setting
from spu_core.models.state import Model, State, model_from_state
from spu_core.models.watch import EarlyStop, Progress, Watch

__all__ = [
    "LEARNERS",
    "METHODS",
    "EarlyStop",
    "Encoder",
    "EncoderStatistics",
    "Evidence",
    "Features",
    "FittedEncoder",
    "Method",
    "Model",
    "Need",
    "Progress",
    "Selection",
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
    "Watch",
    "inner_folds",
    "method",
    "model_from_state",
]
