"""Two models on randomly split users: is the one's surrender or pass ratio really better?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from spu_core.checks import check_choice, check_share
from spu_core.errors import TableError
from spu_core.labels.check_log import ADMITTED, PASSED
from spu_core.metrics import Difference
from spu_core.metrics.intervals import p_value_words
from spu_core.trust.outcomes import FEW_EVENTS, Checks, clustered_ratio


@dataclass(frozen=True, slots=True)
class ArmComparison:
    """The ratios of `first` minus those of `second`; positive `surrender` and negative `pass_` speak for `first`.

    `shared_users` were checked in both arms, which a split by user does not do.
    """

    first: str
    second: str
    surrender: Difference
    pass_: Difference
    shared_users: int = 0

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        found = [f"{name} ratio {_words(each)}" for name, each in (("surrender", self.surrender), ("pass", self.pass_))]
        return f"{self.first!r} against {self.second!r}: {'; '.join(found)}."

    @property
    def notes(self) -> tuple[str, ...]:
        """What the p-values rest on."""
        notes = [
            "The test holds for a number of checks that was decided before looking; stopping as soon as p is small "
            "finds differences that are not there."
        ]
        if self.shared_users:
            notes.append(
                f"{self.shared_users:,} users were checked in both arms, so these are not two random parts of the "
                "users; the test allows for it, but the arms may differ by more than their models."
            )
        notes += [each.warning for each in (self.surrender, self.pass_) if each.warning]
        return tuple(dict.fromkeys(notes))


def compare_arms(checks: Checks, first: str, second: str, *, level: float = 0.95) -> ArmComparison:
    """A two-sample test of two arms, with the checks of one user taken as dependent.

    p comes from the score test: the difference over its standard error if both arms had the pooled ratio, with the
    residuals of each user added up first. The limits of the difference join the limits of both ratios (MOVER); where
    users appear in both arms they are those of the linearised difference.

    >>> user, arm = range(400), ["new"] * 200 + ["old"] * 200
    >>> outcome = ["admit"] * 24 + ["pass"] * 176 + ["admit"] * 6 + ["pass"] * 194
    >>> found = compare_arms(Checks.read({"user": user, "arm": arm, "outcome": outcome}), "new", "old")
    >>> round(found.surrender.estimate, 3), round(found.surrender.p_value, 4), found.surrender.can_be_told_apart
    (0.09, 0.0006, True)
    """
    check_share(level, "level", TableError)
    for arm in (first, second):
        check_choice(arm, checks.arms, "arm", TableError)
    if first == second:
        raise TableError(f"An arm is compared with another one, got {first!r} twice.")
    pair = checks.only(np.isin(checks.arm, [first, second]))
    is_first = pair.arm == first
    shared = np.intersect1d(pair.user[is_first], pair.user[~is_first]).size
    found = [_difference(pair, is_first, code, (level, shared > 0)) for code in (ADMITTED, PASSED)]
    return ArmComparison(first, second, found[0], found[1], int(shared))


def detectable_difference(ratio: float, checks: int, *, power: float = 0.8, level: float = 0.95) -> float:
    """How much better a ratio must be to be found with this power when each of two arms has so many checks.

    >>> round(detectable_difference(0.02, 1_000), 3)
    0.022
    """
    check_share(ratio, "ratio", TableError, closed=True)
    check_share(power, "power", TableError)
    if checks < 1:
        raise TableError(f"checks must be at least 1, got {checks}.")
    low, high = ratio, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _power(ratio, middle, checks, level) >= power else (middle, high)
    return high - ratio


def _power(ratio: float, other: float, checks: int, level: float) -> float:
    pooled = 0.5 * (ratio + other)
    under_none = math.sqrt(2 * pooled * (1 - pooled) / checks)
    under_some = math.sqrt((ratio * (1 - ratio) + other * (1 - other)) / checks)
    if under_some == 0:
        return float(other > ratio)
    return float(ndtr(((other - ratio) - ndtri(0.5 + level / 2) * under_none) / under_some))


def _difference(pair: Checks, is_first: np.ndarray, code: int, how: tuple[float, bool]) -> Difference:
    level, is_shared = how
    hits = (pair.outcome == code).astype(np.float64)
    sizes = np.where(is_first, is_first.sum(), -(~is_first).sum()).astype(np.float64)
    means = np.where(is_first, hits[is_first].mean(), hits[~is_first].mean())
    estimate = float(hits[is_first].mean() - hits[~is_first].mean())
    users = np.unique(pair.user, return_inverse=True)[1]
    error = _error((hits - means) / sizes, users)
    under_none = _error((hits - hits.mean()) / sizes, users)
    p_value = float(2 * ndtr(-abs(estimate) / under_none)) if under_none > 0 else 1.0
    low, high = _limits(pair, is_first, hits, how) if not is_shared else _plain_limits(estimate, error, level)
    return Difference(estimate, low, high, error, level, _few(hits, is_first), p_value)


def _error(residual: np.ndarray, users: np.ndarray) -> float:
    sums = np.bincount(users, residual)
    return math.sqrt(sums.size / max(sums.size - 1, 1) * float(np.sum(sums**2)))


def _limits(pair: Checks, is_first: np.ndarray, hits: np.ndarray, how: tuple[float, bool]) -> tuple[float, float]:
    """MOVER: the limits of a difference from those of its parts."""
    one, two = (clustered_ratio(hits[rows], pair.user[rows], how[0]) for rows in (is_first, ~is_first))
    estimate = one.estimate - two.estimate
    low = estimate - math.hypot(one.estimate - one.low, two.high - two.estimate)
    high = estimate + math.hypot(one.high - one.estimate, two.estimate - two.low)
    return max(low, -1.0), min(high, 1.0)


def _plain_limits(estimate: float, error: float, level: float) -> tuple[float, float]:
    half = float(ndtri(0.5 + level / 2)) * error
    return max(estimate - half, -1.0), min(estimate + half, 1.0)


def _few(hits: np.ndarray, is_first: np.ndarray) -> str | None:
    least = min(int(hits[rows].sum()) for rows in (is_first, ~is_first))
    if least >= FEW_EVENTS:
        return None
    return f"One arm has only {least} of these outcomes; read p as a rough guide below {FEW_EVENTS}."


def _words(found: Difference) -> str:
    limits = f"({found.level:.0%}: {100 * found.low:+.1f} to {100 * found.high:+.1f}), {p_value_words(found.p_value)}"
    if not found.can_be_told_apart:
        return f"cannot be told apart, difference {100 * found.estimate:+.1f} points {limits}"
    return f"{'higher' if found.estimate > 0 else 'lower'} by {100 * abs(found.estimate):.1f} points {limits}"
