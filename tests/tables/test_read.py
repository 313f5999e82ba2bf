"""A text file converted to a folder is the table that reading it gives; nothing is read with less care."""

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import TableError
from spu_core.tables import convert_table, read_table
from spu_core.tables import table_reader as converting
from tests.tables.folders import mixed_frame

MESSY = (
    "Export of 2024\n\nname;amount;day;code;note\n"
    + "".join(f"Ann{n % 7};{n},5;{1 + n % 28}.02.2024;{n:05d};text number {n}\n" for n in range(400))
    + "too;few\n"
    + "Bob;n/a;31.01.2024;00099;the last\n"
)


def as_csv(rows: int) -> bytes:
    return mixed_frame(rows).to_csv(index=False).encode()


@pytest.mark.parametrize("content", [as_csv(700), MESSY.encode("cp1252")], ids=["plain", "messy"])
def test_a_converted_file_is_the_table_that_reading_gives(tmp_path, monkeypatch, content):
    monkeypatch.setattr(converting, "FILE_ROWS", 150)
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    table = read_table(path)

    folder, reading = convert_table(path, tmp_path / "folder")

    again = folder.read()
    assert len(folder.store.files) > 1
    assert again.fingerprint == table.fingerprint == folder.fingerprint
    assert dict(folder.types) == dict(table.types)
    assert dict(folder.roles) == dict(table.roles)
    pd.testing.assert_frame_equal(again.frame, table.frame, check_dtype=False, check_categorical=False)
    assert (reading.rows, reading.rejected_rows, reading.dialect) == (
        table.reading.rows,
        table.reading.rejected_rows,
        table.reading.dialect,
    )


def test_progress_is_told_and_a_folder_is_whole_or_absent(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(as_csv(50))
    said: list[float] = []

    convert_table(path, tmp_path / "folder", on_progress=said.append)

    assert said[-1] == 1.0
    with pytest.raises(TableError, match=r"^'folder' exists already; give the name of a new folder"):
        convert_table(path, tmp_path / "folder")
    with pytest.raises(TableError, match="is empty"):
        convert_table(b"", tmp_path / "other")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "rows.csv"]


def test_a_folder_that_cannot_be_written_is_named_without_its_place(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(TableError, match=r"^'folder' cannot be written: Not a directory"):
        convert_table(as_csv(5), tmp_path / "file" / "folder")


def test_columns_kept_in_files_are_the_same_columns():
    from spu_core.tables.reading.column_builders import Scratch

    content = as_csv(300)
    with Scratch() as scratch:
        in_files = read_table(content, scratch=scratch)
        in_memory = read_table(content)

        pd.testing.assert_frame_equal(in_files.frame, in_memory.frame)
        values = in_files.frame["x"].to_numpy()
        while values is not None and not isinstance(values, np.memmap):
            values = values.base
        assert values is not None, "the numbers lie in a file"
