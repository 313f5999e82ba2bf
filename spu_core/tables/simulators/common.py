"""What the simulators share: random draws, and a table whose roles are all said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from spu_core.tables.roles import Role
from spu_core.tables.table import Table


def table_of(frame: pd.DataFrame, name: str, roles: Mapping[str, Role]) -> Table:
    """A table with these roles; every other column is a feature, and 1 means positive."""
    every = {column: roles.get(column, Role.FEATURE) for column in frame.columns}
    return Table.from_frame(frame, name=name, roles=every, positive_values=[1])


def squashed(values: np.ndarray) -> np.ndarray:
    """Any number into (0, 1)."""
    return 1.0 / (1.0 + np.exp(-values))


def category(levels: Sequence[str], chances: Sequence[float], size: int, rng: np.random.Generator) -> pd.Series:
    """Independent levels with these chances."""
    return pd.Series(np.array(levels, dtype=object)[rng.choice(len(levels), size, p=chances)], dtype="str")


def shares(mean: np.ndarray, concentration: float, rng: np.random.Generator) -> np.ndarray:
    """Beta-distributed shares with these means; a mean of 0 or 1 stays what it is."""
    inside = (mean > 0.0) & (mean < 1.0)
    drawn = mean.astype(np.float64)
    drawn[inside] = rng.beta(mean[inside] * concentration, (1.0 - mean[inside]) * concentration)
    return drawn
