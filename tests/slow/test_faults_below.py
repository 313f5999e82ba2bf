"""Kills and full disks at every write, fsync and rename, below SQLite: more than 1,000 points with SPU_SLOW=1.

And many more looks at a catalogue while two others write it than the suite has.
"""

import os

import pytest

from tests.workspace.faults_below import SCENARIOS, sweep
from tests.workspace.test_faults_below import join_while_two_save

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("processes"),
    pytest.mark.skipif(
        os.environ.get("SPU_SLOW") != "1", reason="Takes minutes; tests/workspace/test_faults_below.py has a sample."
    ),
]


def test_no_fault_below_sqlite_at_any_point_closes_a_workspace_or_loses_what_was_saved(tmp_path):
    found = sweep(tmp_path, dict.fromkeys(SCENARIOS, 1))

    print(found)
    assert found["points"] > 1000
    assert not found.keys() & {"refused", "lost", "raw"}, found


def test_a_workspace_is_joined_thousands_of_times_while_two_others_save(tmp_path):
    joined, saved = join_while_two_save(tmp_path / "home", joins=2000)

    print(f"{joined} looks beside {saved} saves")
    assert joined == 2000
