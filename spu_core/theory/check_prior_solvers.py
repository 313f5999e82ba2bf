"""Two ways to the prior of Appendix A.2: the paper's exponentiated gradient, and Newton steps inside the simplex.

Both minimise J(p) = −Σ_j w_j ln(L p)_j + λ M Σ_m p_m² over the masses p of M grid cells, p ≥ 0 and Σ p = 1.
J is convex, so J(p) − min J ≤ ⟨∇J, p⟩ − min ∇J at every p: each answer carries this *certificate*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# A row of the likelihood times the masses is never allowed to vanish, since its logarithm is taken.
SMALLEST_MASS = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class PriorProblem:
    """Likelihood rows of the distinct records, their shares of the users, and the penalty λ."""

    likelihood: np.ndarray
    share: np.ndarray
    penalty: float

    @property
    def cells(self) -> int:
        return self.likelihood.shape[1]

    def gradient(self, mass: np.ndarray) -> np.ndarray:
        pull = self.likelihood.T @ (self.share / np.maximum(self.likelihood @ mass, SMALLEST_MASS))
        return 2.0 * self.penalty * self.cells * mass - pull

    def hessian(self, mass: np.ndarray) -> np.ndarray:
        scaled = self.likelihood * (np.sqrt(self.share) / (self.likelihood @ mass))[:, None]
        curvature = scaled.T @ scaled
        curvature[np.diag_indices(self.cells)] += 2.0 * self.penalty * self.cells
        return curvature

    def certificate(self, mass: np.ndarray, gradient: np.ndarray) -> float:
        """At least J(p) − min J: how far these masses can be from the best."""
        return float(max(gradient @ mass - gradient.min(), 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Masses, their certificate, and the number of iterations it took."""

    mass: np.ndarray
    certificate: float
    iterations: int


def newton(problem: PriorProblem, tolerance: float, most_iterations: int = 200) -> Solution:
    """Primal-dual interior point: Newton steps on the optimality conditions while p·z shrinks towards 0."""
    mass = np.full(problem.cells, 1.0 / problem.cells)
    slack = np.ones(problem.cells)
    gradient = problem.gradient(mass)
    for iteration in range(most_iterations):
        certificate = problem.certificate(mass, gradient)
        if certificate <= tolerance:
            return Solution(mass, certificate, iteration)
        target = 0.1 * float(mass @ slack) / problem.cells
        mass_step, slack_step = _newton_step(problem, mass, slack, gradient - target / mass, target)
        stride = min(_largest_stride(mass, mass_step), _largest_stride(slack, slack_step))
        mass, slack = mass + stride * mass_step, slack + stride * slack_step
        mass /= mass.sum()
        gradient = problem.gradient(mass)
    return Solution(mass, problem.certificate(mass, gradient), most_iterations)


def exponentiated_gradient(problem: PriorProblem, tolerance: float, most_iterations: int = 100_000) -> Solution:
    """The paper's method: masses times exp(−step · gradient), renormalised; the step adapts until J descends."""
    mass = np.full(problem.cells, 1.0 / problem.cells)
    gradient = problem.gradient(mass)
    step = 1.0 / max(float(np.ptp(gradient)), 1e-12)
    for iteration in range(most_iterations):
        certificate = problem.certificate(mass, gradient)
        if certificate <= tolerance:
            return Solution(mass, certificate, iteration)
        # A step this short always descends, so it needs no test, which rounding could fail near the optimum.
        curve = 2.0 * problem.penalty * problem.cells * mass
        safe = 1.0 / ((curve - gradient).max() + curve.max())
        step = max(1.3 * step, safe)
        tilted = _tilted(mass, gradient, step)
        # By convexity J has descended while its slope at the new point is not positive along the step.
        while (new_gradient := problem.gradient(tilted)) @ (tilted - mass) > 0.0 and step > safe:
            step = max(0.5 * step, safe)
            tilted = _tilted(mass, gradient, step)
        mass, gradient = tilted, new_gradient
    return Solution(mass, problem.certificate(mass, gradient), most_iterations)


SOLVERS: dict[str, Callable[[PriorProblem, float], Solution]] = {
    "newton": newton,
    "exponentiated_gradient": exponentiated_gradient,
}


def _newton_step(
    problem: PriorProblem, mass: np.ndarray, slack: np.ndarray, residual: np.ndarray, target: float
) -> tuple[np.ndarray, np.ndarray]:
    matrix = problem.hessian(mass)
    matrix[np.diag_indices(problem.cells)] += slack / mass
    # Masses range over many powers of ten; scaled by them the system stays well conditioned.
    scale = np.sqrt(mass)
    sides = np.column_stack([-residual * scale, scale])
    free, even = (np.linalg.solve(matrix * np.outer(scale, scale), sides) * scale[:, None]).T
    mass_step = free - free.sum() / even.sum() * even
    return mass_step, target / mass - slack - slack / mass * mass_step


def _largest_stride(values: np.ndarray, step: np.ndarray) -> float:
    """The longest stride up to 1 that keeps every value positive."""
    shrinking = step < 0
    if not shrinking.any():
        return 1.0
    return float(min(1.0, 0.995 * (-values[shrinking] / step[shrinking]).min()))


def _tilted(mass: np.ndarray, gradient: np.ndarray, step: float) -> np.ndarray:
    tilted = mass * np.exp(-step * (gradient - gradient.min()))
    return tilted / tilted.sum()
