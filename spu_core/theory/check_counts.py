"""Number of users with each check record (n checks, k passes), the input of the prior of Appendix A.2."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spu_core.checks import check_score
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
