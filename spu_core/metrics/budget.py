"""Ranking at a review budget: how much positive mass the first rows of the queue hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spu_core.metrics.roc import RocSpu, roc_spu


@dataclass(frozen=True, slots=True)
class Gains:
    """Share of the positive mass caught against share of rows reviewed; best rows first."""

    curve: RocSpu

    @property
    def reviewed(self) -> np.ndarray:
        """Share of rows reviewed at each point."""
        return self.curve.flagged / self.curve.flagged[-1]

    @property
    def caught(self) -> np.ndarray:
        """Share of ΣS among the rows reviewed at each point."""
        return self.curve.tpr

    @property
    def lift(self) -> np.ndarray:
        """How many times more positive mass than random review would catch; 1 where everything is reviewed."""
        return np.divide(self.caught, self.reviewed, out=np.ones_like(self.caught), where=self.reviewed > 0.0)

    def at_budget(self, budget: float) -> tuple[float, float]:
        """(caught, lift) when reviewing `budget` rows (int) or a share of them (float)."""
        point = self.curve.at_budget(budget)
        return point.tpr, point.tpr / point.flagged_share if point.flagged_share else 1.0


def gains_spu(soft_label: Any, score: Any, *, sample_weight: Any = None) -> Gains:
    """Gains and lift of reviewing rows by descending score.

    >>> gains = gains_spu([1.0, 0.5, 0.0, 0.0], [4, 3, 2, 1])
    >>> gains.at_budget(1)
    (0.666..., 2.666...)
    """
    return Gains(roc_spu(soft_label, score, sample_weight=sample_weight))
