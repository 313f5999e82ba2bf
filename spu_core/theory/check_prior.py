"""Appendix A.2: distribution f(θ) of the probability θ to pass a check, from records of n checks and k passes.

k given θ is Binomial(n, θ); f minimises −(1/N) Σ ln ∫ Binom(k|n, θ) f(θ) dθ + λ ∫ f² dθ on midpoints of [0, 1].
N is the number of users with at least one check. Other users carry no information about θ. Only the number of users
with each record is needed (`CheckCounts`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from spu_core.checks import check_choice, check_number, check_score
from spu_core.errors import AssumptionError

# Up to this many cells, all pairs (n, k) are counted in a table; otherwise the pairs are sorted.
MOST_TABLE_CELLS = 4_000_000
# n and k share one int64 key.
LARGEST_COUNT = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class CheckCounts:
    """Distinct records in order of (n, k): `checks` n, `passes` k, and the number of `users` with each.

    Counts of chunks can be added in any order, so one pass over the users is enough:

    >>> first = CheckCounts.of([2, 2, 3], [1, 1, 3])
    >>> whole = first.update([2], [0]).merge(CheckCounts.of([3], [3]))
    >>> whole.checks.tolist(), whole.passes.tolist(), whole.users.tolist()
    ([2, 2, 3], [0, 1, 3], [1, 2, 2])
    """

    checks: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    passes: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    users: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @classmethod
    def of(cls, checks: Any, passes: Any) -> CheckCounts:
        """Count one chunk of users."""
        checks, passes = check_records(checks, passes)
        key, _, users = _distinct(checks, passes, needs_inverse=False)
        return cls(*_unpacked(key), users)

    def update(self, checks: Any, passes: Any) -> CheckCounts:
        """The counts with one more chunk of users; this object does not change."""
        return self.merge(CheckCounts.of(checks, passes))

    def merge(self, other: CheckCounts) -> CheckCounts:
        """Counts of two disjoint sets of users together."""
        keys = np.concatenate([_packed(self.checks, self.passes), _packed(other.checks, other.passes)])
        key, position = np.unique(keys, return_inverse=True)
        users = np.zeros(key.size, dtype=np.int64)
        np.add.at(users, position, np.concatenate([self.users, other.users]))
        return CheckCounts(*_unpacked(key), users)

    @property
    def checked(self) -> CheckCounts:
        """Only the users who were checked at least once."""
        rows = self.checks > 0
        return CheckCounts(self.checks[rows], self.passes[rows], self.users[rows])

    @property
    def total_users(self) -> int:
        return int(self.users.sum())


def check_records(checks: Any, passes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of checks and passes as integers with 0 ≤ passes ≤ checks.

    >>> check_records([3, 2], [1, 4])
    Traceback (most recent call last):
    spu_core.errors.AssumptionError: Row 1 passes 4 of 2 checks; a user cannot pass more checks than there were.
    """
    checks, passes = _whole_numbers(checks, "checks"), _whole_numbers(passes, "passes")
    if checks.size != passes.size:
        raise AssumptionError(
            f"checks has {checks.size} rows, but passes has {passes.size}; both need one row per user."
        )
    bad = np.flatnonzero(passes > checks)
    if bad.size:
        raise AssumptionError(
            f"Row {bad[0]} passes {passes[bad[0]]} of {checks[bad[0]]} checks; "
            "a user cannot pass more checks than there were."
        )
    return checks, passes


