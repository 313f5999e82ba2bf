"""Ratios of checks over time, and how long outcomes take to arrive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_choice
from spu_core.errors import TableError
from spu_core.labels.check_log import ADMITTED, PASSED
from spu_core.trust.outcomes import Checks, clustered_ratio

PERIODS = {"day": "D", "week": "W", "month": "M"}


def ratios_over_time(checks: Checks, *, every: str = "week") -> pd.DataFrame:
    """Surrender and pass ratio of each arm in each period, with intervals; checks without a day are left out.

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
    """How long confirmations take: `share` of all that ever come (within `horizon` days) are there after `days`.

    `age` is how old each row is on the day of looking; rows younger than `cut_off` days have had too little time: less
    than `wanted` of their confirmations can be known.
    """

    days: np.ndarray
    share: np.ndarray
    age: np.ndarray
    confirmed: int
    wanted: float
    what: str = "confirmations"

    @property
    def horizon(self) -> int:
        """The longest delay that was seen, which bounds what can be said."""
        return int(self.days[-1])

    @property
    def cut_off(self) -> int:
        """The age from which on at least the wanted share of confirmations is expected to be known."""
        return int(self.days[np.argmax(self.share >= self.wanted)])

    @property
    def is_young(self) -> np.ndarray:
        """Rows that have had too little time."""
        return self.age < self.cut_off

    def known_share(self, age: Any) -> np.ndarray:
        """The share of its confirmations that a row of this age is expected to show already."""
        place = np.searchsorted(self.days, np.asarray(age), side="right") - 1
        return np.where(place < 0, 0.0, self.share[np.maximum(place, 0)])

    @property
    def sentence(self) -> str:
        young = int(self.is_young.sum())
        return (
            f"{self.wanted:.0%} of the {self.what} that come within {self.horizon} days are there after "
            f"{self.cut_off} days; {young:,} of {self.age.size:,} are younger than that."
        )


def label_delay(start: Any, confirmed: Any, today: Any, *, wanted: float = 0.9) -> LabelDelay:
    """How long after its own date a row is confirmed; `confirmed` is NaT for rows that are not (yet).

    Only confirmed rows show a delay, and short delays are seen more easily than long ones: a row from yesterday can
    only have been confirmed quickly. The estimate allows for that (the product of reversed hazards for right-truncated
    delays): of the rows whose age would have allowed a delay of up to d days, which share needed at most d − 1?

    >>> start = np.array(["2026-01-01", "2026-01-01", "2026-01-09", "2026-01-10"], dtype="datetime64[D]")
    >>> done = np.array(["2026-01-02", "2026-01-06", "2026-01-10", "NaT"], dtype="datetime64[D]")
    >>> found = label_delay(start, done, "2026-01-11")
    >>> found.days.tolist(), found.cut_off, found.is_young.tolist()
    ([1, 5], 5, [False, False, True, True])
    """
    start, confirmed = (np.asarray(values).astype("datetime64[D]") for values in (start, confirmed))
    today = np.datetime64(today, "D")
    age = (today - start).astype(np.int64)
    is_known = ~np.isnat(confirmed) & ~np.isnat(start)
    delay = (confirmed - start).astype(np.int64)[is_known]
    if not delay.size:
        raise TableError("No row with a date was confirmed on a known day, so delays cannot be seen.")
    if delay.min() < 0 or (confirmed[is_known] > today).any():
        row = int(np.flatnonzero(is_known)[np.argmin(delay)])
        raise TableError(f"Row {row} was confirmed before its own date or after today ({today}); correct the dates.")
    days, share = _truncated_share(delay, age[is_known])
    return LabelDelay(days, share, np.where(np.isnat(start), -1, age), int(delay.size), wanted)


def _truncated_share(delay: np.ndarray, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P(delay ≤ d | delay ≤ the longest seen), where each delay could be seen only up to its own limit."""
    days = np.unique(delay)
    events = np.array([(delay == day).sum() for day in days])
    at_risk = np.array([((delay <= day) & (limit >= day)).sum() for day in days])
    factors = 1.0 - events / at_risk
    # F(d) is the product over all later days of the chance not to have needed exactly that day.
    later = np.append(np.cumprod(factors[::-1])[::-1][1:], 1.0)
    return days, later
