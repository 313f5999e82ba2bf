"""Learners: one class each, every one of them fits a belief in [0, 1]."""

from __future__ import annotations

from spu_core.models.learners.base import SoftLearner
from spu_core.models.learners.boosters import SoftLightGBM, SoftXGBoost
from spu_core.models.learners.classic import SoftForest, SoftLogistic, SoftNeighbors
from spu_core.models.learners.network import NnpuNetwork, SoftCnn, SoftNetwork

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
