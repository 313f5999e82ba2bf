"""Cells that nobody changed leave as they came: exports write the text of the file."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spu_core.tables import Table, read_table
from spu_core.tables.spreadsheet import to_csv

FILES = {
    "money": "item,price\na,$1.50\nb,-$2.00\nc,\"$1,200.00\"\n",
    "shares": "item,share\na,5%\nb,12 %\nc,7.5%\n",
    "fixed decimals": "item,x\na,12.50\nb,3.00\nc,0.25\n",
    "short numbers": "item,x\na,1\nb,2.5\nc,3\n",
    "exponents": "item,x\na,1e3\nb,2.5\nc,3\n",
    "whole numbers with gaps": "item,x\na,1\nb,\nc,3\n",
    "marks for nothing": "item,x\na,1.5\nb,NA\nc,2.5\n",
    "different marks for nothing": "item,x,w\na,1.5,?\nb,NA,x\nc,,\n",
    "a word among numbers": "item,x\n" + "".join(f"a{n},{n}\n" for n in range(40)) + "b,many\n",
    "German days": "item,day\na,31.01.2024\nb,01.02.2024\n",
    "American days": "item,day\na,01/31/2024\nb,\n",
    "moments": "item,at\na,2024-01-31T10:15:00\nb,2024-02-01T00:00:01\n",
    "flags": "item,flag\na,true\nb,FALSE\n",
    "leading zeros": "item,zip\na,00501\nb,10001\n",
    "signs": "item,x\na,+5\nb,-3\n",
    "words": "item,w\na,None\nb,high\n",
    "late money": "item,x\n" + "".join(f"a{n},{n}\n" for n in range(700)) + "b,$5\n",
}  # fmt: skip


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_an_export_writes_the_cells_of_the_file(text: str, tmp_path: Path) -> None:
    table = read_table(text.encode())
    table.to_parquet(tmp_path / "kept.parquet")

    assert to_csv(table.as_written()) == text
    assert to_csv(Table.from_parquet(tmp_path / "kept.parquet").as_written()) == text


def test_a_decimal_comma_comes_back() -> None:
    table = read_table(b"item;x\na;1,50\nb;1.234,25\nc;7,00\n")

    assert table.as_written()["x"].tolist() == ["1,50", "1.234,25", "7,00"]
    assert table.frame["x"].tolist() == [1.5, 1234.25, 7.0]


def test_some_rows_and_columns_are_written_alike() -> None:
    table = read_table(FILES["money"].encode())

    assert table.as_written(["price"], [2, 0])["price"].tolist() == ["$1,200.00", "$1.50"]
    assert table.only([2, 1]).as_written()["price"].tolist() == ["$1,200.00", "-$2.00"]
    assert table.only([False, True, False]).frame["price"].tolist() == [-2.0]


def test_plain_columns_keep_nothing_beside_them() -> None:
    rows = "".join(f"{n},{n / 8},2024-01-{n % 28 + 1:02d},word {n % 3}\n" for n in range(1, 200))
    table = read_table(f"n,x,day,w\n{rows}".encode())

    assert not table.written


def test_a_number_that_needs_more_digits_than_its_notation_keeps_them() -> None:
    rows = "".join(f"a,{n}.50\n" for n in range(600))
    table = read_table(f"w,x\n{rows}a,0.125\n".encode())

    assert table.as_written()["x"].tolist()[-2:] == ["599.50", "0.125"]


def test_lines_that_hold_nothing_do_not_shift_the_text(tmp_path: Path) -> None:
    table = read_table(b"a,b\n$1,x\n\nNA,NA\n$2,?\nshort\n$3,NA\n")

    assert table.as_written()["a"].tolist() == ["$1", "$2", "$3"]
    assert table.as_written()["b"].tolist() == ["x", "?", "NA"]


def test_the_text_beside_a_column_is_no_column_of_a_stored_table(tmp_path: Path) -> None:
    path = tmp_path / "kept.parquet"
    read_table(FILES["money"].encode()).to_parquet(path)

    assert list(Table.from_parquet(path).frame.columns) == ["item", "price"]
    assert list(read_table(path).frame.columns) == ["item", "price"]


def test_a_table_that_was_stored_without_texts_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.parquet"
    read_table(b"a,b\n1,x\n2,y\n").to_parquet(path)
    values = pq.read_table(path)
    note = json.loads(values.schema.metadata[b"spu_table"])
    del note["written"]
    note["schema"] = 1
    metadata = {**values.schema.metadata, b"spu_table": json.dumps(note).encode()}
    pq.write_table(values.replace_schema_metadata(metadata), path)

    again = Table.from_parquet(path)

    assert again.frame["a"].tolist() == [1, 2]
    assert not again.written


def test_text_mode_returns_every_cell_as_it_stands() -> None:
    content = b'id,price,day,note\n007, $1.50,31.01.2024,NA\n008,, ,"a, b"\n'
    table = read_table(content, types="text")

    assert table.frame.to_numpy().tolist() == [["007", " $1.50", "31.01.2024", "NA"], ["008", "", " ", "a, b"]]
    assert set(table.types.values()) == {"text"}


def test_text_mode_is_the_only_word_for_all_columns() -> None:
    with pytest.raises(ValueError, match="types must be 'text'"):
        read_table(b"a,b\n1,2\n", types="number")  # type: ignore[arg-type]
