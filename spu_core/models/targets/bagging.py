"""Bags: all labelled rows with a random part of the unlabelled ones, many times, averaged."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spu_core.models.composite import Average
from spu_core.models.evidence import Evidence
from spu_core.models.state import Model
from spu_core.models.trainer import Trainer


def bagging_pu(rows: Evidence, trainer: Trainer) -> Model:
    """Mordelet and Vert: labelled against a bootstrap of the unlabelled."""
    return _average(rows, rows.is_labeled.astype(np.float64), trainer)


def soft_bagging(rows: Evidence, trainer: Trainer) -> Model:
    """The same bags, whose unlabelled rows keep their soft labels."""
    return _average(rows, np.where(rows.is_labeled, 1.0, rows.soft_label), trainer)


def _average(rows: Evidence, target: np.ndarray, trainer: Trainer) -> Model:
    bags, parts = trainer.options["bags"], []
    for stage, times in enumerate(bag_counts(rows, trainer), start=1):
        inside = times > 0
        weight = times[inside] * (1.0 if rows.weight is None else rows.weight[inside])
        parts.append(trainer.fit(rows.features.take(inside), target[inside], weight, stage=stage, of=bags))
    return Average(tuple(parts))


def bag_counts(rows: Evidence, trainer: Trainer) -> Iterator[np.ndarray]:
    """How often each row is in each bag: labelled rows once, unlabelled ones as a bootstrap draws them."""
    labeled, unlabeled = np.flatnonzero(rows.is_labeled), np.flatnonzero(~rows.is_labeled)
    size = int(np.clip(round(trainer.options["bag_ratio"] * labeled.size), 1, unlabeled.size))
    rng = np.random.default_rng(trainer.seed)
    for _ in range(trainer.options["bags"]):
        times = rows.is_labeled.astype(np.float64)
        # A row drawn twice counts twice by weight; rows are never copied.
        times += np.bincount(rng.choice(unlabeled, size), minlength=len(rows))
        yield times
