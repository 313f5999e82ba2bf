"""A small world whose truth is known: two rules, few labels, one group and one time column."""

from __future__ import annotations

import numpy as np
import pandas as pd

from spu_core.labels import assign_soft_labels
from spu_core.rules import RuleMatrix
from spu_core.tables import Table

ROLES = {"label": "label", "truth": "truth", "day": "time", "house": "ignore", "seen": "ignore"}


def make_world(rows=400, seed=0, **roles):
    """A table and its soft labels: rules read column a; labels are a third of the positives."""
    rng = np.random.default_rng(seed)
    truth = rng.random(rows) < 0.3
    x = rng.normal(size=(rows, 4)) + truth[:, None] * np.array([1.0, 0.9, 0.6, 0.0])
    labels = truth & (rng.random(rows) < 0.35)
    frame = pd.DataFrame(x, columns=list("abcd"))
    frame["job"] = rng.choice(["clerk", "pilot", "smith"], rows)
    frame["label"], frame["truth"] = labels.astype(int), truth.astype(int)
    frame["house"] = rng.integers(0, rows // 5, rows)
    frame["day"] = rng.permutation(rows)
    frame["seen"] = (rng.random(rows) < 0.5).astype(int)
    table = Table.from_frame(frame, roles={**ROLES, **roles})
    belief = np.column_stack([0.6 * (x[:, 0] > 1.0), 0.2 * (x[:, 0] > 0.0)])
    matrix = RuleMatrix.from_arrays(["far", "near"], belief, columns=["a"])
    return table, assign_soft_labels(matrix, labels)
