"""Where the rows of a table are: in memory (`FrameStore`) or in the parquet files of a folder (`ParquetStore`).

Both answer the same questions, so that `Table` need not know which one it has. Files are read in parts; each part has
the same dtypes and categories, which are decided once over all files, so that functions that work row by row give the
same result on the parts as on the whole. Whatever needs a whole column (its quantiles, its distinct values) gets it by
`values`, one column at a time: 8 bytes a row, far less than a training holds of every row.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from spu_core.errors import TableError, nearest_hint
from spu_core.tables.reading.reading_report import Finding, Severity
from spu_core.tables.reading.values import ColumnType

# A multiple of the block sizes of the learners, so that batches and whole tables get identical scores.
BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class FolderFile:
    """One file, with the rows and bytes it had when the folder was opened, and when it was last written (ns).

    `written` is 0 for a file of a workspace, because copying a workspace may change the times of its files.
    """

    path: Path
    rows: int
    size: int
    written: int = 0

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def has_changed(self) -> bool:
        """Whether the file was deleted or rewritten since the folder was opened."""
        try:
            now = self.path.stat()
        except OSError:
            return True
        return now.st_size != self.size or self.written not in (0, now.st_mtime_ns)


@dataclass(frozen=True)
class FolderColumn:
    """The form of one column in every part: its type over all files, whether it has gaps, its categories."""

    name: str
    kind: pa.DataType
    type: ColumnType
    has_gaps: bool
    levels: tuple[str, ...] = ()

    def series(self, values: pa.Array) -> pd.Series:
        """Some rows of the column, in the form that all rows have."""
        if self.type is ColumnType.CATEGORY and not _is_number(self.kind):
            return pd.Series(self._categories(values), name=self.name)
        if pa.types.is_string(self.kind):
            return pd.Series(values.cast(pa.string()).to_pandas(), name=self.name).astype("str")
        if pa.types.is_boolean(self.kind):
            dtype = "boolean" if self.has_gaps else "bool"
            return pd.Series(values.to_pandas(), dtype=dtype, name=self.name)
        if pa.types.is_integer(self.kind):
            numbers = values.to_numpy(zero_copy_only=False)
            return pd.Series(numbers.astype(np.float64) if self.has_gaps else numbers, name=self.name, copy=False)
        return values.to_pandas().rename(self.name)

    def _categories(self, values: pa.Array) -> pd.Categorical:
        levels = pd.Index(self.levels, dtype="str")
        if pa.types.is_null(values.type):
            return pd.Categorical.from_codes(np.full(len(values), -1), levels)
        encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
        place = levels.get_indexer(pd.Index(encoded.dictionary.cast(pa.string()).to_pylist(), dtype="str"))
        codes = np.append(place, -1)[encoded.indices.fill_null(len(place)).to_numpy(zero_copy_only=False)]
        if np.count_nonzero(codes < 0) != values.null_count:
            raise TableError(
                f"Column {self.name!r} has a new category since the folder was opened; open the folder again."
            )
        return pd.Categorical.from_codes(codes.astype(np.min_scalar_type(-max(len(levels), 1))), levels)


def list_files(path: str | os.PathLike[str]) -> tuple[Path, ...]:
    """The parquet files below a folder in order of name; hidden files and those that start with `_` are skipped."""
    folder = Path(path)
    if not folder.is_dir():
        raise TableError(f"{folder.absolute().name!r} is not a folder; give the folder of the parquet files.")
    kept = files_below(folder)
    if not kept:
        raise TableError(
            f"{folder.absolute().name!r} holds no .parquet file; convert a text file with `spu convert` first."
        )
    not_utf8 = next((each for each in kept if os.fsencode(each) != str(each).encode("utf-8", "replace")), None)
    if not_utf8 is not None:
        raise TableError(
            f"{str(not_utf8.relative_to(folder))!r} in the folder has a name that is not UTF-8; rename it."
        )
    return kept


def files_below(folder: Path) -> tuple[Path, ...]:
    """The same files; empty instead of an error where there are none."""
    found = sorted(each for each in folder.rglob("*.parquet") if os.path.isfile(each))
    return tuple(each for each in found if not any(part[:1] in "._" for part in each.relative_to(folder).parts))


def open_files(paths: Sequence[Path]) -> tuple[tuple[FolderFile, ...], dict[str, pa.DataType], tuple[Finding, ...]]:
    """The files, one type for each usable column in order of first appearance, and findings on what differs."""
    files, schemas = [], []
    for path in paths:
        with reading(path) as file:
            found = path.stat()
            files.append(FolderFile(path, file.metadata.num_rows, found.st_size, found.st_mtime_ns))
            schemas.append(file.schema_arrow)
    # Only the name: users of the server should not see the full path.
    home = paths[0].absolute().parent.name
    if not any(file.rows for file in files):
        which, have = ("only parquet file", "has") if len(files) == 1 else (f"{len(files)} parquet files", "have")
        raise TableError(f"The {which} in {home!r} {have} no rows.")
    # A file without rows often has arbitrary types, so only its column names are used.
    with_rows = [(file, schema) for file, schema in zip(files, schemas, strict=True) if file.rows]
    types: dict[str, pa.DataType] = {}
    homes: dict[str, str] = {}
    for file, schema in with_rows:
        for column in schema:
            types[column.name] = _joined(column.name, types.get(column.name), _plain(column.type), homes, file.name)
            homes.setdefault(column.name, file.name)
    findings = [*_left_out(types), *_absent(types, with_rows)]
    usable = {name: kind for name, kind in types.items() if not _is_unusable(kind)}
    if not usable:
        raise TableError(f"The files in {home!r} have no column of numbers, dates or text.")
    return tuple(files), usable, tuple(findings)


def batches_of(
    file: FolderFile, types: dict[str, pa.DataType], rows: int = BATCH_ROWS
) -> Iterator[dict[str, pa.Array]]:
    """The rows of a file, each column in its type over all files; columns that the file lacks are all missing."""
    with reading(file.path) as opened:
        if opened.metadata.num_rows != file.rows:
            raise TableError(f"{file.name!r} has changed since the folder was opened; open the folder again.")
        present = [name for name in types if name in opened.schema_arrow.names]
        for batch in opened.iter_batches(batch_size=rows, columns=present, use_threads=False):
            held = dict(zip(batch.schema.names, batch.columns, strict=True))
            yield {name: _cast(name, held.get(name), kind, batch.num_rows, file) for name, kind in types.items()}


@contextmanager
def reading(path: Path) -> Iterator[pq.ParquetFile]:
    """An open parquet file; damage of any kind raises an error with the name of the file."""
    try:
        texts = [field.name for field in pq.read_schema(path) if _is_text(field.type)]
        # With pre_buffer, every part that was read would stay in memory until the end.
        with pq.ParquetFile(path, read_dictionary=texts, pre_buffer=False) as file:
            yield file
    except (pa.ArrowException, OSError, OverflowError) as error:
        message = str(error).replace(str(path), path.name)
        words = (message.splitlines() or [type(error).__name__])[0][:200].rstrip(".")
        raise TableError(
            f"{path.name!r} in the folder is a damaged parquet file: {words}. Write it again, or remove it."
        ) from error


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type in which a column is read, independent of the variants that files use."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_decimal(kind) or pa.types.is_float16(kind):
        return pa.float64()
    if pa.types.is_time(kind) or pa.types.is_duration(kind) or _is_text(kind):
        return pa.string()
    return pa.timestamp("s") if pa.types.is_date(kind) else kind


def _joined(name: str, one: pa.DataType | None, other: pa.DataType, homes: dict[str, str], file: str) -> pa.DataType:
    """One type for the values of both: the wider type of numbers, the finer unit of dates."""
    if one is None or one.equals(other) or pa.types.is_null(one):
        return other
    if pa.types.is_null(other):
        return one
    if _is_number(one) and _is_number(other):
        return _joined_numbers(one, other)
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other) and (one.tz is None) is (other.tz is None):
        unit = max(one.unit, other.unit, key=("s", "ms", "us", "ns").index)
        return pa.timestamp(unit, one.tz if one.tz == other.tz else "UTC")
    raise TableError(
        f"Column {name!r} holds {one} in {homes[name]!r} and {other} in {file!r}; write all files with one type, "
        "or leave the column out of them."
    )


def _joined_numbers(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    try:
        merged = (
            pa.unify_schemas([pa.schema([("x", one)]), pa.schema([("x", other)])], promote_options="permissive")
            .field("x")
            .type
        )
    except pa.ArrowException:
        return pa.float64()
    return pa.float64() if pa.types.is_decimal(merged) else merged


def _cast(name: str, values: pa.Array | None, kind: pa.DataType, rows: int, file: FolderFile) -> pa.Array:
    if values is None:
        return pa.nulls(rows, kind)
    if values.type.equals(kind) or (pa.types.is_dictionary(values.type) and pa.types.is_string(kind)):
        return values
    try:
        return values.cast(kind)
    except pa.ArrowException as error:
        words = str(error).splitlines()[0][:120]
        raise TableError(f"Column {name!r} of {file.name!r} cannot be read as {kind}: {words}.") from error


def _left_out(types: dict[str, pa.DataType]) -> list[Finding]:
    advice = "Flatten it before writing the files."
    return [
        Finding(
            "nested_column",
            Severity.WARNING,
            f"Column {name!r} holds {kind}, not one value per row; it was left out.",
            advice,
            name,
        )
        for name, kind in types.items()
        if _is_unusable(kind)
    ]


def _absent(types: dict[str, pa.DataType], with_rows: list[tuple[FolderFile, pa.Schema]]) -> list[Finding]:
    found = []
    for name in types:
        lacking = [file.name for file, schema in with_rows if name not in schema.names]
        if lacking:
            text = f"Column {name!r} is absent from {len(lacking)} of {len(with_rows)} files (first: {lacking[0]!r})."
            found.append(
                Finding("absent_column", Severity.WARNING, text, "Its rows there count as missing values.", name)
            )
    return found


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _is_unusable(kind: pa.DataType) -> bool:
    return (
        pa.types.is_nested(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


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
