"""Exact order statistics of numbers that do not fit into memory, in four passes and a few megabytes.

Each pass looks at sixteen more bits of the order-preserving integer of a float, and only inside the ranges that hold a
wanted rank: after four passes the value is known to the bit, with the rows below it and beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

_DIGITS = 1 << 16
_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True, eq=False)
class OrderStatistics:
    """The values at the wanted ranks (from 0), how many values are smaller, how many not larger, and of how many."""

    value: np.ndarray
    below: np.ndarray
    upto: np.ndarray
    count: int


def quantile_ranks(count: int, shares: np.ndarray) -> np.ndarray:
    """The ranks that `np.quantile(…, method="nearest")` takes among this many values."""
    return np.around((count - 1) * np.asarray(shares, dtype=np.float64)).astype(np.int64)


def select(blocks: Callable[[], Iterator[np.ndarray]], ranks_of: Callable[[int], np.ndarray]) -> OrderStatistics | None:
    """Order statistics of all finite numbers in the blocks, which are gone through four times; None without numbers.

    `ranks_of` is told how many numbers there are.

    >>> found = select(lambda: iter([np.array([5.0, 1.0]), np.array([3.0, 3.0])]), lambda count: np.array([0, 2]))
    >>> found.value.tolist(), found.below.tolist(), found.upto.tolist()
    ([1.0, 3.0], [0, 1], [1, 3])
    """
    first = np.zeros(_DIGITS, dtype=np.int64)
    for block in blocks():
        first += np.bincount((_keys(block) >> np.uint64(48)).astype(np.int64), minlength=_DIGITS)
    count = int(first.sum())
    if not count:
        return None
    ranks = np.asarray(ranks_of(count), dtype=np.int64)
    prefix, left, beside = _descend(np.zeros(ranks.size, dtype=np.uint64), ranks, np.zeros(1, np.uint64), first[None])
    for shift in (32, 16, 0):
        active = np.unique(prefix)
        counts = np.zeros((active.size, _DIGITS), dtype=np.int64)
        for block in blocks():
            _count_digits(counts, _keys(block), active, shift)
        prefix, left, beside = _descend(prefix, left, active, counts)
    return OrderStatistics(_numbers(prefix), ranks - left, ranks - left + beside, count)


def _descend(
    prefix: np.ndarray, left: np.ndarray, active: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each rank: the next sixteen bits of its value, the rank that is left inside them, and their rows."""
    rows = np.searchsorted(active, prefix)
    reached = np.cumsum(counts, axis=1)
    digit = np.array([np.searchsorted(reached[row], rank, side="right") for row, rank in zip(rows, left, strict=True)])
    digit = digit.astype(np.int64)
    beside = counts[rows, digit]
    before = reached[rows, digit] - beside
    return (prefix << np.uint64(16)) | digit.astype(np.uint64), left - before, beside


def _count_digits(counts: np.ndarray, keys: np.ndarray, active: np.ndarray, shift: int) -> None:
    """Add the keys inside the active ranges to their counts, in place, since most of them stay as they are."""
    prefix = keys >> np.uint64(shift + 16)
    place = np.minimum(np.searchsorted(active, prefix), active.size - 1)
    inside = active[place] == prefix
    digit = ((keys[inside] >> np.uint64(shift)) & np.uint64(_DIGITS - 1)).astype(np.int64)
    np.add.at(counts.reshape(-1), place[inside] * _DIGITS + digit, 1)


def _keys(numbers: np.ndarray) -> np.ndarray:
    """Unsigned integers in the order of the finite numbers; both zeros are one."""
    finite = numbers[np.isfinite(numbers)].astype(np.float64) + 0.0
    bits = finite.view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _numbers(keys: np.ndarray) -> np.ndarray:
    return np.where(keys & _SIGN, keys & ~_SIGN, ~keys).view(np.float64)
