"""Kills and full disks at every write, fsync and rename, below SQLite: more than 1,000 points with SPU_SLOW=1.

And many more looks at a catalogue while two others write it than the suite has.
"""

import pytest

from tests.workspace.faults_below import SCENARIOS, sweep
from tests.workspace.test_faults_below import join_while_two_save


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_no_fault_below_sqlite_at_any_point_closes_a_workspace_or_loses_what_was_saved(tmp_path, replicates):
    found = sweep(tmp_path, replicates({"save": 40}, dict.fromkeys(SCENARIOS, 1)))

    print(found)
    assert found["points"] > replicates(5, 1000)
    assert not found.keys() & {"refused", "lost", "raw"}, found


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_a_workspace_is_joined_thousands_of_times_while_two_others_save(tmp_path, replicates):
    joined, saved = join_while_two_save(tmp_path, seconds=replicates(2, 60))

    print(f"{joined} looks beside {saved} saves")
    assert joined > replicates(20, 2000)
    assert saved > replicates(20, 1000)
