"""The complete sweep: fail at the first act of a day's work, at the second, … until no act is left to fail."""

from itertools import count

import pytest

from tests.workspace.faults import DEATHS, ERRORS, FaultyDisk
from tests.workspace.scenario import in_a_process, verify, work


@pytest.mark.parametrize("fault", [*ERRORS, "error after"])
def test_an_error_at_any_act_loses_nothing_acknowledged_and_lists_nothing_half_made(tmp_path, fault):
    for number in count(1):
        folder, acknowledged = tmp_path / str(number), []
        disk = FaultyDisk(number, fault)
        work(folder, disk, acknowledged.append)
        verify(folder, acknowledged)
        if len(disk.acts) < number:
            break

    assert number > 30
    assert {"write", "fsync", "rename", "fsync folder", "commit", "remove"} <= set(disk.acts)


@pytest.mark.parametrize("fault", DEATHS)
def test_a_death_at_any_act_loses_nothing_acknowledged_and_lists_nothing_half_made(tmp_path, fault):
    whole: list[str] = []
    work(tmp_path / "whole", FaultyDisk(), whole.append)

    for number in count(1):
        folder = tmp_path / str(number)
        acknowledged = in_a_process(
            lambda say, folder=folder, number=number: work(folder, FaultyDisk(number, fault), say)
        )
        verify(folder, acknowledged)
        if len(acknowledged) == len(whole):
            break

    assert number > 30


def test_work_goes_on_in_the_same_folder_after_every_death(tmp_path):
    acknowledged: list[str] = []
    for number in range(1, 60, 3):
        acknowledged += in_a_process(lambda say, number=number: work(tmp_path, FaultyDisk(number, "exit after"), say))
        gone = {line.split()[1] for line in acknowledged if line.startswith("deleting")}
        verify(tmp_path, [line for line in acknowledged if line.split()[1] not in gone])


def test_a_full_disk_says_so_and_gives_the_half_written_bytes_back(tmp_path):
    from spu_core.errors import WorkspaceError
    from spu_core.workspace import Workspace
    from tests.workspace.fakes import FakeTable

    disk = FaultyDisk()
    with Workspace.open(tmp_path, disk=disk) as workspace:
        disk.fail_at, disk.fault = len(disk.acts) + 1, "disk full"
        with pytest.raises(WorkspaceError, match="is full; nothing was saved, and what was saved before is whole"):
            workspace.datasets.save(FakeTable())

        assert not list(workspace.files.drafts.iterdir())
        assert workspace.datasets.save(FakeTable()).n_rows == 10
