"""Small random helpers that the simulators share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd


def squashed(values: np.ndarray) -> np.ndarray:
    """Any number into (0, 1)."""
    return 1.0 / (1.0 + np.exp(-values))


def category(
    levels: Sequence[str], chances: Sequence[float], size: int, rng: np.random.Generator
) -> pd.Series:
    """Independent levels with these chances."""
    return pd.Series(np.array(levels, dtype=object)[rng.choice(len(levels), size, p=chances)], dtype="str")


def shares(mean: np.ndarray, concentration: float, rng: np.random.Generator) -> np.ndarray:
    """Beta-distributed shares with these means; a mean of 0 or 1 stays what it is."""
    inside = (mean > 0.0) & (mean < 1.0)
    drawn = mean.astype(np.float64)
    drawn[inside] = rng.beta(mean[inside] * concentration, (1.0 - mean[inside]) * concentration)
    return drawn
