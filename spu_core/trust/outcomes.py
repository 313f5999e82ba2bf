"""Outcomes of checks and what they say of each arm: surrender ratio, pass ratio and failure ratio, with intervals.

One row is one check of one user. The arm says who asked for it: a model, a rule, or chance. The ratios are those of
the paper's online evaluation: admitted, passed and failed (or skipped) checks, each divided by all checks of the arm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri, stdtrit

from spu_core.checks import check_share
from spu_core.errors import TableError
from spu_core.labels.check_log import ADMITTED, FAILED, PASSED, CheckLog
from spu_core.metrics import Interval
from spu_core.theory.check_ratio import wilson_interval

RANDOM = "random"
WORDS = {PASSED: "passed", FAILED: "failed", ADMITTED: "admitted"}
FEW_USERS, FEW_EVENTS = 20, 5


@dataclass(frozen=True, eq=False)
class Checks:
    """Finished checks: `user` counts the entries of `users`, `outcome` is 0 passed, 1 failed or skipped, 2 admitted.

    `day` is when the check took place, `asked` when somebody asked for it (NaT where nobody noted it).

    >>> checks = Checks.read({"user": ["a", "b", "c"], "arm": ["new", "new", "random"],
    ...                       "outcome": ["admit", "skip", "pass"]})
    >>> len(checks), checks.arms, checks.of("new").words
    (3, ('new', 'random'), ('admitted', 'failed'))
    """

    users: np.ndarray
    user: np.ndarray
    arm: np.ndarray
    outcome: np.ndarray
    day: np.ndarray
    asked: np.ndarray

    @classmethod
    def read(cls, frame: Any) -> Checks:
        """Checks from a data frame or mapping with user, arm, outcome and, if known, day and asked."""
        if not isinstance(frame, pd.DataFrame | Mapping) or "arm" not in frame:
            raise TableError("Checks need the columns user, arm and outcome; the day may be added.")
        log = CheckLog.read({"rule" if name == "arm" else name: frame[name] for name in frame})
        days = {name: _days(frame[name], len(log)) if name in frame else _unknown(len(log)) for name in DATES}
        return cls(log.users, log.user, log.rule.astype(str), log.outcome, days["day"], days["asked"])

    def __len__(self) -> int:
        return self.user.size

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms in order of name, chance last."""
        return tuple(sorted(set(self.arm.tolist()), key=lambda name: (name == RANDOM, name)))

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(WORDS[code] for code in self.outcome.tolist())

    def only(self, rows: Any) -> Checks:
        """Some of the checks, by flag or number."""
        names = ("user", "arm", "outcome", "day", "asked")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def of(self, arm: str) -> Checks:
        """The checks of one arm."""
        return self.only(self.arm == arm)

    def log(self) -> dict[str, np.ndarray]:
        """The same as a log of checks for `check_ratio_labels`: every arm is a rule that asked for checks.

        >>> from spu_core.labels import check_ratio_labels
        >>> arm, outcome = ["new"] * 4 + ["random"] * 4, ["fail"] * 2 + ["pass"] * 5 + ["fail"]
        >>> checks = Checks.read({"user": range(8), "arm": arm, "outcome": outcome})
        >>> check_ratio_labels(checks.log(), random_rule="random").ratios.value.tolist()
        [0.5, 0.0]
        """
        words = {PASSED: "pass", FAILED: "fail", ADMITTED: "admit"}
        outcome = np.array([words[code] for code in self.outcome.tolist()], dtype=object)
        return {"user": self.users[self.user], "rule": self.arm, "outcome": outcome, "day": self.day}

    def to_frame(self) -> pd.DataFrame:
        """One line per check."""
        columns = {"user": self.users[self.user], "arm": self.arm, "outcome": np.array(self.words, dtype=object)}
        return pd.DataFrame({**columns, "day": self.day, "asked": self.asked})


@dataclass(frozen=True, slots=True)
class ArmRatios:
    """What the checks of one arm gave; the intervals take the checks of one user as dependent."""

    arm: str
    checks: int
    users: int
    admitted: int
    failed: int
    passed: int
    surrender: Interval
    pass_: Interval
    failure: Interval

    @property
    def is_random(self) -> bool:
        """Whether chance chose whom to check, so that the ratios speak of everybody."""
        return self.arm == RANDOM

    @property
    def comes_from(self) -> str:
        """Which rows the ratios speak of."""
        if self.is_random:
            return "a random sample of the users who were open to checks, so they hold for all of these"
        return f"users whom {self.arm!r} ranked highest in its own random part of the users, so they hold for those"


