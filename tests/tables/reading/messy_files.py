"""Messy and hostile files, each with the reading it must get: values, rejected lines, findings or an error."""

# ruff: noqa: E501 - one line for each file reads as a table

from __future__ import annotations

import datetime
import gzip
import io
import json
import pickle
import zipfile
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

NAN = float("nan")


@dataclass(frozen=True)
class Messy:
    """A file and what must come of it; findings are those beyond information, and `notes` those for information."""

    name: str
    content: bytes
    values: dict[str, list[Any]] = field(default_factory=dict)
    rejected: dict[int, str] = field(default_factory=dict)
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    dialect: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    error: str | None = None

    def __str__(self) -> str:
        return self.name


PLAIN = {"name": ["Ann", "Bob", "Eve"], "amount": [1.5, 2.5, -3.0]}
PLAIN_CSV = "name,amount\nAnn,1.5\nBob,2.5\nEve,-3.0\n"
MANY = "".join(f"{n},{n % 7},w{n % 3}\n" for n in range(100))


def all_files() -> list[Messy]:
    return [*dialects(), *encodings(), *layouts(), *ragged(), *cells(), *columns(), *dates(), *containers(), *refused()]


def dialects() -> list[Messy]:
    text = "name{s}amount\nAnn{s}1.5\nBob{s}2.5\nEve{s}-3.0\n"
    separated = [
        Messy(f"separator {word}", text.format(s=s).encode(), PLAIN, dialect={"separator": s})
        for s, word in (
            (",", "comma"),
            (";", "semicolon"),
            ("\t", "tab"),
            ("|", "pipe"),
            ("^", "caret"),
            ("~", "tilde"),
        )
    ]
    return [
        *separated,
        Messy("separator colon", b"a:b:c\n1:2:3\n4:5:6\n", {"a": [1, 4], "c": [3, 6]}, dialect={"separator": ":"}),
        Messy("separator unit sign", b"a\x1fb\n1\x1fx\n2\x1fy\n", {"a": [1, 2]}, dialect={"separator": "\x1f"}),
        Messy("separator space", b"a b c\n1 2 3\n4 5 6\n", {"b": [2, 5]}, dialect={"separator": " "}),
        Messy("CR LF", PLAIN_CSV.replace("\n", "\r\n").encode(), PLAIN),
        Messy("CR alone", PLAIN_CSV.replace("\n", "\r").encode(), PLAIN),
        Messy("mixed line ends", b"name,amount\r\nAnn,1.5\nBob,2.5\rEve,-3.0\r\n", PLAIN),
        Messy("no last line end", PLAIN_CSV.strip().encode(), PLAIN),
        Messy("blank after comma", b"name, amount\nAnn, 1.5\nBob, 2.5\nEve, -3.0\n", PLAIN),
        Messy("all quoted", b'"name","amount"\n"Ann","1.5"\n"Bob","2.5"\n"Eve","-3.0"\n', PLAIN),
        Messy("single quotes", b"name,amount\n'Ann',1.5\n'Bob',2.5\n'Eve',-3.0\n'A,B',4\n", {"name": ["Ann", "Bob", "Eve", "A,B"]}, dialect={"quote": "'"}),
        Messy("separator inside quotes", b'name,amount\n"Lee, Ann",1\n"Doe, Bob",2\n', {"name": ["Lee, Ann", "Doe, Bob"], "amount": [1, 2]}),
        Messy("doubled quotes", b'name,amount\n"say ""hi""",1\nBob,2\n', {"name": ['say "hi"', "Bob"]}),
        Messy("line break inside quotes", b'name,amount\n"Ann\nLee",1\nBob,2\n', {"name": ["Ann\nLee", "Bob"], "amount": [1, 2]}),
        Messy("semicolon with decimal comma", b"x;y\n1,5;2\n2,25;3\n", {"x": [1.5, 2.25], "y": [2, 3]}, dialect={"separator": ";", "decimal": ","}),
        Messy("semicolon in comma text", b"name,note\nAnn,a; b\nBob,c; d\nEve,e; f\n", {"note": ["a; b", "c; d", "e; f"]}, dialect={"separator": ","}),
        Messy("commas in tab text", b"name\tnote\nAnn\tx, y, z\nBob\tp, q\nEve\tr\n", {"note": ["x, y, z", "p, q", "r"]}, dialect={"separator": "\t"}),
        Messy("pipe with commas", b"id|text|n\n1|a, b|3\n2|c|4\n3|d, e, f|5\n", {"n": [3, 4, 5]}, dialect={"separator": "|"}),
        Messy("given separator wins", b"a;b,c\n1;2,3\n4;5,6\n", {"a;b": ["1;2", "4;5"], "c": [3, 6]}, options={"separator": ","}),
        Messy("quotes switched off", b'a,b\n5",x\n6",y\n', {"a": ['5"', '6"']}, options={"quote": ""}),
        Messy("inch marks", b'size,n\n5" pipe,1\n6" pipe,2\n', {"size": ['5" pipe', '6" pipe'], "n": [1, 2]}),
        Messy("one column", b"value\n1\n2\n3\n", {"value": [1, 2, 3]}, findings=("one_column",)),
    ]  # fmt: skip