def distinct_records(checks: np.ndarray, passes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct n and k of checked arrays, and for each user the position of its record among them."""
    key, position, _ = _distinct(checks, passes, needs_inverse=True)
    return *_unpacked(key), position


def _distinct(checks: np.ndarray, passes: np.ndarray, needs_inverse: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    side = int(checks.max()) + 1
    if side * side > MOST_TABLE_CELLS:
        return np.unique(_packed(checks, passes), return_inverse=True, return_counts=True)
    cell = checks * side + passes
    table = np.bincount(cell, minlength=side * side)
    used = np.flatnonzero(table)
    position = np.cumsum(table > 0)[cell] - 1 if needs_inverse else np.empty(0, dtype=np.intp)
    return _packed(used // side, used % side), position, table[used]


def _packed(checks: np.ndarray, passes: np.ndarray) -> np.ndarray:
    return (checks.astype(np.int64) << 32) | passes.astype(np.int64)


def _unpacked(key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return key >> 32, key & 0xFFFFFFFF


def _whole_numbers(values: Any, name: str) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "ui" or array.ndim != 1 or array.size == 0:
        array = check_score(values, None, name)
    if array.min() < 0:
        row = int(np.flatnonzero(array < 0)[0])
        raise AssumptionError(f"{name} must not be negative, but row {row} holds {array[row]:g}.")
    if array.max() > LARGEST_COUNT:
        raise AssumptionError(f"{name} must stay below 2**31, but row {int(array.argmax())} holds {array.max():g}.")
    whole = array.astype(np.int64)
    if array.dtype.kind == "f" and (whole != array).any():
        row = int(np.flatnonzero(whole != array)[0])
        raise AssumptionError(f"{name} must hold whole numbers, but row {row} holds {array[row]:g}.")
    return whole


# Penalties that cross-validation compares. Beyond both ends the prior hardly changes.
PENALTIES = tuple(10.0**power for power in (-6, -5, -4, -3.5, -3, -2.5, -2, -1.5, -1, 0))
FOLDS = 5
# With fewer users, λ is not chosen by cross-validation but fixed.
FEWEST_USERS_TO_CHOOSE = 50
PENALTY_OF_FEW_USERS = 1e-2
# Newton solves a system of this size in each iteration.
LARGEST_GRID = 2_000
# Distinct records × grid cells held at once: 1.6 GB of float64.
MOST_LIKELIHOOD_CELLS = 200_000_000


@dataclass(frozen=True, slots=True, eq=False)
class CheckPrior:
    """Density of the probability to pass, on a grid of midpoints.

    `certificate` is an upper bound on the distance of the objective from its optimum. `trials` holds each penalty with
    its mean log-likelihood on held-out users, if the penalty was chosen by cross-validation.
    """

    grid: np.ndarray
    density: np.ndarray
    certificate: float
    iterations: int
    penalty: float
    trials: tuple[tuple[float, float], ...] = ()

    @property
    def mass(self) -> np.ndarray:
        """Probability of each grid cell."""
        return self.density / self.density.size

    @property
    def mean(self) -> float:
        """Expected probability to pass of a user without checks."""
        return float(self.grid @ self.mass)

    def posterior_mean(self, checks: Any, passes: Any) -> np.ndarray:
        """E[θ | k, n] of each user; without checks it is the mean of the prior."""
        checks, passes = check_records(checks, passes)
        n, k, position = distinct_records(checks, passes)
        return self._posterior_mean_of_distinct(n, k)[position]

    def _posterior_mean_of_distinct(self, n: np.ndarray, k: np.ndarray) -> np.ndarray:
        # Blocks limit the memory. Sums by row, not by BLAS, give a value that does not depend on the other users of the
        # batch.
        blocks = (slice(start, start + 10_000) for start in range(0, n.size, 10_000))
        return np.concatenate([(self._posterior_mass(n[b], k[b]) * self.grid).sum(axis=1) for b in blocks])

    def _posterior_mass(self, n: np.ndarray, k: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            log_mass = _log_likelihood(n, k, self.grid) + np.log(self.mass)
        mass = np.exp(log_mass - log_mass.max(axis=1, keepdims=True))
        return mass / mass.sum(axis=1, keepdims=True)


def fit_check_prior(
    checks: Any,
    passes: Any,
    *,
    penalty: float | None = None,
    method: str = "newton",
    grid_size: int = 200,
    tolerance: float = 1e-8,
) -> CheckPrior:
    """Fit f(θ) to one record per user. Without a `penalty`, five-fold cross-validation chooses it.

    `method` is "newton" (about fifteen iterations) or "exponentiated_gradient" (the paper's, up to thousands of
    iterations). Both reach the same prior, up to `tolerance`.

    >>> prior = fit_check_prior([10] * 100, [9] * 80 + [1] * 20, penalty=0.001)
    >>> prior.posterior_mean([10, 10], [9, 1]).round(1).tolist()
    [0.9, 0.1]
    """
    counts = CheckCounts.of(checks, passes)
    return fit_check_prior_to_counts(counts, penalty=penalty, method=method, grid_size=grid_size, tolerance=tolerance)


def fit_check_prior_to_counts(
    counts: CheckCounts,
    *,
    penalty: float | None = None,
    method: str = "newton",
    grid_size: int = 200,
    tolerance: float = 1e-8,
) -> CheckPrior:
    """`fit_check_prior` from counts, which can be collected in one pass over the users."""
    check_choice(method, SOLVERS, "method", AssumptionError)
    grid = _midpoints(grid_size)
    counts = counts.checked
    if not counts.total_users:
        raise AssumptionError(
            "No user was checked, so the probability to pass cannot be estimated; give records with checks > 0."
        )
    likelihood = _likelihood(counts, grid)
    # On small matrices several BLAS threads are slower than one: 18 s instead of 1 s on a busy machine.
    with threadpool_limits(limits=1, user_api="blas"):
        penalty, trials = _penalty(penalty, likelihood, counts.users)
        problem = PriorProblem(likelihood, counts.users / counts.total_users, penalty)
        solution = _certified(SOLVERS[method](problem, tolerance), method, tolerance)
    return CheckPrior(grid, solution.mass * grid.size, solution.certificate, solution.iterations, penalty, trials)


def _penalty(
    penalty: float | None, likelihood: np.ndarray, users: np.ndarray
) -> tuple[float, tuple[tuple[float, float], ...]]:
    if penalty is not None:
        if check_number(penalty, "penalty", AssumptionError) < 0:
            raise AssumptionError(f"penalty must not be negative, got {penalty:g}.")
        return float(penalty), ()
    if users.sum() < FEWEST_USERS_TO_CHOOSE:
        return PENALTY_OF_FEW_USERS, ()
    folds = _folds_of_counts(users)
    trials = tuple((trial, _held_out(likelihood, folds, trial)) for trial in PENALTIES)
    return max(trials, key=lambda trial: trial[1])[0], trials


def _folds_of_counts(users: np.ndarray) -> np.ndarray:
    """Random assignment of users to folds: counts of shape (folds, records) with nearly equal totals."""
    rng = np.random.default_rng(0)
    folds, left = [], users
    for remaining in range(FOLDS, 1, -1):
        fold = rng.multivariate_hypergeometric(left, int(left.sum()) // remaining)
        folds.append(fold)
        left = left - fold
    return np.array([*folds, left])


def _held_out(likelihood: np.ndarray, folds: np.ndarray, penalty: float) -> float:
    """Mean log-likelihood of held-out users."""
    total = 0.0
    for fold in folds:
        seen = folds.sum(axis=0) - fold
        used = seen > 0
        problem = PriorProblem(likelihood[used], seen[used] / seen.sum(), penalty)
        # A lower precision is enough to choose a penalty.
        mass = newton(problem, 1e-6).mass
        total += float(fold @ np.log(likelihood @ mass))
    return total / float(folds.sum())


def _certified(solution: Solution, method: str, tolerance: float) -> Solution:
    if solution.certificate <= tolerance:
        return solution
    advice = "a larger penalty or tolerance" if method == "newton" else "method='newton' or a larger penalty"
    raise AssumptionError(
        f"The prior did not converge: after {solution.iterations:,} iterations of {method} the error bound is "
        f"{solution.certificate:.1e}, above the tolerance {tolerance:.1e}; use {advice}."
    )


def _likelihood(counts: CheckCounts, grid: np.ndarray) -> np.ndarray:
    """Binomial likelihoods. Each row is scaled to a maximum of 1, which does not change the optimum."""
    if counts.checks.size * grid.size > MOST_LIKELIHOOD_CELLS:
        raise AssumptionError(
            f"{counts.checks.size:,} distinct records on {grid.size} grid points need too much memory; "
            "use a smaller grid_size or a shorter period of checks."
        )
    log = _log_likelihood(counts.checks, counts.passes, grid)
    return np.exp(log - log.max(axis=1, keepdims=True))


def _log_likelihood(n: np.ndarray, k: np.ndarray, grid: np.ndarray) -> np.ndarray:
    return np.outer(k, np.log(grid)) + np.outer(n - k, np.log1p(-grid))


def _midpoints(grid_size: int) -> np.ndarray:
    size = check_number(grid_size, "grid_size", AssumptionError)
    if size != int(size) or not 2 <= size <= LARGEST_GRID:
        raise AssumptionError(f"grid_size must be a whole number from 2 to {LARGEST_GRID:,}, got {grid_size}.")
    return (np.arange(int(size)) + 0.5) / int(size)


# Lower limit of the likelihood of a record, since its logarithm is taken.
SMALLEST_MASS = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class PriorProblem:
    """Likelihoods of the distinct records, the share of users with each record, and the penalty λ."""

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
        """Upper bound on J(p) − min J."""
        return float(max(gradient @ mass - gradient.min(), 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Masses, their certificate, and the number of iterations."""

    mass: np.ndarray
    certificate: float
    iterations: int


def newton(problem: PriorProblem, tolerance: float, most_iterations: int = 200) -> Solution:
    """Primal-dual interior-point method: Newton steps on the optimality conditions while p·z goes to 0."""
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
    """The paper's method: masses times exp(−step · gradient), renormalised. The step is reduced until J decreases."""
    mass = np.full(problem.cells, 1.0 / problem.cells)
    gradient = problem.gradient(mass)
    step = 1.0 / max(float(np.ptp(gradient)), 1e-12)
    for iteration in range(most_iterations):
        certificate = problem.certificate(mass, gradient)
        if certificate <= tolerance:
            return Solution(mass, certificate, iteration)
        # A step of this length always decreases J. It needs no test, which rounding could break near the optimum.
        curve = 2.0 * problem.penalty * problem.cells * mass
        safe = 1.0 / ((curve - gradient).max() + curve.max())
        step = max(1.3 * step, safe)
        tilted = _tilted(mass, gradient, step)
        # J is convex, so it has decreased if its slope along the step is not positive at the new point.
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
    # Masses differ by many powers of ten; scaling by them keeps the system well conditioned.
    scale = np.sqrt(mass)
    sides = np.column_stack([-residual * scale, scale])
    free, even = (np.linalg.solve(matrix * np.outer(scale, scale), sides) * scale[:, None]).T
    mass_step = free - free.sum() / even.sum() * even
    return mass_step, target / mass - slack - slack / mass * mass_step


def _largest_stride(values: np.ndarray, step: np.ndarray) -> float:
    """The largest step size up to 1 that keeps every value positive."""
    shrinking = step < 0
    if not shrinking.any():
        return 1.0
    return float(min(1.0, 0.995 * (-values[shrinking] / step[shrinking]).min()))


def _tilted(mass: np.ndarray, gradient: np.ndarray, step: float) -> np.ndarray:
    tilted = mass * np.exp(-step * (gradient - gradient.min()))
    return tilted / tilted.sum()
