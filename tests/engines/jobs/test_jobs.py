"""A job in this process: errors reach the caller, and the catalogue keeps what came of it."""

import weakref

import pytest

from spu_core.engines import JOBS, Job, JobLimits, run_in_process
from spu_core.engines.jobs import job_function
from spu_core.errors import WorkspaceError
from spu_core.workspace import JobStatus
from tests.engines.steps import job, sleep


def test_a_job_runs_here_and_leaves_a_record(workspace):
    done = run_in_process(workspace, job(sleep(0.01), {"do": "save", "name": "rules"}, title="Try it"))

    assert (done.status, done.share, done.title) == (JobStatus.FINISHED, 1.0, "Try it")
    assert workspace.rule_sets.get(done.result["made"][1]).name == "rules"


def test_an_error_in_words_is_the_sentence_of_the_job(workspace):
    with pytest.raises(WorkspaceError, match="Three positives are too few"):
        run_in_process(workspace, job({"do": "fail", "sentence": "Three positives are too few."}))

    failed = workspace.jobs.list()[0]
    assert (failed.status, failed.error) == (JobStatus.FAILED, "Three positives are too few.")


def test_an_unexpected_error_gives_a_reference_and_keeps_the_traceback_in_the_log(workspace):
    with pytest.raises(RuntimeError):
        run_in_process(workspace, job({"do": "fail"}))

    failed = workspace.jobs.list()[0]
    assert failed.error == (
        f"An unexpected error stopped this job. Its log has the details; the reference is {failed.id}."
    )
    assert "RuntimeError: self-test failure, as told" in workspace.jobs.log(failed.id)


@pytest.mark.parametrize("problem", [OSError(28, "No space left on device"), MemoryError()])
def test_a_log_that_cannot_be_written_keeps_no_sentence_back(workspace, monkeypatch, problem):
    def fail(path, error):
        raise problem

    monkeypatch.setattr("spu_core.engines.processes._log", fail)
    with pytest.raises(RuntimeError, match="as told"):
        run_in_process(workspace, job({"do": "fail"}))

    assert workspace.jobs.list()[0].error.startswith("An unexpected error stopped this job.")


def test_a_job_without_memory_gives_up_what_it_holds_before_it_says_so(workspace, monkeypatch):
    from spu_core.engines.jobs import self_test

    class Large:
        pass

    held, left = [], []

    def use_up(context, step):
        large = Large()
        held.append(weakref.ref(large))
        raise MemoryError

    monkeypatch.setitem(self_test.STEPS, "allocate", use_up)
    monkeypatch.setattr("spu_core.engines.processes._log", lambda path, error: left.append(held[0]()))
    with pytest.raises(MemoryError):
        run_in_process(workspace, job({"do": "allocate"}))

    assert left == [None]
    assert workspace.jobs.list()[0].error.startswith("This job needed more memory than this machine allows")


def test_a_job_that_was_cancelled_or_deleted_stops_at_its_next_report(workspace, monkeypatch):
    from spu_core.engines.jobs import self_test

    monkeypatch.setattr("spu_core.engines.jobs.REPORT_SECONDS", 0.0)
    monkeypatch.setitem(self_test.STEPS, "sleep", lambda task, step: workspace.jobs.request_cancel(task.job) and None)
    assert run_in_process(workspace, job(sleep(1), sleep(1), sleep(1))).status is JobStatus.CANCELLED

    def delete(task, step):
        workspace.delete(workspace.plan_deletion("job", task.job))

    monkeypatch.setitem(self_test.STEPS, "sleep", delete)
    with pytest.raises(WorkspaceError, match="has no job"):
        run_in_process(workspace, job(sleep(1), sleep(1)))


def test_a_job_names_a_kind_and_never_code(workspace):
    for kind in ("os:system", "spu_core.engines.jobs.self_test:self_test", "", "train me"):
        with pytest.raises(WorkspaceError, match="There is no job of kind"):
            Job(kind=kind)
        with pytest.raises(WorkspaceError, match="kind must be one of"):
            job_function(kind)


@pytest.mark.parametrize("kind", JOBS)
def test_every_kind_of_job_has_a_function(kind):
    assert callable(job_function(kind))


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"seconds": 0}, "seconds must be positive, got 0"),
        ({"memory": 1000}, "memory must be at least 100,000,000 bytes"),
        ({"threads": 0}, "threads must be at least 1, got 0"),
    ],
)
def test_limits_that_no_job_could_keep_are_refused(limits, words):
    with pytest.raises(WorkspaceError, match=words):
        JobLimits(**limits)


def test_an_unknown_step_of_the_self_test_is_refused_in_words(workspace):
    with pytest.raises(WorkspaceError, match="do must be one of"):
        run_in_process(workspace, job({"do": "rm -rf"}))