def encodings() -> list[Messy]:
    text = "name,city\nJosé,Köln\nZoë,Málaga\nBjörn,Århus\n"
    words = {"name": ["José", "Zoë", "Björn"], "city": ["Köln", "Málaga", "Århus"]}
    cyrillic = "имя,город\n" + "Анна,Москва\nБорис,Казань\nЕва,Самара\nОлег,Пермь\n" * 5
    damaged = ("name,city\n" + "José,Köln\n" * 20).encode() + b"Zo\xeb,Bonn\n"
    return [
        Messy("UTF-8", text.encode(), words, dialect={"encoding": "utf-8"}),
        Messy("UTF-8 with BOM", text.encode("utf-8-sig"), words, dialect={"encoding": "utf-8-sig"}),
        Messy("UTF-16 with BOM", text.encode("utf-16"), words, dialect={"encoding": "utf-16"}),
        Messy("UTF-16 big-endian with BOM", b"\xfe\xff" + text.encode("utf-16-be"), words),
        Messy("UTF-16 without BOM", text.encode("utf-16-le"), words, dialect={"encoding": "utf-16-le"}),
        Messy("UTF-16 big-endian without BOM", text.encode("utf-16-be"), words, dialect={"encoding": "utf-16-be"}),
        Messy("UTF-32", text.encode("utf-32"), words),
        Messy("latin-1", text.encode("latin-1"), words, dialect={"encoding": "cp1252"}),
        Messy("cp1252 with euro sign", "name,price\nAnn,5 €\nBob,6 €\n".encode("cp1252"), {"price": [5, 6]}, notes=("units_removed",)),
        Messy("cp1251", cyrillic.encode("cp1251"), {"имя": ["Анна", "Борис", "Ева", "Олег"] * 5}, dialect={"encoding": "cp1251"}),
        Messy("given encoding wins", "a,b\né,1\nü,2\n".encode("cp437"), {"a": ["é", "ü"]}, options={"encoding": "cp437"}),
        Messy("UTF-8 with one damaged line", damaged, {"city": ["Köln"] * 20 + ["Bonn"]}, findings=("undecodable_bytes",)),
        Messy("NUL padding at the end", PLAIN_CSV.encode() + b"\x00" * 300, PLAIN, findings=("nul_bytes",)),
        Messy("NUL bytes between rows", b"name,amount\nAnn,1.5\n\x00\x00\x00Bob,2.5\nEve,-3.0\n", PLAIN, findings=("nul_bytes",)),
        Messy("emoji", "name,n\n😀,1\n😎,2\n".encode(), {"name": ["😀", "😎"]}),
        Messy("line separator inside a cell", "name,n\na\u2028b,1\nc\x85d,2\n".encode(), {"n": [1, 2]}),
    ]  # fmt: skip


