"""Excel workbooks (.xlsx) to text: cells are written as CSV and then read like any other text table."""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import re
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
# What Excel itself allows; a number beyond it makes a reader count through a gap.
MOST_ROWS = 1_048_576
# Rows times columns, empty cells included: a sheet is written out in full, however little of it is filled.
MOST_CELLS = 30_000_000
MOST_MEMBERS = 10_000
_CHUNK = 1 << 20
_ENCODING = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([^"']*)["']""")


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
    """Look for entities in the whole of a member: a comment of any length may stand before them."""
    # A picture in SVG may have a document type; entities it needs not.
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
        _check_cells(written, name)
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
        # A title alone in its row, above the table, stays alone.
        started = started or len(cells) > 1
        yield cells + [""] * (width - len(cells)) if started and cells else cells


def _unpadded_rows(page: Any, name: str, limits: ReadLimits) -> Iterator[list[str]]:
    # What a sheet says about its own size may be a lie.
    page.reset_dimensions()
    most, passed = min(limits.rows, MOST_ROWS), 0
    for number, values in enumerate(page.iter_rows(values_only=True), start=1):
        passed += len(values)
        if number > most:
            raise TableError(f"{name!r} has more than {most:,} rows, which is the limit.")
        _check_cells(passed, name)
        cells = _trimmed([_as_text(value) for value in values])
        if len(cells) > limits.columns:
            raise TableError(f"{name!r} has {len(cells):,} columns; the limit is {limits.columns:,}.")
        yield cells


def _check_cells(count: int, name: str) -> None:
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
    return [Finding("several_sheets", Severity.WARNING, text, "Name the sheet to read another one.")]
