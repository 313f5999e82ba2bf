"""What opening a folder found survives as text: the folder comes back without another pass over its rows."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import TableError
from spu_core.tables import open_folder
from spu_core.tables.folders import folder_from_survey, survey_to_json
from tests.tables.folders import mixed_frame, write_folder

EXTREME = pd.DataFrame(
    {
        "number": [np.inf, -1.5, np.nan, 2.0] * 10,
        "empty": [None] * 40,
        "when": pd.to_datetime(["2024-01-01 10:00:00.000000001", None] * 20).tz_localize("Europe/Zurich"),
        "flag": pd.array([True, None, False, True] * 10, dtype="boolean"),
        "big": np.arange(2**62, 2**62 + 40),
        "level": ["ünï", None, "b", "b"] * 10,
        "label": [0, 1] * 20,
    }
)


def kept(folder):
    described = {"name": folder.name, "roles": folder.roles, "positive_values": folder.positive_values}
    described |= {"truth_values": folder.truth_values, "known_fingerprint": folder.fingerprint}
    return folder_from_survey(survey_to_json(folder), folder.store.path, **described)


@pytest.mark.parametrize("frame", [mixed_frame(300), EXTREME], ids=["usual", "extreme"])
def test_a_folder_comes_back_with_its_forms_stand_ins_and_files(tmp_path, frame):
    opened = open_folder(write_folder(frame, tmp_path / "f", [20]))

    again = kept(opened)

    assert (again.store.files, again.store.columns, again.findings) == (
        opened.store.files,
        opened.store.columns,
        opened.findings,
    )
    for name, stand_in in opened.store.stand_ins.items():
        pd.testing.assert_series_equal(again.store.stand_ins[name], stand_in)
    pd.testing.assert_frame_equal(again.read().frame, opened.read().frame)


def test_roles_can_be_changed_on_it_as_on_the_opened_folder(tmp_path):
    opened = open_folder(write_folder(mixed_frame(300), tmp_path / "f", [100]))

    changes = {"x": "ignore", "truth": "label", "label": "ignore"}

    assert kept(opened).with_roles(changes).roles == opened.with_roles(changes).roles


def test_its_fingerprint_is_known_and_stays_known_when_roles_change(tmp_path, monkeypatch):
    opened = open_folder(write_folder(mixed_frame(300), tmp_path / "f", [100]))
    again, changed, fingerprint = kept(opened), kept(opened).with_roles({"x": "ignore"}), opened.fingerprint
    monkeypatch.setattr(type(again.store), "frames", None)  # reading a row would fail now

    assert again.fingerprint == changed.fingerprint == fingerprint


def test_a_file_that_was_written_again_or_is_gone_is_named(tmp_path):
    folder = kept(open_folder(write_folder(mixed_frame(300), tmp_path / "f", [100, 200])))
    assert folder.store.changed_files == ()

    write_folder(mixed_frame(300, seed=1), tmp_path / "f", [100, 200])
    (tmp_path / "f" / "part-002.parquet").unlink()

    assert folder.store.changed_files == ("part-000.parquet", "part-001.parquet", "part-002.parquet")


def test_a_file_that_came_later_is_named_and_changes_nothing(tmp_path):
    folder = kept(open_folder(write_folder(mixed_frame(300), tmp_path / "f", [100, 200])))
    assert folder.store.added_files == ()

    write_folder(mixed_frame(20), tmp_path / "f" / "day=2", [])
    write_folder(mixed_frame(20), tmp_path / "f" / "_draft", [])

    assert (folder.store.added_files, folder.store.changed_files, len(folder)) == (("part-000.parquet",), (), 300)
    shutil.rmtree(tmp_path / "f")
    assert folder.store.added_files == ()


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda note: note.pop("files"), "lacks the field 'files'"),
        (lambda note: note["columns"][0].update(kind="?"), "is damaged"),
    ],
)
def test_a_damaged_note_is_refused_in_words(tmp_path, damage, problem):
    folder = open_folder(write_folder(mixed_frame(50), tmp_path / "f", []))
    note = json.loads(survey_to_json(folder))
    damage(note)

    with pytest.raises(TableError, match=f"The stored description of the folder 'f' {problem}"):
        folder_from_survey(json.dumps(note), folder.store.path, name="f", roles=folder.roles)


def test_a_note_of_another_schema_is_refused(tmp_path):
    with pytest.raises(TableError, match="schema 9"):
        folder_from_survey('{"schema": 9}', tmp_path, name="f", roles={})
