"""Encoded rows: views of a matrix by rows and columns, and the linear form that some learners need.

The matrix is in memory or in a file; learners read a file block by block. What is costly to derive (histogram bins, the
linear form, equal fits) is computed once for all views of a matrix.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtri

from spu_core.errors import TrainingError
from spu_core.models.columns import Column, Family

MOST_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class KnownFit:
    """What a fit has learnt (attributes of the learner by name), the training losses it reported, and its size.

    A loss is (round, rounds, loss).
    """

    learnt: dict[str, Any]
    losses: tuple[tuple[int, int, float], ...]
    size: int | None


@dataclass(eq=False)
class FitMemo:
    """The fits that were used last, as many as fit into `MOST_BYTES`; models of unknown size are not kept."""

    known: OrderedDict[bytes, KnownFit] = field(default_factory=OrderedDict)

    def find(self, key: bytes | None) -> KnownFit | None:
        """The fit with this key, if it is known."""
        if key is None or key not in self.known:
            return None
        self.known.move_to_end(key)
        return self.known[key]

    def keep(self, key: bytes | None, fit: KnownFit) -> None:
        """Remember a fit, and forget those that were not used for longest."""
        if key is None or fit.size is None or fit.size > MOST_BYTES:
            return
        self.known[key] = fit
        while sum(each.size or 0 for each in self.known.values()) > MOST_BYTES:
            self.known.popitem(last=False)


# A multiple of the block sizes of the learners, so that blocks and whole matrices score alike to the bit.
BLOCK_ROWS = 1 << 16


@dataclass(eq=False)
class MatrixFile:
    """A float32 matrix, row after row in a file. `append` makes it; indices read it as they would an array.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     matrix = MatrixFile(Path(folder) / "matrix", width=2)
    ...     matrix.append(np.arange(6.0).reshape(3, 2))
    ...     matrix.shape, matrix[np.array([0, 2])].tolist(), matrix[::2, 1].tolist()
    ((3, 2), [[0.0, 1.0], [4.0, 5.0]], [1.0, 5.0])
    """

    path: Path
    width: int
    rows: int = 0
    memory_limit: int | None = None
    scratch: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)
    _samples: dict[int, np.ndarray] = field(default_factory=dict, repr=False)

    dtype = np.dtype(np.float32)
    ndim = 2

    @classmethod
    def temporary(cls, rows: int, width: int) -> MatrixFile:
        """An empty matrix in a temporary folder that is removed with the last reference; refused if the disk is full.

        The folder is made where temporary files belong (`TMPDIR`).
        """
        scratch = tempfile.TemporaryDirectory(prefix="spu-matrix-", ignore_cleanup_errors=True)
        free, wanted = shutil.disk_usage(scratch.name).free, 4 * rows * width
        if wanted > 0.95 * free:
            scratch.cleanup()
            raise TrainingError(
                f"The encoded rows need {wanted / 1e9:,.1f} GB of disk, but only {free / 1e9:,.1f} GB are free where "
                "temporary files are kept; make room, or set TMPDIR to a larger disk."
            )
        return cls(Path(scratch.name) / "rows", width, scratch=scratch)

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.width

    def __len__(self) -> int:
        return self.rows

    def append(self, block: np.ndarray) -> None:
        """Write more rows at the end."""
        with self.path.open("ab") as stream:
            stream.write(np.ascontiguousarray(block, dtype=self.dtype).data)
        self.rows += len(block)

    def __getitem__(self, key: Any) -> np.ndarray:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        if isinstance(rows, slice) and rows.start is None and rows.stop is None and (rows.step or 1) > 1:
            return self.every(rows.step)[:, columns]
        if isinstance(rows, slice):
            return self.read(np.arange(*rows.indices(self.rows)), columns)
        rows = np.asarray(rows)
        return self.read(np.flatnonzero(rows) if rows.dtype == bool else rows, columns)

    def read(self, rows: np.ndarray | None, columns: Any = slice(None)) -> np.ndarray:
        """Some rows (increasing positions, None = all) and columns, in memory; refused if they do not fit."""
        count = self.rows if rows is None else rows.size
        width = np.arange(self.width)[columns].size
        check_memory(count, width, self.memory_limit, "a method that reads the whole table at once")
        found = [block[:, columns] for block in self.blocks(rows)]
        return np.concatenate(found) if found else np.empty((0, self.width), dtype=self.dtype)[:, columns]

    def blocks(self, rows: np.ndarray | None = None, size: int = BLOCK_ROWS) -> Iterator[np.ndarray]:
        """The chosen rows in order, at most `size` at a time, with all columns."""
        for start in range(0, self.rows, size):
            end = min(start + size, self.rows)
            if rows is None:
                yield self.read_range(start, end)
                continue
            inside = rows[np.searchsorted(rows, start) : np.searchsorted(rows, end)]
            if inside.size:
                first = int(inside[0])
                yield self.read_range(first, int(inside[-1]) + 1)[inside - first]

    def read_range(self, start: int, end: int) -> np.ndarray:
        """Rows from `start` up to `end`, with all columns."""
        count = (end - start) * self.width
        found = np.fromfile(self.path, dtype=self.dtype, count=count, offset=start * self.width * self.dtype.itemsize)
        if found.size != count:
            raise TrainingError(f"The encoded rows in {os.fspath(self.path)!r} are gone or cut off; train again.")
        return found.reshape(-1, self.width)

    def every(self, step: int) -> np.ndarray:
        """Every `step`-th row. Kept, since profiles ask for it once per column."""
        if step not in self._samples:
            self._samples.clear()
            self._samples[step] = self.read(np.arange(0, self.rows, step))
        return self._samples[step]


def row_sequence(matrix: MatrixFile, columns: np.ndarray) -> Any:
    """The matrix as LightGBM reads it to make bins: single rows of a sample in increasing order, then ranges."""
    import lightgbm as lgb

    class Rows(lgb.Sequence):
        batch_size = BLOCK_ROWS

        def __init__(self) -> None:
            self.held, self.start = np.empty((0, 0)), 0

        def __len__(self) -> int:
            return matrix.rows

        def __getitem__(self, at: Any) -> np.ndarray:
            if isinstance(at, slice):
                return np.ascontiguousarray(matrix.read_range(at.start, at.stop)[:, columns])
            if not self.start <= at < self.start + len(self.held):
                # LightGBM asks for sampled rows one by one; a whole block is read, since the next row is near.
                self.start = at - at % BLOCK_ROWS
                block = matrix.read_range(self.start, min(self.start + BLOCK_ROWS, matrix.rows))
                self.held = block[:, columns].astype(np.float64)
            return self.held[at - self.start]

    return Rows()


def check_memory(rows: int, width: int, limit: int | None, purpose: str = "the encoded table") -> None:
    """Refuse a matrix of rows × width float32 numbers that needs too much memory, before it is allocated."""
    import psutil

    wanted = 4 * rows * width
    allowed = int(0.8 * psutil.virtual_memory().available) if limit is None else limit
    if wanted > allowed:
        raise TrainingError(
            f"{purpose[0].upper()}{purpose[1:]} needs {wanted / 2**20:,.0f} MB ({rows:,} rows × {width:,} columns), "
            f"but the limit is {allowed / 2**20:,.0f} MB; use fewer rows or columns, or raise memory_limit."
        )


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
