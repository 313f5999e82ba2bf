"""Reading a table from any file: the content decides how, and nothing is misread in silence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spu_core.errors import TableError
from spu_core.tables.column_types import ColumnType
from spu_core.tables.encodings import open_text
from spu_core.tables.reading import Dialect, Reading, ReadLimits
from spu_core.tables.role_guesses import guess_roles
from spu_core.tables.sources import Upload, expand_gzip, open_upload
from spu_core.tables.table import Table
from spu_core.tables.text_tables import read_text_table


def read_table(
    source: Any,
    *,
    name: str | None = None,
    dialect: Dialect | None = None,
    limits: ReadLimits | None = None,
    types: Mapping[str, ColumnType | str] | None = None,
) -> Table:
    """A table from a path, bytes or a file object: CSV and its kin, gzip, parquet or Excel, judged by content.

    `dialect` overrides what is detected, `types` what the values of a column suggest; `limits` bound what is read.

    >>> table = read_table(b"name;amount\\nAnn;1,5\\nBob;2,5\\n", name="sales")
    >>> table.reading.describe()
    'sales: text, utf-8, separator semicolon, decimal comma; 2 rows read, 0 rejected'
    >>> table.frame["amount"].tolist()
    [1.5, 2.5]
    """
    limits = limits or ReadLimits()
    upload = open_upload(source, name, limits)
    compression = "gzip" if upload.kind == "gzip" else None
    inner = expand_gzip(upload, limits) if compression else upload
    asked = {column: _column_type(column, kind) for column, kind in (types or {}).items()}
    return _READERS[inner.kind](inner, dialect or Dialect(), limits, asked, compression)


def _read_text(
    upload: Upload,
    given: Dialect,
    limits: ReadLimits,
    types: Mapping[str, ColumnType],
    compression: str | None,
) -> Table:
    text = read_text_table(open_text(upload, given.encoding), upload.name, given, limits, types)
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
        compression=compression,
        size=upload.size,
    )
    return Table(
        name=upload.name,
        frame=text.frame,
        roles=guess_roles(text.frame, text.types, {}),
        types=text.types,
        reading=reading,
        findings=text.findings,
    )


def _column_type(column: str, kind: ColumnType | str) -> ColumnType:
    if kind not in set(ColumnType):
        raise TableError(f"Column {column!r} cannot be read as {kind!r}; choose from {', '.join(ColumnType)}.")
    return ColumnType(kind)


_READERS = {"text": _read_text}