def layouts() -> list[Messy]:
    return [
        Messy("no header", b"Ann,1.5\nBob,2.5\nEve,-3.0\n", {"column_1": ["Ann", "Bob", "Eve"], "column_2": [1.5, 2.5, -3.0]}, findings=("no_header",)),
        Messy("header switched off", b"a,b\nc,d\n", {"column_1": ["a", "c"]}, options={"header": False}, notes=("no_header",)),
        Messy("header switched on", b"1,2\n3,4\n", {"1": [3], "2": [4]}, options={"header": True}),
        Messy("years as header", b"country,2019,2020\nA,1,2\nB,3,4\n", {"2019": [1, 3]}),
        Messy("title above", b"Sales 2024\n\nname,amount\nAnn,1.5\nBob,2.5\nEve,-3.0\n", PLAIN, notes=("preamble",)),
        Messy("comments above", b"# made by tool, v1\n# second\nname,amount\nAnn,1.5\nBob,2.5\nEve,-3.0\n", PLAIN, notes=("preamble",)),
        Messy("blank lines above", b"\n\n\n" + PLAIN_CSV.encode(), PLAIN),
        Messy("blank lines between", b"name,amount\n\nAnn,1.5\n\n\nBob,2.5\nEve,-3.0\n\n", PLAIN, notes=("empty_lines",)),
        Messy("empty Excel rows at the end", PLAIN_CSV.encode() + b",\n" * 50, PLAIN),
        Messy("duplicate names", b"a,a,b\n1,2,3\n4,5,6\n", {"a": [1, 4], "a_2": [2, 5], "b": [3, 6]}, findings=("duplicate_header",)),
        Messy("duplicate that meets a number", b"a,a,a_2\n1,2,3\n4,5,6\n", {"a": [1, 4], "a_3": [2, 5], "a_2": [3, 6]}, findings=("duplicate_header",)),
        Messy("empty names", b"a,,c\n1,2,3\n4,5,6\n", {"a": [1, 4], "column_2": [2, 5], "c": [3, 6]}, findings=("empty_header",)),
        Messy("names with line breaks", b'"first\nname",n\nAnn,1\nBob,2\n', {"first name": ["Ann", "Bob"]}),
        Messy("trailing separator in rows", b"a,b,c\n1,2,3,\n4,5,6,\n", {"a": [1, 4], "c": [3, 6]}, notes=("trailing_separator",)),
        Messy("trailing separator everywhere", b"a,b,\n1,2,\n3,4,\n", {"a": [1, 3], "b": [2, 4]}, findings=("empty_header",)),
        Messy("row names of R", b"x,y,z\nr1,1,2,3\nr2,4,5,6\n", {"row_name": ["r1", "r2"], "x": [1, 4]}, findings=("row_names",)),
        Messy("header is repeated", b"name,amount\nAnn,1.5\nname,amount\nBob,2.5\nEve,-3.0\n", PLAIN, rejected={3: "repeats the header"}, findings=("repeated_header",)),
        Messy("total at the end", b"name,amount\nAnn,1.5\nBob,2.5\nEve,-3.0\nTotal,1.0\n", PLAIN, rejected={5: "sums up"}, findings=("total_row",)),
        Messy("footer", PLAIN_CSV.encode() + b"(3 rows)\n", PLAIN, rejected={5: "has 1 field "}, findings=("ragged_rows",)),
        Messy("stacked tables of one width", b"id,name\n" + b"".join(b"%d,x\n" % n for n in range(60)) + b",\nkey,name\n1,y\n2,z\n", findings=("stacked_tables", "mixed_column")),
        Messy("stacked tables of two widths", b"id,name,n\n" + b"1,x,2\n" * 8 + b"\ncode,text\n7,y\n8,z\n", {"id": [1] * 8}, rejected={11: "has 2 fields", 12: "has 2", 13: "has 2"}, findings=("ragged_rows", "stacked_tables", )),
        Messy("header only", b"name,amount\n", error="no rows below its header"),
        Messy("words only", b"name,city\nAnn,Bonn\nBob,Rome\nEve,Oslo\n", {"name": ["Ann", "Bob", "Eve"]}),
        Messy("markup in cells", b"<b>name</b>,n\n<script>alert(1)</script>,1\n=1+1,2\n", {"<b>name</b>": ["<script>alert(1)</script>", "=1+1"]}),
    ]  # fmt: skip


