"""Reading a table from any file: the content decides how, and nothing is misread in silence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from spu_core.errors import TableError
from spu_core.tables.column_types import ColumnType
from spu_core.tables.encodings import open_text
from spu_core.tables.excel_files import sheet_as_text
from spu_core.tables.findings import Finding, Severity
from spu_core.tables.parquet_files import read_parquet
from spu_core.tables.reading import Dialect, Reading, ReadLimits
from spu_core.tables.role_guesses import guess_roles
from spu_core.tables.roles import Role
from spu_core.tables.scratch import Scratch
from spu_core.tables.sources import Upload, as_upload, expand_gzip, open_upload
from spu_core.tables.streams import watched
from spu_core.tables.table import Table
from spu_core.tables.text_tables import read_text_table
from spu_core.tables.written import TEXT_COLUMN


@dataclass(frozen=True)
class _Wishes:
    """What the caller asked for."""

    dialect: Dialect
    limits: ReadLimits
    types: Mapping[str, ColumnType]
    scratch: Scratch | None = None
    as_text: bool = False


def read_table(
    source: Any,
    *,
    name: str | None = None,
    dialect: Dialect | None = None,
    limits: ReadLimits | None = None,
    types: Mapping[str, ColumnType | str] | Literal["text"] | None = None,
    scratch: Scratch | None = None,
    on_bytes: Callable[[int], None] | None = None,
) -> Table:
    """A table from a path, bytes or a file object: CSV and its kin, gzip, parquet or Excel, judged by content.

    `dialect` overrides what is detected, `types` what the values of a column suggest; `limits` bound what is read.
    `types="text"` returns every cell as text, as it stands in the file: nothing is missing, trimmed or converted.
    With a `scratch` folder the columns of a text file are kept in files there while it streams in.
    `on_bytes` hears how many bytes were read so far; text is passed over about three times.

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
    wishes = _Wishes(dialect or Dialect(), limits or ReadLimits(), asked, scratch, as_text)
    upload = open_upload(source, name, wishes.limits)
    if on_bytes is not None:
        upload = replace(upload, stream=watched(upload.stream, on_bytes))
    try:
        return _read(upload, wishes)
    finally:
        upload.stream.close()


def _read(upload: Upload, wishes: _Wishes) -> Table:
    if upload.kind != "gzip":
        return _READERS[upload.kind](upload, wishes)
    inner = expand_gzip(upload, wishes.limits)
    with inner.stream:
        table = _READERS[inner.kind](inner, wishes)
    assert table.reading is not None, "every reader leaves a reading"
    return replace(table, reading=replace(table.reading, compression="gzip", size=upload.size))


def _read_text(upload: Upload, wishes: _Wishes) -> Table:
    source = open_text(upload, wishes.dialect.encoding)
    text = read_text_table(
        source, upload.name, wishes.dialect, wishes.limits, wishes.types, wishes.scratch, as_text=wishes.as_text
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
    return replace(_table(text.frame, text.types, reading, text.findings), written=text.written)


def _read_excel(upload: Upload, wishes: _Wishes) -> Table:
    page = sheet_as_text(upload.stream, upload.name, wishes.dialect.sheet, wishes.limits)
    # Cells come apart by the workbook itself, so nothing of the text's dialect is left to guess.
    known = Dialect(encoding="utf-8", separator=",", quote='"', decimal=".", thousands="")
    with page.stream:
        inner = as_upload(page.stream, upload.name, replace(wishes.limits, bytes=wishes.limits.expanded_bytes))
        table = _read_text(replace(inner, kind="text"), replace(wishes, dialect=wishes.dialect.over(known)))
    assert table.reading is not None, "the text reader leaves a reading"
    dialect = Dialect(header=table.reading.dialect.header, sheet=page.sheet, missing=wishes.dialect.missing)
    reading = replace(table.reading, format="excel", dialect=dialect, size=upload.size)
    return replace(table, reading=reading, findings=(*page.findings, *table.findings))


def _read_parquet(upload: Upload, wishes: _Wishes) -> Table:
    frame, types, findings = read_parquet(upload.stream, upload.name, wishes.limits)
    frame = frame[[name for name in frame.columns if not name.startswith(TEXT_COLUMN)]]
    types = {name: types[name] for name in frame.columns}
    findings = tuple(each for each in findings if not (each.column or "").startswith(TEXT_COLUMN))
    if wishes.as_text:
        frame = frame.astype("str").fillna("")
        types = dict.fromkeys(types, ColumnType.TEXT)
    reading = Reading(source=upload.name, format="parquet", dialect=Dialect(), rows=len(frame), size=upload.size)
    return _table(frame, {**types, **wishes.types}, reading, findings)


def _table(frame: Any, types: Mapping[str, ColumnType], reading: Reading, findings: tuple[Finding, ...]) -> Table:
    table = Table(
        name=reading.source,
        frame=frame,
        roles=guess_roles(frame, types, {}),
        types=types,
        reading=reading,
        findings=findings,
    )
    found = (*findings, *_label_findings(table), *_group_findings(table))
    return replace(table, findings=found).without_copies()


def _label_findings(table: Table) -> list[Finding]:
    column = table.column_with(Role.LABEL)
    if column is None:
        text = "No column looks like a label of confirmed positives."
        return [Finding("no_label", Severity.INFO, text, "Give the role 'label' to the column that marks them.")]
    shown = ", ".join(map(str, table.positive_values))
    count = int(table.is_labeled.sum())
    text = f"Column {column!r} was taken as the label: {shown} marks {count:,} confirmed positives."
    return [Finding("label_guessed", Severity.INFO, text, "Change the role or the positive values if not.", column)]


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


_READERS = {"text": _read_text, "parquet": _read_parquet, "zip": _read_excel}
