"""Read any file into typed columns: the format is detected from the content, and problems become findings.

Text (CSV and similar) is read by `text_tables.py`. The sheet of an Excel workbook (.xlsx), JSON lines and results of
queries are written as CSV and then read like other text. Parquet and Arrow define their own types. Gzip files and zip
archives of one file are unpacked first.
"""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import os
import re
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import IO, Any
from xml.etree.ElementTree import ParseError

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from spu_core.errors import TableError, nearest_hint
from spu_core.tables.reading.blocks import longest_cell
from spu_core.tables.reading.column_builders import Scratch
from spu_core.tables.reading.encoding import open_text
from spu_core.tables.reading.layout import unique_names
from spu_core.tables.reading.reading_report import Dialect, Finding, Reading, ReadLimits, Severity
from spu_core.tables.reading.sources import (
    Upload,
    as_upload,
    counting_bytes,
    database_kind,
    expand_gzip,
    expand_zip,
    json_lines_as_text,
    open_upload,
    query_as_text,
)
from spu_core.tables.reading.text_tables import read_text_table
from spu_core.tables.reading.typed_columns import TEXT_COLUMN, Written, empty_findings
from spu_core.tables.reading.values import ColumnType, guess_type

_DAMAGE = (
    zipfile.BadZipFile, zlib.error, ParseError, KeyError, ValueError, IndexError, TypeError, AttributeError, OSError,
    EOFError, NotImplementedError, RuntimeError, OverflowError, AssertionError,
)  # fmt: skip
# The limits of Excel; a larger row number would make a reader create the rows of the gap.
MOST_ROWS = 1_048_576
# Rows times columns, including empty cells, because a sheet is written in full, even if it is almost empty.
MOST_CELLS = 30_000_000
MOST_MEMBERS = 10_000
_CHUNK = 1 << 20
_ENCODING = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([^"']*)["']""")


@dataclass(frozen=True)
class ReadOptions:
    """The options of the caller: `types` by column, or every cell as text."""

    dialect: Dialect = field(default_factory=Dialect)
    limits: ReadLimits = field(default_factory=ReadLimits)
    types: Mapping[str, ColumnType] = field(default_factory=dict)
    scratch: Scratch | None = None
    as_text: bool = False


@dataclass(frozen=True)
class FileContent:
    """The columns of a file with their types, how it was read, the findings, and how its cells were written."""

    frame: pd.DataFrame
    types: Mapping[str, ColumnType]
    reading: Reading
    findings: tuple[Finding, ...]
    written: Mapping[str, Written] = field(default_factory=dict)


def read_file(
    source: Any, options: ReadOptions, name: str | None = None, on_bytes: Callable[[int], None] | None = None
) -> FileContent:
    """The columns of a path, bytes or a file object.

    >>> content = read_file(b"name;amount\\nAnn;1,5\\nBob;2,5\\n", ReadOptions(), name="sales")
    >>> content.frame["amount"].tolist(), content.types["amount"].value
    ([1.5, 2.5], 'number')
    """
    upload = open_upload(source, name, options.limits)
    if on_bytes is not None:
        upload = replace(upload, stream=counting_bytes(upload.stream, on_bytes))
    try:
        return _read_upload(upload, options)
    finally:
        upload.stream.close()


def _read_upload(upload: Upload, options: ReadOptions) -> FileContent:
    is_packed = upload.kind == "gzip" or (upload.kind == "zip" and not is_workbook(upload))
    if not is_packed:
        return _READERS[upload.kind](upload, options)
    inner = (expand_gzip if upload.kind == "gzip" else expand_zip)(upload, options.limits)
    with inner.stream:
        content = _READERS[inner.kind](inner, options)
    return replace(content, reading=replace(content.reading, compression=upload.kind, size=upload.size))


def _read_text(upload: Upload, options: ReadOptions) -> FileContent:
    source = open_text(upload, options.dialect.encoding)
    text = read_text_table(
        source, upload.name, options.dialect, options.limits, options.types, options.scratch, as_text=options.as_text
    )
    reading = Reading(
        source=upload.name,
        format="text",
        dialect=text.dialect,
        rows=len(text.frame),
        rejected_rows=text.rejected_rows,
        rejected=text.rejected,
        empty_lines=text.empty_lines,
        header_line=text.layout.header.first_line if text.layout.header else None,
        preamble=text.layout.preamble,
        size=upload.size,
    )
    return FileContent(text.frame, text.types, reading, text.findings, text.written)


def _read_excel(upload: Upload, options: ReadOptions) -> FileContent:
    page = sheet_as_text(upload.stream, upload.name, options.dialect.sheet, options.limits)
    # The workbook separates the cells, so the dialect of the text is known.
    known = Dialect(encoding="utf-8", separator=",", quote='"', decimal=".", thousands="")
    with page.stream:
        inner = as_upload(page.stream, upload.name, replace(options.limits, bytes=options.limits.expanded_bytes))
        content = _read_text(replace(inner, kind="text"), replace(options, dialect=options.dialect.over(known)))
    dialect = Dialect(header=content.reading.dialect.header, sheet=page.sheet, missing=options.dialect.missing)
    reading = replace(content.reading, format="excel", dialect=dialect, size=upload.size)
    return replace(content, reading=reading, findings=(*page.findings, *content.findings))


def _read_json_lines(upload: Upload, options: ReadOptions) -> FileContent:
    return _read_rows(json_lines_as_text(upload.stream, upload.name, options.limits), upload, options)


def _read_rows(rows: IO[bytes], upload: Upload, options: ReadOptions) -> FileContent:
    """Rows that were written as CSV, whose dialect is therefore known."""
    known = Dialect(encoding="utf-8", separator=",", quote='"', decimal=".", thousands="", header=True)
    with rows:
        inner = as_upload(rows, upload.name, replace(options.limits, bytes=options.limits.expanded_bytes))
        content = _read_text(replace(inner, kind="text"), replace(options, dialect=options.dialect.over(known)))
    reading = replace(content.reading, format=upload.kind, dialect=Dialect(), size=upload.size)
    return replace(content, reading=reading)


def read_query(path: str | os.PathLike[str], query: str, options: ReadOptions, name: str | None) -> FileContent:
    """The columns of the result of a query on a database file."""
    rows = query_as_text(path, query, options.limits)
    kind, size = str(database_kind(path)), os.path.getsize(path)
    return _read_rows(rows, Upload(rows, name or os.path.basename(path), size, kind), options)


def _read_arrow(upload: Upload, options: ReadOptions) -> FileContent:
    """An Arrow or Feather file, read like parquet: its batches are written as one, within the limits."""
    name, limits = upload.name, options.limits
    target = tempfile.TemporaryFile()  # noqa: SIM115 - closed below
    try:
        with pa.ipc.open_file(pa.PythonFile(upload.stream, mode="r")) as file:
            if len(file.schema) > limits.columns:
                raise TableError(f"{name!r} has {len(file.schema):,} columns; the limit is {limits.columns:,}.")
            size = 0
            with pq.ParquetWriter(target, file.schema) as writer:
                for place in range(file.num_record_batches):
                    batch = file.get_batch(place)
                    batch.validate(full=True)
                    size += batch.nbytes
                    _check_arrow_size(size, upload, limits)
                    writer.write_batch(batch)
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        if isinstance(error, TableError):
            raise
        raise TableError(f"{name!r} is a damaged Arrow file: {_first_line(error)}.") from error
    with target:
        content = _read_parquet(replace(upload, stream=target), options)
    return replace(content, reading=replace(content.reading, format="arrow"))


def _check_arrow_size(size: int, upload: Upload, limits: ReadLimits) -> None:
    if size > limits.expanded_bytes or (size > limits.expansion_free and size > limits.expansion * upload.size):
        raise TableError(
            f"{upload.name!r} unpacks to more than {size:,} bytes from {upload.size:,}; it was stopped as a "
            "decompression bomb."
        )


def _read_parquet(upload: Upload, options: ReadOptions) -> FileContent:
    frame, types, findings = read_parquet(upload.stream, upload.name, options.limits)
    frame = frame[[name for name in frame.columns if not name.startswith(TEXT_COLUMN)]]
    types = {name: types[name] for name in frame.columns}
    findings = tuple(each for each in findings if not (each.column or "").startswith(TEXT_COLUMN))
    if options.as_text:
        frame = frame.astype("str").fillna("")
        types = dict.fromkeys(types, ColumnType.TEXT)
    reading = Reading(source=upload.name, format="parquet", dialect=Dialect(), rows=len(frame), size=upload.size)
    return FileContent(frame, {**types, **options.types}, reading, findings)


_READERS = {
    "text": _read_text,
    "json lines": _read_json_lines,
    "parquet": _read_parquet,
    "arrow": _read_arrow,
    "zip": _read_excel,
}


@dataclass(frozen=True)
class SheetText:
    """One sheet as CSV in UTF-8, with the names of all sheets."""

    stream: IO[bytes]
    sheet: str
    findings: tuple[Finding, ...]


def sheet_as_text(stream: IO[bytes], name: str, sheet: str | None, limits: ReadLimits) -> SheetText:
    """The requested sheet, or the first visible one that has cells."""
    _check_archive(stream, name, limits)
    try:
        return _read_workbook(stream, name, sheet, limits)
    except TableError:
        raise
    except _DAMAGE as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise TableError(f"{name!r} is a damaged Excel file: {reason}.") from error


def is_workbook(upload: Upload) -> bool:
    """Whether a zip archive is an Excel workbook; a damaged one is left to the reader of workbooks."""
    try:
        with zipfile.ZipFile(upload.stream) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (zipfile.BadZipFile, OSError, NotImplementedError, EOFError, ValueError):
        return True
    finally:
        upload.stream.seek(0)


def _check_archive(stream: IO[bytes], name: str, limits: ReadLimits) -> None:
    """Refuse files that are not workbooks, that unpack too large, or whose XML defines entities, before parsing."""
    try:
        with zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
            if "xl/workbook.xml" not in archive.namelist():
                shown = ", ".join(repr(member.filename) for member in members[:3])
                raise TableError(
                    f"{name!r} is a zip archive ({shown}), not a table; unpack it and give one of its files."
                )
            if len(members) > MOST_MEMBERS:
                raise TableError(f"{name!r} holds {len(members):,} parts; a workbook has a few dozen. It is refused.")
            size = sum(member.file_size for member in members)
            if size > limits.sheet_bytes:
                raise TableError(
                    f"{name!r} unpacks to {size:,} bytes of Excel XML; the limit is {limits.sheet_bytes:,}. Use CSV."
                )
            for member in members:
                _refuse_entities(archive, member, name)
    except (zipfile.BadZipFile, zlib.error, OSError, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        if isinstance(error, TableError):
            raise
        raise TableError(f"{name!r} is a damaged zip or Excel file: {error}.") from error


def _refuse_entities(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> None:
    """Search the whole member for entities: a comment of any length may precede them."""
    # An SVG picture may have a document type, but it needs no entities.
    marks = (b"<!ENTITY",) if member.filename.startswith("xl/media/") else (b"<!ENTITY", b"<!DOCTYPE")
    with archive.open(member) as part:
        piece = part.read(_CHUNK)
        declared = _ENCODING.search(piece[:1000])
        if piece.startswith((b"\xff\xfe", b"\xfe\xff", b"<\x00", b"\x00<", b"\x00\x00")) or (
            declared and declared[1].lower() not in (b"utf-8", b"utf8", b"us-ascii", b"ascii")
        ):
            raise TableError(f"{name!r} holds XML that is not UTF-8, which no Excel program writes; it is refused.")
        while piece:
            if any(mark in piece for mark in marks):
                raise TableError(f"{name!r} defines XML entities, which no Excel program writes; it is refused.")
            rest = part.read(_CHUNK)
            piece = piece[-16:] + rest if rest else b""


def _read_workbook(stream: IO[bytes], name: str, sheet: str | None, limits: ReadLimits) -> SheetText:
    from openpyxl import load_workbook

    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        book = load_workbook(stream, read_only=True, data_only=True, keep_links=False)
    sheets = [page for page in book.worksheets if sheet is not None or page.sheet_state == "visible"]
    titles = [page.title for page in sheets]
    if sheet is not None and sheet not in titles:
        raise TableError(f"{name!r} has no sheet {sheet!r}. {nearest_hint(sheet, titles)}")
    for page in sheets:
        text = _write_csv(page, name, limits, size) if sheet in (None, page.title) else None
        if text is not None:
            others = [title for title in titles if title != page.title]
            return SheetText(text, page.title, tuple(_several(page.title, others)) if sheet is None else ())
    raise TableError(f"{name!r} has no sheet with cells.")


def _write_csv(page: Any, name: str, limits: ReadLimits, size: int) -> IO[bytes] | None:
    target = tempfile.TemporaryFile()  # noqa: SIM115 - handed on to the text reader
    text = io.TextIOWrapper(target, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    filled = written = 0
    largest = min(limits.expanded_bytes, max(limits.expansion_free, limits.expansion * size))
    for cells in _rows(page, name, limits):
        filled += bool(cells)
        written += len(cells)
        _check_sheet_cells(written, name)
        writer.writerow(cells)
        if target.tell() > largest:
            raise TableError(f"{name!r} unpacks to more than {largest:,} bytes, which is the limit for its size.")
    text.detach()
    return target if filled else None


def _rows(page: Any, name: str, limits: ReadLimits) -> Iterator[list[str]]:
    """Rows as text, filled up to the widest of the first thousand: Excel does not store empty cells at a row's end."""
    rows = _unpadded_rows(page, name, limits)
    ahead = list(itertools.islice(rows, 1_000))
    width = max(map(len, ahead), default=0)
    started = False
    for cells in itertools.chain(ahead, rows):
        # A title above the table, alone in its row, is not padded.
        started = started or len(cells) > 1
        yield cells + [""] * (width - len(cells)) if started and cells else cells


def _unpadded_rows(page: Any, name: str, limits: ReadLimits) -> Iterator[list[str]]:
    # The size that a sheet declares may be wrong.
    page.reset_dimensions()
    most, passed = min(limits.rows, MOST_ROWS), 0
    for number, values in enumerate(page.iter_rows(values_only=True), start=1):
        passed += len(values)
        if number > most:
            raise TableError(f"{name!r} has more than {most:,} rows, which is the limit.")
        _check_sheet_cells(passed, name)
        cells = _trimmed([_as_text(value) for value in values])
        if len(cells) > limits.columns:
            raise TableError(f"{name!r} has {len(cells):,} columns; the limit is {limits.columns:,}.")
        yield cells


def _check_sheet_cells(count: int, name: str) -> None:
    if count > MOST_CELLS:
        raise TableError(
            f"{name!r} has more than {MOST_CELLS:,} cells, empty ones included, which is the limit; use CSV."
        )


def _trimmed(cells: list[str]) -> list[str]:
    while cells and cells[-1] == "":
        cells.pop()
    return cells


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == datetime.time() else value.isoformat(sep=" ")
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


def _several(used: str, others: list[str]) -> list[Finding]:
    if not others:
        return []
    shown = ", ".join(map(repr, others[:5]))
    text = f"The workbook has {len(others) + 1} sheets; {used!r} was read, not {shown}."
    return [Finding("several_sheets", Severity.WARNING, text, "To read another sheet, give its name.")]


# How much larger than the file its values may be in memory, beyond a size that is always allowed. Repeated values take
# almost no space in parquet, so a table of many zeros grows more than any text.
EXPANSION = 1_000
EXPANSION_FREE = 256 * 1024**2


def read_parquet(
    stream: IO[bytes], name: str, limits: ReadLimits
) -> tuple[pd.DataFrame, dict[str, ColumnType], tuple[Finding, ...]]:
    """The frame, its column types and findings; damaged or hostile files are refused with a message."""
    try:
        file = pq.ParquetFile(pa.PythonFile(stream, mode="r"), read_dictionary=_text_columns(stream))
        size = stream.seek(0, io.SEEK_END)
        _check_sizes(file, name, limits, size)
        left_out = [item for item in file.schema_arrow if _is_left_out(item.type)]
        frame, types, findings = _typed(_read_batches(file, name, limits, left_out), name, limits)
        _check_texts(frame, name, limits, size)
    except MemoryError:
        raise  # pyarrow's MemoryError is also an ArrowException, but the file is not damaged
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        if isinstance(error, TableError):
            raise
        raise TableError(f"{name!r} is a damaged parquet file: {_first_line(error)}.") from error
    return frame, types, (*(_left_out(item.name, item.type) for item in left_out), *findings)


def _check_texts(frame: pd.DataFrame, name: str, limits: ReadLimits, packed: int) -> None:
    """Refuse texts that grow more than those of any compressed file may; each category counts once."""
    texts = frame.select_dtypes(exclude=["number", "bool", "boolean", "datetime", "datetimetz"])
    grown = int(texts.memory_usage(index=False, deep=True).sum())
    if grown > limits.expansion_free and grown > limits.expansion * packed:
        raise TableError(
            f"{name!r} has texts that grow more than {limits.expansion}-fold when read ({packed:,} bytes became "
            f"{grown:,}); it was stopped as a decompression bomb."
        )


def schema_metadata(stream: IO[bytes], name: str) -> dict[bytes, bytes]:
    """The key-value texts that were stored with the schema."""
    try:
        return pq.read_schema(pa.PythonFile(stream, mode="r")).metadata or {}
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{name!r} is a damaged parquet file: {_first_line(error)}.") from error


def _text_columns(stream: IO[bytes]) -> list[str]:
    """The text columns, which are read as dictionaries, so that a text repeated a million times is in memory once."""
    schema = pq.read_schema(pa.PythonFile(stream, mode="r"))
    stream.seek(0)
    return [item.name for item in schema if pa.types.is_string(item.type) or pa.types.is_large_string(item.type)]


def _check_sizes(file: pq.ParquetFile, name: str, limits: ReadLimits, packed: int) -> None:
    facts = file.metadata
    groups = range(facts.num_row_groups)
    size = sum(max(facts.row_group(at).total_byte_size, 0) for at in groups)
    # The sizes in the footer do not count repeated values; in memory each value takes eight bytes.
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
    # Lists are not unpacked, because a single batch of them can have any size.
    for batch in file.iter_batches(batch_size=65_536, use_threads=False, columns=kept if names else None):
        size += batch.nbytes
        if size > limits.expanded_bytes:
            raise TableError(
                f"{name!r} unpacks to more than {limits.expanded_bytes:,} bytes, which is the limit; it was stopped."
            )
        _check_column_cells(batch, name, limits)
        batches.append(batch)
    return pa.Table.from_batches(batches)


def _check_column_cells(batch: pa.RecordBatch, name: str, limits: ReadLimits) -> None:
    for column, cells in zip(batch.schema.names, batch.columns, strict=True):
        longest = longest_cell(cells)
        if longest > limits.cell_bytes:
            raise TableError(
                f"{name!r} has a cell of {longest:,} bytes in column {column!r}; the limit is {limits.cell_bytes:,}. "
                "Shorten it, or raise the limit 'cell_bytes'."
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
        findings += empty_findings(column, columns[column])
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
    """Alphabetical categories, or strings for other texts: the same form for every file format."""
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
    """Whether a column holds lists or bytes, not one value per row."""
    if pa.types.is_nested(kind):
        return True
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_binary(inner) or pa.types.is_large_binary(inner) or pa.types.is_fixed_size_binary(inner)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(".")
