"""What `spu workspace check --jobs` does: start real workers on this machine and see that they obey."""

from __future__ import annotations

import time
from collections.abc import Iterator

from spu_core.engines.control import cancel, refresh, start_worker, wait_for
from spu_core.engines.jobs import Job, JobLimits
from spu_core.engines.processes import wait_until
from spu_core.workspace import JobRecord, JobStatus, Problem, Workspace

PATIENCE_SECONDS = 60.0


def check_jobs(workspace: Workspace, seconds: float = PATIENCE_SECONDS) -> tuple[Problem, ...]:
    """Run one job to its end and cancel another; empty where both went as promised. Leaves no job behind."""
    started = [start_worker(workspace, _finishing()), start_worker(workspace, _hanging())]
    try:
        finishing, hanging = (job.id for job in started)
        return (*_finishes(workspace, finishing, seconds), *_obeys(workspace, hanging, seconds))
    finally:
        for job in started:
            cancel(workspace, job.id)
            workspace.delete(workspace.plan_deletion("job", job.id))


def _finishing() -> Job:
    steps = [{"do": "sleep", "seconds": 0.1}]
    return Job(kind="self_test", title="check: finish", parameters={"steps": steps})


def _hanging() -> Job:
    steps = [{"do": "spawn", "seconds": 600, "session": True}, {"do": "hang", "seconds": 600}]
    return Job(kind="self_test", title="check: cancel", parameters={"steps": steps}, limits=JobLimits(seconds=600))


def _finishes(workspace: Workspace, token: str, seconds: float) -> Iterator[Problem]:
    job = wait_for(workspace, token, seconds)
    if job.status is not JobStatus.FINISHED:
        what = f"A job of no work is {job.status} after {seconds:g} seconds. {job.error}".rstrip()
        yield Problem(what, f"Its log ends with: {workspace.jobs.log(token)[-300:].strip() or 'nothing'}")


def _obeys(workspace: Workspace, token: str, seconds: float) -> Iterator[Problem]:
    wait_until(lambda: _hangs(refresh(workspace, token)), seconds)
    start = time.monotonic()
    job = cancel(workspace, token)
    if job.status is not JobStatus.CANCELLED:
        yield Problem(f"A cancelled job is {job.status}.", "Look at the processes of this machine.")
    if (passed := time.monotonic() - start) > 2.0:
        yield Problem(f"Cancelling took {passed:.1f} seconds.", "The machine has too much to do.")


def _hangs(job: JobRecord) -> bool:
    return job.status.is_over or "hang" in job.message
