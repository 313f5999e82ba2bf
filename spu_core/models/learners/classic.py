"""Logistic regression, forests (means of S in the leaves) and nearest neighbours on soft labels."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from spu_core.models.features import Features, LinearView
from spu_core.models.learners.base import SoftLearner, one_blas_thread
from spu_core.models.model import Blob, FitMonitor, State
from spu_core.models.settings import SEED, THREADS, setting


class SoftLogistic(SoftLearner):
    """A linear score of normal scores and frequent levels; readable, smooth, strong with few labels.

    >>> X = np.linspace(-1, 1, 50).reshape(-1, 1)
    >>> model = SoftLogistic().fit(X, np.linspace(0.2, 0.8, 50))
    >>> bool(model.coef_[0] > 0)
    True
    """

    key = "logistic"
    title = "Logistic regression"

    ridge: float = setting(
        default=1.0, low=1e-8, high=1e8, log=True, tunable=True, help="Weight of ½‖w‖² beside the sum of losses."
    )
    max_iterations: int = setting(default=200, low=1, high=10_000, help="Most steps of the optimiser.")

    def _learn(self, features: Features, target: np.ndarray, weight: np.ndarray | None, monitor: FitMonitor) -> None:
        self.view_ = features.linear_view()
        matrix = self.view_.transform_rows(features)
        weight = np.ones(target.size) if weight is None else weight
        self.coef_, self.intercept_ = fit_logistic(
            matrix,
            target,
            weight,
            self.ridge,
            self.max_iterations,
            lambda step: monitor.report(step, self.max_iterations),
        )
        monitor.report(self.max_iterations, self.max_iterations)

    def margin(self, features: Features) -> np.ndarray:
        """The linear score before the logistic function."""
        # einsum sums each row by itself; a BLAS product may change the last bit with the number of rows.
        matrix = self.view_.transform_rows(features)
        return np.einsum("ij,j->i", matrix, self.coef_) + self.intercept_

    def _score(self, features: Features) -> np.ndarray:
        return expit(self.margin(features))

    def size_in_memory(self) -> int:
        return int(self.coef_.nbytes)

    def to_state(self) -> State:
        """Plain arrays: coefficients and the linear view."""
        blobs: dict[str, Blob] = {"coef": self.coef_, **self.view_.to_state()}
        return {**self.describe(), "intercept": self.intercept_}, blobs

    @classmethod
    def from_state(cls, description: Mapping[str, Any], blobs: Mapping[str, Blob]) -> SoftLogistic:
        model = cls.restored(description)
        model.view_ = LinearView.from_state(blobs)
        model.active_ = model.view_.active
        model.coef_ = np.asarray(blobs["coef"])
        model.intercept_ = float(description["intercept"])
        return model


def fit_logistic(
    matrix: np.ndarray, target: np.ndarray, weight: np.ndarray, ridge: float, steps: int, on_step: Any = None
) -> tuple[np.ndarray, float]:
    """(coefficients, intercept) that minimise Σ w·[−s ln g − (1−s) ln(1−g)] + ½ ridge ‖coefficients‖²."""
    share = float(np.clip(np.average(target, weights=weight), 1e-9, 1 - 1e-9))
    total = weight.sum()
    done = 0

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        margin = matrix @ point[1:] + point[0]
        value = np.sum(weight * (np.logaddexp(0.0, margin) - target * margin)) + 0.5 * ridge * point[1:] @ point[1:]
        pull = weight * (expit(margin) - target)
        slope = np.concatenate([[pull.sum()], pull @ matrix + ridge * point[1:]])
        return value / total, slope / total

    def step(_: np.ndarray) -> None:
        nonlocal done
        done += 1
        if on_step is not None:
            on_step(done)

    start = np.zeros(matrix.shape[1] + 1)
    start[0] = logit(share)
    options = {"maxiter": steps, "maxfun": 2 * steps, "ftol": 1e-12, "gtol": 1e-7}
    with one_blas_thread():
        point = minimize(loss, start, jac=True, method="L-BFGS-B", callback=step, options=options).x
    return point[1:], float(point[0])


FOREST_BLOCK = 16_384
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
        starts = range(0, len(matrix), FOREST_BLOCK)
        return np.clip(
            np.concatenate([self._score_block(matrix[start : start + FOREST_BLOCK]) for start in starts]), 0, 1
        )

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


NEIGHBOR_BLOCK = 1024


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
            self._score_block(features.take(np.arange(start, min(start + NEIGHBOR_BLOCK, len(features)))))
            for start in range(0, len(features), NEIGHBOR_BLOCK)
        ]
        return np.clip(np.concatenate(blocks), 0.0, 1.0)

    def _score_block(self, features: Features) -> np.ndarray:
        """Blocks have one size: the search algorithm, and so the order of ties, depends on the number of rows."""
        found = self.view_.transform_rows(features).astype(np.float32)
        query = np.zeros((NEIGHBOR_BLOCK, max(found.shape[1], 1)), dtype=np.float32)
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
