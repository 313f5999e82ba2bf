"""nnPU (Kiryo and others): a network under a risk that needs the class prior and cannot fall below zero."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spu_core.errors import TrainingError
from spu_core.models.evidence import Evidence
from spu_core.models.learners import LEARNERS
from spu_core.models.state import Model
from spu_core.models.trainer import Trainer
from spu_core.theory import estimate_prior


def nnpu(rows: Evidence, trainer: Trainer) -> Model:
    """The label flag under the non-negative risk; without a given prior it is estimated from held-out scores (BBE)."""
    prior, share = trainer.options["prior"], rows.labeled_share
    if prior is None:
        prior = estimated_prior(rows, trainer)
    if prior <= share:
        raise TrainingError(
            f"The prior {prior:g} is the share of positives among all rows, but {share:g} of the rows are labelled "
            "already; give a prior above that share."
        )
    fitted = replace(trainer, settings={**trainer.settings, "prior": float(prior)})
    return fitted.fit(rows.features, rows.is_labeled.astype(np.float64), rows.weight, stage=1, of=1)


def estimated_prior(rows: Evidence, trainer: Trainer) -> float:
    """BBE on out-of-fold scores of labelled against the rest, by logistic regression."""
    ridge = {"ridge": 1.0, "max_iterations": 200}
    names = {setting.name for setting in LEARNERS["logistic"].settings}
    linear = replace(trainer, learner="logistic", settings={name: ridge[name] for name in names})
    score = linear.out_of_fold(rows, rows.is_labeled.astype(np.float64), folds=4, of=5)
    return float(np.clip(estimate_prior(rows.is_labeled, score, replicates=2).prior, 1e-6, 1 - 1e-6))