def ragged() -> list[Messy]:
    rows = "a,b,c\n" + "1,2,3\n" * 6
    return [
        Messy("a short row", b"a,b,c\n1,2,3\n4,5\n7,8,9\n", {"a": [1, 7]}, rejected={3: "has 2 fields where 3 are expected"}, findings=("ragged_rows",)),
        Messy("a long row", b"a,b,c\n1,2,3\n4,5,6,7\n7,8,9\n", {"a": [1, 7]}, rejected={3: "has 4 fields where 3 are expected"}, findings=("ragged_rows",)),
        Messy("a short first row", b"a,b,c\n4,5\n1,2,3\n7,8,9\n1,1,1\n", {"a": [1, 7, 1]}, rejected={2: "has 2 fields"}, findings=("ragged_rows",)),
        Messy("several bad rows", (rows + "1\n1,2,3\n1,2,3,4\n").encode(), {"a": [1] * 7}, rejected={8: "has 1 field ", 10: "has 4 fields"}, findings=("ragged_rows",)),
        Messy("a bad row after a line break in a cell", b'a,b\n"x\ny",1\nz\nw,2\n', {"a": ["x\ny", "w"]}, rejected={4: "has 1 field "}, findings=("ragged_rows",)),
        Messy("a bad row after blank lines", b"a,b\n1,2\n\n\n3\n4,5\n", {"a": [1, 4]}, rejected={5: "has 1 field "}, findings=("ragged_rows",), notes=("empty_lines",)),
        Messy("a bad row below a title", b"Title\na,b\n1,2\n3\n4,5\n6,7\n", {"a": [1, 4, 6]}, rejected={4: "has 1 field "}, findings=("ragged_rows",), notes=("preamble",)),
        Messy("a quote never closed", b'a,b\n1,x\n2,"y\n3,z\n4,w\n', {"a": [1, 3, 4], "b": ["x", "z", "w"]}, rejected={3: "opens a quote that is never closed"}, findings=("unclosed_quote",)),
        Messy("two quotes never closed", b'a,b\n1,x\n2,"y\n3,z\n4,"w\n5,v\n', {"a": [1, 3, 5]}, rejected={3: "opens a quote", 5: "opens a quote"}, findings=("unclosed_quote",)),
        Messy("most rows bad", b"a,b,c\n1,2,3\n" + b"1,2\n1\n1,2,3,4\n4,5,6\n7\n1,2\n", error="do not fit"),
        Messy("cut in the last row", b"a,b,c\n1,2,3\n4,5,6\n7,8", {"a": [1, 4]}, rejected={4: "has 2 fields"}, findings=("ragged_rows",)),
    ]  # fmt: skip


