"""Combiners: several rules fired on one row, one soft label comes out.

strongest      the largest belief
noisy_or       1 − Π (1 − belief): rules are independent reasons
mean_of_fired  the average belief of the rules that fired
first_match    the belief of the first rule, in the order of the set, that fired
logit_sum      log-odds add up: a belief above ½ is evidence, one of ½ or less adds nothing beside others; never below
               the strongest

All but the mean keep this law: one more fired rule never lowers S (for `first_match`: one more rule after the others).
A row on which one rule alone says something gets exactly that rule's belief.

Shares say how much of the combined value each rule gets credit for; they add up to 1 wherever the value is above 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spu_core.checks import check_choice
from spu_core.errors import SoftLabelError
from spu_core.rules import RuleMatrix


@dataclass(frozen=True, slots=True)
class Combiner:
    """One way to combine: for all rows at once, and the credit of each rule in one row."""

    name: str
    words: str
    credit_words: str
    combine: Callable[[RuleMatrix], np.ndarray]
    shares: Callable[[np.ndarray, np.ndarray], np.ndarray]
    is_monotone: bool = True


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


COMBINERS: dict[str, Combiner] = {
    combiner.name: combiner
    for combiner in (
        Combiner(
            "strongest",
            "The largest belief among the fired rules.",
            "The strongest rule gets all credit; equally strong ones share it.",
            strongest,
            _share_of_strongest,
        ),
        Combiner(
            "noisy_or",
            "Fired rules are independent reasons: 1 − Π (1 − belief).",
            "Credit in proportion to −ln(1 − belief), which is what noisy-or adds up.",
            noisy_or,
            _share_of_noisy_or,
        ),
        Combiner(
            "mean_of_fired",
            "The average belief of the fired rules; one more weak rule lowers it.",
            "Each fired rule gets its belief divided by the number of fired rules.",
            mean_of_fired,
            _share_of_mean,
            is_monotone=False,
        ),
        Combiner(
            "first_match",
            "The first rule of the list that fires decides.",
            "The first fired rule gets all credit.",
            first_match,
            _share_of_first,
        ),
        Combiner(
            "logit_sum",
            "Log-odds of beliefs above one half add up; never below the strongest.",
            "Credit in proportion to the log-odds above 0; if there are none, to the strongest.",
            logit_sum,
            _share_of_logits,
        ),
    )
}
