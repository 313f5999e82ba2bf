"""Parquet files to typed frames: sizes are checked before and while row groups are read."""

from __future__ import annotations

import io
from typing import IO

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from spu_core.errors import TableError
from spu_core.tables.blocks import longest_cell
from spu_core.tables.column_types import ColumnType, guess_type
from spu_core.tables.findings import Finding, Severity
from spu_core.tables.finishing import hollow
from spu_core.tables.layout import unique_names
from spu_core.tables.reading import ReadLimits

# How many times its size a file may take when its values are spread out, beyond what is always allowed. Runs of one
# value cost nothing in parquet, so that a table of many zeros grows more than any text does.
EXPANSION = 1_000
EXPANSION_FREE = 256 * 1024**2


def read_parquet(
    stream: IO[bytes], name: str, limits: ReadLimits
) -> tuple[pd.DataFrame, dict[str, ColumnType], tuple[Finding, ...]]:
    """The frame, its column types and findings; damaged or hostile files get a sentence."""
    try:
        file = pq.ParquetFile(pa.PythonFile(stream, mode="r"), read_dictionary=_text_columns(stream))
        size = stream.seek(0, io.SEEK_END)
        _check_sizes(file, name, limits, size)
        left_out = [item for item in file.schema_arrow if _is_left_out(item.type)]
        frame, types, findings = _typed(_read_batches(file, name, limits, left_out), name, limits)
        _check_texts(frame, name, limits, size)
    except MemoryError:
        raise  # pyarrow's own is also an ArrowException, but the file is not damaged
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        if isinstance(error, TableError):
            raise
        raise TableError(f"{name!r} is a damaged parquet file: {_first_line(error)}.") from error
    return frame, types, (*(_left_out(item.name, item.type) for item in left_out), *findings)


def schema_metadata(stream: IO[bytes], name: str) -> dict[bytes, bytes]:
    """The key-value texts that were stored with the schema."""
    try:
        return pq.read_schema(pa.PythonFile(stream, mode="r")).metadata or {}
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{name!r} is a damaged parquet file: {_first_line(error)}.") from error


def _text_columns(stream: IO[bytes]) -> list[str]:
    """Text is read as levels: a long text that is repeated a million times is then held once."""
    schema = pq.read_schema(pa.PythonFile(stream, mode="r"))
    stream.seek(0)
    return [item.name for item in schema if pa.types.is_string(item.type) or pa.types.is_large_string(item.type)]


def _check_sizes(file: pq.ParquetFile, name: str, limits: ReadLimits, packed: int) -> None:
    facts = file.metadata
    groups = range(facts.num_row_groups)
    size = sum(max(facts.row_group(at).total_byte_size, 0) for at in groups)
    # What the footer says of its bytes leaves out what is repeated; eight bytes for each value is what they take here.
    spread = 8 * facts.num_rows * len(file.schema_arrow)
    if spread > EXPANSION_FREE and spread > EXPANSION * packed:
        raise TableError(
            f"{name!r} grows more than {EXPANSION:,}-fold when read ({packed:,} bytes become {spread:,}); it was "
            "stopped as a decompression bomb. Leave out columns that hold one value only."
        )
    for found, limit, what in (
        (facts.num_rows, limits.rows, "rows"),
        (facts.num_columns, limits.columns, "columns"),
        (size, limits.expanded_bytes, "unpacked bytes"),
    ):
        if found > limit:
            raise TableError(f"{name!r} has {found:,} {what}; the limit is {limit:,}. Split it, or raise the limit.")
    if facts.num_rows == 0:
        raise TableError(f"{name!r} has no rows.")