def cells() -> list[Messy]:
    return [
        Messy("missing marks among numbers", b"x,y\n1,a\nNA,b\n3,c\n?,d\n,e\nnull,f\n", {"x": [1.0, NAN, 3.0, NAN, NAN, NAN]}),
        Messy("soft marks among numbers", b"x,y\n1,a\nNone,b\n3,c\n-,d\nunknown,e\n", {"x": [1.0, NAN, 3.0, NAN, NAN]}),
        Messy("None among words", b"x,y\nNone,1\nhigh,2\nlow,3\nNone,4\n", {"x": ["None", "high", "low", "None"]}, notes=("level_like_missing",)),
        Messy("question mark among words", b"x, y\nPrivate, 1\n?, 2\nState, 3\n", {"x": ["Private", None, "State"]}),
        Messy("padded question mark", b"n, x\n1, Private\n2, ?\n3, State\n", {"x": ["Private", None, "State"]}),
        Messy("own missing mark", b"x,y\nred,1\nkeine,2\nblue,-999\n", {"x": ["red", None, "blue"], "y": [1.0, 2.0, NAN]}, options={"missing": ("keine", "-999")}),
        Messy("leading zeros", b"zip,n\n00501,1\n10001,2\n02134,3\n", {"zip": ["00501", "10001", "02134"]}, notes=("leading_zeros",)),
        Messy("zero is a number", b"x,y\n0,0.5\n10,0.25\n-0,00.5\n", {"x": [0, 10, 0], "y": [0.5, 0.25, 0.5]}),
        Messy("hexadecimal", b"x,n\n0x10,1\n0x1F,2\n", {"x": ["0x10", "0x1F"]}),
        Messy("huge integers", b"n,k\n12345678901234567890123,1\n12345678901234567890124,2\n", {"n": ["12345678901234567890123", "12345678901234567890124"]}, notes=("huge_integers",)),
        Messy("long integers", b"n,k\n9007199254740993,1\n9007199254740995,2\n", {"n": [9007199254740993, 9007199254740995]}),
        Messy("long integers with gaps", b"n,k\n9007199254740993,1\n,2\n9007199254740995,3\n", {"n": ["9007199254740993", None, "9007199254740995"]}, notes=("huge_integers",)),
        Messy("infinite", b"x,y\n1.5,1\ninf,2\n-Infinity,3\n1e999,4\n", {"x": [1.5, np.inf, -np.inf, np.inf]}, findings=("infinite_values",)),
        Messy("exponents and signs", b"x,y\n1e3,1\n-2.5E-1,2\n+4,3\n.5,4\n6.,5\n", {"x": [1000.0, -0.25, 4.0, 0.5, 6.0]}),
        Messy("thousands comma", b'x,y\n"1,234",1\n"12,345,678",2\n56,3\n', {"x": [1234, 12345678, 56]}, dialect={"thousands": ","}),
        Messy("thousands point and decimal comma", b"x;y\n1.234,50;1\n2,5;2\n12.345.678,00;3\n", {"x": [1234.5, 2.5, 12345678.0]}, dialect={"decimal": ",", "thousands": "."}),
        Messy("thousands blank", "x;y\n1\u202f234,5;1\n12 345,25;2\n3,5;3\n".encode(), {"x": [1234.5, 12345.25, 3.5]}, dialect={"thousands": " "}),
        Messy("thousands apostrophe", b"x;y\n1'234.50;1\n12'345.25;2\n", {"x": [1234.5, 12345.25]}, dialect={"thousands": "'"}),
        Messy("three decimals with a point", b"x,y\n1.234,a\n5.678,b\n", {"x": [1.234, 5.678]}, dialect={"thousands": ""}),
        Messy("three decimals with a comma", b"x;y\n1,234;a\n5,678;b\n", {"x": [1.234, 5.678]}, dialect={"decimal": ","}),
        Messy("a list is no number", b'x;y\n1,2,3;1\n4,5,6;2\n', {"x": ["1,2,3", "4,5,6"]}),
        Messy("given decimal wins", b"x;y\n1,234;a\n5,678;b\n", {"x": [1234, 5678]}, options={"decimal": ".", "thousands": ","}),
        Messy("currency", b'x,y\n"$1,200.50",1\n$3.25,2\n$4.00,3\n', {"x": [1200.5, 3.25, 4.0]}, notes=("units_removed",)),
        Messy("percent", b"x,y\n12%,1\n3.5 %,2\n", {"x": [12.0, 3.5]}, notes=("units_removed",)),
    ]  # fmt: skip


def columns() -> list[Messy]:
    mostly = b"x,n\n" + b"".join(b"%d,%d\n" % (n, n) for n in range(99)) + b"oops,99\n"
    codes = b"x,n\n" + b"".join(b"%d,1\n" % n for n in range(400)) + b"".join(b"V%d,1\n" % n for n in range(7))
    half = b"x,n\n" + b"1,1\n2,2\n3,3\nx1,4\nx2,5\n"
    ids = "user_id,score\n" + "".join(f"u{n:04d},{n % 5}\n" for n in range(60))
    prose = "text,n\n" + "".join(f"this is note number {n} of many,{n % 5}\n" for n in range(60))
    return [
        Messy("a word among numbers", mostly, {"x": [float(n) for n in range(99)] + [NAN]}, findings=("mixed_column",), types={"x": "number"}),
        Messy("codes among numbers", codes, {"x": [*map(str, range(400)), *(f"V{n}" for n in range(7))]}, findings=("mixed_column",)),
        Messy("words and numbers", half, {"x": ["1", "2", "3", "x1", "x2"]}, findings=("mixed_column",), types={"x": "category"}),
        Messy("true and false", b"x,n\ntrue,1\nFALSE,2\nTrue,3\n", {"x": [True, False, True]}, types={"x": "boolean"}),
        Messy("true and gaps", b"x,n\ntrue,1\n,2\nfalse,3\n", {"x": [True, None, False]}, types={"x": "boolean"}),
        Messy("identifiers", ids.encode(), types={"user_id": "identifier", "score": "number"}),
        Messy("prose", prose.encode(), types={"text": "text"}),
        Messy("a column without values", b"a,b,c\n1,,x\n2,,y\n", {"a": [1, 2], "b": [NAN, NAN]}, findings=("empty_column",)),
        Messy("a constant column", b"a,b\n1,x\n2,x\n", {"b": ["x", "x"]}, notes=("constant_column",)),
        Messy("minus one and one as label", b"f,label\n1,-1\n2,1\n3,-1\n", {"label": [-1, 1, -1]}, notes=("label_guessed",)),
        Messy("number asked as text", b"code,n\n10,1\n20,2\n", {"code": ["10", "20"]}, options={"types": {"code": "category"}}, types={"code": "category"}),
        Messy("text asked as number", b"x,n\n1,1\nbad,2\n007,3\n", {"x": [1.0, NAN, 7.0]}, options={"types": {"x": "number"}}, findings=("mixed_column",)),
    ]  # fmt: skip


