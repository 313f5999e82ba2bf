"""Who runs and who waits, shown with slots that the test itself holds, so that no worker starts."""

import json

import pytest

from spu_core.engines import JobQueue, QueueLimits, cancel, jobs_now, restart, start_worker
from spu_core.engines.processes import job_queue
from spu_core.errors import WorkspaceError
from spu_core.workspace import Home, JobStatus, QueueFullError, Workspace
from spu_core.workspace.disk import locked
from spu_core.workspace.records import new_id
from tests.engines.steps import job, sleep


@pytest.fixture
def queue(workspace):
    """A home with one slot, which is taken, and room for two who wait."""
    queue = JobQueue(workspace.home)
    queue.set_limits(QueueLimits(running=1, waiting=2))
    with locked(queue.home.slot_folder / "slot-0.lock"):
        yield queue


@pytest.fixture
def started(monkeypatch):
    """What would have been started, in order."""
    jobs = []
    monkeypatch.setattr(job_queue, "_launch", lambda workspace, attempt, keep: jobs.append(attempt.job))
    return jobs


def test_those_beyond_the_limit_are_refused_in_words(workspace, queue):
    waiting = [start_worker(workspace, job(sleep(1))) for _ in range(2)]

    with pytest.raises(QueueFullError, match="1 jobs run and 2 wait, which is all that this server allows; wait until"):
        start_worker(workspace, job(sleep(1)))

    assert [item.status for item in waiting] == [JobStatus.WAITING] * 2
    assert [ticket.job for ticket in queue.tickets()] == [item.id for item in waiting]
    assert len(workspace.jobs.list()) == 2


def test_the_limits_hold_over_all_workspaces_of_a_home(workspace, queue):
    with (
        Workspace.open_for("https://login", "ann", workspace.home) as ann,
        Workspace.open_for("https://login", "bob", workspace.home) as bob,
    ):
        start_worker(ann, job(sleep(1)))
        start_worker(bob, job(sleep(1)))
        with pytest.raises(QueueFullError):
            start_worker(ann, job(sleep(1)))
        assert len(ann.jobs.list()) == 1


def test_those_who_wait_start_in_the_order_of_asking(workspace, started):
    queue = JobQueue(workspace.home)
    queue.set_limits(QueueLimits(running=1, waiting=5))
    with locked(queue.home.slot_folder / "slot-0.lock"):
        asked = [start_worker(workspace, job(sleep(1))).id for _ in range(3)]
    assert started == []

    jobs_now(workspace)

    # No worker took over the slot here, so that all three could have it one after the other.
    assert started == asked
    assert queue.tickets() == []


def test_a_cancelled_job_loses_its_turn(workspace, started):
    queue = JobQueue(workspace.home)
    queue.set_limits(QueueLimits(running=1, waiting=5))
    with locked(queue.home.slot_folder / "slot-0.lock"):
        first, second = (start_worker(workspace, job(sleep(1))).id for _ in range(2))
        assert cancel(workspace, first).status is JobStatus.CANCELLED

    jobs_now(workspace)

    assert started == [second]


def test_a_row_whose_ticket_was_lost_gets_a_new_one(workspace, queue):
    waiting = start_worker(workspace, job(sleep(1)))
    for ticket in queue.tickets():
        queue.drop(ticket)

    jobs_now(workspace)

    assert [ticket.job for ticket in queue.tickets()] == [waiting.id]


def test_a_ticket_without_a_row_or_workspace_is_dropped(workspace, started):
    queue = JobQueue(workspace.home)
    with queue.locked():
        queue.put(new_id(), ".")
        queue.put(new_id(), "users/" + "0" * 64)
        queue.put(new_id(), "../..")

    jobs_now(workspace)

    assert (queue.tickets(), started) == ([], [])


def test_a_job_restarts_only_when_there_is_room(workspace, queue):
    over = start_worker(workspace, job(sleep(1)))
    cancel(workspace, over.id)
    for _ in range(2):
        start_worker(workspace, job(sleep(1)))

    with pytest.raises(QueueFullError):
        restart(workspace, over.id)
    assert workspace.jobs.get(over.id).status is JobStatus.CANCELLED


def test_a_worker_that_cannot_start_says_so(workspace, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(job_queue, "spawn", refuse)

    failed = start_worker(workspace, job(sleep(1)))

    assert failed.status is JobStatus.FAILED
    assert failed.error == "The worker could not be started (Cannot allocate memory); start the job again later."


@pytest.mark.parametrize("limits", [{"running": 0}, {"waiting": -1}, {"running": "2"}, {"running": 5000}])
def test_limits_must_be_sensible_numbers(limits):
    with pytest.raises(WorkspaceError, match="must be a whole number from"):
        QueueLimits(**limits)


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"running": 0}), json.dumps({"jobs": 3})])
def test_a_limits_file_that_nobody_can_read_is_named(tmp_path, text):
    queue = JobQueue(Home.at(tmp_path))
    assert queue.limits == QueueLimits()
    queue.set_limits(QueueLimits(running=3))
    (tmp_path / "queue" / "limits.json").write_text(text)

    with pytest.raises(WorkspaceError, match=r"limits\.json must hold .* correct or delete it"):
        _ = queue.limits
