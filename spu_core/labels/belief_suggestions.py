"""Beliefs from data: what the labelled rows suggest for a rule, beside what the analyst said.

If confirmed positives are a random sample of all positives (SCAR) and π is the class prior, Bayes gives
P(Y=1 | rule) = π · P(rule | labelled) / P(rule): the prior times the rule's lift. Where π is known as a range only, so
is the suggestion. Where nothing is known about π, the lift still ranks the rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spu_core.checks import check_flags, check_share
from spu_core.errors import SoftLabelError
from spu_core.rules import RuleMatrix
from spu_core.rules.matrix import covered, lift_interval
from spu_core.theory.check_ratio import wilson_interval

# With fewer hits the interval is honest but too wide to correct anybody's belief.
FEW_HITS = 5
# Labelled rows that all carry a rule, while many rows carry none, were hardly found without the rules.
FEW_LABELED = 20
NEARLY_ALL = 0.95
SURELY_REACHED = 0.8
FEWEST_LIFT = 2.0

CHOSEN_BY_RULES = (
    "The rules themselves seem to have decided who was checked (nearly every confirmed positive carries a rule): "
    "labelled rows then carry rules by construction, and these figures are too high."
)


Prior = float | tuple[float, float]
"""The share of positives among all rows: a number that is known or assumed, or the lowest and the highest possible."""


@dataclass(frozen=True, slots=True)
class BeliefSuggestion:
    """What the labels suggest for one rule: P(Y=1 | rule), in [0, 1], with limits; NaN where they say nothing.

    `estimate` is NaN where `prior` is a range: then only the limits are known.
    """

    rule: str
    estimate: float
    low: float
    high: float
    prior: Prior
    said: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        return not math.isnan(self.low)

    @property
    def disagrees(self) -> bool:
        """Whether what the analyst said lies outside the limits."""
        return self.is_known and self.said is not None and not self.low <= self.said <= self.high

    @property
    def text(self) -> str:
        """You said …; the labels suggest …"""
        said = "" if self.said is None else f"you said {self.said:.2f}; "
        if not self.is_known:
            return f"{said}the labels say nothing about this rule"
        low, high = f"{self.low:.2f}", f"{self.high:.2f}"
        return f"{said}the labels suggest {low if low == high else f'{low}–{high}'}"


@dataclass(frozen=True, slots=True)
class RuleLift:
    """How much likelier a rule's rows are confirmed than all rows, with limits: ranks rules without a prior."""

    rule: str
    lift: float
    low: float
    high: float

    @property
    def text(self) -> str:
        return f"{self.rule} {self.lift:.1f}× ({self.low:.1f} to {self.high:.1f})"


def ranked(lifts: Iterable[RuleLift]) -> tuple[RuleLift, ...]:
    """The highest lift first; rules about which the labels say nothing are left out."""
    return tuple(sorted((each for each in lifts if not math.isnan(each.lift)), key=lambda each: -each.lift))


def rank_rules(matrix: RuleMatrix, is_labeled: Any, *, level: float = 0.95) -> tuple[RuleLift, ...]:
    """The rules by lift. It needs no prior, so it is what the labels can say where the share of positives is unknown.

    >>> matrix = RuleMatrix.from_arrays(["a", "b"], [[0.5, 0.0], [0.5, 0.5], [0.0, 0.5], [0.0, 0.0]])
    >>> [(each.rule, each.lift) for each in rank_rules(matrix, [True, False, False, False])]
    [('a', 2.0), ('b', 0.0)]
    """
    flags = check_flags(is_labeled, len(matrix), "is_labeled")
    n_labeled = int(np.count_nonzero(flags))
    found = []
    for place, name in enumerate(matrix.names):
        fired = matrix.fired[:, place]
        hits, rows = int(np.count_nonzero(fired & flags)), int(np.count_nonzero(fired))
        found.append(RuleLift(name, *lift_interval(hits, n_labeled, rows, len(matrix), level)))
    return ranked(found)


def suggest_belief(
    fired: Any,
    is_labeled: Any,
    *,
    prior: Prior,
    said: float | None = None,
    rule: str = "rule",
    level: float = 0.95,
) -> BeliefSuggestion:
    """The belief that the labels suggest for a rule, given the class prior, or a range of it, and SCAR.

    >>> import numpy as np
    >>> fired = np.arange(10_000) < 1_000
    >>> is_labeled = np.isin(np.arange(10_000), np.r_[0:60, 5_000:5_040])
    >>> suggestion = suggest_belief(fired, is_labeled, prior=0.1, said=0.8)
    >>> round(suggestion.estimate, 2), suggestion.text, suggestion.disagrees
    (0.6, 'you said 0.80; the labels suggest 0.50–0.69', True)
    >>> suggest_belief(fired, is_labeled, prior=(0.01, 0.1), said=0.8).text
    'you said 0.80; the labels suggest 0.05–0.69'
    """
    lowest, highest = prior_range(prior)
    check_share(level, "level", SoftLabelError)
    fired = check_flags(fired, None, "fired")
    is_labeled = check_flags(is_labeled, fired.size, "is_labeled")
    hits, n_labeled = int(np.count_nonzero(fired & is_labeled)), int(np.count_nonzero(is_labeled))
    lift, low, high = lift_interval(hits, n_labeled, int(np.count_nonzero(fired)), fired.size, level)
    warnings = _warnings(hits, n_labeled, fired, lowest * low)
    estimate = lowest * lift if lowest == highest else math.nan
    return BeliefSuggestion(rule, _share(estimate), _share(lowest * low), _share(highest * high), prior, said, warnings)


