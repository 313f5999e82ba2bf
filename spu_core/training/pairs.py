"""Paired differences between candidates: influence values fold by fold, Holm's correction, groups that stay together.

The p-values concern these fitted models and take the soft labels as given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.special import ndtr, ndtri

from spu_core.metrics import Difference, standard_error
from spu_core.training.folded import FoldedAuc


@dataclass(frozen=True, slots=True)
class Pair:
    """AUC of `first` minus that of `second`; `p_holm` is corrected for all pairs of the comparison."""

    first: str
    second: str
    difference: Difference
    p_holm: float = float("nan")

    @property
    def can_be_told_apart(self) -> bool:
        return self.p_holm < 1.0 - self.difference.level


def compare_pairs(aucs: Mapping[str, FoldedAuc], level: float = 0.95) -> tuple[Pair, ...]:
    """Every pair, the better one first, with p-values corrected by Holm's method."""
    order = sorted(aucs, key=lambda name: -aucs[name].value)
    pairs = [Pair(a, b, _difference(aucs[a], aucs[b], level)) for a, b in combinations(order, 2)]
    corrected = holm([pair.difference.p_value for pair in pairs])
    return tuple(replace(pair, p_holm=p) for pair, p in zip(pairs, corrected, strict=True))


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


def groups_of(ranked: Sequence[str], pairs: Sequence[Pair]) -> tuple[tuple[str, ...], ...]:
    """Neighbours in the ranking of which no two can be told apart, as long as possible; groups may overlap."""
    apart = {frozenset((pair.first, pair.second)) for pair in pairs if pair.can_be_told_apart}
    groups: list[tuple[str, ...]] = []
    last_end = 0
    for start in range(len(ranked)):
        end = start + 1
        while end < len(ranked) and not any(frozenset((ranked[end], n)) in apart for n in ranked[start:end]):
            end += 1
        if end > last_end:
            groups.append(tuple(ranked[start:end]))
            last_end = end
    return tuple(groups)


def _difference(first: FoldedAuc, second: FoldedAuc, level: float) -> Difference:
    estimate = first.value - second.value
    error = standard_error(first.influence - second.influence, first.groups)
    reach = float(ndtri(0.5 + 0.5 * level)) * error
    p_value = float(2.0 * ndtr(-abs(estimate) / error)) if error > 0.0 else float(estimate == 0.0)
    low, high = max(estimate - reach, -1.0), min(estimate + reach, 1.0)
    return Difference(estimate, low, high, error, level, None, p_value)