def _read_batches(file: pq.ParquetFile, name: str, limits: ReadLimits, left_out: list[pa.Field]) -> pa.Table:
    names = {item.name for item in left_out}
    kept = [item.name for item in file.schema_arrow if item.name not in names]
    if not kept:
        raise TableError(f"{name!r} has no column of numbers, dates or text.")
    batches, size = [], 0
    # Lists are not even unpacked: a single batch of them can be of any size.
    for batch in file.iter_batches(batch_size=65_536, use_threads=False, columns=kept if names else None):
        size += batch.nbytes
        if size > limits.expanded_bytes:
            raise TableError(
                f"{name!r} unpacks to more than {limits.expanded_bytes:,} bytes, which is the limit; it was stopped."
            )
        _check_cells(batch, name, limits)
        batches.append(batch)
    return pa.Table.from_batches(batches)


def _check_cells(batch: pa.RecordBatch, name: str, limits: ReadLimits) -> None:
    for column, cells in zip(batch.schema.names, batch.columns, strict=True):
        longest = longest_cell(cells)
        if longest > limits.cell_bytes:
            raise TableError(
                f"{name!r} has a cell of {longest:,} bytes in column {column!r}; the limit is {limits.cell_bytes:,}. "
                "Shorten it, or raise the limit 'cell_bytes'."
            )


def _check_texts(frame: pd.DataFrame, name: str, limits: ReadLimits, packed: int) -> None:
    """Texts may grow as much as they may in any packed file; each level of a category counts once."""
    texts = frame.select_dtypes(exclude=["number", "bool", "boolean", "datetime", "datetimetz"])
    grown = int(texts.memory_usage(index=False, deep=True).sum())
    if grown > limits.expansion_free and grown > limits.expansion * packed:
        raise TableError(
            f"{name!r} has texts that grow more than {limits.expansion}-fold when read ({packed:,} bytes became "
            f"{grown:,}); it was stopped as a decompression bomb."
        )


def _typed(
    whole: pa.Table, name: str, limits: ReadLimits
) -> tuple[pd.DataFrame, dict[str, ColumnType], tuple[Finding, ...]]:
    names, findings = unique_names([str(column) for column in whole.column_names])
    columns: dict[str, pd.Series] = {}
    for column, values in zip(names, whole.columns, strict=True):
        columns[column] = _to_pandas(values, column)
    types = {column: guess_type(values, limits.levels) for column, values in columns.items()}
    for column, values in columns.items():
        columns[column] = _in_form(values, types[column])
        findings += hollow(column, columns[column])
    return pd.DataFrame(columns, copy=False), types, tuple(findings)


def _to_pandas(values: pa.ChunkedArray, name: str) -> pd.Series:
    kind = values.type
    if pa.types.is_dictionary(kind) and not pa.types.is_string(kind.value_type):
        values = values.cast(kind.value_type)
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    if pa.types.is_time(values.type) or pa.types.is_duration(values.type) or pa.types.is_large_string(values.type):
        values = values.cast(pa.string())
    if pa.types.is_date(values.type):
        values = values.cast(pa.timestamp("s"))
    if pa.types.is_boolean(values.type) and values.null_count:
        return pd.Series(values.to_pandas(), dtype="boolean", name=name)
    return values.to_pandas().rename(name)


def _in_form(values: pd.Series, kind: ColumnType) -> pd.Series:
    """Levels in the order of the alphabet for categories, strings for other texts: the form of every reader."""
    if kind is ColumnType.CATEGORY:
        levels = values if isinstance(values.dtype, pd.CategoricalDtype) else values.astype("category")
        used = levels.cat.remove_unused_categories()
        return used.cat.reorder_categories(sorted(used.cat.categories)).cat.as_unordered()
    if kind in (ColumnType.TEXT, ColumnType.IDENTIFIER) and not pd.api.types.is_numeric_dtype(values.dtype):
        return values.astype("str")
    return values


def _left_out(column: str, kind: pa.DataType) -> Finding:
    text = f"Column {column!r} holds {kind}, not one value per row; it was left out."
    return Finding("nested_column", Severity.WARNING, text, "Flatten it before writing the file.", column)


def _is_left_out(kind: pa.DataType) -> bool:
    """Whether it holds lists or bytes, and not one value per row."""
    if pa.types.is_nested(kind):
        return True
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_binary(inner) or pa.types.is_large_binary(inner) or pa.types.is_fixed_size_binary(inner)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(".")
