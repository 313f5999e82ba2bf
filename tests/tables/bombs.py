"""Thirty small files that ask for much memory or time: each must be refused, or read within limits."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_OFFICE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_CONTENT = f"""<Types xmlns="{_TYPES}"><Default Extension="xml" ContentType="application/xml"/>
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Override PartName="/xl/workbook.xml" ContentType="{_OFFICE}.sheet.main+xml"/>
<Override PartName="/xl/sharedStrings.xml" ContentType="{_OFFICE}.sharedStrings+xml"/>
<Override PartName="/xl/styles.xml" ContentType="{_OFFICE}.styles+xml"/></Types>"""
_RELS = """<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>"""
_BOOK = f"""<workbook xmlns="{_SHEETS}" xmlns:r="{_LINKS}"><sheets>{{}}</sheets></workbook>"""
_LOL = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
_LOL = f'<!DOCTYPE x [<!ENTITY l0 "lolololol">{_LOL}]>'
_LONG = f'<!DOCTYPE x [<!ENTITY a "{"x" * 100_000}">]>'


def workbook(
    rows: Iterable[str],
    *,
    head: str = "",
    strings: str = "",
    styles: str = "",
    sheets: int = 1,
    encoding: str = "utf-8",
    target: str = "worksheets/sheet1.xml",
    more: dict[str, bytes] | None = None,
) -> bytes:
    """A workbook with these rows of XML; `head` stands before the sheet."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", _CONTENT)
        office = f'<Relationship Id="r1" Type="{_LINKS}/officeDocument" Target="xl/workbook.xml"/>'
        archive.writestr("_rels/.rels", _RELS.format(office))
        named = "".join(f'<sheet name="s{n}" sheetId="{n}" r:id="r{n}"/>' for n in range(1, sheets + 1))
        archive.writestr("xl/workbook.xml", _BOOK.format(named))
        links = "".join(
            f'<Relationship Id="r{n}" Type="{_LINKS}/worksheet" Target="{target}"/>' for n in range(1, sheets + 1)
        )
        archive.writestr("xl/_rels/workbook.xml.rels", _RELS.format(links))
        archive.writestr("xl/sharedStrings.xml", strings or f'<sst xmlns="{_SHEETS}"/>')
        if styles:
            archive.writestr("xl/styles.xml", styles)
        with archive.open(f"xl/{target}", "w") as member:
            member.write(f'{head}<worksheet xmlns="{_SHEETS}"><sheetData>'.encode(encoding))
            for row in rows:
                member.write(row.encode(encoding.removesuffix("-sig")))
            member.write("</sheetData></worksheet>".encode(encoding))
        for name, data in (more or {}).items():
            archive.writestr(name, data)
    return file.getvalue()


def text(reference: str, content: str) -> str:
    return f'<c r="{reference}" t="inlineStr"><is><t>{content}</t></is></c>'


def row(number: int, *cells: str) -> str:
    return f'<row r="{number}">{"".join(cells)}</row>'


def _entities(head: str, content: str, rows: int = 1) -> bytes:
    return workbook((row(n, text(f"A{n}", content)) for n in range(1, rows + 1)), head=head)


def _one_string(times: int, length: int) -> bytes:
    strings = f'<sst xmlns="{_SHEETS}"><si><t>{"x" * length}</t></si></sst>'
    return workbook((row(n, f'<c r="A{n}" t="s"><v>0</v></c>') for n in range(1, times + 1)), strings=strings)


def _parquet(columns: dict[str, pa.Array], **options: object) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, compression="zstd", **options)
    return file.getvalue()


def constants(rows: int, columns: int) -> bytes:
    zeros = pa.array(np.zeros(rows))
    return _parquet({f"c{n}": zeros for n in range(columns)})


def _distinct_texts() -> bytes:
    """Texts that no dictionary shortens, and that compression does."""
    return _parquet({"a": pa.array([f"{'x' * 3000}{n}" for n in range(60_000)])}, use_dictionary=False)


def _lists() -> bytes:
    zeros = pa.array(np.zeros(30_000_000, np.int8))
    offsets = pa.array(np.arange(0, 30_000_001, 3_000_000, dtype=np.int32))
    return _parquet({"a": pa.array(range(10)), "b": pa.ListArray.from_arrays(offsets, zeros)})


def _lying_zip() -> bytes:
    """A directory that promises little, and a member that unpacks to much."""
    whole = bytearray(workbook(row(n, text(f"A{n}", "x" * 1000)) for n in range(1, 200_000)))
    at = whole.rfind(b"PK\x01\x02", 0, whole.rfind(b"xl/worksheets/sheet1.xml"))
    whole[at + 24 : at + 28] = (1000).to_bytes(4, "little")
    return bytes(whole)


