"""Excel workbooks (.xlsx) to text: cells are written as CSV and then read like any other text table."""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any
from xml.etree.ElementTree import ParseError

from spu_core.errors import TableError, nearest_hint
from spu_core.tables.findings import Finding, Severity
from spu_core.tables.reading import ReadLimits

_DAMAGE = (
    zipfile.BadZipFile, zlib.error, ParseError, KeyError, ValueError, IndexError, TypeError, AttributeError, OSError,
    EOFError, NotImplementedError, RuntimeError, OverflowError, AssertionError,
)  # fmt: skip


@dataclass(frozen=True)
class SheetText:
    """One sheet as CSV in UTF-8, with the names of all sheets."""

    stream: IO[bytes]
    sheet: str
    findings: tuple[Finding, ...]


def sheet_as_text(stream: IO[bytes], name: str, sheet: str | None, limits: ReadLimits) -> SheetText:
    """The asked sheet, or the first visible one that has cells."""
    _check_archive(stream, name, limits)
    try:
        return _read_workbook(stream, name, sheet, limits)
    except TableError:
        raise
    except _DAMAGE as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise TableError(f"{name!r} is a damaged Excel file: {reason}.") from error


def _check_archive(stream: IO[bytes], name: str, limits: ReadLimits) -> None:
    """Refuse what is no workbook, what unpacks too large, and XML that defines entities, before any of it is parsed."""
    try:
        with zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
            if "xl/workbook.xml" not in archive.namelist():
                shown = ", ".join(repr(member.filename) for member in members[:3])
                raise TableError(
                    f"{name!r} is a zip archive ({shown}), not a table; unpack it and give one of its files."
                )
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
    with archive.open(member) as part:
        head = part.read(4096)
    if b"<!DOCTYPE" in head or b"<!ENTITY" in head or b"<\x00!\x00D\x00" in head:
        raise TableError(f"{name!r} defines XML entities, which no Excel program writes; it is refused.")


def _read_workbook(stream: IO[bytes], name: str, sheet: str | None, limits: ReadLimits) -> SheetText:
    from openpyxl import load_workbook

    stream.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        book = load_workbook(stream, read_only=True, data_only=True, keep_links=False)
    sheets = [page for page in book.worksheets if sheet is not None or page.sheet_state == "visible"]
    titles = [page.title for page in sheets]
    if sheet is not None and sheet not in titles:
        raise TableError(f"{name!r} has no sheet {sheet!r}. {nearest_hint(sheet, titles)}")
    for page in sheets:
        text = _write_csv(page, name, limits) if sheet in (None, page.title) else None
        if text is not None:
            others = [title for title in titles if title != page.title]
            return SheetText(text, page.title, tuple(_several(page.title, others)) if sheet is None else ())
    raise TableError(f"{name!r} has no sheet with cells.")


def _write_csv(page: Any, name: str, limits: ReadLimits) -> IO[bytes] | None:
    target = tempfile.TemporaryFile()  # noqa: SIM115 - handed on to the text reader
    text = io.TextIOWrapper(target, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    filled = 0
    for cells in _rows(page, name, limits):
        filled += bool(cells)
        writer.writerow(cells)
        if target.tell() > limits.expanded_bytes:
            raise TableError(f"{name!r} unpacks to more than {limits.expanded_bytes:,} bytes, which is the limit.")
    text.detach()
    return target if filled else None


def _rows(page: Any, name: str, limits: ReadLimits) -> Iterator[list[str]]:
    """Rows as text, filled up to the widest of the first thousand: Excel does not store empty cells at a row's end."""
    rows = _unpadded_rows(page, name, limits)
    ahead = list(itertools.islice(rows, 1_000))
    width = max(map(len, ahead), default=0)
    started = False
    for cells in itertools.chain(ahead, rows):
        # A title alone in its row, above the table, stays alone.
        started = started or len(cells) > 1
        yield cells + [""] * (width - len(cells)) if started and cells else cells


def _unpadded_rows(page: Any, name: str, limits: ReadLimits) -> Iterator[list[str]]:
    # What a sheet says about its own size may be a lie.
    page.reset_dimensions()
    for number, values in enumerate(page.iter_rows(values_only=True), start=1):
        if number > limits.rows:
            raise TableError(f"{name!r} has more than {limits.rows:,} rows, which is the limit.")
        cells = _trimmed([_as_text(value) for value in values])
        if len(cells) > limits.columns:
            raise TableError(f"{name!r} has {len(cells):,} columns; the limit is {limits.columns:,}.")
        yield cells


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
    return [Finding("several_sheets", Severity.WARNING, text, "Name the sheet to read another one.")]
