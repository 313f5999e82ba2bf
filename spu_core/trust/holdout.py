"""Who is checked at random and who by which model: users are split by a seeded hash, for good.

The holdout is a random part of the users that no model ever chooses from. Some of them are checked at random, which is
the paper's rule R0. What these checks find is true of everybody, however the models before have steered the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import chdtrc

from spu_core.checks import check_share
from spu_core.errors import TableError
from spu_core.labels.check_log import ADMITTED, PASSED
from spu_core.metrics import Interval
from spu_core.metrics.intervals import known_positive_auc_interval, p_value_words
from spu_core.trust.outcomes import RANDOM, Checks, clustered_ratio

MOST_SHARE = 0.9
FEWEST_FOR_AUC, FEW_FOR_AUC = 5, 40


def hash_shares(users: Any, seed: int, purpose: str = "arm") -> np.ndarray:
    """A number in [0, 1) for each user that depends on nothing but the seed, the purpose and the user's name.

    It is the first eight bytes of SHA-256 of "seed:purpose:user", so any program can compute it again.

    >>> hash_shares(["a", "b"], seed=0).round(3).tolist() == hash_shares(["a", "b"], seed=0).round(3).tolist()
    True
    >>> bool(hash_shares(["a"], seed=0)[0] == hash_shares(["a"], seed=1)[0])
    False
    """
    codes, names = pd.factorize(np.asarray(users, dtype=object))
    if codes.size and codes.min() < 0:
        raise TableError(f"Row {int(np.argmin(codes))} has no user; every row needs one to be put into an arm.")
    first = [hashlib.sha256(f"{seed}:{purpose}:{name}".encode()).digest()[:8] for name in names]
    return np.array([int.from_bytes(each, "big") / 2**64 for each in first])[codes] if first else np.zeros(0)


def assign_arms(users: Any, models: Sequence[str], *, random_share: float = 0.1, seed: int = 0) -> np.ndarray:
    """The arm of each user: chance for `random_share` of them, the models in equal parts for the rest.

    With the same seed a user stays in the holdout for good, and in the arm of a model as long as the models are as
    many and in the same order.

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
    """A share of users for chance: none to nearly all."""
    share = check_share(value, "random_share", TableError, closed=True)
    if share > MOST_SHARE:
        raise TableError(
            f"random_share must be at most {MOST_SHARE:g}, got {share:g}; models need users to choose from."
        )
    return share


@dataclass(frozen=True, slots=True)
class SplitBalance:
    """Whether a split looks random: users per arm against what was meant, and how far their means differ.

    `p_value` is that of the chi-square test of the counts (a tiny one means that users got lost or were added in one
    arm). `largest_gap` is the largest difference of two arms' means, in standard deviations, and `of` what it concerns.
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
        chance = p_value_words(self.p_value)
        if self.is_suspicious:
            return f"The arms do not have the sizes that were meant ({shown}; {chance}): find out why."
        return f"The arms have the sizes that were meant: {shown} users ({chance})."


def split_balance(arms: Any, expected: Mapping[str, float], values: Mapping[str, Any] | None = None) -> SplitBalance:
    """Compare a split with the shares that were meant, and the arms with each other.

    >>> split_balance(["a"] * 60 + ["b"] * 40, {"a": 0.5, "b": 0.5}).sentence
    'The arms have the sizes that were meant: a 60, b 40 users (p = 0.046).'
    """
    arms = np.asarray(arms, dtype=object)
    counts = {name: int((arms == name).sum()) for name in expected}
    total = sum(counts.values())
    if not total or min(expected.values()) <= 0:
        raise TableError("Every arm of a split needs a share above 0, and at least one user must be in one.")
    meant = {name: share / sum(expected.values()) * total for name, share in expected.items()}
    chi_square = sum((counts[name] - meant[name]) ** 2 / meant[name] for name in meant)
    p_value = float(chdtrc(len(meant) - 1, chi_square)) if len(meant) > 1 else 1.0
    gap, of = _largest_gap(arms, list(expected), values or {})
    return SplitBalance(counts, dict(expected), p_value, gap, of)


@dataclass(frozen=True, slots=True)
class HoldoutReport:
    """What random checks say of a score, without feedback bias.

    `admission_auc` tells how well the score puts users who admitted above the others, `not_passed_auc` the same for
    users who admitted, failed or skipped; None with fewer than five checks of one kind. `surrender` and `pass_` are the
    ratios that checks of the users above the threshold would have had.
    """

    checks: int
    flagged: int
    admission_auc: Interval | None
    not_passed_auc: Interval | None
    surrender: Interval | None
    pass_: Interval | None


def measure_on_holdout(score: Any, checks: Checks, threshold: float) -> HoldoutReport:
    """Judge a score by the random checks alone; `score` has one entry per check.

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
        raise TableError("Only random checks speak for everybody; pass `checks.of('random')`.")
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
    few = f"Only {fewest} checks of one kind; such intervals tend to be too short." if fewest < FEW_FOR_AUC else None
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
        raise TableError(f"The arms need distinct models, none of them called {RANDOM!r}; got {names}.")
    return names
