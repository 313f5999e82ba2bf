"""Rule analysis: what each rule adds, where rules disagree or repeat each other, and what the labels say of them.

coverage      share of rows on which the rule fires
overlap       share of rows on which it fires and another rule fires too
conflict      share of rows on which it fires and another fired rule's belief is further away than CONFLICT_GAP
redundancy    share of its rows on which another fired rule believes at least as much: removing the rule would
              change nothing there under the combiner *strongest*
lift          P(fires | labelled) / P(fires), with an interval; 1 means that the labels see nothing in the rule
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_choice, check_flags, check_share
from spu_core.errors import RuleError
from spu_core.rules.matrix import RuleMatrix
from spu_core.rules.proportions import lift_interval
from spu_core.theory.check_ratio import wilson_interval

CONFLICT_GAP = 0.5
OVERLAP_KINDS = ("share", "jaccard", "rows")


def summarize_rules(
    matrix: RuleMatrix, is_labeled: Any = None, truth: Any = None, *, level: float = 0.95
) -> pd.DataFrame:
    """One line per rule; the lift is added where rows are labelled, the precision where the truth is known.

    >>> matrix = RuleMatrix.from_arrays(["a", "b"], [[0.9, 0.2], [0.9, 0.0], [0.0, 0.2], [0.0, 0.0]])
    >>> summarize_rules(matrix)[["coverage", "mean_belief", "overlap", "conflict", "redundancy"]]
          coverage  mean_belief  overlap  conflict  redundancy
    rule
    a          0.5          0.9     0.25      0.25         0.0
    b          0.5          0.2     0.25      0.25         0.5
    """
    check_share(level, "level", RuleError)
    if not len(matrix):
        raise RuleError("The rule matrix has no rows, so there is nothing to summarize.")
    table = pd.DataFrame(_coverage(matrix) | _disagreement(matrix), index=pd.Index(matrix.names, name="rule"))
    if is_labeled is not None:
        flags = check_flags(is_labeled, len(matrix), "is_labeled")
        table = table.assign(**_lift(matrix, flags, level))
    if truth is not None:
        table = table.assign(**_precision(matrix, check_flags(truth, len(matrix), "truth"), level))
    return table


def overlap_table(matrix: RuleMatrix, how: str = "share") -> pd.DataFrame:
    """Rules × rules: share of the line's rows on which the column's rule fires too, Jaccard index, or row counts.

    >>> matrix = RuleMatrix.from_arrays(["a", "b"], [[0.9, 0.2], [0.9, 0.0], [0.0, 0.0]])
    >>> overlap_table(matrix)
            a    b
    rule
    a     1.0  0.5
    b     1.0  1.0
    """
    check_choice(how, OVERLAP_KINDS, "how", RuleError)
    rows = matrix.together
    own = np.diagonal(rows)
    if how == "rows":
        values = rows
    else:
        base = {"share": own[:, None] + np.zeros_like(rows), "jaccard": own[:, None] + own - rows}[how]
        values = np.divide(rows, base, out=np.full(rows.shape, np.nan), where=base > 0)
    return pd.DataFrame(values, index=pd.Index(matrix.names, name="rule"), columns=list(matrix.names))


def covered(matrix: RuleMatrix) -> np.ndarray:
    """Whether at least one rule fired, for each row."""
    return np.asarray(matrix.fired.any(axis=1))


def _coverage(matrix: RuleMatrix) -> dict[str, np.ndarray]:
    rows = np.diagonal(matrix.together)
    totals = np.array([matrix.belief_of(j).sum() for j in range(matrix.n_rules)])
    others = matrix.fired.sum(axis=1) > 1
    overlap = [np.count_nonzero(matrix.fired[:, j] & others) for j in range(matrix.n_rules)]
    return {
        "rows": rows,
        "coverage": rows / len(matrix),
        "mean_belief": _ratio(totals, rows),
        "overlap": np.array(overlap) / len(matrix),
    }


def _disagreement(matrix: RuleMatrix) -> dict[str, np.ndarray]:
    """Per row the largest, second largest and smallest fired belief are enough to compare each rule with all others."""
    largest, second, smallest = _extremes(matrix)
    conflict, redundant = np.zeros(matrix.n_rules), np.zeros(matrix.n_rules)
    for j in range(matrix.n_rules):
        fired, belief = matrix.fired[:, j], matrix.belief_of(j)
        far = (largest - belief > CONFLICT_GAP) | (belief - smallest > CONFLICT_GAP)
        conflict[j] = np.count_nonzero(fired & far)
        # The rule itself is one of the largest, so another one must reach the same value: the second largest.
        redundant[j] = np.count_nonzero(fired & ((largest > belief) | (second >= belief)))
    rows = np.diagonal(matrix.together)
    return {"conflict": conflict / len(matrix), "redundancy": _ratio(redundant, rows)}


def _extremes(matrix: RuleMatrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    largest, second = np.full(len(matrix), -np.inf), np.full(len(matrix), -np.inf)
    smallest = np.full(len(matrix), np.inf)
    for j in range(matrix.n_rules):
        fired, belief = matrix.fired[:, j], matrix.belief_of(j)
        high = np.where(fired, belief, -np.inf)
        second = np.maximum(second, np.minimum(largest, high))
        largest = np.maximum(largest, high)
        smallest = np.minimum(smallest, np.where(fired, belief, np.inf))
    return largest, second, smallest


def _lift(matrix: RuleMatrix, is_labeled: np.ndarray, level: float) -> dict[str, np.ndarray]:
    rows = np.diagonal(matrix.together)
    labeled_rows = np.array([np.count_nonzero(matrix.fired[:, j] & is_labeled) for j in range(matrix.n_rules)])
    n_labeled = int(np.count_nonzero(is_labeled))
    limits = [lift_interval(k, n_labeled, n, len(matrix), level) for k, n in zip(labeled_rows, rows, strict=True)]
    lift, low, high = np.array(limits).reshape(-1, 3).T
    return {"labeled_rows": labeled_rows, "lift": lift, "lift_low": low, "lift_high": high}


def _precision(matrix: RuleMatrix, truth: np.ndarray, level: float) -> dict[str, np.ndarray]:
    rows = np.diagonal(matrix.together)
    hits = np.array([np.count_nonzero(matrix.fired[:, j] & truth) for j in range(matrix.n_rules)])
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = wilson_interval(hits, rows, level)
    return {"precision": _ratio(hits, rows), "precision_low": low, "precision_high": high}


def _ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """Division that leaves NaN where a rule never fired: its share of nothing is not 0."""
    return np.divide(top, bottom, out=np.full(len(top), np.nan), where=bottom > 0)
