"""Selection-bias map: where confirmed cases are over- or under-represented among rows with equal rule scores.

If positives were confirmed at random, rows with equal rule scores would be confirmed equally often in every part of the
table. If not, some parts were checked more often, and figures that use labels (known-positive AUC, BBE) describe mainly
these parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr

from spu_core.errors import AssumptionError
from spu_core.labels import SoftLabels
from spu_core.metrics.intervals import z_quantile
from spu_core.tables import ColumnType, Table
from spu_core.training.evaluation import holm

FEWEST_EXPECTED = 5.0
PARTS = 5
LEVELS = 5
MOST_COLUMNS = 30


@dataclass(frozen=True, eq=False)
class BiasMap:
    """A line of `cells` for each part of each column: the expected and the found number of confirmed cases.

    `ratio` is found / expected at equal rule scores, with a confidence interval; `holm` is its p-value with Holm's
    correction for all cells. Cells with fewer than five expected positives have no ratio. Only rows with a rule score
    of at least `at_least` are used.
    """

    cells: pd.DataFrame
    at_least: float
    rows: int
    labeled: int
    level: float

    @property
    def biased(self) -> pd.DataFrame:
        """Cells with a significant difference, the largest first."""
        found = self.cells[self.cells["holm"] < 1.0 - self.level]
        strength = np.log(found["ratio"].clip(lower=0.05)).abs()
        return found.loc[strength.sort_values(ascending=False).index]

    @property
    def sentence(self) -> str:
        biased = self.biased
        if not self.cells["ratio"].notna().any():
            counts = f"{self.labeled:,} of {self.rows:,} suspected rows"
            return f"Only {counts} are confirmed, too few to find a selection bias."
        if biased.empty:
            return (
                f"No clear selection bias among {self.rows:,} suspected rows. A bias smaller than the confidence "
                "intervals is possible."
            )
        worst = biased.iloc[0]
        many = "1 part of a column has" if len(biased) == 1 else f"{len(biased)} parts of columns have"
        return (
            f"{many} more or fewer confirmed cases than other rows with equal rule scores. Largest difference: "
            f"{worst['column']} {worst['part']}, {worst['found']:,} confirmed, {worst['expected']:.0f} expected "
            f"({worst['ratio']:.1f} times as many, {self.level:.0%} confidence interval {worst['low']:.1f} to "
            f"{worst['high']:.1f})."
        )


def selection_bias(
    table: Table, soft_labels: SoftLabels, *, at_least: float | None = None, level: float = 0.95
) -> BiasMap:
    """Where are confirmed cases more or less frequent than the rules suggest?

    In every part of every column that the rules do not read, the number of confirmed cases is compared with the
    number expected if rows with equal rule scores (in fifths) were confirmed with equal probability.

    Parameters
    ----------
    table : Table
        The rows.
    soft_labels : SoftLabels
        Soft labels from rules.
    at_least : float, optional
        Only rows whose rule score is at least this. Default: the median of the rule scores above the floor.
    level : float, default 0.95
        Confidence level, after Holm's correction.

    Returns
    -------
    BiasMap

    Raises
    ------
    AssumptionError
        If there are no confirmed cases or no suspected rows.
    """
    rule_score, labeled = np.asarray(soft_labels.rule_score), np.asarray(soft_labels.is_labeled)
    if not labeled.any():
        raise AssumptionError("No row is a confirmed case, so a selection bias cannot be estimated.")
    fired = rule_score > soft_labels.floor
    if not fired.any():
        raise AssumptionError("No rule fires on any row, so confirmed cases cannot be compared with similar rows.")
    start = float(np.median(rule_score[fired])) if at_least is None else float(at_least)
    rows = np.flatnonzero(rule_score >= start)
    suspicion = _fifths(rule_score[rows])
    cells = [
        _cell(name, part, member, suspicion, labeled[rows], level)
        for name in _columns(table, soft_labels)
        for part, member in _parts(table.frame[name].iloc[rows], table.types[name])
    ]
    frame = pd.DataFrame(
        cells, columns=["column", "part", "rows", "found", "expected", "ratio", "low", "high", "p_value"]
    )
    frame["holm"] = np.nan
    tested = frame["p_value"].notna().to_numpy()
    if tested.any():
        frame.loc[tested, "holm"] = holm(frame.loc[tested, "p_value"].tolist())
    return BiasMap(frame, start, int(rows.size), int(labeled[rows].sum()), level)


def _cell(
    name: str, part: str, member: np.ndarray, suspicion: np.ndarray, labeled: np.ndarray, level: float
) -> tuple[Any, ...]:
    """Found and expected confirmed cases (Mantel–Haenszel over fifths of the rule score).

    Given its margins, the count in each fifth has a hypergeometric distribution.
    """
    size = np.bincount(suspicion)
    confirmed = np.bincount(suspicion, weights=labeled, minlength=size.size)
    inside = np.bincount(suspicion, weights=member, minlength=size.size)
    share = confirmed / np.maximum(size, 1)
    expected = float((inside * share).sum())
    rest = (size - inside) / np.maximum(size - 1, 1)
    variance = float((inside * share * (1.0 - share) * rest).sum())
    found = int(labeled[member].sum())
    counts = (name, part, int(member.sum()), found, expected)
    if expected < FEWEST_EXPECTED or variance <= 0.0:
        return (*counts, np.nan, np.nan, np.nan, np.nan)
    error = float(np.sqrt(variance))
    reach = z_quantile(level) * error
    p_value = 2.0 * float(ndtr(-max(abs(found - expected) - 0.5, 0.0) / error))
    low, high = max(0.0, found - reach) / expected, (found + reach) / expected
    return (*counts, found / expected, low, high, min(p_value, 1.0))


def _columns(table: Table, soft_labels: SoftLabels) -> list[str]:
    kinds = (ColumnType.NUMBER, ColumnType.CATEGORY, ColumnType.BOOLEAN)
    read = set(soft_labels.rule_columns)
    return [name for name in table.features if name not in read and table.types[name] in kinds][:MOST_COLUMNS]


def _parts(values: pd.Series, kind: ColumnType) -> list[tuple[str, np.ndarray]]:
    """Fifths of a number column, the most frequent categories of other columns, and missing values."""
    missing = values.isna().to_numpy()
    found = _number_parts(values, missing) if kind is ColumnType.NUMBER else _level_parts(values, missing)
    return [*found, ("missing", missing)] if missing.any() else found


def _number_parts(values: pd.Series, missing: np.ndarray) -> list[tuple[str, np.ndarray]]:
    numbers = values.to_numpy(dtype=np.float64)
    if missing.all():
        return []
    edges = np.unique(np.quantile(numbers[~missing], np.linspace(0.0, 1.0, PARTS + 1)))
    if edges.size < 3:
        return []
    place = np.searchsorted(edges[1:-1], numbers, side="left")
    names = [f"{low:.4g} to {high:.4g}" for low, high in pairwise(edges)]
    return [(name, ~missing & (place == at)) for at, name in enumerate(names)]


def _level_parts(values: pd.Series, missing: np.ndarray) -> list[tuple[str, np.ndarray]]:
    text = values.astype(str).to_numpy()
    frequent = pd.Series(text[~missing]).value_counts().index[:LEVELS]
    return [(str(level), ~missing & (text == level)) for level in frequent]


def _fifths(rule_score: np.ndarray) -> np.ndarray:
    edges = np.unique(np.quantile(rule_score, np.linspace(0.0, 1.0, PARTS + 1)[1:-1]))
    return np.searchsorted(edges, rule_score, side="left")
