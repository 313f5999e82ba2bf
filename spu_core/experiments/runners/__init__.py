"""The code that computes the paper's tables and theorems. Only `Experiment.run` and `.claims` import it.

It loads boosters, torch and data sets. Stored results are read without it (`spu_core.experiments.stored_result`). This
file holds what all runners share: means over seeds with their standard errors, and paired differences.

Each seed splits, labels and trains again, but on the same data, so the spread over seeds does not cover other rows.
`corrected` accounts for the shared rows with the formula of Nadeau and Bengio (Machine Learning 52, 2003).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spu_core.experiments.catalog import Verdict
from spu_core.metrics.intervals import t_quantile

LEVEL = 0.95
"""A mean differs from 0 where its Student interval over seeds, of this level, does not contain 0."""
DIRECTIONS = {1: "better", 0: "no clear difference", -1: "worse"}


@dataclass(frozen=True, slots=True)
class SeedAverage:
    """A mean over seeds; `error` is its standard error, None with one seed only."""

    mean: float
    error: float | None
    count: int

    @property
    def sign(self) -> int:
        """1 or −1 where the interval of the mean lies above or below 0, else 0.

        >>> average([0.1, 0.12, 0.11]).sign, average([0.1, -0.1]).sign
        (1, 0)
        """
        if self.error is None or abs(self.mean) <= student(self.count) * self.error:
            return 0
        return 1 if self.mean > 0 else -1


def student(count: int) -> float:
    """The factor of the standard error in an interval of `LEVEL`, for a mean of so many seeds.

    >>> [round(student(count), 2) for count in (2, 5, 10)]
    [12.71, 2.78, 2.26]
    """
    return t_quantile(LEVEL, count - 1)


def average(values: Sequence[float] | np.ndarray) -> SeedAverage:
    """Mean and standard error of one value per seed.

    >>> average([1.0, 2.0, 3.0])
    SeedAverage(mean=2.0, error=0.577..., count=3)
    """
    array = np.asarray(values, dtype=np.float64)
    error = float(array.std(ddof=1) / np.sqrt(array.size)) if array.size > 1 else None
    return SeedAverage(float(array.mean()), error, int(array.size))


def paired(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> SeedAverage:
    """Mean of first − second over the same seeds.

    >>> paired([0.9, 0.8], [0.8, 0.7]).mean.__round__(3)
    0.1
    """
    return average(np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64))


def corrected(mean: SeedAverage, test_per_train: float) -> SeedAverage:
    """The same mean with Nadeau and Bengio's standard error, for seeds that split the same rows at random.

    `test_per_train` is the number of test rows for each training row.

    >>> corrected(SeedAverage(0.1, 0.01, 5), test_per_train=0.6)
    SeedAverage(mean=0.1, error=0.02, count=5)
    """
    return replace(mean, error=None if mean.error is None else mean.error * (1.0 + mean.count * test_per_train) ** 0.5)


def comparison_counts(signs: Sequence[int], after_correction: Sequence[int]) -> str:
    """A sentence with the comparisons for and against a claim, over seeds and after the correction.

    >>> comparison_counts([1, 1, -1], [1, 0, 0])
    'Over seeds, on these rows: 2 of 3 for it, 1 against it. With Nadeau–Bengio correction: 1 and 0 (holds partly).'
    """
    over_seeds = f"{signs.count(1)} of {len(signs)} for it, {signs.count(-1)} against it"
    after = f"{after_correction.count(1)} and {after_correction.count(-1)} ({verdict_of(after_correction)})"
    return f"Over seeds, on these rows: {over_seeds}. With Nadeau–Bengio correction: {after}."


def verdict_of(signs: Sequence[int]) -> Verdict:
    """The verdict on a claim from several comparisons, each won (1), lost (−1) or undecided (0).

    >>> [verdict_of(signs) for signs in ([1, 1], [1, -1], [0, -1], [0, 0])]
    ['holds', 'holds partly', 'does not hold', 'not shown']
    """
    if signs and all(sign > 0 for sign in signs):
        return "holds"
    if any(sign > 0 for sign in signs):
        return "holds partly"
    return "does not hold" if any(sign < 0 for sign in signs) else "not shown"
