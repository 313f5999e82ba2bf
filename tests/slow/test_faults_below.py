"""Kills and full disks at every write, fsync and rename, below SQLite: more than 1,000 points with SPU_SLOW=1."""

import pytest

from tests.workspace.faults_below import SCENARIOS, sweep


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_no_fault_below_sqlite_at_any_point_closes_a_workspace_or_loses_what_was_saved(tmp_path, replicates):
    found = sweep(tmp_path, replicates({"save": 40}, dict.fromkeys(SCENARIOS, 1)))

    print(found)
    assert found["points"] > replicates(5, 1000)
    assert "refused" not in found, found
    assert "lost" not in found, found
