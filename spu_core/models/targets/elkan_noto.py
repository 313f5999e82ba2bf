"""Elkan and Noto: labels are a random share c of the positives, so P(positive | x) = P(labelled | x) / c."""

from __future__ import annotations

import numpy as np

from spu_core.errors import TrainingError
from spu_core.models.composite import Scaled
from spu_core.models.evidence import Evidence
from spu_core.models.state import Model
from spu_core.models.trainer import Trainer


def scaled(rows: Evidence, trainer: Trainer) -> Model:
    """min(1, g/c): g from all rows, c the mean of g over labelled rows that were held out."""
    folds = trainer.options["folds"]
    target = rows.is_labeled.astype(np.float64)
    held_out = trainer.out_of_fold(rows, target, folds=folds, of=folds + 1)
    model = trainer.fit(rows.features, target, rows.weight, stage=folds + 1, of=folds + 1)
    return Scaled(model, label_frequency(rows, held_out))


def weighted(rows: Evidence, trainer: Trainer) -> Model:
    """Soft cross-entropy on S := 1 for labelled rows, the chance of a hidden positive for the others."""
    folds = trainer.options["folds"]
    held_out = trainer.out_of_fold(rows, rows.is_labeled.astype(np.float64), folds=folds, of=folds + 1)
    target = hidden_positive(rows.is_labeled, held_out, label_frequency(rows, held_out))
    return trainer.fit(rows.features, target, rows.weight, stage=folds + 1, of=folds + 1)


def label_frequency(rows: Evidence, held_out: np.ndarray) -> float:
    """c = P(labelled | positive): the mean held-out score of the labelled rows."""
    if int(rows.is_labeled.sum()) < 2:
        raise TrainingError(
            "Elkan–Noto's c is measured on held-out labelled rows, so at least 2 labelled rows are needed, got 1."
        )
    weight = None if rows.weight is None else rows.weight[rows.is_labeled]
    return float(np.clip(np.average(held_out[rows.is_labeled], weights=weight), 1e-6, 1.0))


def hidden_positive(is_labeled: np.ndarray, g: np.ndarray, c: float) -> np.ndarray:
    """1 for labelled rows, else w = (1−c)/c · g/(1−g), kept in [0, 1].

    >>> hidden_positive(np.array([True, False, False]), np.array([0.9, 0.2, 0.9]), 0.5).tolist()
    [1.0, 0.25, 1.0]
    """
    odds = g / np.maximum(1.0 - g, 1e-12)
    return np.where(is_labeled, 1.0, np.minimum(1.0, (1.0 - c) / c * odds))
