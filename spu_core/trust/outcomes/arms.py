"""Assignment of users to arms (random or a model), and comparison of the arms.

A seeded hash splits the users permanently. The holdout is a random part of the users from which no model chooses. Some
of them are checked at random (the paper's rule R0); their outcomes represent all users.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import chdtrc, ndtr

from spu_core.checks import check_choice, check_share
from spu_core.errors import TableError
from spu_core.labels.check_log import ADMITTED, PASSED
from spu_core.metrics import Difference, Interval
from spu_core.metrics.intervals import known_positive_auc_interval, p_value_text, z_quantile
from spu_core.trust.outcomes.ratios import FEW_EVENTS, RANDOM, Checks, clustered_ratio

MOST_SHARE = 0.9
FEWEST_FOR_AUC, FEW_FOR_AUC = 5, 40


def hash_shares(users: Any, seed: int, purpose: str = "arm") -> np.ndarray:
    """A number in [0, 1) for each user that depends only on the seed, the purpose and the user's name.

    It is computed from the first eight bytes of the SHA-256 of "seed:purpose:user", so any program can reproduce it.

    >>> hash_shares(["a", "b"], seed=0).round(3).tolist() == hash_shares(["a", "b"], seed=0).round(3).tolist()
    True
    >>> bool(hash_shares(["a"], seed=0)[0] == hash_shares(["a"], seed=1)[0])
    False
    """
    codes, names = pd.factorize(np.asarray(users, dtype=object))
    if codes.size and codes.min() < 0:
        raise TableError(f"Row {int(np.argmin(codes))} has no user; every row needs a user to be assigned to an arm.")
    first = [hashlib.sha256(f"{seed}:{purpose}:{name}".encode()).digest()[:8] for name in names]
    return np.array([int.from_bytes(each, "big") / 2**64 for each in first])[codes] if first else np.zeros(0)


def assign_arms(users: Any, models: Sequence[str], *, random_share: float = 0.1, seed: int = 0) -> np.ndarray:
    """The arm of each user: `random_share` of them are in the random arm, the models share the others equally.

    With the same seed, the users in the holdout never change. The users of a model's arm do not change as long as the
    number and order of the models stay the same.

    >>> arms = assign_arms(range(10_000), ["new", "old"], random_share=0.1)
    >>> {name: round(float((arms == name).mean()), 2) for name in ("random", "new", "old")}
    {'random': 0.1, 'new': 0.45, 'old': 0.45}
    """
    names = _check_models(models)
    share = check_random_share(random_share)
    place = hash_shares(users, seed)
    part = np.minimum(((place - share) / (1.0 - share) * len(names)).astype(int), len(names) - 1)
    return np.where(place < share, RANDOM, np.array(names, dtype=object)[np.maximum(part, 0)])


def check_random_share(value: float) -> float:
    """The share of users in the random arm, from 0 to 0.9."""
    share = check_share(value, "random_share", TableError, closed=True)
    if share > MOST_SHARE:
        raise TableError(f"random_share must be at most {MOST_SHARE:g}, got {share:g}; the models need users too.")
    return share


@dataclass(frozen=True, slots=True)
class SplitBalance:
    """Whether a split looks random: users per arm, compared with the planned shares, and differences of the means.

    `p_value` is that of the chi-square test of the counts (a very small one means that users of one arm are missing or
    were added). `largest_gap` is the largest difference between means of two arms, in standard deviations, and `of` the
    name of that value.
    """

    users: Mapping[str, int]
    expected: Mapping[str, float]
    p_value: float
    largest_gap: float
    of: str

    @property
    def is_suspicious(self) -> bool:
        return self.p_value < 0.001

    @property
    def sentence(self) -> str:
        shown = ", ".join(f"{name} {count:,}" for name, count in self.users.items())
        chance = p_value_text(self.p_value)
        if self.is_suspicious:
            return f"The groups do not have the planned sizes ({shown}; {chance}): find out why."
        return f"The groups have the planned sizes: {shown} rows ({chance})."


def split_balance(arms: Any, expected: Mapping[str, float], values: Mapping[str, Any] | None = None) -> SplitBalance:
    """Compare a split with the planned shares, and the arms with each other.

    >>> split_balance(["a"] * 60 + ["b"] * 40, {"a": 0.5, "b": 0.5}).sentence
    'The groups have the planned sizes: a 60, b 40 rows (p = 0.046).'
    """
    arms = np.asarray(arms, dtype=object)
    counts = {name: int((arms == name).sum()) for name in expected}
    total = sum(counts.values())
    if not total or min(expected.values()) <= 0:
        raise TableError("Every arm needs a share above 0, and at least one user must be in an arm.")
    planned = {name: share / sum(expected.values()) * total for name, share in expected.items()}
    chi_square = sum((counts[name] - planned[name]) ** 2 / planned[name] for name in planned)
    p_value = float(chdtrc(len(planned) - 1, chi_square)) if len(planned) > 1 else 1.0
    gap, of = _largest_gap(arms, list(expected), values or {})
    return SplitBalance(counts, dict(expected), p_value, gap, of)


@dataclass(frozen=True, slots=True)
class HoldoutReport:
    """Evaluation of a score on random checks, without feedback bias.

    `admission_auc` is the AUC of the score for users who admitted against all others; `not_passed_auc` is that for
    users who admitted, failed or skipped. Both are None with fewer than five checks of one kind. `surrender` and
    `pass_` are the ratios of the users above the threshold.
    """

    checks: int
    flagged: int
    admission_auc: Interval | None
    not_passed_auc: Interval | None
    surrender: Interval | None
    pass_: Interval | None


def measure_on_holdout(score: Any, checks: Checks, threshold: float) -> HoldoutReport:
    """Evaluate a score on random checks; `score` has one entry per check.

    >>> outcome = ["admit"] * 5 + ["fail"] * 2 + ["pass"] * 8
    >>> chance = Checks.read({"user": range(15), "arm": ["random"] * 15, "outcome": outcome})
    >>> found = measure_on_holdout([0.9] * 5 + [0.7] * 2 + [0.2] * 8, chance, threshold=0.6)
    >>> found.flagged, found.admission_auc.estimate, round(found.surrender.estimate, 2)
    (7, 1.0, 0.71)
    """
    score = np.asarray(score, dtype=np.float64)
    if score.shape != (len(checks),):
        raise TableError(f"score has {score.size} entries, but there are {len(checks)} checks; give one for each.")
    if not len(checks) or set(checks.arms) != {RANDOM}:
        raise TableError("Only random checks represent all users; pass `checks.of('random')`.")
    above = score > threshold
    flagged = checks.only(above)
    return HoldoutReport(
        len(checks),
        int(above.sum()),
        _auc(checks.outcome == ADMITTED, score, checks.user),
        _auc(checks.outcome != PASSED, score, checks.user),
        clustered_ratio(flagged.outcome == ADMITTED, flagged.user) if above.any() else None,
        clustered_ratio(flagged.outcome == PASSED, flagged.user) if above.any() else None,
    )


def _auc(hits: np.ndarray, score: np.ndarray, user: np.ndarray) -> Interval | None:
    fewest = int(min(hits.sum(), (~hits).sum()))
    if fewest < FEWEST_FOR_AUC:
        return None
    few = f"Only {fewest} checks of one kind; the interval may be too narrow." if fewest < FEW_FOR_AUC else None
    return replace(known_positive_auc_interval(hits, score, groups=user), warning=few)


def _largest_gap(arms: np.ndarray, names: list[str], values: Mapping[str, Any]) -> tuple[float, str]:
    found = [(0.0, "")]
    for column, given in values.items():
        numbers = np.asarray(given, dtype=np.float64)
        spread = float(np.nanstd(numbers))
        means = [float(np.nanmean(numbers[arms == name])) for name in names if (arms == name).any()]
        if spread > 0 and len(means) > 1:
            found.append(((max(means) - min(means)) / spread, column))
    return max(found)


def _check_models(models: Sequence[str]) -> list[str]:
    names = [str(name) for name in models]
    if not names or len(set(names)) < len(names) or RANDOM in names:
        raise TableError(f"The names of the models must be distinct, and none may be {RANDOM!r}; got {names}.")
    return names


@dataclass(frozen=True, slots=True)
class ArmComparison:
    """The ratios of `first` minus those of `second`. `first` is better if `surrender` is positive and `pass_` negative.

    `shared_users` is the number of users who were checked in both arms; it is 0 for a split by user.
    """

    first: str
    second: str
    surrender: Difference
    pass_: Difference
    shared_users: int = 0

    @property
    def sentence(self) -> str:
        """The result in a sentence."""
        shares = (("confirmed", self.surrender), ("cleared", self.pass_))
        found = [f"{name} share {_difference_text(each)}" for name, each in shares]
        return f"{self.first!r} against {self.second!r}: {'; '.join(found)}."

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions of the p-values, and warnings."""
        notes = [
            "The test is valid if the number of checks was decided in advance. Stopping as soon as p is small finds "
            "differences that do not exist."
        ]
        if self.shared_users:
            notes.append(
                f"{self.shared_users:,} rows were checked in both groups, so the groups are not two random parts of "
                "the rows. The test takes this into account, but the groups may differ in more than their models."
            )
        notes += [each.warning for each in (self.surrender, self.pass_) if each.warning]
        return tuple(dict.fromkeys(notes))


