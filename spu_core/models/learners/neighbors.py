"""Nearest neighbours on soft labels: the mean of S over the k nearest rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spu_core.models.features import Features, LinearView
from spu_core.models.fit_inputs import FitMonitor
from spu_core.models.learners.base import SoftLearner
from spu_core.models.model import Blob, State
from spu_core.models.settings import SEED, THREADS, setting

BLOCK = 1024


class SoftNeighbors(SoftLearner):
    """Mean soft label of the k nearest rows, by Euclidean distance of normal scores and level flags."""

    key = "nearest_neighbors"
    title = "Nearest neighbours"

    neighbors: int = setting(
        default=50, low=1, high=100_000, log=True, tunable=True, help="Rows whose soft labels are averaged."
    )
    max_rows: int = setting(
        default=50_000, low=10, high=10_000_000, log=True, help="Rows kept to compare with; larger tables are sampled."
    )
    seed: int = setting(SEED)
    threads: int = setting(THREADS)

    def _learn(self, features: Features, target: np.ndarray, weight: np.ndarray | None, monitor: FitMonitor) -> None:
        weight = np.ones(target.size) if weight is None else weight
        if len(features) > self.max_rows:
            kept = np.random.default_rng(self.seed).choice(len(features), self.max_rows, replace=False)
            kept.sort()
            features, target, weight = features.take(kept), target[kept], weight[kept]
        self.view_ = features.linear_view()
        self.reference_ = self.view_.transform_rows(features).astype(np.float32)
        self.target_, self.weight_ = target, weight
        self._index()
        monitor.report(1, 1)

    def _index(self) -> None:
        from sklearn.neighbors import NearestNeighbors

        # All columns constant: every row is equally near.
        reference = self.reference_ if self.reference_.shape[1] else np.zeros((self.target_.size, 1), np.float32)
        nearest = min(self.neighbors, self.target_.size)
        self.index_ = NearestNeighbors(n_neighbors=nearest, algorithm="brute", n_jobs=self.threads).fit(reference)

    def _score(self, features: Features) -> np.ndarray:
        blocks = [
            self._score_block(features.take(np.arange(start, min(start + BLOCK, len(features)))))
            for start in range(0, len(features), BLOCK)
        ]
        return np.clip(np.concatenate(blocks), 0.0, 1.0)

    def _score_block(self, features: Features) -> np.ndarray:
        """Blocks have one size: the search algorithm, and so the order of ties, depends on the number of rows."""
        found = self.view_.transform_rows(features).astype(np.float32)
        query = np.zeros((BLOCK, max(found.shape[1], 1)), dtype=np.float32)
        query[: len(found), : found.shape[1]] = found
        near = self.index_.kneighbors(query, return_distance=False)[: len(found)]
        weight = self.weight_[near]
        return (self.target_[near] * weight).sum(axis=1) / weight.sum(axis=1)

    def to_state(self) -> State:
        """The rows to compare with, as plain arrays."""
        own = {"reference": self.reference_, "target": self.target_, "weight": self.weight_}
        return self.describe(), {**own, **self.view_.to_state()}

    @classmethod
    def from_state(cls, description: Mapping[str, Any], blobs: Mapping[str, Blob]) -> SoftNeighbors:
        model = cls.restored(description)
        model.view_ = LinearView.from_state(blobs)
        model.active_ = model.view_.active
        model.reference_, model.target_, model.weight_ = (
            np.asarray(blobs[name]) for name in ("reference", "target", "weight")
        )
        model._index()
        return model
