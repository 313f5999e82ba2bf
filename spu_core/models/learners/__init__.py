"""Learners: one class each, every one of them fits a belief in [0, 1]."""

from __future__ import annotations

from spu_core.models.learners.base import SoftLearner
from spu_core.models.learners.cnn import SoftCnn
from spu_core.models.learners.forest import SoftForest
from spu_core.models.learners.lightgbm import SoftLightGBM
from spu_core.models.learners.logistic import SoftLogistic
from spu_core.models.learners.neighbors import SoftNeighbors
from spu_core.models.learners.network import NnpuNetwork, SoftNetwork
from spu_core.models.learners.xgboost import SoftXGBoost

LEARNERS: dict[str, type[SoftLearner]] = {
    learner.key: learner
    for learner in (
        SoftLightGBM,
        SoftXGBoost,
        SoftNetwork,
        SoftLogistic,
        SoftNeighbors,
        SoftForest,
        SoftCnn,
        NnpuNetwork,
    )
}

__all__ = [
    "LEARNERS",
    "NnpuNetwork",
    "SoftCnn",
    "SoftForest",
    "SoftLearner",
    "SoftLightGBM",
    "SoftLogistic",
    "SoftNeighbors",
    "SoftNetwork",
    "SoftXGBoost",
]
