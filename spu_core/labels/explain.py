"""Why a row has its soft label: the contribution of each rule, of the floor and of the label.

The contribution of a rule is its share of the combined value, as the combiner defines it (`Combiner.credit_words`).
Law: ready_made + Σ contributions + floor_lift + label_lift = S.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from spu_core.errors import SoftLabelError
from spu_core.rules.combine import combiner_of

if TYPE_CHECKING:
    from spu_core.labels.soft_labels import SoftLabels


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one rule says about one row, and how much of S it accounts for."""

    rule: str
    fired: bool
    belief: float
    amount: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """One row's S, taken apart; all amounts add up to `value`."""

    row: int
    value: float
    rule_score: float
    combine: str | None
    contributions: tuple[Contribution, ...]
    ready_made: float
    floor_lift: float
    label_lift: float

    @property
    def fired(self) -> tuple[Contribution, ...]:
        """Only the rules that fired, the largest contribution first."""
        return tuple(sorted((c for c in self.contributions if c.fired), key=lambda c: -c.amount))

    @property
    def text(self) -> str:
        """The explanation in one sentence."""
        parts = [f"{c.rule!r} (belief {c.belief:.2f}) gives {c.amount:.2f}" for c in self.fired]
        lifts = (
            ("the ready-made value gives", self.ready_made),
            ("the floor adds", self.floor_lift),
            ("being a confirmed positive adds", self.label_lift),
        )
        parts += [f"{words} {amount:.2f}" for words, amount in lifts if amount > 0]
        reason = "; ".join(parts) if parts else "no rule fired, and the floor is 0"
        return f"S = {self.value:.2f}: {reason}."

    def table(self) -> pd.DataFrame:
        """One line per rule: fired, belief, contribution."""
        lines = [(c.rule, c.fired, c.belief, c.amount) for c in self.contributions]
        return pd.DataFrame(lines, columns=["rule", "fired", "belief", "contribution"]).set_index("rule")


def explain_row(soft_labels: SoftLabels, row: int) -> Explanation:
    """Take one row's S apart."""
    if not 0 <= row < len(soft_labels):
        raise SoftLabelError(f"There is no row {row}; rows are counted from 0 to {len(soft_labels) - 1}.")
    value, rule_score = float(soft_labels.value[row]), float(soft_labels.rule_score[row])
    contributions = _contributions(soft_labels, row)
    combined = sum(contribution.amount for contribution in contributions)
    is_ready_made = soft_labels.matrix is None
    return Explanation(
        row=int(row),
        value=value,
        rule_score=rule_score,
        combine=soft_labels.combine,
        contributions=contributions,
        ready_made=rule_score if is_ready_made else 0.0,
        floor_lift=0.0 if is_ready_made or rule_score > soft_labels.floor else rule_score - combined,
        label_lift=value - rule_score,
    )


def _contributions(soft_labels: SoftLabels, row: int) -> tuple[Contribution, ...]:
    matrix, name = soft_labels.matrix, soft_labels.combine
    if matrix is None or name is None:
        return ()
    one_row = matrix.take(np.array([row]))
    combiner = combiner_of(name)
    belief, fired = one_row.belief[0], one_row.fired[0]
    amount = combiner.shares(belief, fired) * combiner.combine(one_row)[0]
    cells = zip(matrix.names, fired.tolist(), belief.tolist(), amount.tolist(), strict=True)
    return tuple(Contribution(*cell) for cell in cells)
