"""The profile of a table: what each column holds, and how often its rows are labelled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from spu_core.tables.column_types import ColumnType
from spu_core.tables.findings import Finding, Severity
from spu_core.tables.folder import TableFolder
from spu_core.tables.leakage import FEWEST_POSITIVES, find_leaks
from spu_core.tables.moments import day_of, stamps
from spu_core.tables.role_proposals import propose_roles
from spu_core.tables.roles import Role
from spu_core.tables.table import Table

QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
EDGE_SHARES = (0.001, 0.999)
LARGEST_BINS = 60
_BINS = 40
_TOP = 20


@dataclass(frozen=True, slots=True)
class Level:
    """One value of a column, its rows, and the share of them that are labelled."""

    value: str
    count: int
    share: float
    label_rate: float


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Rows per bin; bin i holds edge[i] ≤ value < edge[i + 1], and the last bin its upper edge as well.

    `edge` holds nanoseconds since 1970 for dates. The outer bins take in what lies beyond the 0.1 % quantiles.
    """

    edge: np.ndarray
    count: np.ndarray
    labeled: np.ndarray

    @property
    def label_rate(self) -> np.ndarray:
        """The share of labelled rows in each bin; NaN where a bin is empty."""
        return np.divide(self.labeled, self.count, out=np.full(self.count.size, np.nan), where=self.count > 0)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnProfile:
    """One column: its type and role, what is missing, and how its values are spread."""

    name: str
    type: ColumnType
    role: Role
    rows: int
    missing: int
    distinct: int
    quantiles: dict[float, float]
    top_levels: tuple[Level, ...]
    histogram: Histogram | None

    @property
    def missing_share(self) -> float:
        """The share of rows without a value."""
        return self.missing / self.rows if self.rows else 0.0

    @property
    def median(self) -> float | str:
        """The middle value of numbers, the middle day of dates; NaN where there is neither."""
        middle = self.quantiles.get(0.5, np.nan)
        return day_of(middle) if self.type is ColumnType.DATETIME and np.isfinite(middle) else middle


@dataclass(frozen=True, slots=True, eq=False)
class TableProfile:
    """All columns of a table, and everything that was noticed about them."""

    rows: int
    labeled: int
    columns: tuple[ColumnProfile, ...]
    findings: tuple[Finding, ...]

    def column(self, name: str) -> ColumnProfile:
        """The profile of one column."""
        return next(column for column in self.columns if column.name == name)

    def to_frame(self) -> pd.DataFrame:
        """One row per column, for showing."""
        return pd.DataFrame(
            {
                "column": [column.name for column in self.columns],
                "type": [column.type.value for column in self.columns],
                "role": [column.role.value for column in self.columns],
                "missing_share": [column.missing_share for column in self.columns],
                "distinct": [column.distinct for column in self.columns],
                "median": [column.median for column in self.columns],
                "top_level": [column.top_levels[0].value if column.top_levels else "" for column in self.columns],
            }
        )


def profile_table(table: Table) -> TableProfile:
    """Profile every column, and look for leaks, repeated rows and labels that are too few.

    >>> profile = profile_table(Table.from_frame(pd.DataFrame({"age": [1, 2, 3, None], "label": [0, 0, 1, 0]})))
    >>> profile.column("age").missing_share, profile.column("age").quantiles[0.5]
    (0.25, 2.0)
    """
    columns = tuple(_profile_column(table, name) for name in table.frame.columns)
    leaks = tuple(leak.as_finding() for leak in find_leaks(table))
    own = (*label_findings(table), *missing_findings(columns), *leaks, *repeat_findings(table), *propose_roles(table))
    return TableProfile(len(table), int(table.is_labeled.sum()), columns, (*table.findings, *own))


def histogram(values: np.ndarray, labeled: np.ndarray) -> Histogram | None:
    """Equal bins between the 0.1 % and 99.9 % quantiles, one per value where few whole numbers occur."""
    finite = np.isfinite(values)
    if not finite.any():
        return None
    values, labeled = values[finite], labeled[finite]
    edge = _edges(values)
    counts, hits = counts_between(edge, values, labeled)
    return Histogram(stretched(edge, float(values.min()), float(values.max())), counts, hits)


