"""Another type for a column, and more missing marks: what changes is said before anything is stored."""

from __future__ import annotations

import pytest

from spu_core.errors import TableError
from spu_core.tables import ColumnType, Role, Table, read_table
from spu_core.tables.column_edits import edit_columns, soft_marks_of

CSV = b"code;price;size;day;note;label\n" + b"".join(
    b"%03d;%d,50;%s;%02d.01.2024;text %d;%d\n"
    % (row % 7, row, b"small" if row % 4 else b"unknown", row % 28 + 1, row, row % 5 == 0)
    for row in range(60)
)


@pytest.fixture(scope="module")
def table() -> Table:
    return read_table(CSV, name="claims.csv")


def test_a_mark_becomes_missing_in_one_column_and_is_counted_first(table):
    assert soft_marks_of(table) == {"size": ("unknown",)}

    edited, [change] = edit_columns(table, missing={"size": ["unknown"]})

    assert (change.lost, change.examples[0]) == (15, ("unknown", ""))
    assert change.text == "15 cells become missing; 1 distinct value."
    assert edited.frame["size"].isna().sum() == 15
    assert list(edited.frame["size"].cat.categories) == ["small"]
    assert table.frame["size"].isna().sum() == 0
    assert edited.fingerprint != table.fingerprint
    assert "level_like_missing" not in [finding.code for finding in edited.findings]


def test_numbers_become_categories_without_losing_zeros_and_come_back(table):
    codes, [change] = edit_columns(table, types={"price": "category"})
    assert (change.type_before, change.type_after) == (ColumnType.NUMBER, ColumnType.CATEGORY)
    assert codes.frame["price"].iloc[0] == "0,50"

    back, _ = edit_columns(codes, types={"price": "number"})
    assert back.frame["price"].tolist() == table.frame["price"].tolist()
    numbers, [change] = edit_columns(table, types={"code": "number"})
    assert numbers.frame["code"].tolist() == [row % 7 for row in range(60)]


def test_dates_become_text_as_they_are_written_and_their_role_follows(table):
    assert table.roles["day"] is Role.TIME
    text, [change] = edit_columns(table, types={"day": "text"})
    assert text.frame["day"].iloc[0] == "01.01.2024"
    assert text.roles["day"] is Role.TIME, "a role that somebody chose stays"

    back, _ = edit_columns(text, types={"day": "datetime"})
    assert back.frame["day"].tolist() == table.frame["day"].tolist()
    _, [change] = edit_columns(table, types={"note": "category"})
    assert (change.role_before, change.role_after) == (Role.IGNORE, Role.FEATURE)


def test_what_cannot_be_read_is_refused_in_words(table):
    with pytest.raises(TableError, match="No cell of column 'note' can be read as number"):
        edit_columns(table, types={"note": "number"})
    with pytest.raises(TableError, match="'size' cannot be read as dates"):
        edit_columns(table, types={"size": "datetime"})
    with pytest.raises(TableError, match="no column 'sice'"):
        edit_columns(table, missing={"sice": ["-"]})


def test_an_edited_table_is_stored_and_exports_its_cells_as_they_were_written(table, tmp_path):
    edited, _ = edit_columns(table, types={"price": "category"}, missing={"size": ["unknown"]})
    edited.to_parquet(tmp_path / "edited")
    again = Table.from_parquet(tmp_path / "edited")

    assert again.types == edited.types
    assert again.fingerprint == edited.fingerprint
    assert again.as_written(["size"])["size"].iloc[0] == "unknown"
    assert again.is_labeled.tolist() == table.is_labeled.tolist()