def compare_arms(checks: Checks, first: str, second: str, *, level: float = 0.95) -> ArmComparison:
    """A two-sample test of two arms; checks of one user are treated as dependent.

    p comes from the score test: the difference divided by its standard error under the pooled ratio, with the residuals
    of each user summed first. The limits of the difference combine the limits of both ratios (MOVER). If users appear
    in both arms, they are those of the linearised difference.

    >>> user, arm = range(400), ["new"] * 200 + ["old"] * 200
    >>> outcome = ["admit"] * 24 + ["pass"] * 176 + ["admit"] * 6 + ["pass"] * 194
    >>> found = compare_arms(Checks.read({"user": user, "arm": arm, "outcome": outcome}), "new", "old")
    >>> round(found.surrender.estimate, 3), round(found.surrender.p_value, 4), found.surrender.is_clear
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
    """The smallest difference from `ratio` that is detected with this power if each of two arms has `checks` checks.

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
    return float(ndtr(((other - ratio) - z_quantile(level) * under_none) / under_some))


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
    half = z_quantile(level) * error
    return max(estimate - half, -1.0), min(estimate + half, 1.0)


def _few(hits: np.ndarray, is_first: np.ndarray) -> str | None:
    least = min(int(hits[rows].sum()) for rows in (is_first, ~is_first))
    if least >= FEW_EVENTS:
        return None
    return f"One group has only {least} of these outcomes; below {FEW_EVENTS} the p-value is only approximate."


def _difference_text(found: Difference) -> str:
    limits = f"({found.level:.0%}: {100 * found.low:+.1f} to {100 * found.high:+.1f}), {p_value_text(found.p_value)}"
    if not found.is_clear:
        return f"shows no clear difference: {100 * found.estimate:+.1f} points {limits}"
    return f"is {'higher' if found.estimate > 0 else 'lower'} by {100 * abs(found.estimate):.1f} points {limits}"
