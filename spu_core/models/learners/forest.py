"""Forests on soft labels: the mean of S in the leaves, averaged over trees grown by scikit-learn."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from spu_core.models.features import Features
from spu_core.models.fit_inputs import FitMonitor
from spu_core.models.learners.base import SoftLearner
from spu_core.models.model import Blob, State
from spu_core.models.settings import SEED, THREADS, setting

BLOCK = 16_384
TREE_PARTS = ("children_left", "children_right", "feature", "threshold", "missing_go_to_left")


class SoftForest(SoftLearner):
    """Extremely randomised trees or a random forest; squared error on S has the optimum of soft cross-entropy."""

    key = "extra_trees"
    title = "Extra trees / random forest"

    rounds: int = setting(default=200, low=1, high=5_000, log=True, help="Trees to grow.")
    splits: str = setting(
        default="random",
        choices=("random", "best"),
        help="Random thresholds (extra trees) or the best one on a bootstrap of rows (random forest).",
    )
    min_leaf_rows: int = setting(
        default=5, low=1, high=1_000_000, log=True, tunable=True, help="Fewest rows in a leaf."
    )
    column_share: float = setting(
        default=0.5, low=0.01, high=1.0, tunable=True, help="Share of columns tried at each split."
    )
    seed: int = setting(SEED)
    threads: int = setting(THREADS)

    def _learn(self, features: Features, target: np.ndarray, weight: np.ndarray | None, monitor: FitMonitor) -> None:
        forest = self._grow(features.matrix, target, weight, monitor)
        trees = [tree.tree_ for tree in forest.estimators_]
        self.trees_ = {name: np.concatenate([getattr(tree, name) for tree in trees]) for name in TREE_PARTS}
        self.trees_["value"] = np.concatenate([tree.value.ravel() for tree in trees])
        self.trees_["start"] = np.cumsum([0] + [tree.node_count for tree in trees])

    def _grow(self, matrix: np.ndarray, target: np.ndarray, weight: np.ndarray | None, monitor: FitMonitor) -> Any:
        """Grow the trees in steps that take a moment each, so that progress can be reported and the fit cancelled.

        scikit-learn draws the seeds of all trees in one sequence, so the forest does not depend on the steps.
        """
        from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

        kind = ExtraTreesRegressor if self.splits == "random" else RandomForestRegressor
        forest = kind(
            n_estimators=0,
            min_samples_leaf=self.min_leaf_rows,
            max_features=self.column_share,
            random_state=self.seed,
            n_jobs=self.threads,
            warm_start=True,
        )
        done, step = 0, self.threads
        while done < self.rounds:
            started = time.monotonic()
            done = min(done + step, self.rounds)
            forest.set_params(n_estimators=done).fit(matrix, target, sample_weight=weight)
            monitor.report(done, self.rounds)
            step = 2 * step if time.monotonic() - started < 0.2 else step
        return forest

    def _score(self, features: Features) -> np.ndarray:
        matrix = np.ascontiguousarray(features.matrix, dtype=np.float32)
        starts = range(0, len(matrix), BLOCK)
        return np.clip(np.concatenate([self._score_block(matrix[start : start + BLOCK]) for start in starts]), 0, 1)

    def _score_block(self, matrix: np.ndarray) -> np.ndarray:
        """Walk all trees from plain arrays; the same code before and after saving, so scores are equal to the bit."""
        tree, total = self.trees_, np.zeros(len(matrix))
        for start in tree["start"][:-1]:
            node = np.full(len(matrix), start)
            moving = np.arange(len(matrix))
            while moving.size:
                here = node[moving]
                inner = tree["children_left"][here] >= 0
                moving, here = moving[inner], here[inner]
                value = matrix[moving, tree["feature"][here]]
                left = np.where(
                    np.isnan(value), tree["missing_go_to_left"][here] == 1, value <= tree["threshold"][here]
                )
                node[moving] = start + np.where(left, tree["children_left"][here], tree["children_right"][here])
            total += tree["value"][node]
        return total / (tree["start"].size - 1)

    def size_in_memory(self) -> int:
        return sum(part.nbytes for part in self.trees_.values())

    def to_state(self) -> State:
        """Plain arrays of all trees, one after the other."""
        return {**self.describe(), "active": self.active_.tolist()}, dict(self.trees_)

    @classmethod
    def from_state(cls, description: Mapping[str, Any], blobs: Mapping[str, Blob]) -> SoftForest:
        model = cls.restored(description)
        model.trees_ = {name: np.asarray(blob) for name, blob in blobs.items()}
        return model
