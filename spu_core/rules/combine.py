"""Combiners: how the beliefs of several fired rules become one soft label. `COMBINERS` holds their properties.

strongest      the largest belief
noisy_or       1 − Π (1 − belief): rules are independent reasons
mean_of_fired  the average belief of the rules that fired
first_match    the belief of the first rule, in the order of the set, that fired
logit_sum      sum of the log-odds of beliefs above ½ (lower beliefs add nothing); at least the largest belief

For all but the mean, one more fired rule never lowers S (for `first_match`: one more rule after the others). A row on
which only one rule fires gets exactly the belief of that rule.

`shares` gives the credit of each rule for the combined value; shares add up to 1 where the value is above 0.

`merge` adds one fired rule to rows whose other rules are already combined, so that a draft can be previewed without
combining all rules again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spu_core.checks import check_choice
from spu_core.errors import SoftLabelError
from spu_core.rules.matrix import RuleMatrix

Combine = Callable[[RuleMatrix], np.ndarray]
Merge = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Combiner:
    """A method to combine beliefs.

    name                name in JSON and in Python
    title               name on the page
    description         explanation on the page and in the documentation
    credit_description  explanation of `shares`
    combine             rule matrix → the combined value of each row
    shares              (beliefs, fired) of one row → the credit of each rule
    merge               (combined values, memory, belief of one more fired rule) → the combined values with that rule
    memory              (other rules, position of one more rule) → an integer per row that `merge` needs beside the
                        combined value; None if it needs nothing else
    is_monotone         one more fired rule, after the others, never lowers the value
    ignores_order       the order of the rules does not matter
    keeps_bound         if P(Y=1 | it fires) ≥ belief holds for every rule, then P(Y=1 | S=s) ≥ s
    """

    name: str
    title: str
    description: str
    credit_description: str
    combine: Combine
    shares: Callable[[np.ndarray, np.ndarray], np.ndarray]
    merge: Merge
    memory: Callable[[RuleMatrix, int], np.ndarray] | None
    is_monotone: bool
    ignores_order: bool
    keeps_bound: bool


def combiner_of(name: str) -> Combiner:
    """The combiner with this name.

    >>> combiner_of("noisy_or").combine(RuleMatrix.from_arrays(["a", "b"], [[0.5, 0.5], [0.3, 0.0]])).tolist()
    [0.75, 0.3]
    """
    return COMBINERS[check_choice(name, COMBINERS, "combine", SoftLabelError)]


def strongest(matrix: RuleMatrix) -> np.ndarray:
    return _largest_two(matrix)[0]


def noisy_or(matrix: RuleMatrix) -> np.ndarray:
    largest, second = _largest_two(matrix)
    missed = np.ones(len(matrix))
    for j in range(matrix.n_rules):
        missed *= 1.0 - matrix.belief_of(j)
    # Rounding of 1 − (1 − b) must not change the belief of a single rule, nor lose a very small one.
    return np.where(second > 0.0, np.maximum(largest, 1.0 - missed), largest)


def mean_of_fired(matrix: RuleMatrix) -> np.ndarray:
    total = np.zeros(len(matrix))
    for j in range(matrix.n_rules):
        total += matrix.belief_of(j)
    count = np.maximum(matrix.fired.sum(axis=1), 1)
    # Because of rounding, the mean of equal beliefs can exceed them.
    return np.minimum(total / count, strongest(matrix))


def first_match(matrix: RuleMatrix) -> np.ndarray:
    value, is_open = np.zeros(len(matrix)), np.ones(len(matrix), dtype=bool)
    for j in range(matrix.n_rules):
        np.copyto(value, matrix.belief_of(j), where=is_open)
        is_open &= ~matrix.fired[:, j]
    return value


def logit_sum(matrix: RuleMatrix) -> np.ndarray:
    largest, second = _largest_two(matrix)
    odds = np.ones(len(matrix))
    with np.errstate(divide="ignore"):
        for j in range(matrix.n_rules):
            belief = matrix.belief_of(j)
            # Odds are multiplied instead of adding log-odds: products of factors ≥ 1 stay monotone under rounding.
            odds *= np.maximum(belief / (1.0 - belief), 1.0)
    return np.where(second > 0.5, np.maximum(largest, 1.0 - 1.0 / (1.0 + odds)), largest)


def merge_two(combine: Combine) -> Merge:
    """A `merge` function for associative combiners: the earlier rules count as one rule with their combined value."""
    return lambda value, memory, belief: combine(
        RuleMatrix.from_arrays(["earlier", "more"], np.column_stack([value, belief]))
    )


def _merge_mean(value: np.ndarray, count: np.ndarray, belief: np.ndarray) -> np.ndarray:
    return (value * count + belief) / (count + 1)


def _count_fired(others: RuleMatrix, place: int) -> np.ndarray:
    return np.asarray(others.fired.sum(axis=1))


def _merge_first(value: np.ndarray, is_decided: np.ndarray, belief: np.ndarray) -> np.ndarray:
    return np.where(is_decided, value, belief)


def _fired_before(others: RuleMatrix, place: int) -> np.ndarray:
    return np.asarray(others.fired[:, :place].any(axis=1), dtype=np.int64)


def _largest_two(matrix: RuleMatrix) -> tuple[np.ndarray, np.ndarray]:
    largest, second = np.zeros(len(matrix)), np.zeros(len(matrix))
    for j in range(matrix.n_rules):
        belief = matrix.belief_of(j)
        np.maximum(second, np.minimum(largest, belief), out=second)
        np.maximum(largest, belief, out=largest)
    return largest, second


def _share_of_strongest(belief: np.ndarray, fired: np.ndarray) -> np.ndarray:
    return _normalized((fired & (belief == belief.max(initial=0.0))).astype(float))


def _share_of_noisy_or(belief: np.ndarray, fired: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return _normalized(-np.log1p(-belief))


def _share_of_mean(belief: np.ndarray, fired: np.ndarray) -> np.ndarray:
    return _normalized(belief)


def _share_of_first(belief: np.ndarray, fired: np.ndarray) -> np.ndarray:
    share = np.zeros(belief.size)
    if fired.any():
        share[np.argmax(fired)] = 1.0
    return share


def _share_of_logits(belief: np.ndarray, fired: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        evidence = np.log(np.maximum(belief / (1.0 - belief), 1.0))
    return _normalized(evidence) if evidence.any() else _share_of_strongest(belief, fired)


def _normalized(weight: np.ndarray) -> np.ndarray:
    """Weights that add up to 1. Rules with infinite weight (belief 1) share all credit."""
    if np.isinf(weight).any():
        weight = np.isinf(weight).astype(float)
    # Scaled first, so that the sum of very small weights does not underflow to 0.
    weight = weight / (weight.max(initial=0.0) or 1.0)
    return weight / (weight.sum() or 1.0)


# In the order in which the page offers them.
COMBINERS: dict[str, Combiner] = {
    row.name: row
    for row in (
        Combiner(
            name="noisy_or",
            title="Independent reasons",
            description="Fired rules are independent reasons: two beliefs of 0.5 make 0.75.",
            credit_description="Credit in proportion to −ln(1 − belief), which is what noisy-or adds up.",
            combine=noisy_or,
            shares=_share_of_noisy_or,
            merge=merge_two(noisy_or),
            memory=None,
            is_monotone=True,
            ignores_order=True,
            keeps_bound=False,
        ),
        Combiner(
            name="strongest",
            title="The strongest",
            description="The largest belief among the fired rules.",
            credit_description="The strongest rule gets all credit; equally strong ones share it.",
            combine=strongest,
            shares=_share_of_strongest,
            merge=merge_two(strongest),
            memory=None,
            is_monotone=True,
            ignores_order=True,
            keeps_bound=True,
        ),
        Combiner(
            name="mean_of_fired",
            title="The mean",
            description="The average belief of the fired rules; one more weak rule lowers it.",
            credit_description="Each fired rule gets its belief divided by the number of fired rules.",
            combine=mean_of_fired,
            shares=_share_of_mean,
            merge=_merge_mean,
            memory=_count_fired,
            is_monotone=False,
            ignores_order=True,
            keeps_bound=False,
        ),
        Combiner(
            name="first_match",
            title="The first in the list",
            description="The first rule of the list that fires decides.",
            credit_description="The first fired rule gets all credit.",
            combine=first_match,
            shares=_share_of_first,
            merge=_merge_first,
            memory=_fired_before,
            is_monotone=True,
            ignores_order=False,
            keeps_bound=False,
        ),
        Combiner(
            name="logit_sum",
            title="Log-odds add up",
            description="Log-odds of beliefs above one half add up; never below the strongest.",
            credit_description="Credit in proportion to the log-odds above 0; if there are none, to the strongest.",
            combine=logit_sum,
            shares=_share_of_logits,
            merge=merge_two(logit_sum),
            memory=None,
            is_monotone=True,
            ignores_order=True,
            keeps_bound=False,
        ),
    )
}
