"""Check, restore, backup and list: what is wrong is said, and what can be saved is saved."""

import os

import pytest

from spu_core.errors import WorkspaceError
from spu_core.workspace import Workspace, check, collect_garbage, list_objects, make_backup
from spu_core.workspace.catalogue import KEPT, backups
from tests.workspace.fakes import FakeTable, draft_of, writes


@pytest.fixture
def folder(tmp_path):
    """A workspace with a dataset, a run and rules, opened twice so that a backup knows them; then one run more."""
    with Workspace.open(tmp_path) as workspace:
        dataset = workspace.datasets.save(FakeTable(name="claims"))
        workspace.runs.save(draft_of(dataset, name="old run"), writes(b"run"))
        workspace.rule_sets.create("fraud", "{}")
    with Workspace.open(tmp_path) as workspace:
        workspace.runs.save(draft_of(dataset, name="new run"), writes(b"newer run"))
    return tmp_path


def names(folder):
    with Workspace.open(folder) as workspace:
        return {item.name for item in list_objects(workspace)}


def test_a_sound_workspace_is_said_to_be_so(folder):
    report = check(folder)

    assert report.is_well
    assert str(report) == f"{folder}: the catalogue and 3 stored files are as they were saved."


def test_a_list_shows_sizes(folder):
    with Workspace.open(folder) as workspace:
        shown = {item.name: (item.kind, item.size) for item in list_objects(workspace)}
        lines = [str(item) for item in list_objects(workspace)]

    assert shown == {
        "claims": ("dataset", 4),
        "new run": ("run", 9),
        "old run": ("run", 3),
        "fraud (version 1)": ("rule set", 2),
    }
    assert any("9 bytes" in line and "new run" in line for line in lines)


def test_every_damaged_object_is_named(folder):
    with Workspace.open(folder) as workspace:
        for run in workspace.runs.list():
            (workspace.files.folder / f"{run.file}.zip").write_bytes(b"???")
        with workspace.catalogue.transaction() as rows:
            rows.execute("UPDATE rule_set_versions SET text = 'x'")

    report = check(folder)

    assert not report.is_well
    assert "The stored run 'new run' is damaged: its file" in str(report)
    assert "The stored run 'old run' is damaged: the bytes" in str(report)
    assert "The text of version 1 of rule set 'fraud' has changed." in str(report)
    assert "claims" not in str(report)


def test_files_that_belong_to_nothing_are_counted(folder):
    (folder / "files" / "stray.zip").write_bytes(b"12345")

    assert "1 stored files (5 bytes) are not listed in the catalogue" in str(check(folder))
    with Workspace.open(folder) as workspace:
        assert collect_garbage(workspace) == 5
    assert check(folder).is_well


def test_a_deleted_catalogue_is_restored_from_its_backup(folder):
    (folder / "catalogue.sqlite").unlink()
    assert "The catalogue of" in str(check(folder))

    report = check(folder, repair=True)

    assert report.repaired.startswith("Restored catalogue-0000000")
    assert {"claims", "old run"} <= names(folder)
    # The run after the backup has lost its row, but its file is still there to be looked at.
    assert "1 stored files (9 bytes) are not listed" in str(report)


@pytest.mark.parametrize("seed", range(6))
def test_flipped_bits_in_the_catalogue_are_found_and_the_newest_rows_are_saved_where_readable(folder, seed):
    import random

    path, random_place = folder / "catalogue.sqlite", random.Random(seed)
    content = bytearray(path.read_bytes())
    for _ in range(40):
        content[random_place.randrange(100, len(content))] ^= 1 << random_place.randrange(8)
    path.write_bytes(content)

    report = check(folder, repair=True)

    assert "damaged" not in str(report) or report.repaired
    assert {"claims", "old run"} <= names(folder)
    assert check(folder).n_files >= 2


def test_an_overwritten_page_loses_no_row_that_other_pages_hold(folder):
    """Only the outcomes table is hit: the run saved after the last backup comes from the damaged catalogue."""
    with Workspace.open(folder) as workspace:
        page = workspace.catalogue.row("SELECT rootpage FROM sqlite_master WHERE name = 'outcomes'")[0]
        size = workspace.catalogue.row("PRAGMA page_size")[0]
        dataset = workspace.datasets.list()[0]
        workspace.runs.save(draft_of(dataset, name="newest run"), writes(b"newest"))
    with (folder / "catalogue.sqlite").open("r+b") as stream:
        stream.seek((page - 1) * size)
        stream.write(b"\xff" * size)

    report = check(folder, repair=True)

    assert "newer row" in report.repaired
    assert "newest run" in names(folder)
    assert check(folder).is_well


def test_a_truncated_catalogue_is_restored(folder):
    os.truncate(folder / "catalogue.sqlite", 5000)
    with pytest.raises(WorkspaceError, match=r"spu workspace check --restore|was not made by"):
        Workspace.open(folder)

    check(folder, repair=True)

    assert {"claims", "old run"} <= names(folder)


def test_without_a_good_backup_nothing_is_touched(tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "catalogue.sqlite").write_bytes(b"garbage" * 1000)

    with pytest.raises(WorkspaceError, match="has no good backup of its catalogue; its stored files are untouched"):
        check(tmp_path, repair=True)
    assert (tmp_path / "catalogue.sqlite").exists()


def test_a_folder_without_workspace_is_said_to_have_none(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(WorkspaceError, match="There is no workspace in"):
            check(folder)


def test_a_backup_is_kept_at_each_start_that_finds_something_new(tmp_path):
    for number in range(KEPT + 3):
        with Workspace.open(tmp_path) as workspace:
            workspace.rule_sets.create(f"rules {number}", "{}")
    for _ in range(3):
        Workspace.open(tmp_path).close()

    kept = [path.name for path in backups(tmp_path)]

    assert kept == [f"catalogue-{number:08d}.sqlite" for number in range(KEPT + 4, 4, -1)]


def test_a_backup_on_request_is_the_state_of_now(tmp_path):
    with Workspace.open(tmp_path) as workspace:
        workspace.rule_sets.create("rules", "{}")
        made = make_backup(workspace)

        assert made == backups(tmp_path)[0]
        assert make_backup(workspace) == made


def test_a_damaged_catalogue_is_never_copied_over_good_backups(folder):
    before = backups(folder)
    os.truncate(folder / "catalogue.sqlite", 9000)

    with pytest.raises(WorkspaceError):
        Workspace.open(folder)

    assert backups(folder) == before
