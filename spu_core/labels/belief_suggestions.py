"""Suggested beliefs: estimates from the labelled rows, for comparison with the analyst's beliefs.

If confirmed cases are a random sample of all positives (SCAR) and π is the class prior, Bayes' theorem gives
P(Y=1 | rule) = π · P(rule | labelled) / P(rule): the prior times the rule's lift. If only a range of π is known, the
suggestion is a range too. If π is unknown, the lift still ranks the rules.
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

# With fewer hits the interval is valid but too wide to be useful.
FEW_HITS = 5
# If a rule fires on nearly all labelled rows but not on many other rows, the rules probably selected the checked rows.
FEW_LABELED = 20
NEARLY_ALL = 0.95
SURELY_REACHED = 0.8
FEWEST_LIFT = 2.0

CHOSEN_BY_RULES = (
    "The rules seem to have decided which rows were checked: a rule fires on nearly every confirmed case. Then "
    "these figures are too high."
)


Prior = float | tuple[float, float]
"""The share of positives among all rows: one number, or the lowest and the highest possible share."""


@dataclass(frozen=True, slots=True)
class BeliefSuggestion:
    """P(Y=1 | rule) of one rule, estimated from the labels, in [0, 1], with limits; NaN if it cannot be estimated.

    `estimate` is NaN if `prior` is a range: then only the limits are known. `belief` is the analyst's belief.
    """

    rule: str
    estimate: float
    low: float
    high: float
    prior: Prior
    belief: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        return not math.isnan(self.low)

    @property
    def disagrees(self) -> bool:
        """Whether the analyst's belief lies outside the limits."""
        return self.is_known and self.belief is not None and not self.low <= self.belief <= self.high

    @property
    def text(self) -> str:
        """The analyst's belief and the suggested one, in one line."""
        stated = "" if self.belief is None else f"your belief is {self.belief:.2f}; "
        if not self.is_known:
            return f"{stated}the labels give no estimate for this rule"
        low, high = f"{self.low:.2f}", f"{self.high:.2f}"
        return f"{stated}the labels suggest {low if low == high else f'{low}–{high}'}"


@dataclass(frozen=True, slots=True)
class RuleLift:
    """Lift of a rule with limits: how much more often its rows are confirmed than all rows. It needs no prior."""

    rule: str
    lift: float
    low: float
    high: float

    @property
    def text(self) -> str:
        return f"{self.rule} {self.lift:.1f}× ({self.low:.1f} to {self.high:.1f})"


def ranked(lifts: Iterable[RuleLift]) -> tuple[RuleLift, ...]:
    """The highest lift first; rules without an estimated lift are left out."""
    return tuple(sorted((each for each in lifts if not math.isnan(each.lift)), key=lambda each: -each.lift))


def rank_rules(matrix: RuleMatrix, is_labeled: Any, *, level: float = 0.95) -> tuple[RuleLift, ...]:
    """The rules ordered by lift. The lift needs no prior, so it can be used if the share of positives is unknown.

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
    belief: float | None = None,
    rule: str = "rule",
    level: float = 0.95,
) -> BeliefSuggestion:
    """The belief that the labels suggest for a rule, under SCAR, given the class prior or a range of it.

    >>> import numpy as np
    >>> fired = np.arange(10_000) < 1_000
    >>> is_labeled = np.isin(np.arange(10_000), np.r_[0:60, 5_000:5_040])
    >>> suggestion = suggest_belief(fired, is_labeled, prior=0.1, belief=0.8)
    >>> round(suggestion.estimate, 2), suggestion.text, suggestion.disagrees
    (0.6, 'your belief is 0.80; the labels suggest 0.50–0.69', True)
    >>> suggest_belief(fired, is_labeled, prior=(0.01, 0.1), belief=0.8).text
    'your belief is 0.80; the labels suggest 0.05–0.69'
    """
    lowest, highest = prior_range(prior)
    check_share(level, "level", SoftLabelError)
    fired = check_flags(fired, None, "fired")
    is_labeled = check_flags(is_labeled, fired.size, "is_labeled")
    hits, n_labeled = int(np.count_nonzero(fired & is_labeled)), int(np.count_nonzero(is_labeled))
    lift, low, high = lift_interval(hits, n_labeled, int(np.count_nonzero(fired)), fired.size, level)
    warnings = _warnings(hits, n_labeled, fired, lowest * low)
    estimate = lowest * lift if lowest == highest else math.nan
    limits = _share(lowest * low), _share(highest * high)
    return BeliefSuggestion(rule, _share(estimate), *limits, prior, belief, warnings)


def prior_range(prior: Prior) -> tuple[float, float]:
    """The lowest and the highest share of positives; they are equal if one number is given.

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
    """A suggestion for every rule, with the (mean) belief that the analyst gave it.

    `rules_chose_checks` is whether the rules decided which rows were checked. Default: estimated from the data.
    """
    flags = check_flags(is_labeled, len(matrix), "is_labeled")
    chosen = labels_follow_rules(matrix, flags) if rules_chose_checks is None else rules_chose_checks
    return tuple(
        _with_warning(_suggest_for(matrix, j, flags, prior, level), CHOSEN_BY_RULES if chosen else None)
        for j in range(matrix.n_rules)
    )


def labels_follow_rules(matrix: RuleMatrix, is_labeled: np.ndarray) -> bool:
    """Whether a rule fires on (nearly) every confirmed case, although no rule fires on many other rows."""
    reached = covered(matrix)
    return rules_reach_labels(
        int(reached[is_labeled].sum()), int(np.count_nonzero(is_labeled)), int(reached.sum()), reached.size
    )


def rules_reach_labels(reached_labeled: int, n_labeled: int, reached: int, n_rows: int) -> bool:
    """`labels_follow_rules` from counts: rows on which a rule fires, among the confirmed cases and among all rows.

    If no rule fires on some confirmed cases, three conditions must hold: the confidence interval of the share of
    confirmed cases with a rule lies above .8, it includes .95, and the lower limit of the lift is at least 2.

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
    belief = float(matrix.belief_of(rule)[fired].mean()) if fired.any() else None
    return suggest_belief(fired, is_labeled, prior=prior, belief=belief, rule=matrix.names[rule], level=level)


def _warnings(hits: int, n_labeled: int, fired: np.ndarray, low: float) -> tuple[str, ...]:
    if not n_labeled:
        return ("No row is labelled, so no belief can be estimated.",)
    if not fired.any():
        return ("The rule never fires, so no belief can be estimated.",)
    found = []
    if hits < FEW_HITS:
        found.append(f"The rule fires on too few labelled rows ({hits}); the interval is wide.")
    if low > 1.0:
        found.append("The estimate is above 1: the prior is too high, or positives were not labelled at random.")
    return tuple(found)


def _with_warning(suggestion: BeliefSuggestion, warning: str | None) -> BeliefSuggestion:
    return replace(suggestion, warnings=(*suggestion.warnings, warning)) if warning else suggestion


def _share(value: float) -> float:
    return value if math.isnan(value) else min(max(value, 0.0), 1.0)