def _gzip(pieces: Iterable[bytes]) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([*(packer.compress(piece) for piece in pieces), packer.flush()])


def _wide_gzip() -> bytes:
    return _gzip(
        [b",".join(b"c%d" % n for n in range(100)) + b"\n", *[(b",".join([b"1"] * 100) + b"\n") * 10_000] * 90]
    )


BOMBS: dict[str, Callable[[], bytes]] = {
    "entities.xlsx": lambda: _entities(_LOL, "&l9;"),
    "entities behind a comment.xlsx": lambda: _entities(f"<!--{'x' * 6000}-->{_LOL}", "&l9;"),
    "entities behind a long comment.xlsx": lambda: _entities(f"<!--{'x' * 3_000_000}-->{_LOL}", "&l9;"),
    "one long entity, often.xlsx": lambda: _entities(f"<!--{'x' * 6000}-->{_LONG}", "&a;" * 15_000),
    "one long entity, in rows.xlsx": lambda: _entities(f"<!--{'x' * 6000}-->{_LONG}", "&a;" * 250, 59),
    "entities in UTF-16.xlsx": lambda: workbook(
        [], head=f'<?xml version="1.0" encoding="utf-16"?>{_LOL}', encoding="utf-16"
    ),
    "entities in EBCDIC.xlsx": lambda: workbook([], head=f'<?xml version="1.0" encoding="cp037"?>{_LOL}'),
    "entities in shared strings.xlsx": lambda: workbook(
        [row(1, '<c r="A1" t="s"><v>0</v></c>')],
        strings=f'<!--{"x" * 9000}-->{_LOL}<sst xmlns="{_SHEETS}"><si><t>&l9;</t></si></sst>',
    ),
    "entities in a picture.xlsx": lambda: workbook([row(1, text("A1", "&l9;"))], head=_LOL, target="media/image1.svg"),
    "sparse rows.xlsx": lambda: workbook(row(n, text(f"NTO{n}", "x")) for n in range(1, 20_001)),
    "sparse empty cells.xlsx": lambda: workbook(row(n, f'<c r="NTO{n}"/>') for n in range(1, 50_001)),
    "one wide row.xlsx": lambda: workbook(
        row(n, text(f"{'NTO' if n == 5 else 'B'}{n}", "x")) for n in range(1, 300_001)
    ),
    "a gap of rows.xlsx": lambda: workbook([row(1, text("A1", "x")), row(40_000_000, text("A40000000", "y"))]),
    "many gaps of rows.xlsx": lambda: workbook(row(n, text(f"A{n}", "x")) for n in range(1, 2_000_000_000, 10_000_000)),
    "one string, often.xlsx": lambda: _one_string(200_000, 32_000),
    "a string of 100 MB.xlsx": lambda: _one_string(2, 100_000_000),
    "cells of one row.xlsx": lambda: workbook(["<row>", *["<c><v>1</v></c>" * 1000] * 2000, "</row>"]),
    "nested elements.xlsx": lambda: workbook([row(1, "<c>" * 500_000 + "</c>" * 500_000)]),
    "styles.xlsx": lambda: workbook(
        [row(1, text("A1", "x"))],
        styles=f'<styleSheet xmlns="{_SHEETS}"><cellXfs>{"<xf/>" * 3_000_000}</cellXfs></styleSheet>',
    ),
    "sheets.xlsx": lambda: workbook([], sheets=100_000),
    "parts.xlsx": lambda: workbook([row(1, text("A1", "x"))], more={f"x/{n}": b"" for n in range(20_000)}),
    "lying directory.xlsx": _lying_zip,
    "constants 45M.parquet": lambda: constants(45_000_000, 10),
    "constants 10M.parquet": lambda: constants(10_000_000, 5),
    "long texts.parquet": lambda: _parquet(
        {"a": pa.DictionaryArray.from_arrays(np.zeros(2_000_000, np.int32), ["x" * 900_000])}
    ),
    "distinct texts.parquet": _distinct_texts,
    "lists.parquet": _lists,
    "wide.csv.gz": _wide_gzip,
    "members.csv.gz": lambda: gzip.compress(b"a,b\n") + gzip.compress(b"1,2\n" * 250_000) * 3_000,
    "parquet in gzip.gz": lambda: gzip.compress(constants(10_000_000, 5)),
}
