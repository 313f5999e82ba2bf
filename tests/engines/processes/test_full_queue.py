"""Fifty submits at once from two workspaces of one home: never more than N workers, and none lost."""

import os
import threading

import pytest

from spu_core.engines import JobQueue, QueueLimits, start_worker
from spu_core.engines.processes.os_processes import wait_until
from spu_core.errors import WorkspaceError
from spu_core.workspace import Home, JobStatus, QueueFullError, Workspace
from spu_core.workspace.disk import is_locked
from tests.engines.steps import job, sleep

pytestmark = pytest.mark.xdist_group("processes")

SUBMITS = 50
LIMITS = QueueLimits(running=2, waiting=48 if os.environ.get("SPU_SLOW") == "1" else 4)


def overlaps(jobs):
    """The largest number of jobs that ran at the same time, by their own records."""
    moments = sorted([(item.started, 1) for item in jobs] + [(item.ended, -1) for item in jobs])
    running = [sum(change for _, change in moments[: place + 1]) for place in range(len(moments))]
    return max(running)


def test_fifty_submits_at_once(tmp_path):
    home = Home.at(tmp_path)
    places = [Workspace.open_for("https://login", name, home) for name in ("ann", "bob")]
    JobQueue(home).set_limits(LIMITS)
    accepted, refused, together = [], [], threading.Barrier(SUBMITS)

    def submit(number):
        with Workspace.join(home, places[number % 2].place) as workspace:
            together.wait()
            try:
                accepted.append(start_worker(workspace, job(sleep(0.4))).id)
            except QueueFullError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(SUBMITS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    most = 0

    def all_over():
        nonlocal most
        slots = home.slot_folder.glob("slot-*.lock")
        most = max(most, sum(map(is_locked, slots)))
        return all(item.status.is_over for place in places for item in place.jobs.list())

    assert wait_until(all_over, 300, pause=0.1)
    jobs = [item for place in places for item in place.jobs.list()]
    for place in places:
        place.close()
    assert len(accepted) + len(refused) == SUBMITS
    assert len(accepted) >= LIMITS.running + LIMITS.waiting
    assert {item.id for item in jobs} == set(accepted)
    assert {item.status for item in jobs} == {JobStatus.FINISHED}
    assert most <= LIMITS.running
    assert overlaps(jobs) <= LIMITS.running
    assert all("which is all that this server allows" in words for words in refused)
    assert issubclass(QueueFullError, WorkspaceError)
