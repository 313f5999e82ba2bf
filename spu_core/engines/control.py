"""What a dashboard or the command line asks of jobs: start, look, cancel, start again."""

from __future__ import annotations

from spu_core.engines.jobs import Job
from spu_core.engines.launch import drop_void_tickets, start_waiting
from spu_core.engines.processes import end_tree, find_process, wait_until
from spu_core.engines.queue import Queue
from spu_core.workspace import Attempt, JobRecord, JobStatus, QueueFullError, Workspace
from spu_core.workspace.records import new_id

# The worker ends its tree within about a second; then we do it.
PATIENCE_SECONDS = 1.4


def start_worker(workspace: Workspace, job: Job) -> JobRecord:
    """Run the job in a worker of its own, now or when a slot is free; returns at once."""
    token, queue = new_id(), Queue(workspace.home)
    with queue.alone():
        _make_room(queue)
        # The ticket first: a ticket without a row is dropped, a row without a ticket would wait for nobody.
        queue.put(token, workspace.place)
        job.add_to(workspace, token)
        start_waiting(queue)
    return workspace.jobs.get(token)


def restart(workspace: Workspace, token: str) -> JobRecord:
    """Try a job again that failed, was cancelled, or was interrupted."""
    workspace.jobs.mark_dead()
    queue = Queue(workspace.home)
    with queue.alone():
        _make_room(queue)
        workspace.jobs.wait_again(token)
        queue.put(token, workspace.place)
        start_waiting(queue)
    return workspace.jobs.get(token)


def cancel(workspace: Workspace, token: str) -> JobRecord:
    """End a job and every process it started; within two seconds it is gone."""
    job = workspace.jobs.request_cancel(token)
    if job.status is not JobStatus.RUNNING:
        return job
    if not wait_until(lambda: not workspace.jobs.is_alive(token), PATIENCE_SECONDS):
        _kill(workspace, token)
    now = workspace.jobs.get(token)
    if not workspace.jobs.is_alive(token):
        workspace.jobs.end(Attempt(token, now.attempt), JobStatus.CANCELLED, "Cancelled.")
    return refresh(workspace, token)


def jobs_now(workspace: Workspace) -> tuple[JobRecord, ...]:
    """All jobs, the newest first, after a look at who still lives; also starts those whose turn it is."""
    if workspace.is_read_only:
        return workspace.jobs.list()
    dead = workspace.jobs.mark_dead()
    waiting = [job.id for job in workspace.jobs.active() if job.status is JobStatus.WAITING]
    if dead or waiting or Queue(workspace.home).tickets():
        _start_those_who_wait(workspace, waiting)
    return workspace.jobs.list()


def refresh(workspace: Workspace, token: str) -> JobRecord:
    """One job, after the same look."""
    jobs_now(workspace)
    return workspace.jobs.get(token)


def wait_for(workspace: Workspace, token: str, seconds: float) -> JobRecord:
    """The job when it is over, or as it stands after `seconds`."""
    wait_until(lambda: refresh(workspace, token).status.is_over, seconds, pause=0.1)
    return workspace.jobs.get(token)


def _make_room(queue: Queue) -> None:
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


def _start_those_who_wait(workspace: Workspace, waiting: list[str]) -> None:
    queue = Queue(workspace.home)
    with queue.alone():
        ticketed = {ticket.job for ticket in queue.tickets()}
        for token in waiting:
            # A power cut may have kept the row and lost its ticket.
            job = workspace.jobs.find(token)
            lost = token not in ticketed and job is not None and job.status is JobStatus.WAITING
            if lost and not workspace.jobs.is_alive(token):
                queue.put(token, workspace.place)
        start_waiting(queue)


def _kill(workspace: Workspace, token: str) -> None:
    """For a watcher that does not answer; never a job that runs inside somebody's own process."""
    job = workspace.jobs.get(token)
    process = find_process(job.worker) if job.worker.get("detached") else None
    # It gives up the lock before it starts the next job, so whoever holds it has only this one.
    if process is not None and workspace.jobs.is_alive(token):
        end_tree(process)