def dates() -> list[Messy]:
    def day(*parts: int) -> datetime.datetime:
        return datetime.datetime(*parts)  # type: ignore[arg-type]

    return [
        Messy("ISO dates", b"d,n\n2024-01-31,1\n2024-02-01,2\n", {"d": [day(2024, 1, 31), day(2024, 2, 1)]}, types={"d": "datetime"}),
        Messy("ISO times", b"d,n\n2024-01-31T10:15:00,1\n2024-02-01T00:00:01,2\n", {"d": [day(2024, 1, 31, 10, 15), day(2024, 2, 1, 0, 0, 1)]}),
        Messy("German dates", b"d;n\n31.01.2024;1\n01.02.2024;2\n", {"d": [day(2024, 1, 31), day(2024, 2, 1)]}),
        Messy("British dates", b"d,n\n31/01/2024,1\n01/02/2024,2\n", {"d": [day(2024, 1, 31), day(2024, 2, 1)]}),
        Messy("American dates", b"d,n\n01/31/2024,1\n02/01/2024,2\n", {"d": [day(2024, 1, 31), day(2024, 2, 1)]}),
        Messy("dates that fit both", b"d,n\n01/02/2024,1\n03/04/2024,2\n", {"d": [day(2024, 1, 2), day(2024, 3, 4)]}, findings=("ambiguous_dates",)),
        Messy("dates with gaps", b"d,n\n2024-01-31,1\n,2\nNone,3\n", {"d": [day(2024, 1, 31), None, None]}),
        Messy("dates with a word", b"d,n\n2024-01-31,1\nsoon,2\n2024-02-01,3\n", {"d": ["2024-01-31", "soon", "2024-02-01"]}),
        Messy("impossible date", b"d,n\n2024-02-30,1\n2024-02-01,2\n", {"d": ["2024-02-30", "2024-02-01"]}),
    ]  # fmt: skip


