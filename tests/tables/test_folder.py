"""A table over a folder: its parts together are the table in memory, exactly, however the rows are cut into files."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spu_core.errors import TableError
from spu_core.tables import ColumnType, ReadLimits, Role, TableFolder, open_folder, read_table
from tests.tables.folders import mixed_frame, write_folder, write_whole

FRAME = mixed_frame(120)


def as_one_file(frame, tmp_path):
    return read_table(write_whole(frame, tmp_path / "whole.parquet"), name="folder")


@settings(max_examples=12)
@given(cuts=st.lists(st.integers(0, 120), max_size=4), varied=st.booleans(), rows=st.integers(1, 130))
def test_the_parts_of_a_folder_are_the_rows_of_one_file_however_they_are_cut(tmp_path_factory, cuts, varied, rows):
    tmp_path = tmp_path_factory.mktemp("folder")
    whole = as_one_file(FRAME, tmp_path)
    folder = open_folder(write_folder(FRAME, tmp_path / "folder", cuts, varied=varied))

    parts = list(folder.parts(rows=rows))

    pd.testing.assert_frame_equal(pd.concat([part.frame for part in parts]), whole.frame, check_index_type=False)
    assert all(len(part) <= rows for part in parts)
    assert np.array_equal(np.concatenate([part.is_labeled for part in parts]), whole.is_labeled)
    assert np.array_equal(np.concatenate([part.truth for part in parts]), whole.truth)
    assert (dict(folder.roles), dict(folder.types)) == (dict(whole.roles), dict(whole.types))
    assert (folder.positive_values, folder.truth_values) == (whole.positive_values, whole.truth_values)
    assert folder.fingerprint == whole.fingerprint == folder.read().fingerprint


def test_levels_differ_between_files_but_not_between_parts(tmp_path):
    frame = pd.DataFrame({"city": ["Bern"] * 30 + ["Chur"] * 30, "x": np.arange(60.0)})
    folder = open_folder(write_folder(frame, tmp_path / "f", [30], varied=True))

    dtypes = {part.frame["city"].dtype for part in folder.parts()}

    assert dtypes == {pd.CategoricalDtype(pd.Index(["Bern", "Chur"], dtype="str"))}


def test_whole_numbers_with_a_gap_in_one_file_are_floats_in_every_part(tmp_path):
    folder = tmp_path / "f"
    folder.mkdir()
    pq.write_table(pa.table({"n": pa.array([1, 2], pa.int32())}), folder / "a.parquet")
    pq.write_table(pa.table({"n": pa.array([3, None], pa.int64())}), folder / "b.parquet")

    parts = [part.frame["n"] for part in open_folder(folder).parts()]

    assert [part.dtype for part in parts] == [np.dtype("float64")] * 2
    assert parts[0].tolist() == [1.0, 2.0]


def test_empty_files_count_nothing_and_their_made_up_types_are_passed_over(tmp_path):
    folder = write_folder(FRAME, tmp_path / "f", [0, 60, 60, 120])
    pq.write_table(pa.table({"x": pa.array([], pa.string())}), folder / "part-000.parquet")

    opened = open_folder(folder)

    assert len(opened) == 120
    assert opened.types["x"] is ColumnType.NUMBER


def test_a_column_that_some_files_lack_is_missing_there_and_said(tmp_path):
    folder = tmp_path / "f"
    folder.mkdir()
    pq.write_table(pa.table({"x": [1.0, 2.0], "late": [5, 6]}), folder / "a.parquet")
    pq.write_table(pa.table({"x": [3.0]}), folder / "b.parquet")

    opened = open_folder(folder)

    assert opened.read().frame["late"].isna().tolist() == [False, False, True]
    assert [finding.message for finding in opened.findings if finding.code == "absent_column"] == [
        "Column 'late' is absent from 1 of 2 files (first: 'b.parquet')."
    ]


def test_types_that_contradict_each_other_are_refused_with_both_files_named(tmp_path):
    folder = tmp_path / "f"
    folder.mkdir()
    pq.write_table(pa.table({"x": [1.0]}), folder / "a.parquet")
    pq.write_table(pa.table({"x": ["one"]}), folder / "b.parquet")

    with pytest.raises(TableError) as error:
        open_folder(folder)

    assert str(error.value) == (
        "Column 'x' holds double in 'a.parquet' and string in 'b.parquet'; write all files with one type, "
        "or leave the column out of them."
    )


@pytest.mark.parametrize("damage", ["cut", "overwritten", "text"])
def test_a_damaged_file_gets_a_sentence_that_names_it(tmp_path, damage):
    folder = write_folder(FRAME, tmp_path / "f", [60])
    path = folder / "part-001.parquet"
    content = path.read_bytes()
    broken = {
        "cut": content[: len(content) // 2],
        "overwritten": content[:200] + bytes(400) + content[600:],
        "text": b"x,y\n1,2\n",
    }
    path.write_bytes(broken[damage])

    with pytest.raises(TableError, match=r"'part-001.parquet' in the folder is a damaged parquet file"):
        list(open_folder(folder).parts())


def test_a_file_that_is_gone_is_said_without_saying_where_on_the_server_it_was(tmp_path):
    folder = open_folder(write_folder(FRAME, tmp_path / "f", [60]))
    (tmp_path / "f" / "part-001.parquet").unlink()

    with pytest.raises(TableError, match=r"Failed to open local file 'part-001\.parquet'") as error:
        list(folder.parts())
    assert str(tmp_path) not in str(error.value)


def test_a_file_that_changes_after_opening_is_noticed(tmp_path):
    folder = open_folder(write_folder(FRAME, tmp_path / "f", [60]))
    write_folder(FRAME.iloc[:80], tmp_path / "f", [60])

    with pytest.raises(TableError, match=r"'part-001\.parquet' has changed since the folder was opened"):
        list(folder.parts())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "^'f' is not a folder"),
        (lambda path: path.mkdir(), "^'f' holds no .parquet file"),
        (lambda path: write_folder(FRAME.iloc[:0], path, []), "^The only parquet file in 'f' has no rows"),
        (lambda path: write_folder(FRAME.iloc[:0], path, [0]), "^The 2 parquet files in 'f' have no rows"),
        (lambda path: write_folder(FRAME[[]].assign(x=b"x"), path, []), "^The files in 'f' have no column of numbers"),
    ],
)
def test_a_folder_without_rows_is_refused_in_words(tmp_path, make, words):
    make(tmp_path / "f")

    with pytest.raises(TableError, match=words):
        open_folder(tmp_path / "f")


def test_a_cell_beyond_the_limit_is_refused(tmp_path):
    folder = write_folder(pd.DataFrame({"text": ["a" * 5_000, "b"], "x": [1, 2]}), tmp_path / "f", [])

    with pytest.raises(TableError, match="has a cell of 5,000 bytes in column 'text'; the limit is 1,000"):
        open_folder(folder, limits=ReadLimits(cell_bytes=1_000))


def test_a_sample_is_a_table_with_the_same_roles_and_the_same_rows_each_time(tmp_path):
    folder = open_folder(write_folder(FRAME, tmp_path / "f", [30, 90]))

    sample = folder.sample(40, seed=1)

    assert sample.in_memory
    assert len(sample) == 40
    assert dict(sample.roles) == dict(folder.roles)
    assert sample.frame["user_id"].is_monotonic_increasing
    assert sample.fingerprint == folder.sample(40, seed=1).fingerprint != folder.sample(40, seed=2).fingerprint
    assert len(folder.sample(10_000)) == 120


def test_roles_of_a_folder_keep_the_laws_of_a_table(tmp_path):
    folder = open_folder(write_folder(FRAME, tmp_path / "f", [50]))

    changed = folder.with_roles({"member": "label"})

    assert changed.column_with("label") == "member"
    assert changed.roles["label"] is Role.IGNORE
    assert changed.positive_values == (True,)
    assert folder.with_positive_values("0").positive_values == (0,)
    with pytest.raises(TableError, match="so it cannot become a feature"):
        folder.with_roles({"truth": "feature"})
    with pytest.raises(TableError, match="has no value 7"):
        folder.with_positive_values(7)
    with pytest.raises(TableError, match="Did you mean 'city'"):
        folder.values("citty")


def test_a_copy_of_the_label_is_found_over_all_files(tmp_path):
    frame = FRAME.assign(twin=np.where(FRAME["label"] == 1, "yes", "no"), half=FRAME["label"])
    frame.loc[119, "half"] = 1 - frame.loc[119, "half"]
    folder = open_folder(write_folder(frame, tmp_path / "f", [40, 80]))

    assert folder.roles["twin"] is Role.IGNORE
    assert folder.roles["half"] is Role.FEATURE
    assert [finding.column for finding in folder.findings if finding.code == "copy_ignored"] == ["twin"]
    with pytest.raises(TableError, match="Column 'twin' splits the rows exactly as the label"):
        folder.with_roles({"twin": "feature"})


def test_a_table_answers_alike_wherever_its_rows_are(tmp_path):
    files = open_folder(write_folder(FRAME, tmp_path / "f", [50, 70], varied=True))
    memory = files.read()

    assert (files.in_memory, memory.in_memory) == (False, True)
    for name in FRAME.columns:
        pd.testing.assert_series_equal(files.values(name), memory.values(name), check_index_type=False)
    for name in ("is_labeled", "truth", "times"):
        assert np.array_equal(getattr(files, name), getattr(memory, name))
    rows = np.array([119, 3, 60, 3])
    pd.testing.assert_frame_equal(files.only(rows).frame, memory.frame.iloc[rows].reset_index(drop=True))
    assert files.sample(40, seed=1).fingerprint == memory.sample(40, seed=1).fingerprint
    assert [len(part) for part in memory.parts()] == [120]
    assert [len(part) for part in memory.parts(["x"], rows=50)] == [50, 50, 20]
    assert isinstance(files, TableFolder)


def test_the_frame_of_a_table_in_files_is_refused_with_what_to_do(tmp_path):
    folder = open_folder(write_folder(FRAME, tmp_path / "f", [50]))

    with pytest.raises(TableError, match=r"120 rows of this table are in files\. Use table\.sample\(\)"):
        _ = folder.frame


def test_rows_without_a_rare_positive_are_still_a_part_of_the_table(tmp_path):
    frame = pd.DataFrame({"x": np.arange(60.0), "label": ["case", *["no"] * 59]})
    folder = open_folder(write_folder(frame, tmp_path / "f", [30]))

    late = list(folder.parts())[1]

    assert (late.positive_values, late.is_labeled.any()) == (("case",), False)
    assert folder.only(np.arange(1, 40)).positive_values == ("case",)
    with pytest.raises(TableError, match="has no value 'cases'"):
        folder.with_positive_values("cases")


def test_a_table_can_be_sent_to_another_process(tmp_path):
    folder = open_folder(write_folder(FRAME, tmp_path / "f", [50]))

    for table in (folder, folder.read()):
        sent = pickle.loads(pickle.dumps(table))
        assert (sent.fingerprint, dict(sent.roles)) == (folder.fingerprint, dict(folder.roles))
        assert sent.in_memory == table.in_memory
