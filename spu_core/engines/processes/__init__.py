"""Run jobs: in this process, or in worker processes that outlive the dashboard.

`start_worker` puts a job into the queue of the home (`job_queue`). A free slot starts a supervisor (`supervisor`),
which starts the worker (`worker`) that does the job, and ends it at its limits or when it is cancelled.
"""

from __future__ import annotations

import gc
import os
import traceback
from contextlib import suppress
from pathlib import Path

from spu_core.engines.jobs import Job, JobCancelled, JobContext, job_function
from spu_core.engines.processes.job_queue import JobQueue, drop_void_tickets, start_waiting
from spu_core.engines.processes.os_processes import end_tree, find_process, this_process, wait_until
from spu_core.errors import EngineError, SpuError, traceback_for_log
from spu_core.workspace import Attempt, JobRecord, JobStatus, QueueFullError, Workspace, in_bytes
from spu_core.workspace.disk import locked
from spu_core.workspace.records import new_id

# A supervisor ends its processes within about a second; after this time we end them from here.
CANCEL_SECONDS = 1.4
USE_LESS_MEMORY = "use fewer rows or columns, or allow more memory"
# Freed when a job runs out of memory, so that its message can be stored.
MEMORY_RESERVE = 32 << 20


def start_worker(workspace: Workspace, job: Job) -> JobRecord:
    """Run a job in a worker process, now or when a slot is free. Returns at once."""
    token, queue = new_id(), JobQueue(workspace.home)
    with queue.locked():
        _make_room(queue)
        # The ticket first: a ticket without a job is dropped later, a job without a ticket would wait for ever.
        queue.put(token, workspace.place)
        job.add_to(workspace, token)
        start_waiting(queue)
    return workspace.jobs.get(token)


def run_in_process(workspace: Workspace, job: Job) -> JobRecord:
    """Run a job now, in this process. Its errors are stored with the job and raised.

    It takes no slot of the queue, and its limits on time and memory are not enforced.
    """
    token = new_id()
    # The lock is held while this process lives, so a killed process leaves an interrupted job like any other.
    with locked(workspace.jobs.lock_path(token)):
        job.add_to(workspace, token)
        attempt = workspace.jobs.begin(token)
        if attempt is None:
            return workspace.jobs.get(token)
        workspace.jobs.set_worker(attempt, {**this_process(), "detached": False})
        perform(workspace, attempt)
    return workspace.jobs.get(token)


def restart(workspace: Workspace, token: str) -> JobRecord:
    """Start a job again that failed, was cancelled, or was interrupted."""
    workspace.jobs.mark_dead()
    queue = JobQueue(workspace.home)
    with queue.locked():
        _make_room(queue)
        workspace.jobs.requeue(token)
        queue.put(token, workspace.place)
        start_waiting(queue)
    return workspace.jobs.get(token)


def cancel(workspace: Workspace, token: str) -> JobRecord:
    """End a job and every process that it started, within about two seconds."""
    job = workspace.jobs.request_cancel(token)
    if job.status is not JobStatus.RUNNING:
        return job
    if not wait_until(lambda: not workspace.jobs.is_alive(token), CANCEL_SECONDS):
        _kill(workspace, token)
    now = workspace.jobs.get(token)
    if not workspace.jobs.is_alive(token):
        workspace.jobs.end(Attempt(token, now.attempt), JobStatus.CANCELLED, "Cancelled.")
    return refresh(workspace, token)


def jobs_now(workspace: Workspace) -> tuple[JobRecord, ...]:
    """All jobs, the newest first. Marks jobs whose worker is gone, and starts waiting ones where slots are free."""
    if workspace.is_read_only:
        return workspace.jobs.list()
    dead = workspace.jobs.mark_dead()
    waiting = [job.id for job in workspace.jobs.active() if job.status is JobStatus.WAITING]
    if dead or waiting or JobQueue(workspace.home).tickets():
        _start_waiting_jobs(workspace, waiting)
    return workspace.jobs.list()


