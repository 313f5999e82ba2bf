"""The form that linear models, networks and distances want: normal scores, frequent levels, nothing missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from spu_core.models.memory import check_memory

if TYPE_CHECKING:
    from spu_core.models.features import Features

GRID = 257
SAMPLE = 100_000
FEWEST_ROWS = 5
FEWEST_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class LinearView:
    """Numbers → normal scores of their ranks (missing → 0, with a flag column where 1 % is missing); categories →
    one column per level with at least max(5, 1 %) rows, so that a column never gives more than a hundred.

    `grids[k]` holds the (value, normal score) points of number column k, `levels[k]` the codes of category column k.
    """

    active: np.ndarray
    is_category: np.ndarray
    grids: tuple[np.ndarray, ...]
    levels: tuple[np.ndarray, ...]
    flag_missing: np.ndarray

    @classmethod
    def fit(cls, matrix: np.ndarray, active: np.ndarray, is_category: np.ndarray) -> LinearView:
        """Learn grids and frequent levels from X only; large tables from every k-th row."""
        sample = matrix[:: max(1, matrix.shape[0] // SAMPLE)]
        needed = max(FEWEST_ROWS, FEWEST_SHARE * sample.shape[0])
        grids, levels, flags = [], [], []
        for place, category in zip(active, is_category, strict=True):
            column = sample[:, place].astype(np.float64)
            present = column[~np.isnan(column)]
            missing = column.size - present.size
            grids.append(np.empty((2, 0)) if category else _normal_scores(present))
            levels.append(_frequent_codes(present, needed) if category else np.empty(0))
            flags.append(needed <= missing < column.size)
        return cls(active, is_category, tuple(grids), tuple(levels), np.array(flags, dtype=bool))

    @property
    def width(self) -> int:
        own = (
            codes.size if category else min(grid.size, 1)
            for category, codes, grid in zip(self.is_category, self.levels, self.grids, strict=True)
        )
        return int(self.flag_missing.sum()) + sum(own)

    def transform(self, matrix: np.ndarray) -> np.ndarray:
        """Rows of an encoded matrix (all its columns) as a float64 matrix without missing values."""
        check_memory(matrix.shape[0], 2 * self.width, None, "the linear form of the table")
        out = np.empty((matrix.shape[0], self.width))
        for place, column in enumerate(self._columns(matrix)):
            out[:, place] = column
        return out

    def transform_rows(self, features: Features) -> np.ndarray:
        """The rows of a view, whatever columns it shows."""
        matrix = features.store.matrix
        return self.transform(matrix if features.rows is None else matrix[features.rows])

    def to_state(self) -> dict[str, np.ndarray]:
        """Plain arrays."""
        ends = (
            np.cumsum([grid.shape[1] for grid in self.grids]),
            np.cumsum([codes.size for codes in self.levels]),
        )
        return {
            "active": self.active,
            "is_category": self.is_category,
            "flag_missing": self.flag_missing,
            "grids": np.concatenate(self.grids, axis=1),
            "grid_ends": ends[0],
            "levels": np.concatenate(self.levels),
            "level_ends": ends[1],
        }

    @classmethod
    def from_state(cls, arrays: Mapping[str, Any]) -> LinearView:
        grids = tuple(np.split(arrays["grids"], arrays["grid_ends"][:-1], axis=1))
        levels = tuple(np.split(arrays["levels"], arrays["level_ends"][:-1]))
        return cls(arrays["active"], arrays["is_category"], grids, levels, arrays["flag_missing"])

    def _columns(self, matrix: np.ndarray) -> Iterator[np.ndarray]:
        for k, place in enumerate(self.active):
            column = matrix[:, place].astype(np.float64)
            if self.flag_missing[k]:
                yield np.isnan(column).astype(np.float64)
            if self.is_category[k]:
                yield from ((column == code).astype(np.float64) for code in self.levels[k])
            elif self.grids[k].size:
                score = np.interp(column, *self.grids[k])
                score[np.isnan(column)] = 0.0
                yield score


def _normal_scores(present: np.ndarray) -> np.ndarray:
    """Points (value, Φ⁻¹ of its mid-rank) to interpolate between; none for a constant column."""
    values, count = np.unique(present, return_counts=True)
    if values.size < 2:
        return np.empty((2, 0))
    middle = (np.cumsum(count) - 0.5 * count) / present.size
    if values.size > GRID:
        keep = np.unique(np.searchsorted(middle, np.linspace(middle[0], middle[-1], GRID)).clip(0, values.size - 1))
        values, middle = values[keep], middle[keep]
    return np.vstack([values, ndtri(middle)])


def _frequent_codes(present: np.ndarray, needed: float) -> np.ndarray:
    codes, count = np.unique(present, return_counts=True)
    return codes[count >= needed] if codes.size > 1 else np.empty(0)
