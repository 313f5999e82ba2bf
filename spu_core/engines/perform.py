"""Doing one job in this process, and the sentence for whatever goes wrong."""

from __future__ import annotations

import os
from pathlib import Path

from spu_core.engines.jobs import Job, JobCancelled, Task, job_function
from spu_core.engines.processes import this_process
from spu_core.errors import EngineError, SpuError, traceback_for_log
from spu_core.workspace import Attempt, JobRecord, JobStatus, Workspace, in_bytes
from spu_core.workspace.disk import locked
from spu_core.workspace.records import new_id

SMALLER = "use fewer rows or columns, or allow more memory"


def run_here(workspace: Workspace, job: Job) -> JobRecord:
    """Do the job now, in this process; errors reach the caller, and the catalogue keeps what came of it.

    Takes no slot of the home, and the limits on time and memory are not enforced: the caller can stop itself.
    """
    token = new_id()
    # Held while we live, so that a killed process leaves an interrupted job like any other.
    with locked(workspace.jobs.lock_path(token)):
        job.add_to(workspace, token)
        attempt = workspace.jobs.begin(token)
        if attempt is None:
            return workspace.jobs.get(token)
        workspace.jobs.set_worker(attempt, {**this_process(), "detached": False})
        perform(workspace, attempt)
    return workspace.jobs.get(token)


def perform(workspace: Workspace, attempt: Attempt) -> None:
    """Run the function of a job and write how it ended; an error is raised again after it was written."""
    job = workspace.jobs.get(attempt.job)
    try:
        result = job_function(job.kind)(Task(workspace, job, attempt))
        workspace.jobs.finish(attempt, result)
    except JobCancelled:
        workspace.jobs.end(attempt, JobStatus.CANCELLED, "Cancelled.")
    except BaseException as error:
        _log(workspace.jobs.log_path(job.id), error)
        interrupted = isinstance(error, KeyboardInterrupt | SystemExit | EngineError)
        status = JobStatus.INTERRUPTED if interrupted else JobStatus.FAILED
        workspace.jobs.end(attempt, status, sentence_for(error, job))
        raise


def sentence_for(error: BaseException, job: JobRecord) -> str:
    """One or two sentences for the analyst; the traceback is for the log."""
    if isinstance(error, SpuError):
        return str(error)
    if isinstance(error, MemoryError):
        return _memory_sentence(job)
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return "Stopped from outside; start the job again."
    return f"An unexpected error stopped this job. Its log has the details; the reference is {job.id}."


def _memory_sentence(job: JobRecord) -> str:
    limit = job.limits.get("memory")
    allowed = f"the {in_bytes(int(limit))} that it may use" if limit else "this machine allows"
    return f"This job needed more memory than {allowed}; {SMALLER}."


def _log(path: Path, error: BaseException) -> None:
    # Opened for private appending: a traceback may quote data.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with open(descriptor, "a", encoding="utf-8") as stream:
        stream.write(f"{traceback_for_log(error)}\n")
