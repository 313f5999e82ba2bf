"""A really full disk, a read-only folder: the old state is whole, the words say what to do, and it works again."""

import os
import subprocess

import pytest

from spu_core.errors import WorkspaceError
from spu_core.workspace import Workspace, check
from tests.workspace.fakes import FakeTable


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


def test_a_read_only_disk_is_refused_in_words_and_unchanged(small_disk):
    with Workspace.open(small_disk) as workspace:
        workspace.rule_sets.create("rules", "{}")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)

    with pytest.raises(WorkspaceError, match="cannot be written; make it writable, or choose another with SPU_HOME"):
        Workspace.open(small_disk)

    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    with Workspace.open(small_disk) as workspace:
        assert len(workspace.rule_sets.list()) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to every folder")
def test_a_read_only_folder_is_refused_in_words(tmp_path):
    tmp_path.chmod(0o500)

    with pytest.raises(WorkspaceError, match="cannot be written"):
        Workspace.open(tmp_path / "home")


def test_a_file_in_the_place_of_the_folder_is_refused_in_words(tmp_path):
    (tmp_path / "home").write_text("not a folder")

    with pytest.raises(WorkspaceError, match=r"The disk under .* reported an error"):
        Workspace.open(tmp_path / "home")
