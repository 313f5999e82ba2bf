"""Rows where the model and the rules disagree most: one of them has something to learn there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_score, check_soft_label
from spu_core.errors import TableError

MODEL_ABOVE = "the model suspects, the rules do not"
RULES_ABOVE = "the rules suspect, the model does not"
BOTH = "both"
SIDES = {"both": (MODEL_ABOVE, RULES_ABOVE), "model": (MODEL_ABOVE,), "rules": (RULES_ABOVE,)}


@dataclass(frozen=True, eq=False)
class Disagreement:
    """Rows in order of `gap`, the share of all rows that lie between the row's two ranks; the largest first."""

    row: np.ndarray
    gap: np.ndarray
    side: np.ndarray
    model_percentile: np.ndarray
    rules_percentile: np.ndarray

    def __len__(self) -> int:
        return self.row.size

    def to_frame(self) -> pd.DataFrame:
        names = ("row", "side", "gap", "model_percentile", "rules_percentile")
        return pd.DataFrame({name: getattr(self, name) for name in names})


def disagreement(
    score: Any, rule_score: Any, *, is_open: Any = None, budget: int = 50, side: str = BOTH
) -> Disagreement:
    """The rows whose place by the model's score and by the rules' differs most.

    Both are turned into percentiles first (rows with equal values share the middle), since their scales differ. With
    `side="both"` each side gets half of the budget, where it has that many.

    >>> found = disagreement([0.9, 0.1, 0.5, 0.4], [0.0, 0.8, 0.5, 0.3], budget=2)
    >>> found.row.tolist(), found.side.tolist()
    ([0, 1], ['the model suspects, the rules do not', 'the rules suspect, the model does not'])
    """
    score, rules = check_score(score), check_soft_label(rule_score, "rule_score")
    if score.size != rules.size:
        raise TableError(f"score has {score.size} rows, but rule_score has {rules.size}; both need one per row.")
    if side not in SIDES or budget < 1:
        raise TableError(f"side must be one of {sorted(SIDES)} and budget at least 1, got {side!r} and {budget}.")
    if np.ptp(rules) == 0:
        raise TableError("The rules say the same of every row, so a model cannot disagree with them anywhere.")
    by_model, by_rules = (
        100.0 * (pd.Series(values).rank().to_numpy() - 0.5) / values.size for values in (score, rules)
    )
    gap = (by_model - by_rules) / 100.0
    open_rows = np.arange(score.size) if is_open is None else np.flatnonzero(np.asarray(is_open, dtype=bool))
    above = open_rows[gap[open_rows] > 0]
    # Rows of which the rules say nothing share a middle rank; being ranked below it is no suspicion of the rules.
    below = open_rows[(gap[open_rows] < 0) & (rules[open_rows] > rules.min())]
    ordered = [above[np.argsort(-gap[above], kind="stable")], below[np.argsort(gap[below], kind="stable")]]
    rows = _shared(ordered, budget, side)
    rows = rows[np.argsort(-np.abs(gap[rows]), kind="stable")]
    sides = np.where(gap[rows] > 0, MODEL_ABOVE, RULES_ABOVE)
    return Disagreement(rows, np.abs(gap[rows]), sides, by_model[rows], by_rules[rows])


def _shared(ordered: list[np.ndarray], budget: int, side: str) -> np.ndarray:
    if side != BOTH:
        return ordered[0 if side == "model" else 1][:budget]
    half = min(budget // 2, ordered[1].size)
    first = ordered[0][: budget - half]
    return np.concatenate([first, ordered[1][: budget - first.size]])
