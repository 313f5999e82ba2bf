"""Faults below SQLite, and looks at a catalogue while others write it: it always opens, and nothing saved is lost.

A sample of points; `tests/slow/test_faults_below.py` goes through all of them.
"""

import pytest

from spu_core.workspace import Home, Workspace
from tests.workspace.faults_below import sweep
from tests.workspace.test_many_processes import in_processes


@pytest.mark.xdist_group("processes")
def test_a_kill_or_a_full_disk_below_sqlite_leaves_a_workspace_that_opens_with_all_that_was_saved(tmp_path):
    found = sweep(tmp_path, {"work": 41, "save": 23, "open": 37, "run": 47, "start": 30, "watch": 30, "end": 30})

    assert found["points"] > 30
    assert "refused" not in found, found
    assert "lost" not in found, found


def save_long_texts(folder, process):
    """Each save takes many pages of the catalogue, so that it is often between two of them."""
    with Workspace.open(folder) as workspace:
        for number in range(60):
            print(workspace.rule_sets.create(f"{process} {number}", str(number) * 30_000).id)


def join_often(folder, process):
    for _ in range(150):
        Workspace.join(Home.at(folder), ".").close()


def save_or_join(folder, process):
    (join_often if process == "0" else save_long_texts)(folder, process)


@pytest.mark.xdist_group("processes")
def test_a_workspace_is_joined_whenever_one_likes_while_two_others_save(tmp_path):
    Workspace.open(tmp_path).close()

    said = in_processes(3, save_or_join, tmp_path, __name__)

    with Workspace.open(tmp_path) as workspace:
        assert {rules.id for rules in workspace.rule_sets.list()} == {token for lines in said for token in lines}
