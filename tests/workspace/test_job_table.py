"""The job table: who may change what, and that a dead worker is seen without any clock."""

import fcntl
import os

import pytest

from spu_core.errors import WorkspaceError
from spu_core.workspace import JobStatus
from spu_core.workspace.disk import is_locked, try_lock
from spu_core.workspace.records import new_id


@pytest.fixture
def job(workspace):
    token = new_id()
    workspace.jobs.add(token, "train", "Train 3 candidates", {"folds": 5}, {"seconds": 60})
    return token


def test_a_job_waits_then_runs_then_is_over(workspace, job):
    assert workspace.jobs.get(job).status is JobStatus.WAITING

    attempt = workspace.jobs.begin(job)
    workspace.jobs.report(attempt, 0.5, "fold 3 of 5", {"fold": 3})
    running = workspace.jobs.get(job)
    assert (running.status, running.share, running.detail) == (JobStatus.RUNNING, 0.5, {"fold": 3})

    workspace.jobs.finish(attempt, {"runs": ["a"]})
    done = workspace.jobs.get(job)
    assert (done.status, done.share, done.result) == (JobStatus.FINISHED, 1.0, {"runs": ["a"]})
    assert workspace.jobs.active() == ()


def test_only_one_may_begin_a_job(workspace, job):
    assert workspace.jobs.begin(job) is not None
    assert workspace.jobs.begin(job) is None


def test_what_an_older_try_writes_late_is_ignored(workspace, job):
    old = workspace.jobs.begin(job)
    workspace.jobs.end(old, JobStatus.INTERRUPTED, "died")
    workspace.jobs.requeue(job)
    new = workspace.jobs.begin(job)

    assert not workspace.jobs.report(old, 0.9, "late", {})
    assert not workspace.jobs.finish(old, {})
    assert workspace.jobs.report(new, 0.1, "again", {})
    assert workspace.jobs.get(job).message == "again"


def test_a_running_job_is_interrupted_exactly_when_nobody_holds_its_lock(workspace, job):
    lock = try_lock(workspace.jobs.lock_path(job))
    attempt = workspace.jobs.begin(job)
    workspace.jobs.report(attempt, 0.4, "fold 2 of 5", {})
    assert workspace.jobs.mark_dead() == 0

    os.close(lock)

    assert workspace.jobs.mark_dead() == 1
    dead = workspace.jobs.get(job)
    assert (dead.status, dead.share, dead.message) == (JobStatus.INTERRUPTED, 0.4, "fold 2 of 5")
    assert "ended unexpectedly" in dead.error


def test_a_job_that_was_asked_to_stop_is_cancelled_when_its_process_is_gone(workspace, job):
    workspace.jobs.begin(job)
    workspace.jobs.request_cancel(job)

    assert workspace.jobs.mark_dead() == 1
    assert workspace.jobs.get(job).status is JobStatus.CANCELLED


def test_a_finished_or_living_job_does_not_restart(workspace, job):
    with pytest.raises(WorkspaceError, match="'Train 3 candidates' is waiting; only a job that failed or was stopped"):
        workspace.jobs.requeue(job)
    workspace.jobs.finish(workspace.jobs.begin(job), {})
    with pytest.raises(WorkspaceError, match="is finished; only a job that failed"):
        workspace.jobs.requeue(job)


def test_a_waiting_job_is_cancelled_at_once_and_a_running_one_is_asked(workspace, job):
    assert workspace.jobs.request_cancel(job).status is JobStatus.CANCELLED
    workspace.jobs.requeue(job)
    workspace.jobs.begin(job)

    asked = workspace.jobs.request_cancel(job)

    assert (asked.status, asked.cancel_requested) == (JobStatus.RUNNING, True)


def test_the_log_shows_its_end_and_goes_with_the_job(workspace, job):
    path = workspace.jobs.log_path(job)
    path.write_text("x" * 100_000 + "the last words")

    assert workspace.jobs.log(job).endswith("the last words")
    assert len(workspace.jobs.log(job)) == 64_000
    workspace.delete(workspace.plan_deletion("job", job))
    assert not path.exists()
    assert workspace.jobs.find(job) is None


def test_locks_that_nobody_holds_and_logs_that_nobody_needs_are_swept(workspace):
    tokens = [new_id() for _ in range(4)]
    for token in tokens[:3]:
        workspace.jobs.add(token, "train", token, {}, {})
    for token in tokens:
        os.close(try_lock(workspace.jobs.lock_path(token)))
        workspace.jobs.log_path(token).write_text("what happened")
    finished, failed, running, _ = tokens
    workspace.jobs.finish(workspace.jobs.begin(finished), {})
    workspace.jobs.end(workspace.jobs.begin(failed), JobStatus.FAILED, "no memory")
    workspace.jobs.begin(running)
    held = try_lock(workspace.jobs.lock_path(running))

    workspace.remove_leftovers()

    assert {path.stem for path in (workspace.folder / "locks").iterdir()} == {running}
    assert {path.stem for path in (workspace.folder / "logs").iterdir()} == {failed, running}
    assert workspace.jobs.is_alive(running)
    os.close(held)


def test_a_lock_on_a_file_that_was_swept_meanwhile_is_taken_anew(tmp_path, monkeypatch):
    path, lock = tmp_path / "a.lock", fcntl.flock

    def swept_first(descriptor, how):
        monkeypatch.setattr(fcntl, "flock", lock)
        path.unlink()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", swept_first)
    held = try_lock(path)

    assert is_locked(path)
    assert try_lock(path) is None
    os.close(held)
