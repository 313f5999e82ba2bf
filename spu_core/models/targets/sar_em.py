"""SAR-EM (Bekker, Robberechts and Davis): labels depend on known columns; class and propensity are learnt in turns."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from spu_core.errors import TrainingError, nearest_hint
from spu_core.models.evidence import Evidence
from spu_core.models.learners.logistic import fit_logistic
from spu_core.models.state import Model
from spu_core.models.targets.elkan_noto import hidden_positive, label_frequency
from spu_core.models.trainer import Trainer


def sar_em(rows: Evidence, trainer: Trainer) -> Model:
    """Alternate: belief that an unlabelled row is positive; class model on that belief; propensity on the positives."""
    columns = _propensity_matrix(rows, trainer.options["propensity_columns"])
    steps = trainer.options["em_steps"]
    folds = 3
    total = folds + steps
    labels = rows.is_labeled.astype(np.float64)
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    held_out = trainer.out_of_fold(rows, labels, folds=folds, of=total)
    belief = hidden_positive(rows.is_labeled, held_out, label_frequency(rows, held_out))
    for step in range(1, steps + 1):
        model = trainer.fit(rows.features, belief, rows.weight, stage=folds + step, of=total)
        coef, intercept = fit_logistic(columns, labels, weight * np.maximum(belief, 1e-9), 1.0, 100)
        propensity = expit(columns @ coef + intercept)
        if step < steps:
            belief = e_step(rows.is_labeled, model.score_rows(rows.features), propensity)
    return model


def e_step(is_labeled: np.ndarray, score: np.ndarray, propensity: np.ndarray) -> np.ndarray:
    """P(positive | x, not labelled) = f(1−e) / (1 − f e); 1 for labelled rows.

    >>> e_step(np.array([True, False]), np.array([0.3, 0.5]), np.array([0.5, 0.5])).round(3).tolist()
    [1.0, 0.333]
    """
    return np.where(is_labeled, 1.0, score * (1.0 - propensity) / np.maximum(1.0 - score * propensity, 1e-12))


def _propensity_matrix(rows: Evidence, names: tuple[str, ...]) -> np.ndarray:
    """The linear form of the columns that decide who gets a label; all columns when none is named."""
    features = rows.features
    for name in names:
        if name not in features.names:
            raise TrainingError(f"Propensity column {name!r} is not a feature. {nearest_hint(name, features.names)}")
    if names:
        features = features.without([name for name in features.names if name not in names])
    return features.linear_view().transform_rows(features)
