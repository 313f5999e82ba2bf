"""Logistic regression on soft labels: the soft cross-entropy itself plus a ridge, minimised by L-BFGS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from spu_core.models.features import Features, LinearView
from spu_core.models.fit_inputs import FitMonitor
from spu_core.models.learners.base import SoftLearner, one_blas_thread
from spu_core.models.model import Blob, State
from spu_core.models.settings import setting


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