def counts_between(edge: np.ndarray, values: np.ndarray, labeled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labelled rows of each bin; those of parts add up."""
    bins = edge.size - 1
    place = np.clip(_places(values, edge), 0, bins - 1)
    return np.bincount(place, minlength=bins), np.bincount(place[labeled], minlength=bins)


def _profile_column(table: Table, name: str) -> ColumnProfile:
    values, kind = table.frame[name], table.types[name]
    numbers = as_numbers(values)
    present = None if numbers is None else numbers[np.isfinite(numbers)]
    quantiles = {} if present is None or not present.size else dict(zip(QUANTILES, _quantiles(present), strict=True))
    levels, distinct = _levels(values, table.is_labeled) if numbers is None else ((), _distinct(values))
    return ColumnProfile(
        name=name,
        type=kind,
        role=table.roles[name],
        rows=len(values),
        missing=int(values.isna().sum()),
        distinct=distinct,
        quantiles=quantiles,
        top_levels=levels,
        histogram=None if numbers is None else histogram(numbers, table.is_labeled),
    )


def as_numbers(values: pd.Series) -> np.ndarray | None:
    """Numbers and dates on one scale; None for levels, flags and text."""
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return stamps(values)
    if pd.api.types.is_bool_dtype(values.dtype) or not pd.api.types.is_numeric_dtype(values.dtype):
        return None
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def _quantiles(present: np.ndarray) -> list[float]:
    return np.quantile(present, QUANTILES, method="nearest").tolist()


def _distinct(values: pd.Series) -> int:
    return int(values.nunique())


def _levels(values: pd.Series, labeled: np.ndarray) -> tuple[tuple[Level, ...], int]:
    codes, levels = pd.factorize(values)
    present = codes >= 0
    counts = np.bincount(codes[present], minlength=len(levels))
    hits = np.bincount(codes[present & labeled], minlength=len(levels))
    return top_levels([str(level) for level in levels], counts, hits, len(values)), len(levels)


def top_levels(names: list[str], counts: np.ndarray, hits: np.ndarray, rows: int) -> tuple[Level, ...]:
    """The most frequent levels, from the rows and labelled rows of each."""
    # Equally frequent levels keep the order of the alphabet, so that the order of rows does not show.
    by_name = len(names) <= 5_000
    order = np.lexsort((np.array(names, dtype=str), -counts)) if by_name else np.argsort(-counts, kind="stable")
    return tuple(
        Level(names[at][:200], int(counts[at]), counts[at] / rows, hits[at] / counts[at])
        for at in order[:_TOP].tolist()
    )


def _edges(values: np.ndarray) -> np.ndarray:
    low, high = np.quantile(values, EDGE_SHARES, method="nearest").tolist()
    least, most = float(values.min()), float(values.max())
    return edges_between((low, high), (least, most), lambda: bool((values == np.floor(values)).all()))


def edges_between(inner: tuple[float, float], outer: tuple[float, float], are_whole: Callable[[], bool]) -> np.ndarray:
    """The edges of a histogram, from the 0.1 % and 99.9 % quantiles and the extremes of the finite values."""
    (low, high), (least, most) = inner, outer
    if high <= low:
        low, high = least, most
    if high <= low:
        # Around enormous numbers half a unit is less than the next float.
        half = max(0.5, 2.0 * np.spacing(abs(low)))
        return np.array([low - half, low + half])
    if most - least < LARGEST_BINS and are_whole():
        return np.arange(least - 0.5, most + 1.0)
    # Weighted ends, since the distance between the largest floats is none.
    share = np.linspace(0.0, 1.0, _BINS + 1)
    return low * (1.0 - share) + high * share


def _places(values: np.ndarray, edge: np.ndarray) -> np.ndarray:
    """The bin of each value, by arithmetic where the numbers allow it: that is ten times as fast as a search."""
    with np.errstate(over="ignore", divide="ignore"):
        scale = (edge.size - 1) / (edge[-1] - edge[0])
    if not 1e-200 < scale < 1e200:
        return np.searchsorted(edge, values, side="right") - 1
    inner = np.clip(values, edge[0], edge[-1])
    return ((inner - edge[0]) * scale).astype(np.int64)


def stretched(edge: np.ndarray, least: float, most: float) -> np.ndarray:
    """The same edges, the outer ones moved out to the extremes."""
    moved = edge.copy()
    moved[0], moved[-1] = min(edge[0], least), max(edge[-1], most)
    return moved


def label_findings(table: Table | TableFolder) -> list[Finding]:
    """Labels that are everywhere, or too few."""
    column = table.column_with(Role.LABEL)
    if column is None:
        return []
    count = int(table.is_labeled.sum())
    if count == len(table):
        text = f"Every row is a confirmed positive by the label {column!r}, so nothing is unlabelled."
        return [Finding("all_labeled", Severity.ERROR, text, "Check which values mean confirmed positive.", column)]
    if count < FEWEST_POSITIVES:
        text = f"Only {count} rows are confirmed positives by the label {column!r}."
        return [Finding("few_labels", Severity.WARNING, text, "Estimates from so few rows are very unsure.", column)]
    return []


def repeat_findings(table: Table) -> list[Finding]:
    """Rows that repeat other rows."""
    return [] if table.repeats is None else [table.repeats.as_finding()]


def missing_findings(columns: tuple[ColumnProfile, ...]) -> list[Finding]:
    """Features that most rows lack."""
    return [
        Finding(
            "mostly_missing",
            Severity.INFO,
            f"Column {column.name!r} is missing in {column.missing_share:.0%} of the rows.",
            "Check that the gaps mean what you think.",
            column.name,
        )
        for column in columns
        if column.role is Role.FEATURE and 0.5 < column.missing_share < 1.0
    ]