def containers() -> list[Messy]:
    frame = pd.DataFrame(PLAIN)
    return [
        Messy("gzip", gzip.compress(PLAIN_CSV.encode()), PLAIN),
        Messy("gzip of two parts", gzip.compress(b"name,amount\nAnn,1.5\n") + gzip.compress(b"Bob,2.5\nEve,-3.0\n"), PLAIN),
        Messy("gzip with padding", gzip.compress(PLAIN_CSV.encode()) + b"\x00" * 100, PLAIN),
        Messy("gzip of UTF-16", gzip.compress(PLAIN_CSV.encode("utf-16")), PLAIN),
        Messy("gzip of parquet", gzip.compress(parquet_bytes(frame)), PLAIN),
        Messy("parquet", parquet_bytes(frame), PLAIN),
        Messy("parquet with a list column", parquet_bytes(frame.assign(l=[[1], [2, 3], []])), PLAIN, findings=("nested_column",)),
        Messy("parquet with gaps", parquet_bytes(pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": ["x", None]})), {"a": [1.0, NAN], "b": ["x", None]}),
        Messy("Excel", excel_bytes([["name", "amount"], ["Ann", 1.5], ["Bob", 2.5], ["Eve", -3]]), PLAIN),
        Messy("Excel with a title", excel_bytes([["Report"], [], ["name", "amount"], ["Ann", 1.5], ["Bob", 2.5], ["Eve", -3]]), PLAIN, notes=("preamble",)),
        Messy("Excel with codes, dates and flags", excel_bytes([["zip", "d", "f"], ["00501", datetime.datetime(2024, 1, 31), True], ["10001", datetime.datetime(2024, 2, 1), False]]), {"zip": ["00501", "10001"], "d": [datetime.datetime(2024, 1, 31), datetime.datetime(2024, 2, 1)], "f": [True, False]}),
        Messy("Excel with short rows", excel_bytes([["a", "b", "c"], [1, 2, 3], [4], [None, 8, 9]]), {"a": [1.0, 4.0, NAN], "c": [3.0, NAN, 9.0]}),
        Messy("Excel with two sheets", excel_bytes([["a", "b"], [1, 2], [3, 4]], second=[["x"], [1]]), {"a": [1, 3]}, findings=("several_sheets",)),
        Messy("Excel with the second sheet asked", excel_bytes([["a", "b"], [1, 2]], second=[["x", "y"], [5, 6], [7, 8]]), {"x": [5, 7]}, options={"sheet": "second"}),
    ]  # fmt: skip


def refused() -> list[Messy]:
    random = np.random.default_rng(0).bytes(5000)
    html = b"<!DOCTYPE html>\n<html><body>Please log in</body></html>"
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("data.csv", PLAIN_CSV)
        archive.writestr("other.csv", PLAIN_CSV)
    return [
        Messy("empty file", b"", error="is empty"),
        Messy("blanks only", b"  \n \n\n", error="contains only blanks"),
        Messy("NUL bytes only", b"\x00" * 1000, error="only NUL bytes"),
        Messy("random bytes", b"\x01" + random, error="binary data"),
        Messy("HTML page", html, error="is an HTML page"),
        Messy("HTML page with BOM", b"\xef\xbb\xbf  " + html, error="is an HTML page"),
        Messy("XML", b'<?xml version="1.0"?><a/>', error="is an XML document"),
        Messy("JSON", json.dumps([{"a": 1}]).encode(), error="is a JSON document"),
        Messy("PDF", b"%PDF-1.7 ...", error="is a PDF document"),
        Messy("PNG", b"\x89PNG\r\n\x1a\n" + random, error="is a PNG image"),
        Messy("old Excel", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + random, error="old Excel"),
        Messy("SQLite", b"SQLite format 3\x00" + random, error="is an SQLite database"),
        Messy("pickle", pickle.dumps({"a": 1}, protocol=4), error="could run code"),
        Messy("bzip2", b"BZh91AY" + random, error="is a bzip2 archive"),
        Messy("zip of two files", zipped.getvalue(), error="is a zip archive with 2 files ('data.csv', 'other.csv')"),
        Messy("broken zip", b"PK\x03\x04" + random, error="damaged zip or Excel file"),
        Messy("broken gzip", gzip.compress(PLAIN_CSV.encode())[:20] + random, error="is a damaged gzip file"),
        Messy("cut gzip", gzip.compress((PLAIN_CSV * 500).encode())[:60], error="ends too early"),
        Messy("gzip of gzip", gzip.compress(gzip.compress(b"a,b\n1,2\n")), error="compressed twice"),
        Messy("broken parquet", b"PAR1" + random + b"PAR1", error="is a damaged parquet file"),
        Messy("cut parquet", parquet_bytes(pd.DataFrame(PLAIN))[:-30], error="is a damaged parquet file"),
        Messy("parquet without rows", parquet_bytes(pd.DataFrame(PLAIN).head(0)), error="has no rows"),
        Messy("Excel without cells", excel_bytes([]), error="no sheet with cells"),
        Messy("Excel with entities", _with_entities(), error="defines XML entities"),
        Messy("Excel with a sheet that is not there", excel_bytes([["a"], [1]]), options={"sheet": "other"}, error="has no sheet 'other'"),
    ]  # fmt: skip


def parquet_bytes(frame: pd.DataFrame) -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), target)
    return target.getvalue()


def excel_bytes(rows: list[list[Any]], second: list[list[Any]] | None = None) -> bytes:
    from openpyxl import Workbook

    book = Workbook()
    page = book.active
    assert page is not None
    for row in rows:
        page.append(row)
    for row in second or []:
        (book["second"] if "second" in book.sheetnames else book.create_sheet("second")).append(row)
    target = io.BytesIO()
    book.save(target)
    return target.getvalue()


def _with_entities() -> bytes:
    source, target = zipfile.ZipFile(io.BytesIO(excel_bytes([["a"], ["x"]]))), io.BytesIO()
    laughs = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><sst>&b;</sst>'
    with zipfile.ZipFile(target, "w") as archive:
        for member in source.infolist():
            is_text = member.filename == "xl/workbook.xml"
            archive.writestr(member.filename, laughs if is_text else source.read(member.filename))
    return target.getvalue()
