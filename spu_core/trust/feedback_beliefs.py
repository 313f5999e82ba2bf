"""What random checks prove about the fixed belief of a rule: a lower bound, since only failures beyond chance count.

Of the rows where a rule fires, a share a admits and a share f fails or skips. Innocent rows fail with at most F0, the
failure ratio of all random checks, so at least a + f − F0 of them are positive (the step of Appendix A.1, for all rows
of the rule instead of those who failed).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spu_core.errors import SpuError
from spu_core.labels.check_log import FAILED, PASSED
from spu_core.rules import Constant, RuleSet
from spu_core.tables import Table
from spu_core.theory.check_ratio import wilson_interval

FEW_CHECKS = 20


@dataclass(frozen=True, slots=True)
class BeliefBound:
    """At least `bound` of the rows of a rule are positive, by `checks` random checks of them; `said` is its belief."""

    rule: str
    id: str
    said: float
    checks: int
    bound: float
    low: float

    @property
    def is_too_low(self) -> bool:
        """Whether even the lower limit of the bound lies above what the rule says."""
        return self.checks >= FEW_CHECKS and self.low > self.said

    @property
    def sentence(self) -> str:
        if self.checks < FEW_CHECKS:
            return f"{self.rule!r} says {self.said:.2f}; only {self.checks} random checks of its rows, too few to tell."
        end = "so it is too low" if self.is_too_low else "which does not contradict it"
        return (
            f"{self.rule!r} says {self.said:.2f}; {self.checks} random checks of its rows prove at least "
            f"{self.bound:.2f} (and surely {self.low:.2f}), {end}."
        )


def belief_bounds(rules: RuleSet, table: Table, row: Any, outcome: Any, is_random: Any) -> tuple[BeliefBound, ...]:
    """The bound of each active rule with a fixed belief, from random checks alone; none where nothing was random.

    >>> import pandas as pd
    >>> from spu_core.rules import Compare, Rule
    >>> table = Table.from_frame(pd.DataFrame({"speed": [9] * 40 + [1] * 60, "label": [1] + [0] * 99}))
    >>> rules = RuleSet((Rule("Fast", 0.1, Compare("speed", ">", 5)),))
    >>> outcome = np.array([1] * 30 + [0] * 10 + [1] * 6 + [0] * 54)
    >>> [bound] = belief_bounds(rules, table, np.arange(100), outcome, np.ones(100, dtype=bool))
    >>> bound.checks, round(bound.bound, 2), bound.is_too_low
    (40, 0.39, True)
    """
    fixed = [rule for rule in rules.active if isinstance(rule.belief, Constant)]
    row, outcome = np.asarray(row)[is_random], np.asarray(outcome)[is_random]
    if not fixed or not row.size:
        return ()
    try:
        fired = RuleSet(tuple(fixed)).fit(table).apply(table.frame).fired[row]
    except SpuError:
        return ()
    base = wilson_interval((outcome == FAILED).sum(), row.size)
    share = float((outcome == FAILED).mean())
    return tuple(_bound(rule, outcome[fired[:, place]], (share, float(base[1]))) for place, rule in enumerate(fixed))


def raised(rules: RuleSet, bounds: tuple[BeliefBound, ...]) -> RuleSet:
    """The rules with every belief that is proven to be too low lifted to what is proven."""
    for bound in bounds:
        if bound.is_too_low:
            note = f"Raised from {bound.said:.2f} by {bound.checks} random checks."
            lifted = replace(rules[bound.id], belief=Constant(round(bound.bound, 3)), note=note)
            rules = rules.replace(bound.id, lifted)
    return rules


def _bound(rule: Any, outcome: np.ndarray, base: tuple[float, float]) -> BeliefBound:
    said, checks = float(rule.belief.value), int(outcome.size)
    if not checks:
        return BeliefBound(rule.name, rule.id, said, 0, 0.0, 0.0)
    hits = float((outcome != PASSED).mean())
    least = float(wilson_interval((outcome != PASSED).sum(), checks)[0])
    # MOVER: the lower limit of a difference, from the lower limit of one part and the upper one of the other.
    low = hits - base[0] - math.hypot(hits - least, base[1] - base[0])
    return BeliefBound(rule.name, rule.id, said, checks, max(hits - base[0], 0.0), max(low, 0.0))