def outcome_ratios(checks: Checks, *, level: float = 0.95) -> tuple[ArmRatios, ...]:
    """The ratios of each arm, chance last.

    >>> arm = ["new"] * 40 + ["random"] * 40
    >>> outcome = ["admit"] * 6 + ["fail"] * 20 + ["pass"] * 14 + ["admit"] + ["fail"] * 4 + ["pass"] * 35
    >>> new, chance = outcome_ratios(Checks.read({"user": range(80), "arm": arm, "outcome": outcome}))
    >>> new.surrender.estimate, chance.surrender.estimate, chance.is_random
    (0.15, 0.025, True)
    """
    check_share(level, "level", TableError)
    return tuple(_ratios(checks.of(arm), arm, level) for arm in checks.arms)


def ratio_table(ratios: tuple[ArmRatios, ...]) -> pd.DataFrame:
    """The same as a table, one line per arm."""
    lines = [
        {
            "arm": each.arm,
            **{name: getattr(each, name) for name in ("checks", "users", "admitted", "failed", "passed")},
            **_limits("surrender_ratio", each.surrender),
            **_limits("pass_ratio", each.pass_),
            **_limits("failure_ratio", each.failure),
            "is_random": each.is_random,
        }
        for each in ratios
    ]
    return pd.DataFrame(lines)


def clustered_ratio(hits: Any, user: Any, level: float = 0.95) -> Interval:
    """The share of checks that hit, with Wilson limits on the number of independent checks that it is worth.

    The linearised variance adds up the checks of each user first. The checks are worth n / (design effect) independent
    ones, never more than they are, and fewer where there are few users (Korn and Graubard's factor). Where every check
    ended alike, each user counts once.

    >>> one = clustered_ratio([1, 0, 0, 0] * 10, range(40))
    >>> same = clustered_ratio([1, 0, 0, 0] * 10, [0, 1, 2, 3] * 10)
    >>> one.estimate == same.estimate, same.high - same.low > one.high - one.low
    (True, True)
    """
    hits = np.asarray(hits, dtype=np.float64)
    codes, users = np.unique(np.asarray(user), return_inverse=True)[1], np.unique(np.asarray(user)).size
    share = float(hits.mean())
    worth = _worth(hits - share, codes, users, share, level)
    low, high = (float(limit) for limit in wilson_interval(share * worth, worth, level))
    error = float(np.sqrt(share * (1.0 - share) / worth))
    return Interval(share, min(low, share), max(high, share), error, level, _warning(hits, users))


DATES = ("day", "asked")


def _ratios(checks: Checks, arm: str, level: float) -> ArmRatios:
    codes = (ADMITTED, FAILED, PASSED)
    admitted, failed, passed = (int((checks.outcome == code).sum()) for code in codes)
    surrender, failure, pass_ = (clustered_ratio(checks.outcome == code, checks.user, level) for code in codes)
    users = int(np.unique(checks.user).size)
    return ArmRatios(arm, len(checks), users, admitted, failed, passed, surrender, pass_, failure)


def _worth(residual: np.ndarray, codes: np.ndarray, users: int, share: float, level: float) -> float:
    """How many independent checks these are worth."""
    if users < 2 or share in (0.0, 1.0):
        return float(users)
    sums = np.bincount(codes, residual, minlength=users)
    variance = users / (users - 1) * float(np.sum(sums**2)) / residual.size**2
    worth = min(share * (1.0 - share) / variance, residual.size) if variance > 0 else float(users)
    # A variance estimated from few users is itself uncertain.
    quantile = 0.5 + level / 2
    return max(worth * float(ndtri(quantile) / stdtrit(users - 1, quantile)) ** 2, 1.0)


def _warning(hits: np.ndarray, users: int) -> str | None:
    if users < FEW_USERS:
        return f"Only {users} users were checked; below {FEW_USERS} such intervals say little."
    events = int(min(hits.sum(), hits.size - hits.sum()))
    if events < FEW_EVENTS:
        many = f"Only {events} such outcome{'s' * (events != 1)}" if events else "No such outcome"
        return f"{many} so far; a few more may change the picture."
    return None


def _limits(name: str, interval: Interval) -> dict[str, float]:
    return {name: interval.estimate, f"{name}_low": interval.low, f"{name}_high": interval.high}


def _unknown(size: int) -> np.ndarray:
    return np.full(size, np.datetime64("NaT"), dtype="datetime64[D]")


def _days(values: Any, size: int) -> np.ndarray:
    """Days as dates; numbers count days from an arbitrary first one."""
    given = pd.Series(np.asarray(values))
    if given.size == size and pd.api.types.is_numeric_dtype(given):
        return np.datetime64("1970-01-01", "D") + given.to_numpy(dtype="timedelta64[D]")
    try:
        return pd.to_datetime(given).to_numpy(dtype="datetime64[D]")
    except (ValueError, TypeError) as problem:
        raise TableError(f"A day of the checks cannot be read as a date: {problem}.") from None
