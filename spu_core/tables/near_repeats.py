"""Rows that nearly repeat other rows: their numbers differ a little, or a few columns are free.

Such rows are far nearer to each other than to all others. Among rows without copies the distances to the nearest, the
next nearest, … grow gradually: in m dimensions the k-th is below t times the next with probability t^(km). So a row has
copies if there is a gap among its first distances that has a chance of one in a thousand, and a table has near copies
if that is true of many rows. m is estimated from the distances to the 8th and the 16th neighbour.

Distances are those of ranks in columns of many different numbers; at least three are needed. Several subsets of the
columns are tried, so that a few columns may differ altogether. Sets of more than eight rows are not found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

FEWEST_ROWS = 60
FEWEST_COLUMNS = 3
MOST_COLUMNS = 8
# Columns with few different values, or with one that is frequent, are left out: there rows are near by chance.
FEWEST_VALUES = 0.05
MOST_FREQUENT = 0.05
SUBSETS = 6
QUERIES = 300
# A random sample would part copies; rows that are neighbours in one column keep them together.
LARGEST_SLICE = 20_000
MOST_COPIES = 8
FAR = 16
CHANCE = 0.001
WIDEST_GAP = 0.25
FEWEST_WITH_GAP = 8
# The mean of log(r16 / r8) times the dimension, where rows are spread evenly.
_LOG_RATIO = float(sum(1.0 / j for j in range(MOST_COPIES, FAR)))


def find_near_repeats(frame: pd.DataFrame) -> np.ndarray | None:
    """A number for each row that near copies share; None where rows have no near copies beyond chance.

    >>> rng = np.random.default_rng(0)
    >>> once = pd.DataFrame(rng.normal(size=(200, 5))).add_prefix("x")
    >>> twice = pd.concat([once, once + 0.001 * rng.normal(size=(200, 5))], ignore_index=True)
    >>> find_near_repeats(once) is None, int(np.unique(find_near_repeats(twice)).size)
    (True, 200)
    """
    if len(frame) < FEWEST_ROWS:
        return None
    rng = np.random.default_rng(0)
    sample = np.sort(rng.permutation(len(frame))[:LARGEST_SLICE])
    names = [name for name in frame.columns if _is_fine(frame[name].iloc[sample])]
    if len(names) < FEWEST_COLUMNS:
        return None
    scales = [_Scale.of(frame[name], sample) for name in names]
    trials = [_try([scales[place] for place in places], rng) for places in _subsets(len(names), rng)]
    best = max(trials, key=lambda trial: trial.count)
    return _sets(best) if best.count >= FEWEST_WITH_GAP else None


def _is_fine(values: pd.Series) -> bool:
    """Whether a column holds numbers, many of them different and none of them, nor a gap, frequent."""
    if not pd.api.types.is_numeric_dtype(values.dtype) or values.isna().mean() > MOST_FREQUENT:
        return False
    _, times = np.unique(values.dropna().to_numpy(dtype=np.float64), return_counts=True)
    frequent = max(MOST_FREQUENT * len(values), MOST_COPIES + 1)
    return bool(times.size >= FEWEST_VALUES * len(values) and times.max() <= frequent)


@dataclass(frozen=True, eq=False)
class _Scale:
    """A column of numbers, and what is needed to turn them into ranks from 0 to 1; a gap is far from all of them."""

    values: np.ndarray
    known: np.ndarray
    rank: np.ndarray

    @classmethod
    def of(cls, column: pd.Series, sample: np.ndarray) -> _Scale:
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        known, times = np.unique(values[sample][~np.isnan(values[sample])], return_counts=True)
        return cls(values, known, (np.cumsum(times) - 0.5 * times) / times.sum())

    def ranks(self, rows: np.ndarray | slice) -> np.ndarray:
        values = self.values[rows]
        return np.where(np.isnan(values), -1.0, np.interp(values, self.known, self.rank))


@dataclass(frozen=True, eq=False)
class _Trial:
    """What some columns say: how many rows asked have a gap, how wide it must be, and how far copies are at most."""

    scales: list[_Scale]
    count: int
    gap: float
    radius: float


def _subsets(width: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """All columns, or as many as a search can use, and then random halves."""
    yield np.sort(rng.permutation(width)[:MOST_COLUMNS])
    half = min(max(FEWEST_COLUMNS, width // 2), MOST_COLUMNS)
    if half < width:
        for _ in range(SUBSETS):
            yield np.sort(rng.permutation(width)[:half])


def _try(scales: list[_Scale], rng: np.random.Generator) -> _Trial:
    rows: np.ndarray | slice = slice(None)
    size = scales[0].values.size
    if size > LARGEST_SLICE:
        start = int(rng.integers(size - LARGEST_SLICE))
        ends = (start, start + LARGEST_SLICE)
        rows = np.argpartition(scales[0].values, ends)[start : start + LARGEST_SLICE]
    place = np.column_stack([scale.ranks(rows) for scale in scales])
    asked = place[rng.permutation(len(place))[:QUERIES]]
    distance = cKDTree(place).query(x=asked, k=FAR + 1)[0][:, 1:]
    spread = distance[distance[:, MOST_COPIES - 1] > 0.0]
    if len(spread) < 0.5 * len(asked):
        return _Trial(scales, 0, 0.0, 0.0)
    dimension = _LOG_RATIO / np.log(spread[:, FAR - 1] / spread[:, MOST_COPIES - 1]).mean()
    gap = min(WIDEST_GAP, CHANCE ** (1.0 / dimension))
    copies = _copies(distance, gap)
    has = copies > 0
    # A gap by chance may have far neighbours; copies are hardly farther than twice what most of them are.
    radius = 2.0 * float(np.quantile(distance[has, copies[has] - 1], 0.9)) if has.any() else 0.0
    return _Trial(scales, int(has.sum()), gap, radius)


def _copies(distance: np.ndarray, gap: float, radius: float = np.inf) -> np.ndarray:
    """How many neighbours of each row, none farther than `radius`, lie before the last gap; 0 where there is none."""
    near, following = distance[:, :MOST_COPIES], distance[:, 1 : MOST_COPIES + 1]
    is_gap = (near < gap * following) & (near <= radius)
    return np.where(is_gap.any(axis=1), MOST_COPIES - is_gap[:, ::-1].argmax(axis=1), 0)


def _sets(trial: _Trial) -> np.ndarray:
    """Rows that are each other's neighbours before a gap, joined.

    Copies are there beyond chance, so half of the gap is enough for a single row: a copy that is missed does harm, and
    two rows that are joined by mistake do none.
    """
    rows = np.column_stack([scale.ranks(slice(None)) for scale in trial.scales])
    gap = 2.0 * trial.gap
    reach = max(trial.radius / gap, 1e-9)
    distance, neighbour = cKDTree(rows).query(x=rows, k=MOST_COPIES + 2, distance_upper_bound=reach)
    copies = _copies(distance[:, 1:], gap, trial.radius)
    # A row is its own nearest neighbour, or one of several at distance 0.
    row, rank = np.nonzero(np.arange(MOST_COPIES + 2) <= np.where(copies, copies, -1)[:, None])
    links = coo_matrix((np.ones(row.size), (row, neighbour[row, rank])), shape=(len(rows), len(rows))).tocsr()
    code: np.ndarray = connected_components(links.multiply(links.T), directed=False)[1]
    return code