def latest_job(workspace: Workspace, job: Job) -> JobRecord | None:
    """The newest job of the same kind with the same parameters, running or over."""
    same = (each for each in jobs_now(workspace) if (each.kind, dict(each.parameters)) == (job.kind, job.parameters))
    return next(same, None)


def refresh(workspace: Workspace, token: str) -> JobRecord:
    """One job, after the same update as in `jobs_now`."""
    jobs_now(workspace)
    return workspace.jobs.get(token)


def wait_for(workspace: Workspace, token: str, seconds: float) -> JobRecord:
    """The job when it is over, or its state after `seconds`."""
    wait_until(lambda: refresh(workspace, token).status.is_over, seconds, pause=0.1)
    return workspace.jobs.get(token)


def perform(workspace: Workspace, attempt: Attempt) -> None:
    """Run the function of a job and store how it ended. An error is stored, then raised again."""
    job = workspace.jobs.get(attempt.job)
    reserve = bytearray(MEMORY_RESERVE)
    try:
        result = job_function(job.kind)(JobContext(workspace, job, attempt))
        workspace.jobs.finish(attempt, result)
    except JobCancelled:
        workspace.jobs.end(attempt, JobStatus.CANCELLED, "Cancelled.")
    except BaseException as error:
        if isinstance(error, MemoryError):
            reserve.clear()
            _drop_locals(error)
        with suppress(OSError, MemoryError):  # the message must be stored even on a full disk
            _log(workspace.jobs.log_path(job.id), error)
        interrupted = isinstance(error, KeyboardInterrupt | SystemExit | EngineError)
        status = JobStatus.INTERRUPTED if interrupted else JobStatus.FAILED
        workspace.jobs.end(attempt, status, message_for(error, job))
        raise


def message_for(error: BaseException, job: JobRecord) -> str:
    """One or two sentences for the user; the traceback goes to the log."""
    if isinstance(error, SpuError):
        return str(error)
    if isinstance(error, MemoryError):
        limit = job.limits.get("memory")
        allowed = f"the {in_bytes(int(limit))} that it may use" if limit else "this machine allows"
        return f"This job needed more memory than {allowed}; {USE_LESS_MEMORY}."
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return "Stopped from outside; start the job again."
    return f"An unexpected error stopped this job. Its log has the details; the reference is {job.id}."


def _drop_locals(error: BaseException | None) -> None:
    """Free what the failed functions hold: without memory neither the log nor the message could be written."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
    gc.collect()


def _log(path: Path, error: BaseException) -> None:
    # Readable by the owner only: a traceback may contain data.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with open(descriptor, "a", encoding="utf-8") as stream:
        stream.write(f"{traceback_for_log(error)}\n")


def _make_room(queue: JobQueue) -> None:
    start_waiting(queue)
    limits = queue.limits
    if len(queue.tickets()) < limits.waiting or queue.has_free_slot():
        return
    drop_void_tickets(queue)
    if len(queue.tickets()) >= limits.waiting:
        raise QueueFullError(
            f"{limits.running} jobs run and {limits.waiting} wait, which is all that this server allows; "
            "wait until one ends, or cancel one."
        )


def _start_waiting_jobs(workspace: Workspace, waiting: list[str]) -> None:
    queue = JobQueue(workspace.home)
    with queue.locked():
        ticketed = {ticket.job for ticket in queue.tickets()}
        for token in waiting:
            # After a power cut a job may be stored while its ticket is lost.
            job = workspace.jobs.find(token)
            lost = token not in ticketed and job is not None and job.status is JobStatus.WAITING
            if lost and not workspace.jobs.is_alive(token):
                queue.put(token, workspace.place)
        start_waiting(queue)


def _kill(workspace: Workspace, token: str) -> None:
    """Kill a supervisor that does not answer; never a job that runs in the process of a caller."""
    job = workspace.jobs.get(token)
    process = find_process(job.worker) if job.worker.get("detached") else None
    # A supervisor releases the lock before it starts the next job, so whoever holds it runs only this job.
    if process is not None and workspace.jobs.is_alive(token):
        end_tree(process)
