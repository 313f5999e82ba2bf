"""Outcomes of checks: the ratios of each arm with confidence intervals, over time, and the delay of outcomes.

One row is one check of one user. The arm is what selected the user: a model, a rule, or chance (`random`). The ratios
are those of the paper's online evaluation: admitted, passed and failed (or skipped) checks, each divided by all checks
of the arm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_choice, check_share
from spu_core.errors import TableError
from spu_core.labels.check_log import ADMITTED, FAILED, PASSED, CheckLog
from spu_core.metrics.intervals import Interval, t_quantile, z_quantile
from spu_core.theory.check_ratio import wilson_interval

RANDOM = "random"
OUTCOME_NAMES = {PASSED: "passed", FAILED: "failed", ADMITTED: "admitted"}
FEW_USERS, FEW_EVENTS = 20, 5


@dataclass(frozen=True, eq=False)
class Checks:
    """Finished checks. `user` is an index into `users`; `outcome` is 0 passed, 1 failed or skipped, 2 admitted.

    `day` is the day of the check, `asked` the day on which it was requested (NaT if unknown).

    >>> checks = Checks.read({"user": ["a", "b", "c"], "arm": ["new", "new", "random"],
    ...                       "outcome": ["admit", "skip", "pass"]})
    >>> len(checks), checks.arms, checks.of("new").outcome_names
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
            raise TableError("Checks need the columns user, arm and outcome; the column day is optional.")
        log = CheckLog.read({"rule" if name == "arm" else name: frame[name] for name in frame})
        days = {name: _days(frame[name], len(log)) if name in frame else _unknown(len(log)) for name in DATES}
        return cls(log.users, log.user, log.rule.astype(str), log.outcome, days["day"], days["asked"])

    def __len__(self) -> int:
        return self.user.size

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms in order of name; `random` is last."""
        return tuple(sorted(set(self.arm.tolist()), key=lambda name: (name == RANDOM, name)))

    @property
    def outcome_names(self) -> tuple[str, ...]:
        return tuple(OUTCOME_NAMES[code] for code in self.outcome.tolist())

    def only(self, rows: Any) -> Checks:
        """Some of the checks, by flag or number."""
        names = ("user", "arm", "outcome", "day", "asked")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def of(self, arm: str) -> Checks:
        """The checks of one arm."""
        return self.only(self.arm == arm)

    def log(self) -> dict[str, np.ndarray]:
        """The checks as a log for `check_ratio_labels`, where every arm is a rule.

        >>> from spu_core.labels import check_ratio_labels
        >>> arm, outcome = ["new"] * 4 + ["random"] * 4, ["fail"] * 2 + ["pass"] * 5 + ["fail"]
        >>> checks = Checks.read({"user": range(8), "arm": arm, "outcome": outcome})
        >>> check_ratio_labels(checks.log(), random_rule="random").ratios.value.tolist()
        [0.5, 0.0]
        """
        names = {PASSED: "pass", FAILED: "fail", ADMITTED: "admit"}
        outcome = np.array([names[code] for code in self.outcome.tolist()], dtype=object)
        return {"user": self.users[self.user], "rule": self.arm, "outcome": outcome, "day": self.day}

    def to_frame(self) -> pd.DataFrame:
        """One line per check."""
        columns = {
            "user": self.users[self.user],
            "arm": self.arm,
            "outcome": np.array(self.outcome_names, dtype=object),
        }
        return pd.DataFrame({**columns, "day": self.day, "asked": self.asked})


@dataclass(frozen=True, slots=True)
class ArmRatios:
    """Counts and ratios of one arm. The confidence intervals treat checks of one user as dependent."""

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
        """Whether the users were chosen at random, so that the ratios hold for all users."""
        return self.arm == RANDOM

    @property
    def comes_from(self) -> str:
        """The users for whom the ratios hold."""
        if self.is_random:
            return "a random sample of the rows that could be checked, so the shares hold for all of them"
        return f"the rows that {self.arm!r} ranked highest in its random part, so the shares hold for such rows"


def outcome_ratios(checks: Checks, *, level: float = 0.95) -> tuple[ArmRatios, ...]:
    """The ratios of each arm; the random arm is last.

    >>> arm = ["new"] * 40 + ["random"] * 40
    >>> outcome = ["admit"] * 6 + ["fail"] * 20 + ["pass"] * 14 + ["admit"] + ["fail"] * 4 + ["pass"] * 35
    >>> new, chance = outcome_ratios(Checks.read({"user": range(80), "arm": arm, "outcome": outcome}))
    >>> new.surrender.estimate, chance.surrender.estimate, chance.is_random
    (0.15, 0.025, True)
    """
    check_share(level, "level", TableError)
    return tuple(_ratios(checks.of(arm), arm, level) for arm in checks.arms)


def ratio_table(ratios: tuple[ArmRatios, ...]) -> pd.DataFrame:
    """The ratios as a table, one line per arm."""
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
    """The share of checks with an outcome, with Wilson limits for the effective number of independent checks.

    The linearised variance sums the checks of each user first. The effective number of checks is n / (design effect),
    at most n, and lower if there are few users (Korn and Graubard's factor). If all checks have the same outcome, each
    user counts once.

    >>> one = clustered_ratio([1, 0, 0, 0] * 10, range(40))
    >>> same = clustered_ratio([1, 0, 0, 0] * 10, [0, 1, 2, 3] * 10)
    >>> one.estimate == same.estimate, same.high - same.low > one.high - one.low
    (True, True)
    """
    hits = np.asarray(hits, dtype=np.float64)
    codes, users = np.unique(np.asarray(user), return_inverse=True)[1], np.unique(np.asarray(user)).size
    share = float(hits.mean())
    number = _effective_checks(hits - share, codes, users, share, level)
    low, high = (float(limit) for limit in wilson_interval(share * number, number, level))
    error = float(np.sqrt(share * (1.0 - share) / number))
    return Interval(share, min(low, share), max(high, share), error, level, _warning(hits, users))


DATES = ("day", "asked")


def _ratios(checks: Checks, arm: str, level: float) -> ArmRatios:
    codes = (ADMITTED, FAILED, PASSED)
    admitted, failed, passed = (int((checks.outcome == code).sum()) for code in codes)
    surrender, failure, pass_ = (clustered_ratio(checks.outcome == code, checks.user, level) for code in codes)
    users = int(np.unique(checks.user).size)
    return ArmRatios(arm, len(checks), users, admitted, failed, passed, surrender, pass_, failure)


def _effective_checks(residual: np.ndarray, codes: np.ndarray, users: int, share: float, level: float) -> float:
    """Effective number of independent checks."""
    if users < 2 or share in (0.0, 1.0):
        return float(users)
    sums = np.bincount(codes, residual, minlength=users)
    variance = users / (users - 1) * float(np.sum(sums**2)) / residual.size**2
    number = min(share * (1.0 - share) / variance, residual.size) if variance > 0 else float(users)
    # A variance estimated from few users is itself uncertain.
    return max(number * (z_quantile(level) / t_quantile(level, users - 1)) ** 2, 1.0)


def _warning(hits: np.ndarray, users: int) -> str | None:
    if users < FEW_USERS:
        return f"Only {users} rows were checked; below {FEW_USERS} the confidence intervals are not reliable."
    events = int(min(hits.sum(), hits.size - hits.sum()))
    if events < FEW_EVENTS:
        many = f"Only {events} such outcome{'s' * (events != 1)}" if events else "No such outcome"
        return f"{many} so far; the ratio can change a lot with a few more."
    return None


def _limits(name: str, interval: Interval) -> dict[str, float]:
    return {name: interval.estimate, f"{name}_low": interval.low, f"{name}_high": interval.high}


def _unknown(size: int) -> np.ndarray:
    return np.full(size, np.datetime64("NaT"), dtype="datetime64[D]")


def _days(values: Any, size: int) -> np.ndarray:
    """Days as dates. Numbers are days after an arbitrary first day."""
    given = pd.Series(np.asarray(values))
    if given.size == size and pd.api.types.is_numeric_dtype(given):
        return np.datetime64("1970-01-01", "D") + given.to_numpy(dtype="timedelta64[D]")
    try:
        return pd.to_datetime(given).to_numpy(dtype="datetime64[D]")
    except (ValueError, TypeError) as problem:
        raise TableError(f"A day of the checks cannot be read as a date: {problem}.") from None


PERIODS = {"day": "D", "week": "W", "month": "M"}


def ratios_over_time(checks: Checks, *, every: str = "week") -> pd.DataFrame:
    """Surrender and pass ratio of each arm in each period, with confidence intervals. Checks without a day are omitted.

    >>> checks = Checks.read({"user": [1, 2, 3], "arm": ["new"] * 3, "outcome": ["admit", "pass", "pass"],
    ...                       "day": ["2026-03-02", "2026-03-03", "2026-03-10"]})
    >>> ratios_over_time(checks)[["period", "checks", "surrender_ratio"]].values.tolist()
    [[Timestamp('2026-03-02 00:00:00'), 2, 0.5], [Timestamp('2026-03-09 00:00:00'), 1, 0.0]]
    """
    check_choice(every, PERIODS, "every", TableError)
    dated = checks.only(~np.isnat(checks.day))
    start = pd.Series(dated.day).dt.to_period(PERIODS[every]).dt.start_time
    lines = []
    groups: Any = start.groupby([dated.arm, start]).indices
    for (arm, period), rows in groups.items():
        part = dated.only(rows)
        found = [clustered_ratio(part.outcome == code, part.user) for code in (ADMITTED, PASSED)]
        limits = [value for each in found for value in (each.estimate, each.low, each.high)]
        lines.append((arm, period, len(part), *limits))
    ratios = [f"{name}_ratio{end}" for name in ("surrender", "pass") for end in ("", "_low", "_high")]
    table = pd.DataFrame(lines, columns=["arm", "period", "checks", *ratios])
    return table.sort_values(["period", "arm"], ignore_index=True)


@dataclass(frozen=True, eq=False)
class LabelDelay:
    """Delay of confirmations: `share` of those that arrive within `horizon` days have arrived after `days`.

    `age` is the age of each row in days. Rows younger than `cut_off` days are too young: less than a share `wanted` of
    their confirmations is expected to be known.
    """

    days: np.ndarray
    share: np.ndarray
    age: np.ndarray
    confirmed: int
    wanted: float
    what: str = "confirmations"

    @property
    def horizon(self) -> int:
        """The longest observed delay; the estimate is limited to it."""
        return int(self.days[-1])

    @property
    def cut_off(self) -> int:
        """The age at which at least the wanted share of confirmations is expected to be known."""
        return int(self.days[np.argmax(self.share >= self.wanted)])

    @property
    def is_recent(self) -> np.ndarray:
        """Rows younger than `cut_off`."""
        return self.age < self.cut_off

    def known_share(self, age: Any) -> np.ndarray:
        """The share of confirmations that is expected to be known at this age."""
        place = np.searchsorted(self.days, np.asarray(age), side="right") - 1
        return np.where(place < 0, 0.0, self.share[np.maximum(place, 0)])

    @property
    def sentence(self) -> str:
        young = int(self.is_recent.sum())
        return (
            f"{self.wanted:.0%} of the {self.what} that arrive within {self.horizon} days have arrived after "
            f"{self.cut_off} days; {young:,} of {self.age.size:,} are younger."
        )


def label_delay(start: Any, confirmed: Any, today: Any, *, wanted: float = 0.9) -> LabelDelay:
    """Delay between the date of a row and its confirmation; `confirmed` is NaT for rows that are not confirmed (yet).

    Only confirmed rows have a known delay, and short delays are over-represented: a row from yesterday can only have
    been confirmed quickly. The estimate corrects for this (product of reversed hazards for right-truncated delays): of
    the rows whose age allows a delay of up to d days, it counts the share with at most d − 1 days.

    >>> start = np.array(["2026-01-01", "2026-01-01", "2026-01-09", "2026-01-10"], dtype="datetime64[D]")
    >>> done = np.array(["2026-01-02", "2026-01-06", "2026-01-10", "NaT"], dtype="datetime64[D]")
    >>> found = label_delay(start, done, "2026-01-11")
    >>> found.days.tolist(), found.cut_off, found.is_recent.tolist()
    ([1, 5], 5, [False, False, True, True])
    """
    start, confirmed = (np.asarray(values).astype("datetime64[D]") for values in (start, confirmed))
    today = np.datetime64(today, "D")
    age = (today - start).astype(np.int64)
    is_known = ~np.isnat(confirmed) & ~np.isnat(start)
    delay = (confirmed - start).astype(np.int64)[is_known]
    if not delay.size:
        raise TableError("No row with a date was confirmed on a known day, so delays cannot be estimated.")
    if delay.min() < 0 or (confirmed[is_known] > today).any():
        row = int(np.flatnonzero(is_known)[np.argmin(delay)])
        raise TableError(f"Row {row} was confirmed before its own date or after today ({today}); correct the dates.")
    days, share = _truncated_share(delay, age[is_known])
    return LabelDelay(days, share, np.where(np.isnat(start), -1, age), int(delay.size), wanted)


def _truncated_share(delay: np.ndarray, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P(delay ≤ d | delay ≤ the longest observed), where each delay is observable only up to its own limit."""
    days = np.unique(delay)
    events = np.array([(delay == day).sum() for day in days])
    at_risk = np.array([((delay <= day) & (limit >= day)).sum() for day in days])
    factors = 1.0 - events / at_risk
    # F(d) is the product, over all later days, of one minus the reversed hazard.
    later = np.append(np.cumprod(factors[::-1])[::-1][1:], 1.0)
    return days, later
