"""What each rule changes: E[S], the ceiling and the ordering of the rows with and without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import SoftLabelError
from spu_core.labels.soft_labels import assign_soft_labels
from spu_core.metrics.auc import auc_spu_ceiling
from spu_core.rules import RuleMatrix

MANY_ROWS = 100_000
GRID = 2**16


def leave_one_rule_out(
    matrix: RuleMatrix, is_labeled: Any, combine: str = "noisy_or", floor: float = 0.0
) -> pd.DataFrame:
    """One line per rule: S without it, compared with S of all rules.

    mean_change and ceiling_change: E[S] and the ceiling without the rule, minus those with it (NaN where a ceiling is
    undefined). rows_changed: share of rows whose S differs. rank_correlation: Spearman's between both S; 1 means that
    the rule does not change the order of the rows, however much it changes the values.

    >>> matrix = RuleMatrix.from_arrays(["a", "b"], [[0.5, 0.0], [0.0, 0.2], [0.0, 0.2], [0.0, 0.0]])
    >>> leave_one_rule_out(matrix, [False] * 4)[["mean_change", "rows_changed"]]
          mean_change  rows_changed
    rule
    a          -0.125          0.25
    b          -0.100          0.50
    """
    whole = _Ordered(assign_soft_labels(matrix, is_labeled, combine, floor).value)
    lines = []
    for name in matrix.names:
        rest = _Ordered(assign_soft_labels(matrix.without(name), is_labeled, combine, floor).value)
        lines.append(
            {
                "mean_change": rest.soft_label.mean() - whole.soft_label.mean(),
                "ceiling_change": rest.ceiling - whole.ceiling,
                "rows_changed": np.mean(rest.soft_label != whole.soft_label),
                "rank_correlation": _correlation(rest.rank, whole.rank),
            }
        )
    columns = ["mean_change", "ceiling_change", "rows_changed", "rank_correlation"]
    return pd.DataFrame(lines, columns=columns, index=pd.Index(matrix.names, name="rule"), dtype=float)


def ceiling_or_nan(soft_label: np.ndarray, rows: np.ndarray | None = None) -> float:
    """The ceiling, or NaN where all rows are 0 or all are 1 and it is undefined; `rows` counts equal ones."""
    try:
        return auc_spu_ceiling(soft_label, sample_weight=rows)
    except SoftLabelError:
        return float("nan")


class _Ordered:
    """Soft labels with their middle ranks and their ceiling, both from the counts of equal values."""

    def __init__(self, soft_label: np.ndarray) -> None:
        self.soft_label = soft_label
        if soft_label.size > MANY_ROWS:
            # Counting on a fine grid needs no sort; it moves S by at most 1/131072.
            position = np.rint(soft_label * GRID).astype(np.int64)
            count, values = np.bincount(position, minlength=GRID + 1), np.arange(GRID + 1) / GRID
        else:
            values, position, count = np.unique(soft_label, return_inverse=True, return_counts=True)
        self.rank = (np.cumsum(count) - (count - 1) / 2)[position]
        present = count > 0
        self.ceiling = ceiling_or_nan(values[present], count[present].astype(np.float64))


def _correlation(left: np.ndarray, right: np.ndarray) -> float:
    left, right = left - left.mean(), right - right.mean()
    scale = np.sqrt((left * left).sum() * (right * right).sum())
    return float((left * right).sum() / scale) if scale > 0 else float("nan")
