"""A really full disk, a read-only folder: the old state is whole, the words say what to do, and it works again."""

import os
import signal
import sqlite3
import subprocess
from contextlib import suppress

import pytest

from spu_core.engines import Job, jobs_now, start_worker
from spu_core.errors import WorkspaceError
from spu_core.workspace import Workspace, check, list_objects
from tests.workspace.fakes import FakeTable
from tests.workspace.scenario import in_a_process, unwritable


@pytest.fixture
def small_disk(tmp_path):
    """Two megabytes of tmpfs."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("this user may not mount a tmpfs; test_faults.py injects the same error")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def save_tables(workspace, saved):
    for number in range(100):
        saved.append(workspace.datasets.save(FakeTable(os.urandom(100_000), f"table {number}")))


def save_rules(workspace):
    for number in range(10_000):
        workspace.rule_sets.create(f"rules {number}", "x" * 5000)


def fill(path):
    with path.open("ab", buffering=0) as stream:
        while True:
            stream.write(b"x" * 512)


def test_a_full_disk_keeps_what_was_saved_and_works_again_when_space_is_back(small_disk):
    # What somebody else keeps there: a deletion needs some room itself, for the catalogue's log.
    filler = small_disk / "filler"
    filler.write_bytes(bytes(300_000))
    with Workspace.open(small_disk) as workspace:
        saved = [workspace.datasets.save(FakeTable(b"kept", "kept"))]
        with pytest.raises(WorkspaceError, match=r"is full; nothing was saved.*spu workspace gc.*delete old runs"):
            save_tables(workspace, saved)
        with pytest.raises(OSError, match="No space"):
            fill(filler)
        with pytest.raises(WorkspaceError, match="is full"):
            save_rules(workspace)

        assert {item.id for item in workspace.datasets.list()} == {item.id for item in saved}
        assert all(workspace.datasets.path(item.id).exists() for item in saved)
        filler.unlink()
        workspace.delete(workspace.plan_deletion("dataset", saved[-1].id))
        assert workspace.datasets.save(FakeTable(b"again", "again")).name == "again"
    assert check(small_disk).is_well


def test_a_full_disk_opens_shows_all_that_was_saved_and_works_again_when_space_is_back(small_disk):
    filler, saved = small_disk / "filler", []
    filler.write_bytes(bytes(300_000))

    def save_until_full(say):
        with Workspace.open(small_disk) as workspace, suppress(WorkspaceError):
            while True:
                say(workspace.rule_sets.create("rules", "x" * 60_000).id)

    saved = in_a_process(save_until_full)
    assert len(saved) > 5
    with pytest.raises(OSError, match="No space"):
        fill(filler)

    with Workspace.open(small_disk) as workspace:
        assert {rules.id for rules in workspace.rule_sets.list()} >= set(saved)
    filler.unlink()
    with Workspace.open(small_disk) as workspace:
        assert not workspace.is_read_only
        assert {rules.id for rules in workspace.rule_sets.list()} >= set(saved)
        workspace.rule_sets.create("more", "{}")
    assert check(small_disk).is_well


def saved_in_the_log_only(folder):
    """The ids of rule sets that only the -wal holds; its -shm is gone, as in a copy of the folder."""

    def save_and_die(say):
        workspace = Workspace.open(folder)
        # Somebody reads, so that the commit stays in the -wal.
        reader = sqlite3.connect(folder / "catalogue.sqlite", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM workspace").fetchall()
        say(workspace.rule_sets.create("rules", "{}").id)
        os.kill(os.getpid(), signal.SIGKILL)

    saved = in_a_process(save_and_die)
    (folder / "catalogue.sqlite-shm").unlink()
    return saved


def test_a_full_disk_shows_what_only_the_log_holds(small_disk):
    saved = saved_in_the_log_only(small_disk)
    with pytest.raises(OSError, match="No space"):
        fill(small_disk / "filler")

    with Workspace.open(small_disk) as workspace:
        assert workspace.is_read_only
        assert [rules.id for rules in workspace.rule_sets.list()] == saved
        with pytest.raises(WorkspaceError, match="cannot be written"):
            workspace.rule_sets.create("more", "{}")
    (small_disk / "filler").unlink()
    with Workspace.open(small_disk) as workspace:
        assert [rules.id for rules in workspace.rule_sets.list()] == saved
        workspace.rule_sets.create("more", "{}")
    assert check(small_disk).is_well


def test_a_read_only_home_shows_what_only_the_log_holds(tmp_path):
    with unwritable(tmp_path / "home") as (home, lock):
        saved = saved_in_the_log_only(home)
        lock()
        with Workspace.open(home) as workspace:
            assert workspace.is_read_only
            assert [rules.id for rules in workspace.rule_sets.list()] == saved
        assert check(home).is_well
    assert check(home).is_well


@pytest.mark.parametrize("died", [False, True])
def test_a_read_only_home_can_be_read_and_says_why_nothing_is_saved(tmp_path, died):
    with unwritable(tmp_path / "home") as (home, lock):

        def save(say):
            with Workspace.open(home) as workspace:
                say(workspace.rule_sets.create("rules", "{}").id)
                say(workspace.datasets.save(FakeTable(b"kept", "kept")).id)
                if died:
                    os.kill(os.getpid(), signal.SIGKILL)

        rules, dataset = in_a_process(save)
        lock()
        with Workspace.open(home) as workspace:
            assert workspace.is_read_only
            assert workspace.rule_sets.get(rules).text == "{}"
            assert workspace.datasets.path(dataset).read_bytes() == b"kept"
            assert [item.name for item in list_objects(workspace)] == ["kept", "rules (version 1)"]
            assert jobs_now(workspace) == ()
            for save in (
                lambda: workspace.rule_sets.create("more", "{}"),
                lambda: workspace.datasets.save(FakeTable(b"more", "more")),
                lambda: start_worker(workspace, Job(kind="self_test")),
            ):
                with pytest.raises(WorkspaceError, match="cannot be written; make it writable, or choose another"):
                    save()
        assert check(home).is_well
    with Workspace.open(home) as workspace:
        assert not workspace.is_read_only
        assert len(workspace.rule_sets.list()) == 1


def test_a_home_that_cannot_be_made_is_refused_in_words(tmp_path):
    with unwritable(tmp_path / "disk") as (folder, lock):
        lock()
        with pytest.raises(WorkspaceError, match="cannot be written"):
            Workspace.open(folder / "home")


def test_a_file_in_the_place_of_the_folder_is_refused_in_words(tmp_path):
    (tmp_path / "home").write_text("not a folder")

    with pytest.raises(WorkspaceError, match=r"The disk under .* reported an error"):
        Workspace.open(tmp_path / "home")
