"""Reading a table from any file, and converting a large file to a folder of parquet files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from spu_core.errors import TableError
from spu_core.tables.folders import open_folder
from spu_core.tables.reading.column_builders import Scratch
from spu_core.tables.reading.file_reader import ReadOptions, read_file, read_query
from spu_core.tables.reading.reading_report import Dialect, Finding, Reading, ReadLimits, Severity
from spu_core.tables.reading.values import ColumnType
from spu_core.tables.roles import Role, guess_roles
from spu_core.tables.table import Table

FILE_ROWS = 1_000_000
GROUP_ROWS = 1 << 17
# A converted file need not fit into memory, so its limits are larger.
LIMITS = ReadLimits(bytes=1 << 42, expanded_bytes=1 << 42, rows=1 << 40)


def read_table(
    source: Any,
    *,
    name: str | None = None,
    query: str | None = None,
    dialect: Dialect | None = None,
    limits: ReadLimits | None = None,
    types: Mapping[str, ColumnType | str] | Literal["text"] | None = None,
    scratch: Scratch | None = None,
    on_bytes: Callable[[int], None] | None = None,
) -> Table:
    """A table from a path, an address, bytes or a file object; the format is detected by content.

    It reads CSV and similar text, JSON lines, Excel, parquet, Arrow (Feather), gzip, zip archives of one file, and the
    result of a query on an SQLite or DuckDB file. Addresses (https, s3) and DuckDB need the extra `remote`.

    Parameters
    ----------
    source : path, address, bytes or binary file object
        What to read; a file object is read from its current position. An address is text: "https://…" or "s3://…".
    query : str, optional
        The query whose result is the table; for the path of an SQLite or DuckDB file. It can only read this file.
    name : str, optional
        Name of the table; the name of the file by default.
    dialect : Dialect, optional
        Encoding, separator, quote, marks and header that are known; what is None is detected.
    limits : ReadLimits, optional
        Sizes beyond which the file is refused.
    types : mapping of column to type, or "text", optional
        Types that replace what the values suggest. "text" returns every cell unchanged: nothing is
        missing, trimmed or converted.
    scratch : Scratch, optional
        Folder in which the columns of a text file are kept while it streams in, for files larger than memory.
    on_bytes : callable, optional
        Called with the number of bytes read so far; text is read about three times.

    Returns
    -------
    Table
        Typed columns with guessed roles; `reading` holds what was detected and rejected, `findings` the problems found.

    Raises
    ------
    TableError
        If the file is not a table, is damaged, or is larger than the limits allow.

    Examples
    --------
    >>> table = read_table(b"name;amount\\nAnn;1,5\\nBob;2,5\\n", name="sales")
    >>> table.reading.describe()
    'sales: text, utf-8, separator semicolon, decimal comma; 2 rows read, 0 rejected'
    >>> table.frame["amount"].tolist()
    [1.5, 2.5]
    >>> read_table(b"code;price\\n007; $1.50\\n008;NA\\n", types="text").frame["price"].tolist()
    [' $1.50', 'NA']
    """
    as_text = isinstance(types, str)
    asked = {} if isinstance(types, str) else {name: _column_type(name, kind) for name, kind in (types or {}).items()}
    if as_text and types != "text":
        raise TableError(f"types must be 'text' or name a type for each column, got {types!r}.")
    options = ReadOptions(dialect or Dialect(), limits or ReadLimits(), asked, scratch, as_text)
    if query is None:
        content = read_file(source, options, name, on_bytes)
    elif isinstance(source, str | os.PathLike):
        content = read_query(source, query, options, name)
    else:
        raise TableError(f"A query needs the path of a database file, got {type(source).__name__}.")
    table = Table(
        name=content.reading.source,
        frame=content.frame,
        roles=guess_roles(content.frame, content.types, {}),
        types=content.types,
        reading=content.reading,
        findings=content.findings,
        written=content.written,
    )
    found = (*content.findings, *_label_findings(table), *_group_findings(table))
    return replace(table, findings=found).without_copies()


def _label_findings(table: Table) -> list[Finding]:
    column = table.column_with(Role.LABEL)
    if column is None:
        text = "No column looks like a label of confirmed cases."
        return [Finding("no_label", Severity.INFO, text, "Give the role 'label' to the column that marks them.")]
    shown = ", ".join(map(str, table.positive_values))
    count = int(table.is_labeled.sum())
    text = f"Column {column!r} was taken as the label: {shown} marks {count:,} confirmed positives."
    return [
        Finding(
            "label_guessed", Severity.INFO, text, "If this is wrong, change the role or the positive values.", column
        )
    ]


def _group_findings(table: Table) -> list[Finding]:
    column = table.column_with(Role.GROUP)
    if column is None:
        return []
    text = f"Column {column!r} was taken as the group: rows with the same value stay in one fold."
    return [
        Finding("group_guessed", Severity.INFO, text, "Change its role if its rows do not belong together.", column)
    ]


def _column_type(column: str, kind: ColumnType | str) -> ColumnType:
    if kind not in set(ColumnType):
        raise TableError(f"Column {column!r} cannot be read as {kind!r}; choose from {', '.join(ColumnType)}.")
    return ColumnType(kind)


def convert_table(
    source: Any,
    target: str | os.PathLike[str],
    *,
    dialect: Dialect | None = None,
    limits: ReadLimits | None = None,
    types: Mapping[str, ColumnType | str] | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> tuple[Table, Reading]:
    """Convert a file to a new folder of parquet files, and open it; also returns what was read and rejected.

    Columns, types and rejected lines are those of `read_table`. Only one column at a time is in memory as a whole.

    Parameters
    ----------
    source : path, bytes or binary file object
        What to convert.
    target : path
        Folder to make; it must not exist yet.
    dialect, limits, types
        As in `read_table`; by default the file may be larger than memory.
    on_progress : callable, optional
        Called with the share of rows that are written.

    Returns
    -------
    tuple of Table and Reading
        The opened folder, and what was read and rejected.

    Raises
    ------
    TableError
        If the target exists or cannot be written, or if the file cannot be read.
    """
    folder = Path(target)
    if folder.exists():
        raise TableError(f"{folder.name!r} exists already; give the name of a new folder.")
    draft = folder.with_name(f".{folder.name}.writing")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(parents=True)
        # Beside the target, because that disk must have space for the rows anyway.
        with Scratch(draft.parent) as scratch:
            table = read_table(source, dialect=dialect, limits=limits or LIMITS, types=types, scratch=scratch)
            write_parts(table, draft, on_progress)
        assert table.reading is not None
        os.replace(draft, folder)
    except OSError as problem:
        raise TableError(f"{folder.name!r} cannot be written: {problem.strerror or problem}.") from problem
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return open_folder(folder, name=table.name, limits=limits), table.reading


def write_parts(table: Table, folder: Path, on_progress: Callable[[float], None] | None = None) -> None:
    """Write the rows of a table as files of a million rows each."""
    schema = None
    for number, start in enumerate(range(0, len(table), FILE_ROWS)):
        part = table.frame.iloc[start : start + FILE_ROWS]
        rows = pa.Table.from_pandas(part, schema=schema, preserve_index=False)
        schema = rows.schema
        pq.write_table(rows, folder / f"part-{number:05d}.parquet", row_group_size=GROUP_ROWS, compression="zstd")
        if on_progress is not None:
            on_progress(min(1.0, (start + len(part)) / len(table)))
