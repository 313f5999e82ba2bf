"""Encoded rows: views of a matrix by rows and columns, and the linear form that some learners need.

What is costly to derive (histogram bins, the linear form, equal fits) is computed once for all views of a matrix.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtri

from spu_core.errors import TrainingError
from spu_core.models.columns import Column, Family
from spu_core.models.fit_memo import FitMemo
from spu_core.models.matrix_file import MatrixFile, check_memory, row_sequence

# Points of the interpolated normal scores, rows that are sampled to find them, fewest rows and share of a level.
GRID = 257
SAMPLE = 100_000
FEWEST_ROWS = 5
FEWEST_SHARE = 0.01


class EncodedRows(Protocol):
    """Encoded rows that are not in the memory of this process: in a file (`MatrixFile`), or on a cluster."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""

    def read(self, rows: np.ndarray | None, columns: Any = slice(None)) -> np.ndarray:
        """Some rows (increasing positions, None = all) and columns, in memory."""

    def every(self, step: int) -> np.ndarray:
        """Every `step`-th row, with all columns."""


@dataclass(frozen=True, eq=False)
class Features:
    """A view of an encoded matrix: `rows` (increasing positions, None = all) and `active` (positions of columns).

    Views of one matrix share its histogram bins and its linear form. Both see X only, so a model fitted on some rows
    learns nothing about the labels of others.

    >>> rows = Features.of(np.arange(6.0).reshape(3, 2))
    >>> rows.take([0, 2]).without(["x0"]).matrix
    array([[1.],
           [5.]])
    """

    store: FeatureStore
    rows: np.ndarray | None
    active: np.ndarray

    @classmethod
    def of(cls, matrix: np.ndarray | EncodedRows, columns: Sequence[Column] | None = None) -> Features:
        """All rows and columns of a matrix; without `columns` they are numbers called x0…xn."""
        if columns is None:
            columns = [Column(f"x{place}", Family.NUMBER) for place in range(matrix.shape[1])]
        return cls(FeatureStore(matrix, tuple(columns)), None, np.arange(matrix.shape[1]))

    def __len__(self) -> int:
        return self.store.matrix.shape[0] if self.rows is None else self.rows.size

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(self.store.columns[place] for place in self.active)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def model_names(self) -> list[str]:
        """f0…fn as models see them: a library may refuse or change what people write in a header."""
        return [f"f{place}" for place in self.active]

    @property
    def is_category(self) -> np.ndarray:
        return np.array([column.is_category for column in self.columns], dtype=bool)

    @property
    def matrix(self) -> np.ndarray:
        """The chosen rows and columns; not copied when everything is chosen, read into memory where it is a file."""
        matrix = self.store.matrix
        if not isinstance(matrix, np.ndarray):
            return matrix.read(self.rows, self.active)
        # Rows first: scoring asks for few at a time, and must not copy all of them again and again.
        if self.rows is not None:
            matrix = matrix[self.rows]
        return matrix[:, self.active] if self.active.size < matrix.shape[1] else matrix

    def every(self, step: int) -> np.ndarray:
        """Every `step`-th row of the whole encoded matrix, with all its columns."""
        matrix = self.store.matrix
        return matrix[::step] if isinstance(matrix, np.ndarray) else matrix.every(step)

    def blocks(self) -> Iterator[Features]:
        """The same view in pieces that fit into memory: itself, unless its matrix is a file."""
        matrix = self.store.matrix
        if not isinstance(matrix, MatrixFile):
            yield self
            return
        for block in matrix.blocks(self.rows):
            yield Features(FeatureStore(block, self.store.columns), None, self.active)

    def take(self, rows: Any) -> Features:
        """Only these rows: a boolean mask or increasing positions within this view."""
        rows = np.asarray(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)
        if rows.size > 1 and np.any(np.diff(rows) <= 0):
            raise TrainingError(
                "Rows must be taken in increasing order and once each; use weights to count a row twice."
            )
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def without(self, names: Collection[str]) -> Features:
        """All columns but these; at least one must stay."""
        dropped = set(names)
        keep = np.array([column.name not in dropped for column in self.columns], dtype=bool)
        if not keep.any():
            raise TrainingError(
                f"No column is left to learn from: the rules read all of {', '.join(map(repr, self.names[:5]))}. "
                "Keep the rule columns for this candidate, or add other columns."
            )
        return replace(self, active=self.active[keep])

    def select(self, active: np.ndarray) -> Features:
        """The columns at these positions of the encoded matrix: those a fitted model has learnt from."""
        return replace(self, active=active)

    def with_column(self, name: str, values: np.ndarray) -> Features:
        """A matrix of its own with one more number column."""
        matrix = np.column_stack([self.matrix, values.astype(self.store.matrix.dtype)])
        return Features.of(matrix, (*self.columns, Column(name, Family.NUMBER)))

    def binned(self, max_bin: int, target: np.ndarray, weight: np.ndarray | None) -> Any:
        """A LightGBM Dataset of this view; all views of the same columns share one set of bins."""
        import lightgbm as lgb

        root = self.store.bins(max_bin, self)
        # Dataset.subset() would sort the rows in a Python list, which takes longer than a small fit.
        view = lgb.Dataset(None, reference=root, params=root.params)
        rows = np.arange(len(self)) if self.rows is None else self.rows
        view.used_indices = rows.astype(np.int32)  # type: ignore[assignment]
        view.construct()
        return view.set_label(target).set_weight(weight)

    def check_same_store(self, other: Features) -> None:
        """Rows to stop on must come from the same encoded matrix as the training rows: they share bins."""
        if self.store is not other.store:
            raise TrainingError("The rows for early stopping must be a view of the same encoded table; use take().")

    def linear_view(self) -> LinearView:
        """The fitted linear form of these columns; it has seen all rows of the matrix, but only X."""
        return self.store.linear_view(self.active)


