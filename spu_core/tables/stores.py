"""Where the rows of a table are: in memory (`FrameStore`) or in parquet files (`ParquetStore`).

Both answer the same questions, so that `Table` need not know which one it has. Files are read in parts; each part has
the same dtypes and categories, which are decided once over all files, so that functions that work row by row give the
same result on the parts as on the whole. Whatever needs a whole column (its quantiles, its distinct values) gets it by
`values`, one column at a time: 8 bytes a row, far less than a training holds of every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa

from spu_core.errors import TableError, nearest_hint
from spu_core.tables.folder_files import BATCH_ROWS, FolderColumn, FolderFile, batches_of, files_below


class Store(Protocol):
    """The rows of a table."""

    in_memory: ClassVar[bool]

    @property
    def is_part(self) -> bool:
        """Whether these are some rows of a larger table, in which a rare value need not occur."""

    @property
    def known_fingerprint(self) -> str:
        """The fingerprint; empty where it is not known yet."""

    @property
    def frame(self) -> pd.DataFrame:
        """All rows in memory; refused for files."""

    @property
    def outline(self) -> pd.DataFrame:
        """A frame with the dtypes and categories of all columns; from files it has no rows."""

    @property
    def stand_ins(self) -> Mapping[str, pd.Series] | pd.DataFrame:
        """A short column for each long one, with its values, extremes and gaps, to check roles and values on."""

    def __len__(self) -> int: ...

    def frames(self, columns: Sequence[str] | None = None, rows: int | None = None) -> Iterator[pd.DataFrame]:
        """The rows in order, at most `rows` at a time, with their numbers as index; only these columns are read."""

    def values(self, name: str) -> pd.Series:
        """One whole column in memory."""

    def take(self, places: np.ndarray, *, is_part: bool) -> FrameStore:
        """The rows with these numbers, numbered anew; from files always as a part."""


@dataclass(frozen=True, eq=False)
class FrameStore:
    """Rows in memory."""

    frame: pd.DataFrame
    is_part: bool = False
    in_memory: ClassVar[bool] = True
    known_fingerprint: ClassVar[str] = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame", self.frame.copy(deep=False))

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def outline(self) -> pd.DataFrame:
        return self.frame

    @property
    def stand_ins(self) -> pd.DataFrame:
        return self.frame

    def frames(self, columns: Sequence[str] | None = None, rows: int | None = None) -> Iterator[pd.DataFrame]:
        frame = self.frame
        if columns is not None:  # not frame[columns], which would copy the values
            frame = pd.DataFrame({name: frame[name] for name in columns}, index=frame.index, copy=False)
        size = max(1, len(frame) if rows is None else rows)
        for start in range(0, max(1, len(frame)), size):
            yield frame if size >= len(frame) else frame.iloc[start : start + size]

    def values(self, name: str) -> pd.Series:
        return self.frame[name]

    def take(self, places: np.ndarray, *, is_part: bool) -> FrameStore:
        return FrameStore(self.frame.iloc[places].reset_index(drop=True), is_part or self.is_part)


@dataclass(frozen=True, eq=False)
class ParquetStore:
    """Rows in the parquet files of a folder, which are never written.

    Parameters
    ----------
    path : Path
        The folder.
    files : tuple of FolderFile
        Its parquet files in order.
    columns : tuple of FolderColumn
        The form of each column over all files.
    stand_ins : mapping of column to Series
        A short column for each long one.
    known_fingerprint : str, default ""
        The fingerprint, where it is known already.
    """

    path: Path
    files: tuple[FolderFile, ...] = field(repr=False)
    columns: tuple[FolderColumn, ...] = field(repr=False)
    stand_ins: Mapping[str, pd.Series] = field(repr=False)
    known_fingerprint: str = ""
    in_memory: ClassVar[bool] = False
    is_part: ClassVar[bool] = False

    def __len__(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def frame(self) -> pd.DataFrame:
        raise TableError(
            f"The {len(self):,} rows of this table are in files. Use table.sample() for some of them, table.parts() "
            "for one part after the other, or table.read() for all of them in memory."
        )

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.size for file in self.files)

    @property
    def changed_files(self) -> tuple[str, ...]:
        """Files that were deleted or rewritten since the folder was opened; empty where nothing has changed."""
        return tuple(file.name for file in self.files if file.has_changed)

    @property
    def added_files(self) -> tuple[str, ...]:
        """Files added since the folder was opened; their rows are not part of this table."""
        known = {file.path for file in self.files}
        return tuple(path.name for path in files_below(self.path) if path not in known)

    @cached_property
    def outline(self) -> pd.DataFrame:
        return pd.DataFrame({each.name: each.series(pa.nulls(0, each.kind)) for each in self.columns})

    def column(self, name: str) -> FolderColumn:
        """The form of one column."""
        found = next((column for column in self.columns if column.name == name), None)
        if found is None:
            hint = nearest_hint(name, [column.name for column in self.columns])
            raise TableError(f"The folder has no column {name!r}. {hint}")
        return found

    def frames(self, columns: Sequence[str] | None = None, rows: int | None = None) -> Iterator[pd.DataFrame]:
        wanted = self.columns if columns is None else [self.column(name) for name in columns]
        types = {column.name: column.kind for column in wanted}
        start = 0
        for file in self.files:
            for batch in batches_of(file, types, rows or BATCH_ROWS):
                frame = pd.DataFrame({each.name: each.series(batch[each.name]) for each in wanted}, copy=False)
                if len(frame):
                    frame.index = pd.RangeIndex(start, start + len(frame))
                    start += len(frame)
                    yield frame

    def values(self, name: str) -> pd.Series:
        parts = (frame[name] for frame in self.frames([name]))
        dtype = self.outline[name].dtype
        if not isinstance(dtype, np.dtype) or dtype.hasobject:
            return pd.concat(list(parts))
        # Filled part by part, since joining the parts would hold the column twice.
        values, start = np.empty(len(self), dtype), 0
        for part in parts:
            values[start : start + len(part)] = part.to_numpy()
            start += len(part)
        return pd.Series(values, name=name, copy=False)

    def take(self, places: np.ndarray, *, is_part: bool) -> FrameStore:
        order = np.argsort(places, kind="stable")
        ordered, picked = places[order], []
        for frame in self.frames():
            first, end = np.searchsorted(ordered, (frame.index[0], frame.index[-1] + 1))
            picked.append(frame.iloc[ordered[first:end] - frame.index[0]])
        back = np.empty_like(order)
        back[order] = np.arange(order.size)
        return FrameStore(pd.concat(picked, ignore_index=True).iloc[back].reset_index(drop=True), is_part=True)
