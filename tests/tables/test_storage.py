"""A stored table comes back whole, or is refused in words."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from spu_core.errors import TableError
from spu_core.tables import Table, read_table

CSV = b"user_id;zip;when;flag;amount;city;label\n" + b"".join(
    b"%d;0%d;2024-01-%02d;%s;%d,5;%s;%d\n"
    % (n, 500 + n, n % 28 + 1, [b"false", b"true"][n % 2], n, [b"a", b"b", b"c"][n % 3], n % 5 == 0)
    for n in range(40)
) + b"short;row\n"  # fmt: skip


def test_a_table_survives_its_parquet_file(tmp_path: Path) -> None:
    table = read_table(CSV, name="sales.csv").with_roles({"zip": "group"})
    table.to_parquet(tmp_path / "table.parquet")
    again = Table.from_parquet(tmp_path / "table.parquet")

    pd.testing.assert_frame_equal(again.frame, table.frame)
    assert dict(again.roles) == dict(table.roles)
    assert dict(again.types) == dict(table.types)
    assert again.positive_values == table.positive_values == (1,)
    assert again.reading == table.reading
    assert again.findings == table.findings
    assert again.fingerprint == table.fingerprint
    assert again.name == "sales.csv"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda note: note.replace('"schema": 2', '"schema": 99'), "has schema 99, but this version reads 2"),
        (lambda note: note.replace('"schema": 2', '"schema": 2, "schema": 2'), "has the key 'schema' twice"),
        (lambda note: note.replace('"schema": 2', '"schema": 2, "extra": 2'), "has an unknown field 'extra'"),
        (
            lambda note: note.replace('"positive_values": [1]', '"positive_values": [NaN]'),
            "holds NaN, which",
        ),
        (lambda note: note.replace('"label": "label"', '"label": "boss"'), "roles.label has an unknown value 'boss'"),
        (lambda note: note.replace('"line": 42', '"lime": 42'), "has an unknown field 'lime'"),
        (lambda note: note[:-3], "is not valid JSON"),
        (lambda note: "[" * 100_000, "is nested deeper"),
        (lambda note: json.dumps([1]), "must be an object, got a list"),
    ],
    ids=["schema", "twins", "extra", "NaN", "role", "field", "cut", "deep", "list"],
)
def test_a_changed_note_is_refused(tmp_path: Path, change: object, message: str) -> None:
    path = tmp_path / "table.parquet"
    read_table(CSV).to_parquet(path)
    values = pq.read_table(path)
    note = values.schema.metadata[b"spu_table"].decode()
    changed = change(note)  # type: ignore[operator]
    assert changed != note
    pq.write_table(values.replace_schema_metadata({**values.schema.metadata, b"spu_table": changed.encode()}), path)

    with pytest.raises(TableError, match=message):
        Table.from_parquet(path)


def test_a_foreign_parquet_file_is_sent_to_read_table(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "other.parquet")

    with pytest.raises(TableError, match="use read_table"):
        Table.from_parquet(tmp_path / "other.parquet")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="cannot be read as a stored table"):
        Table.from_parquet(tmp_path / "none.parquet")
