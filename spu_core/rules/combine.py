"""Combiners: several rules fired on one row, one soft label comes out. A row of the table carries all that differs.

strongest      the largest belief
noisy_or       1 − Π (1 − belief): rules are independent reasons
mean_of_fired  the average belief of the rules that fired
first_match    the belief of the first rule, in the order of the set, that fired
logit_sum      log-odds add up: a belief above ½ is evidence, one of ½ or less adds nothing beside others; never below
               the strongest

All but the mean keep this law: one more fired rule never lowers S (for `first_match`: one more rule after the others).
A row on which one rule alone says something gets exactly that rule's belief.

Shares say how much of the combined value each rule gets credit for; they add up to 1 wherever the value is above 0.

Merging says what one more fired rule makes of rows whose other rules were combined already, so that a draft can be
previewed without combining all rules again.
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
    """One way to combine.

    name            what it is called in JSON and in Python
    title           how the page offers it; `words` and `credit_words` explain it there and in the documentation
    combine         what the rules say of all rows → the combined value of each row
    shares          (beliefs, fired) of one row → the credit of each rule
    merge           (combined values, memory, belief of one more fired rule) → the combined values with that rule
    memory          (other rules, place of one more rule among them) → a whole number per row: what `merge` has to know
                    beside the combined value; None if that is enough
    is_monotone     one more fired rule, after the others, never lowers the value
    ignores_order   the order of the rules does not matter
    keeps_bound     if every rule promises P(Y=1 | it fires) ≥ belief, then P(Y=1 | S=s) ≥ s
    """

    name: str
    title: str
    words: str
    credit_words: str
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
    # Rounding of 1 − (1 − b) must not change the belief of a rule that stands alone, nor lose a tiny one.
    return np.where(second > 0.0, np.maximum(largest, 1.0 - missed), largest)


def mean_of_fired(matrix: RuleMatrix) -> np.ndarray:
    total = np.zeros(len(matrix))
    for j in range(matrix.n_rules):
        total += matrix.belief_of(j)
    count = np.maximum(matrix.fired.sum(axis=1), 1)
    # A rounded sum of equal beliefs can lie above each of them.
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
            # Log-odds add where odds multiply; products of factors ≥ 1 stay monotone under rounding.
            odds *= np.maximum(belief / (1.0 - belief), 1.0)
    return np.where(second > 0.5, np.maximum(largest, 1.0 - 1.0 / (1.0 + odds)), largest)


def merge_two(combine: Combine) -> Merge:
    """A `merge` for what is associative: all earlier rules count as one that believes what they came to."""
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
    """Weights that add up to 1; certain rules (infinite weight) share everything among them."""
    if np.isinf(weight).any():
        weight = np.isinf(weight).astype(float)
    # Scaled first, so that a sum of tiny weights does not vanish.
    weight = weight / (weight.max(initial=0.0) or 1.0)
    return weight / (weight.sum() or 1.0)


# In the order in which the page offers them.
COMBINERS: dict[str, Combiner] = {
    row.name: row
    for row in (
        Combiner(
            name="noisy_or",
            title="Independent reasons",
            words="Fired rules are independent reasons: 1 − Π (1 − belief).",
            credit_words="Credit in proportion to −ln(1 − belief), which is what noisy-or adds up.",
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
            words="The largest belief among the fired rules.",
            credit_words="The strongest rule gets all credit; equally strong ones share it.",
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
            words="The average belief of the fired rules; one more weak rule lowers it.",
            credit_words="Each fired rule gets its belief divided by the number of fired rules.",
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
            words="The first rule of the list that fires decides.",
            credit_words="The first fired rule gets all credit.",
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
            words="Log-odds of beliefs above one half add up; never below the strongest.",
            credit_words="Credit in proportion to the log-odds above 0; if there are none, to the strongest.",
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
