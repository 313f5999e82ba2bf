"""Soft labels of the paper's image experiment: generalized SCAR, so the picture says nothing about S beyond Y."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spu_core.checks import check_flags
from spu_core.errors import AssumptionError
from spu_core.theory import ScarLink

LEVELS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
LARGEST_PRIOR = 15 / 28
"""From here on the probabilities of the negatives would sum to more than 1."""


@dataclass(frozen=True)
class PaperSoftLabels:
    """P(S = k/4) is 1/5 for each k in positives, and π(4−k) / (5k(1−π)) for k = 1, 2, 3 in negatives (else S = 0).

    Then P(Y=1|S=s) = s for s = ¼, ½, ¾, and S = 1 in positives only. S = 0 is no sure negative: `positive_at_zero`.

    >>> labels = PaperSoftLabels(prior=0.1)
    >>> labels.negative.round(4).tolist()
    [0.9037, 0.0667, 0.0222, 0.0074, 0.0]
    >>> round(labels.link.perfect_level, 3), round(labels.ceiling, 3)
    (0.785, 0.979)
    """

    prior: float

    def __post_init__(self) -> None:
        if not 0.0 < self.prior < LARGEST_PRIOR:
            raise AssumptionError(
                f"The paper's soft labels need a share of positives between 0 and 15/28 = {LARGEST_PRIOR:.3f}, "
                f"got {self.prior:g}: beyond it P(S=0|Y=0) would be negative."
            )

    @property
    def positive(self) -> np.ndarray:
        """P(S = level | Y = 1)."""
        return np.full(5, 0.2)

    @property
    def negative(self) -> np.ndarray:
        """P(S = level | Y = 0)."""
        k = np.arange(1, 4)
        middle = self.prior * (4 - k) / (5 * k * (1 - self.prior))
        return np.concatenate([[1.0 - middle.sum()], middle, [0.0]])

    @property
    def positive_at_zero(self) -> float:
        """P(Y = 1 | S = 0): a fifth of the positives have no soft label.

        >>> [round(PaperSoftLabels(prior).positive_at_zero, 3) for prior in (0.1, 0.4)]
        [0.024, 0.24]
        """
        hidden = self.prior * self.positive[0]
        return float(hidden / (hidden + (1 - self.prior) * self.negative[0]))

    @property
    def link(self) -> ScarLink:
        """Theorem 2's map for these soft labels, exact: π, S_P and S_N are known by construction."""
        return ScarLink(self.prior, float(self.positive @ LEVELS), float(self.negative @ LEVELS))

    @property
    def ceiling(self) -> float:
        """Theorem 1's ceiling of the distribution: reached only by a score that sees S."""
        share = self.prior * self.positive + (1 - self.prior) * self.negative
        mean = float(share @ LEVELS)
        gap = float(share @ np.abs(LEVELS[:, None] - LEVELS) @ share)
        return 0.5 + gap / (4 * mean * (1 - mean))

    def draw(self, truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One soft label per row, given its class only."""
        truth = check_flags(truth, None, "truth")
        soft_label = rng.choice(LEVELS, truth.size, p=self.negative)
        soft_label[truth] = rng.choice(LEVELS, int(truth.sum()), p=self.positive)
        return soft_label


# What each method takes for its target: the paper's method, and its two baselines.
TARGETS = {
    "RESULT": lambda soft_label: soft_label,
    "BL0": lambda soft_label: (soft_label == 1.0).astype(np.float64),
    "BL1": lambda soft_label: (soft_label > 0.0).astype(np.float64),
}