@dataclass(frozen=True, eq=False)
class FeatureStore:
    """The encoded matrix itself, with what has been derived from it so far."""

    matrix: Any  # an array, or EncodedRows that are elsewhere
    columns: tuple[Column, ...]
    fits: FitMemo = field(default_factory=FitMemo, repr=False)
    _bins: dict[tuple[int, bytes], Any] = field(default_factory=dict, repr=False)
    _views: dict[bytes, LinearView] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> tuple[type[FeatureStore], tuple[Any, tuple[Column, ...]]]:
        """A copy sent to another process derives its own bins: those of a library cannot travel."""
        return FeatureStore, (self.matrix, self.columns)

    def bins(self, max_bin: int, view: Features) -> Any:
        """The LightGBM Dataset of all rows; made once for each `max_bin` and choice of columns."""
        import lightgbm as lgb

        key = (max_bin, view.active.tobytes())
        if key not in self._bins:
            # feature_pre_filter off: min_child_samples may differ between candidates that share these bins.
            params = {"max_bin": max_bin, "feature_pre_filter": False, "verbosity": -1, "data_random_seed": 1}
            self._bins[key] = lgb.Dataset(
                self._rows_to_bin(view),
                label=np.zeros(self.matrix.shape[0]),
                feature_name=view.model_names,
                categorical_feature=np.flatnonzero(view.is_category).tolist(),
                params=params,
            ).construct()
        return self._bins[key]

    def _rows_to_bin(self, view: Features) -> Any:
        if isinstance(self.matrix, MatrixFile):
            return row_sequence(self.matrix, view.active)
        return np.ascontiguousarray(replace(view, rows=None).matrix)

    def linear_view(self, active: np.ndarray) -> LinearView:
        key = active.tobytes()
        if key not in self._views:
            category = np.array([self.columns[place].is_category for place in active], dtype=bool)
            self._views[key] = LinearView.fit(self.matrix, active, category)
        return self._views[key]


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
