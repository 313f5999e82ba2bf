"""Breast Cancer Wisconsin with the paper's labelling: malignant cases are labelled with chance u ~ U[0, ½].

The chance itself is a column of the table, as in the paper (Section 6.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from spu_core.checks import check_share
from spu_core.errors import TableError
from spu_core.tables.roles import Role
from spu_core.tables.simulators.common import table_of
from spu_core.tables.table import Table

ROLES = {"labeled": Role.LABEL, "malignant": Role.TRUTH}


@dataclass(frozen=True, kw_only=True)
class BreastCancerConfig:
    """`largest_chance` is the upper end of the uniform labelling chance."""

    seed: int = 0
    largest_chance: float = 0.5

    def __post_init__(self) -> None:
        check_share(self.largest_chance, "largest_chance", TableError, closed=True)


def simulate_breast_cancer(config: BreastCancerConfig | None = None) -> Table:
    """The 569 cases of scikit-learn's data set with simulated labels; the truth is known and kept as such.

    >>> table = simulate_breast_cancer()
    >>> len(table), int(table.truth.sum()), len(table.features)
    (569, 212, 31)
    """
    from sklearn.datasets import load_breast_cancer

    config = config or BreastCancerConfig()
    rng = np.random.default_rng([30, config.seed])
    frame, target = load_breast_cancer(return_X_y=True, as_frame=True)
    frame = frame.rename(columns=lambda name: name.replace(" ", "_"))
    # scikit-learn codes malignant as 0.
    is_malignant = target.to_numpy() == 0
    chance = rng.uniform(0.0, config.largest_chance, len(frame)).round(6)
    labels = pd.DataFrame(
        {
            "label_chance": chance,
            "labeled": (is_malignant & (rng.random(len(frame)) < chance)).astype(int),
            "malignant": is_malignant.astype(int),
        }
    )
    return table_of(pd.concat([frame, labels], axis=1), "breast_cancer", ROLES)