def prior_range(prior: Prior) -> tuple[float, float]:
    """The lowest and the highest share of positives; both are the same where one number is given.

    >>> prior_range(0.1), prior_range((0.02, 0.3))
    ((0.1, 0.1), (0.02, 0.3))
    """
    ends = prior if isinstance(prior, tuple) else (prior, prior)
    if len(ends) != 2:
        raise SoftLabelError(f"prior must be a share or a pair (lowest, highest), got {len(ends)} numbers.")
    lowest = check_share(ends[0], "prior", SoftLabelError)
    highest = check_share(ends[1], "prior", SoftLabelError, closed=isinstance(prior, tuple))
    if lowest > highest:
        raise SoftLabelError(f"prior must be a pair (lowest, highest), got {lowest:g} before {highest:g}.")
    return lowest, highest


def suggest_beliefs(
    matrix: RuleMatrix,
    is_labeled: Any,
    *,
    prior: Prior,
    rules_chose_checks: bool | None = None,
    level: float = 0.95,
) -> tuple[BeliefSuggestion, ...]:
    """A suggestion for every rule, beside the (mean) belief that the analyst gave it.

    `rules_chose_checks` says whether rules decided which rows were checked; left out, it is judged from the data.
    """
    flags = check_flags(is_labeled, len(matrix), "is_labeled")
    chosen = labels_follow_rules(matrix, flags) if rules_chose_checks is None else rules_chose_checks
    return tuple(
        _with_warning(_suggest_for(matrix, j, flags, prior, level), CHOSEN_BY_RULES if chosen else None)
        for j in range(matrix.n_rules)
    )


def labels_follow_rules(matrix: RuleMatrix, is_labeled: np.ndarray) -> bool:
    """Whether (nearly) every confirmed positive carries a rule although many rows carry none."""
    reached = covered(matrix)
    return rules_reach_labels(
        int(reached[is_labeled].sum()), int(np.count_nonzero(is_labeled)), int(reached.sum()), reached.size
    )


def rules_reach_labels(reached_labeled: int, n_labeled: int, reached: int, n_rows: int) -> bool:
    """The same from counts: rows with a rule among the confirmed positives, and among all rows.

    Where some confirmed positives carry no rule, the interval of the share that do must lie above .8 and reach .95, and
    they must carry rules at least twice as often as all rows do, by the lower limit of the lift.

    >>> rules_reach_labels(20, 20, 500, 1_000), rules_reach_labels(95, 100, 200, 1_000)
    (True, True)
    >>> rules_reach_labels(85, 100, 200, 1_000), rules_reach_labels(95, 100, 600, 1_000)
    (False, False)
    """
    if n_labeled < FEW_LABELED:
        return False
    if reached_labeled == n_labeled:
        return reached < 0.9 * n_rows
    low, high = wilson_interval(reached_labeled, n_labeled)
    lift = lift_interval(reached_labeled, n_labeled, reached, n_rows)[1]
    return bool(low >= SURELY_REACHED and high >= NEARLY_ALL and lift >= FEWEST_LIFT)


def _suggest_for(matrix: RuleMatrix, rule: int, is_labeled: np.ndarray, prior: Prior, level: float) -> BeliefSuggestion:
    fired = matrix.fired[:, rule]
    said = float(matrix.belief_of(rule)[fired].mean()) if fired.any() else None
    return suggest_belief(fired, is_labeled, prior=prior, said=said, rule=matrix.names[rule], level=level)


def _warnings(hits: int, n_labeled: int, fired: np.ndarray, low: float) -> tuple[str, ...]:
    if not n_labeled:
        return ("No row is labelled, so the labels say nothing.",)
    if not fired.any():
        return ("The rule never fires, so there is nothing to learn about it.",)
    found = []
    if hits < FEW_HITS:
        found.append(f"The number of labelled rows that carry this rule is only {hits}; the interval is wide.")
    if low > 1.0:
        found.append("The labels imply more than 1: the prior is too high, or positives were not labelled at random.")
    return tuple(found)


def _with_warning(suggestion: BeliefSuggestion, warning: str | None) -> BeliefSuggestion:
    return replace(suggestion, warnings=(*suggestion.warnings, warning)) if warning else suggestion


def _share(value: float) -> float:
    return value if math.isnan(value) else min(max(value, 0.0), 1.0)
