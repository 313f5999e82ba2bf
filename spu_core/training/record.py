"""The record of the methods in the benchmark, and what it says together with the figures of one comparison.

Differences of AUC are measured in units of how differently two models rank the rows (`rank_distance`): models with the
same ranking have the same AUC, whatever their methods. The record holds mean and covariance over tables of

- the true AUC of each method minus that of the default, and
- the error of known-positive AUC: its difference minus the true one, for two scenarios, confirmed cases found by
  chance and cases selected by a column that the rules do not know.

Both are priors of a normal model. With few labels a difference stays near the record, with many near what is measured;
and what one model shows about the rules counts for the others, since the covariance is known.
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
from scipy.stats import rankdata

from spu_core.training.evaluation import fold_rows
from spu_core.training.run import Run

FILE = "recommendation_record.json"
DRAWS = 4_000
# Variance of the difference of methods that the benchmark did not measure, and of one method with other settings.
UNKNOWN_VARIANCE = 0.06
SAME_RANKING = 1e-4


@dataclass(frozen=True, eq=False)
class Scenario:
    """The error of known-positive AUC where confirmed cases were found in one way; `share` is its prior probability."""

    share: float
    mean: np.ndarray
    covariance: np.ndarray


@dataclass(frozen=True, eq=False)
class BenchmarkRecord:
    """How methods compared with the default method in the benchmark, per unit of rank distance."""

    default: str
    methods: tuple[str, ...]
    mean: np.ndarray
    covariance: np.ndarray
    scenarios: Mapping[str, Scenario]

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        scenarios = {
            name: Scenario(each["share"], np.array(each["mean"]), np.array(each["covariance"]))
            for name, each in found["scenarios"].items()
        }
        matrices = np.array(found["mean"]), np.array(found["covariance"])
        return cls(found["default"], tuple(found["methods"]), *matrices, scenarios)

    def usual(self, run: Run) -> float:
        """The mean of a method; for methods that were not measured, the mean of all."""
        key = method_key(run)
        if key == self.default:
            return 0.0
        return float(self.mean[self.methods.index(key)] if key in self.methods else self.mean.mean())

    def scenarios_of(self, origin: str) -> list[Scenario]:
        """What is possible, given how the confirmed cases were found."""
        wanted = {"chance": ("chance",), "other": ("selected",)}.get(origin, tuple(self.scenarios))
        return [self.scenarios[name] for name in wanted]

    def prior(self, runs: Sequence[Run]) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the differences of the later runs from the first, per unit of rank distance."""
        usual = np.array([self.usual(run) for run in runs])
        places = self.places(runs)
        covariance = np.eye(len(runs) - 1) * UNKNOWN_VARIANCE
        known = [at for at, place in enumerate(places) if place is not None]
        kept = [place for place in places if place is not None]
        covariance[np.ix_(known, known)] = self.covariance[np.ix_(kept, kept)]
        return usual[1:] - usual[0], covariance

    def error(self, runs: Sequence[Run], scenario: Scenario) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the error of known-positive AUC of the same differences."""
        places = self.places(runs)
        mean, covariance = np.zeros(len(places)), np.eye(len(places)) * np.diag(scenario.covariance).mean()
        known = [at for at, place in enumerate(places) if place is not None]
        kept = [place for place in places if place is not None]
        mean[known] = scenario.mean[kept]
        covariance[np.ix_(known, known)] = scenario.covariance[np.ix_(kept, kept)]
        return mean, covariance

    def places(self, runs: Sequence[Run]) -> list[int | None]:
        """Where the record holds each later run; None where it does not, or the first is not the default method."""
        found: list[int | None] = []
        for run in runs[1:]:
            key = method_key(run)
            usable = method_key(runs[0]) == self.default and key in self.methods
            place = self.methods.index(key) if usable else None
            found.append(place if place not in found else None)
        return found


@cache
def stored_record() -> BenchmarkRecord:
    """The record that comes with the package."""
    return BenchmarkRecord.from_dict(json.loads((files(__package__) / FILE).read_text(encoding="utf-8")))


def method_key(run: Run) -> str:
    """The name of a method in the record; the same method without rules counts as another one."""
    return run.candidate.method + (" without rules" if run.candidate.without_rules else "")


def rank_distance(runs: Sequence[Run]) -> np.ndarray:
    """How differently the later runs rank the judged rows than the first: root mean square of rank shares."""
    evaluation = runs[0].evaluation
    squares, rows = np.zeros(len(runs) - 1), 0
    for part in fold_rows(evaluation):
        first, *others = (rankdata(run.need_score()[part]) / part.size for run in runs)
        squares += [float(((other - first) ** 2).sum()) for other in others]
        rows += part.size
    return np.maximum(np.sqrt(squares / rows), SAME_RANKING)


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is believed about the true AUC of each model minus that of the first: for each scenario its weight, and
    mean and covariance of a normal distribution."""

    names: tuple[str, ...]
    parts: tuple[tuple[float, np.ndarray, np.ndarray], ...]

    @classmethod
    def from_record(cls, runs: Sequence[Run], record: BenchmarkRecord) -> Self:
        """The belief before any label is seen; the first run is the default."""
        distance = rank_distance(runs) if len(runs) > 1 else np.zeros(0)
        mean, covariance = record.prior(runs)
        part = 1.0, _with_first(mean * distance), _with_first(covariance * np.outer(distance, distance))
        return cls(tuple(run.name for run in runs), (part,))

    def after(self, measured: np.ndarray, error: np.ndarray, biases: Sequence[tuple[float, Any, Any]]) -> Posterior:
        """The belief once AUCs were `measured` with covariance `error`, by a yardstick with one of these `biases`.

        A bias is a prior probability with the mean and the covariance of the error of differences from the first model.
        """
        [(_, mean, covariance)] = self.parts
        prior, contrast = covariance[1:, 1:], np.hstack([-np.ones((mean.size - 1, 1)), np.eye(mean.size - 1)])
        noise = contrast @ error @ contrast.T + np.eye(mean.size - 1) * SAME_RANKING**2
        parts, evidence = [], []
        for share, bias, spread in biases:
            total = prior + noise + spread
            surprise = contrast @ measured - bias - mean[1:]
            gain = np.linalg.solve(total, prior).T
            parts.append((_with_first(mean[1:] + gain @ surprise), _with_first(prior - gain @ prior)))
            evidence.append(np.log(share) - 0.5 * _surprise(surprise, total))
        weights = np.exp(np.array(evidence) - max(evidence))
        weights /= weights.sum()
        return Posterior(self.names, tuple((float(w), *part) for w, part in zip(weights, parts, strict=True)))

    def difference(self, a: str, b: str) -> tuple[float, float]:
        """Mean and standard deviation of the true AUC of `a` minus that of `b`."""
        found = [(weight, *_difference(part, *self._at(a, b))) for weight, *part in self.parts]
        mean = sum(weight * each for weight, each, _ in found)
        variance = sum(weight * (sd**2 + (each - mean) ** 2) for weight, each, sd in found)
        return mean, float(np.sqrt(variance))

    def chance(self, a: str, b: str, by: float = 0.0) -> float:
        """The probability that the true AUC of `a` is more than `by` above that of `b`."""
        return sum(weight * _above(part, *self._at(a, b), by) for weight, *part in self.parts)

    def least_chance(self, a: str, b: str, by: float = 0.0) -> float:
        """The same probability in the scenario in which it is lowest."""
        return min(_above(part, *self._at(a, b), by) for _, *part in self.parts)

    def chance_of_best(self, name: str, among: Sequence[str]) -> float:
        """The probability that a model has the highest true AUC of several."""
        normal = np.random.default_rng(0).standard_normal((DRAWS, len(among)))
        at = [self.names.index(each) for each in among]
        found = 0.0
        for weight, mean, covariance in self.parts:
            values, vectors = np.linalg.eigh(covariance[np.ix_(at, at)])
            draws = mean[at] + normal @ (vectors * np.sqrt(values.clip(0.0))).T
            found += weight * float((draws.argmax(axis=1) == list(among).index(name)).mean())
        return found

    def value(self, name: str) -> float:
        """The expected difference from the first model."""
        return self.difference(name, self.names[0])[0]

    def _at(self, a: str, b: str) -> tuple[int, int]:
        return self.names.index(a), self.names.index(b)


def _with_first(part: np.ndarray) -> np.ndarray:
    """A zero for the first model, which differs from itself by nothing."""
    return np.pad(part, [(1, 0)] * part.ndim)


def _surprise(value: np.ndarray, covariance: np.ndarray) -> float:
    """Minus twice the logarithm of a normal density, up to a constant."""
    return float(value @ np.linalg.solve(covariance, value) + np.linalg.slogdet(covariance)[1])


def _difference(part: Sequence[np.ndarray], one: int, other: int) -> tuple[float, float]:
    mean, covariance = part
    variance = covariance[one, one] + covariance[other, other] - 2.0 * covariance[one, other]
    return float(mean[one] - mean[other]), float(np.sqrt(max(variance, 0.0)))


def _above(part: Sequence[np.ndarray], one: int, other: int, by: float) -> float:
    mean, sd = _difference(part, one, other)
    return float(ndtr((mean - by) / sd)) if sd > 0.0 else float(mean > by)
