"""What is written in any dialect is read back the same, whatever the cells hold."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spu_core.errors import TableError
from spu_core.tables import Dialect, Reading, read_table

# Words that start with a letter and hold what dialects fight over; outer blanks are not kept by any reader of ours.
WORDS = st.text(alphabet="abcXYZäß,;|\t\"' \n", max_size=12).map(lambda text: "w" + text + "w")
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=64)
INTEGERS = st.integers(min_value=-(2**62), max_value=2**62)


def written(rows: list[list[Any]], dialect: Dialect) -> bytes:
    target = io.StringIO()
    writer = csv.writer(target, delimiter=dialect.separator or ",", quotechar=dialect.quote or '"')
    writer.writerow(["word", "number", "whole"])
    for word, number, whole in rows:
        text = repr(number).replace(".", dialect.decimal or ".")
        writer.writerow([word, text, whole])
    return target.getvalue().encode(dialect.encoding or "utf-8")


def reading_or_sentence(content: bytes) -> Reading | str:
    """What comes of any bytes; every other exception is a fault of ours."""
    try:
        reading = read_table(content).reading
    except TableError as error:
        return str(error)
    assert reading is not None
    return reading


@settings(max_examples=60)
@example(rows=[("w\n,,\nw", 0.0, 0)], separator=",", quote='"', encoding="utf-8")  # a line that looks like a row
@example(rows=[("w\na,b,c\nw", 0.0, 0)], separator=",", quote='"', encoding="utf-8")
@given(
    rows=st.lists(st.tuples(WORDS, NUMBERS, INTEGERS), min_size=1, max_size=30),
    separator=st.sampled_from([",", ";", "\t", "|"]),
    quote=st.sampled_from(['"', "'"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]),
)
def test_what_is_written_is_read_back_when_the_dialect_is_given(
    rows: list, separator: str, quote: str, encoding: str
) -> None:
    decimal = "," if separator == ";" else "."
    dialect = Dialect(separator=separator, quote=quote, encoding=encoding, decimal=decimal, thousands="", header=True)
    table = read_table(written(rows, dialect), dialect=dialect)

    assert table.reading.rejected_rows == 0
    assert table.frame["word"].tolist() == [word for word, _, _ in rows]
    assert table.frame["number"].tolist() == [number for _, number, _ in rows]
    assert table.frame["whole"].tolist() == [whole for _, _, whole in rows]


@settings(max_examples=60)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from(["red", "green", "dark blue"]), NUMBERS, INTEGERS), min_size=3, max_size=30
    ),
    separator=st.sampled_from([",", ";", "\t", "|"]),
    compress=st.booleans(),
)
def test_plain_tables_need_no_dialect(rows: list, separator: str, compress: bool) -> None:
    content = written(rows, Dialect(separator=separator))
    table = read_table(gzip.compress(content) if compress else content)

    assert table.reading.dialect.separator == separator
    assert table.frame["word"].tolist() == [word for word, _, _ in rows]
    assert table.frame["number"].tolist() == [number for _, number, _ in rows]


@settings(max_examples=100)
@given(st.binary(max_size=300))
def test_any_bytes_give_a_table_or_a_sentence(content: bytes) -> None:
    assert isinstance(reading_or_sentence(content), Reading | str)


@settings(max_examples=100)
@given(st.text(alphabet="ab1,;\"'\n\r\t .", max_size=120))
def test_any_text_gives_a_table_or_a_sentence(text: str) -> None:
    answer = reading_or_sentence(text.encode())

    assert isinstance(answer, str) or answer.rows > 0


@settings(max_examples=100)
@given(st.lists(st.sampled_from(["1,2,x", "3,4,y", "5,6,z", "7,8,x", "1,2", "1,2,3,4", "", ",,", "NA,,"]), max_size=60))
def test_rows_read_and_rejected_are_all_rows_of_the_file(lines: list[str]) -> None:
    lines = ["1,2,x"] * len(lines) + lines + ["9,9,w"]
    reading = read_table("\n".join(["a,b,c", *lines, ""]).encode()).reading

    assert reading.rows == sum(line.count(",") == 2 and line[-1] != "," for line in lines)
    assert reading.rejected_rows == sum(line in ("1,2", "1,2,3,4") for line in lines)
    assert reading.rows + reading.rejected_rows + reading.empty_lines == len(lines)


@settings(max_examples=20)
@given(cut=st.integers(min_value=4, max_value=1500), flip=st.integers(min_value=0, max_value=1500))
def test_a_damaged_parquet_file_gives_a_table_or_a_sentence(cut: int, flip: int) -> None:
    target = io.BytesIO()
    pd.DataFrame({"a": range(50), "b": list("xyxyx") * 10}).to_parquet(target)
    content = bytearray(target.getvalue())
    content[flip % len(content)] ^= 0x55
    for damaged in (bytes(content), bytes(content[:cut])):
        assert isinstance(reading_or_sentence(damaged), Reading | str)


def test_types_that_change_late_in_a_long_file_are_still_right() -> None:
    """A column is judged by all of its cells, not by the first megabytes."""
    rows = 150_000
    frame = pd.DataFrame(
        {"n": np.arange(rows), "x": np.arange(rows) / 4, "zip": np.arange(10_000, 10_000 + rows), "c": ["red"] * rows}
    )
    text = frame.to_csv(index=False) + "150000,many,00501,blue\n"
    table = read_table(text.encode())

    assert table.frame["zip"].iloc[0] == "10000"
    assert table.frame["zip"].iloc[-1] == "00501"
    assert table.frame["x"].iloc[4] == 1.0
    assert np.isnan(table.frame["x"].iloc[-1])
    assert table.frame["c"].iloc[-1] == "blue"
    assert {finding.code for finding in table.findings} >= {"leading_zeros", "mixed_column"}


def test_lines_are_numbered_right_across_blocks() -> None:
    good, bad = "1,abcdefghij\n", "1,2,3\n"
    text = "a,b\n" + good * 200_000 + bad + good * 200_000 + "\n" + bad + good
    reading = read_table(text.encode()).reading

    assert [item.line for item in reading.rejected] == [200_002, 400_004]
    assert reading.rows == 400_001
    assert reading.empty_lines == 1


@pytest.mark.parametrize("kind", ["path", "text path", "bytes", "file", "text file"])
def test_a_source_may_be_a_path_bytes_or_a_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "people.xlsx"  # the name says Excel, the content decides
    path.write_text("name,n\nÄnn,1\nBob,2\n", encoding="utf-8")
    source = {
        "path": path,
        "text path": str(path),
        "bytes": path.read_bytes(),
        "file": io.BytesIO(path.read_bytes()),
        "text file": io.StringIO(path.read_text(encoding="utf-8")),
    }[kind]
    table = read_table(source, name="people")

    assert table.frame["name"].tolist() == ["Änn", "Bob"]
    assert table.name == "people"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("/no/such/file.csv", "cannot be opened: No such file"),
        (".", "is a folder"),
        (12, "takes a path, bytes or a file object, got int"),
        ("a\0b", "is not a path"),
    ],
)
def test_a_source_that_is_none_gets_a_sentence(source: object, message: str) -> None:
    with pytest.raises(TableError, match=message):
        read_table(source)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"separator": ";,"}, "separator must be one character"),
        ({"separator": "a"}, "separator must be one character"),
        ({"encoding": "klingon"}, "encoding 'klingon' is not known"),
        ({"decimal": ",", "thousands": ","}, "cannot both be ','"),
        ({"quote": "x"}, "quote must be one of"),
        ({"quote": "'", "separator": "'"}, "cannot both be"),
    ],
)
def test_a_dialect_that_cannot_be_is_refused(options: dict, message: str) -> None:
    with pytest.raises(TableError, match=message):
        Dialect(**options)


@pytest.mark.parametrize(
    ("types", "message"), [({"b": "numbr"}, "cannot be read as 'numbr'"), ({"bb": "number"}, "Did you mean 'b'?")]
)
def test_types_that_cannot_be_are_refused(types: dict, message: str) -> None:
    with pytest.raises(TableError, match=message):
        read_table(b"a,b\n1,2\n", types=types)
