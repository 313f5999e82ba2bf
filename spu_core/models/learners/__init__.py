"""Learners: one class each, every one of them fits a belief in [0, 1]."""

from __future__ import annotations

from spu_core.models.learners.base import SoftLearner
from spu_core.models.learners.lightgbm import SoftLightGBM

LEARNERS: dict[str, type[SoftLearner]] = {learner.key: learner for learner in (SoftLightGBM,)}

__all__ = ["LEARNERS", "SoftLearner", "SoftLightGBM"]
