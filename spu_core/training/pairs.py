"""Comparing candidates: paired differences with Holm's correction, and errors of several at once.

The difference of two equally good candidates is noise, whatever signal both have found, so its standard error always
has the full factor for shared training rows (`evaluation.SHARED_TRAINING`). Tests concern these fitted models and take
the soft labels as given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from spu_core.metrics import Difference, Interval
from spu_core.metrics.influence import small_sample_factor
from spu_core.metrics.intervals import t_quantile
from spu_core.training.evaluation import FoldedAuc, interval_of, shared_factor

# Below this effective number of confirmed positives no comparison by them is made.
ENOUGH_TO_COMPARE = 10.0
DRAWS = 10_000


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """AUC of `first` minus that of `second`; `p_holm` is corrected for all pairs of the comparison."""

    first: str
    second: str
    difference: Difference
    p_holm: float = float("nan")

    @property
    def can_be_told_apart(self) -> bool:
        return self.p_holm < 1.0 - self.difference.level


def compare_pairs(aucs: Mapping[str, FoldedAuc], level: float = 0.95) -> tuple[PairedDifference, ...]:
    """Every pair, the better one first, with p-values corrected by Holm's method."""
    order = sorted(aucs, key=lambda name: -aucs[name].value)
    pairs = [PairedDifference(a, b, paired_difference(aucs[a], aucs[b], level)) for a, b in combinations(order, 2)]
    corrected = holm([pair.difference.p_value for pair in pairs])
    return tuple(replace(pair, p_holm=p) for pair, p in zip(pairs, corrected, strict=True))


def without_tests(pairs: Sequence[PairedDifference], reason: str) -> tuple[PairedDifference, ...]:
    """The same differences and intervals without p-values, with the reason as their warning."""
    blank = float("nan")
    return tuple(
        replace(pair, p_holm=blank, difference=replace(pair.difference, p_value=blank, warning=reason))
        for pair in pairs
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the chance of even one false difference stays below the level.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    corrected = np.empty(p.size)
    corrected[order] = np.minimum(raised, 1.0)
    return [float(value) for value in corrected]


def simultaneous_intervals(aucs: Mapping[str, FoldedAuc], level: float = 0.95) -> dict[str, Interval]:
    """AUC intervals that hold for all candidates at once, and so for whichever of them is chosen (max-T)."""
    if len(aucs) < 2 or not _is_measurable(aucs):
        return {name: interval_of(folded, level) for name, folded in aucs.items()}
    wider = _JointErrors.of(list(aucs.values())).widening(level)
    return {name: interval_of(folded, level, wider=wider) for name, folded in aucs.items()}


@dataclass(frozen=True, eq=False)
class _JointErrors:
    """Errors of several figures on the same rows: their covariance, and draws of Student's t with it."""

    covariance: np.ndarray
    degrees: float
    draws: np.ndarray
    factor: float

    @classmethod
    def of(cls, aucs: Sequence[FoldedAuc]) -> _JointErrors:
        units = np.stack([_by_unit(folded) for folded in aucs])
        covariance = units @ units.T
        degrees = min(folded.spread(folded.influence).degrees for folded in aucs)
        rng = np.random.default_rng(0)
        values, vectors = np.linalg.eigh(covariance)
        normal = rng.standard_normal((DRAWS, len(aucs))) @ (vectors * np.sqrt(values.clip(0.0))).T
        draws = normal / np.sqrt(rng.chisquare(degrees, (DRAWS, 1)) / degrees)
        return cls(covariance, degrees, draws, shared_factor(aucs[0]))

    def widening(self, level: float) -> float:
        """How much wider than a single interval one must be to hold for all figures at once."""
        error = np.sqrt(np.diag(self.covariance))
        seen = error > 0.0
        if not seen.any():
            return 1.0
        largest = float(np.quantile(np.abs(self.draws[:, seen] / error[seen]).max(axis=1), level))
        return max(1.0, largest / t_quantile(level, self.degrees))


def joint_covariance(aucs: Sequence[FoldedAuc]) -> tuple[np.ndarray, float]:
    """Covariance of the errors of several figures on the same rows, and their degrees of freedom.

    It allows for training rows that folds share, as the paired tests do.
    """
    errors = _JointErrors.of(aucs)
    return errors.covariance * errors.factor**2, errors.degrees


def _is_measurable(aucs: Mapping[str, FoldedAuc]) -> bool:
    """Whether there is more than one positive and one negative (or group with them) to see a spread."""
    return all(min(folded.effective_numbers) > 1.0 for folded in aucs.values())


def _by_unit(folded: FoldedAuc) -> np.ndarray:
    """Influence by row or group, scaled so that the sum of squares is the squared standard error."""
    positives, negatives = folded.effective_numbers
    part = folded.influence
    value = small_sample_factor(positives) * part.as_positive + small_sample_factor(negatives) * part.as_negative
    by_unit = value if folded.groups is None else np.bincount(folded.groups, weights=value)
    return by_unit / folded.rows.size


def paired_difference(first: FoldedAuc, second: FoldedAuc, level: float) -> Difference:
    """The first minus the second, on the same rows, with the full factor for shared training rows."""
    spread = first.spread(first.influence - second.influence)
    return Difference.between(
        first.value - second.value,
        shared_factor(first) * spread.standard_error,
        level,
        degrees=spread.degrees,
        warning=first.warning,
    )
