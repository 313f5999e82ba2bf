"""A guard for fused: when labels look selected and the rules are borne out, the rules get a say the stack denies them.

The stack is fitted to the label flag. Where something beside being positive decided who was labelled (age, a branch
office), it learns that as well, and ranks by it. The label flag alone cannot tell the two apart, but two figures
together hint at it: the labels' own scores foresee who is labelled far better than the scores learnt from the rules
(`gap`), although those, too, rank labelled rows above the others (`borne_out`). A wrong rule fails the second, labels
drawn at random from the positives mostly fail the first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spu_core.metrics import known_positive_auc_score
from spu_core.models.evidence import Evidence

# Chosen on Adult and Bank before any other table was looked at; docs/methods.md has the figures.
SMALL_GAP = 0.06
LARGE_GAP = 0.16
STANDARD_ERRORS = 2.0


@dataclass(frozen=True, slots=True)
class Selection:
    """How well each side foresees, out of fold, who is labelled: the labels' own scores and those from the rules.

    >>> Selection(0.93, 0.74, labels=40).share, Selection(0.82, 0.80, labels=40).share
    (1.0, 0.0)
    >>> Selection(0.93, 0.36, labels=40).share
    0.0
    """

    label_auc: float
    rule_auc: float
    labels: int

    @property
    def gap(self) -> float:
        return self.label_auc - self.rule_auc

    @property
    def borne_out(self) -> bool:
        """Whether the rules' scores rank labelled rows higher than chance would; their error is that of an AUC of ½."""
        return self.rule_auc - 0.5 > STANDARD_ERRORS / np.sqrt(12.0 * self.labels)

    @property
    def share(self) -> float:
        """How much the labels look selected, from 0 to 1; 0 where the rules are not borne out."""
        ramp = (self.gap - SMALL_GAP) / (LARGE_GAP - SMALL_GAP)
        return float(np.clip(ramp, 0.0, 1.0)) if self.borne_out else 0.0


def selection_of(z: np.ndarray, rows: Evidence) -> Selection:
    """Judge the standardised ingredients of fused: two of the labels, two of the rules, the rules themselves."""
    label_auc, rule_auc = (
        known_positive_auc_score(rows.is_labeled, z[:, start] + z[:, start + 1], sample_weight=rows.weight)
        for start in (0, 2)
    )
    return Selection(label_auc, rule_auc, int(rows.is_labeled.sum()))


def rule_line(z: np.ndarray) -> np.ndarray:
    """What the rules say: the sum of the three standardised ingredients that come from them."""
    return np.einsum("ij->i", z[:, 2:])
