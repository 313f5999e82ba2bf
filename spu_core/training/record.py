"""The record of the methods in the benchmark, and what it says together with the figures of one comparison.

The record holds, for each method, mean and standard deviation (over tables) of its true AUC minus that of the default
method; and how far differences in known-positive AUC lie from differences in true AUC. Both are the prior of a normal
model: with few labels, a difference stays near the record; with many, near what is measured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Self

import numpy as np
from scipy.special import ndtr

from spu_core.training.run import Run

FILE = "benchmark_record.json"
# Two candidates of one method that differ in settings only: their difference is near zero.
SAME_METHOD = 0.015


@dataclass(frozen=True)
class RecordEntry:
    """Mean and standard deviation over tables of the benchmark."""

    mean: float
    sd: float


@dataclass(frozen=True)
class BenchmarkRecord:
    """How methods compared with the default method (`default`) in the benchmark.

    `methods` has true AUC minus that of the default; `other` stands for methods that were not measured; `yardstick`
    has the difference in known-positive AUC minus that in true AUC, by origin of the confirmed cases.
    """

    default: str
    methods: Mapping[str, RecordEntry]
    other: RecordEntry
    yardstick: Mapping[str, RecordEntry]

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        methods, yardstick = (
            {key: RecordEntry(**value) for key, value in found[name].items()} for name in ("methods", "yardstick")
        )
        return cls(found["default"], methods, RecordEntry(**found["other"]), yardstick)

    def of(self, run: Run) -> RecordEntry:
        """The record of the method of a run."""
        key = method_key(run)
        return RecordEntry(0.0, 0.0) if key == self.default else self.methods.get(key, self.other)


@cache
def stored_record() -> BenchmarkRecord:
    """The record that comes with the package."""
    return BenchmarkRecord.from_dict(json.loads((files(__package__) / FILE).read_text(encoding="utf-8")))


def method_key(run: Run) -> str:
    """The name of a method in the record; the same method without rules counts as another one."""
    return run.candidate.method + (" without rules" if run.candidate.without_rules else "")


@dataclass(frozen=True, eq=False)
class Belief:
    """What is believed about the true AUC of each model, minus that of the first: a normal distribution."""

    names: tuple[str, ...]
    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def from_record(cls, runs: Sequence[Run], record: BenchmarkRecord) -> Self:
        """The belief before any label is seen; the first run is the default."""
        first, *others = (record.of(run) for run in runs)
        keys = [method_key(run) for run in runs]
        mean, sd = np.zeros(len(runs)), np.zeros(len(runs))
        for at, found in enumerate(others, start=1):
            same = keys[at] == keys[0]
            mean[at] = 0.0 if same else found.mean - first.mean
            sd[at] = SAME_METHOD if same else np.hypot(found.sd, first.sd)
        return cls(tuple(run.name for run in runs), mean, np.diag(sd**2))

    def after(self, measured: np.ndarray, error: np.ndarray, yardstick: RecordEntry) -> Belief:
        """The belief once AUCs were `measured` with the covariance `error` by a yardstick that is off by `yardstick`.

        The figures enter as differences from the first model.
        """
        size = len(self.names) - 1
        if not size:
            return self
        contrast = np.hstack([-np.ones((size, 1)), np.eye(size)])
        prior = self.covariance[1:, 1:]
        noise = contrast @ error @ contrast.T + yardstick.sd**2 * np.eye(size)
        gain = np.linalg.solve(prior + noise, prior).T
        mean = self.mean[1:] + gain @ (contrast @ measured - yardstick.mean - self.mean[1:])
        covariance = np.zeros_like(self.covariance)
        covariance[1:, 1:] = prior - gain @ prior
        return Belief(self.names, np.append(0.0, mean), covariance)

    def difference(self, a: str, b: str) -> tuple[float, float]:
        """Mean and standard deviation of the true AUC of `a` minus that of `b`."""
        one, other = self.names.index(a), self.names.index(b)
        variance = self.covariance[one, one] + self.covariance[other, other] - 2.0 * self.covariance[one, other]
        return float(self.mean[one] - self.mean[other]), float(np.sqrt(max(variance, 0.0)))

    def chance(self, a: str, b: str, by: float = 0.0) -> float:
        """The probability that the true AUC of `a` is more than `by` above that of `b`."""
        mean, sd = self.difference(a, b)
        return float(ndtr((mean - by) / sd)) if sd > 0.0 else float(mean > by)

    def value(self, name: str) -> float:
        return float(self.mean[self.names.index(name)])
