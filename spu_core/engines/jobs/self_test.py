"""The job "self_test": run given steps, to check that workers start, report and end correctly on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from spu_core.checks import check_choice
from spu_core.engines.jobs import Job, JobContext, JobLimits
from spu_core.engines.processes import cancel, refresh, start_worker, wait_for
from spu_core.engines.processes.os_processes import wait_until
from spu_core.errors import WorkspaceError
from spu_core.workspace import JobRecord, JobStatus, Problem, Workspace

CHECK_SECONDS = 60.0
Step = Mapping[str, Any]


def self_test(context: JobContext) -> dict[str, Any]:
    """`{"steps": [{"do": "sleep", "seconds": 1}, …]}` → what each step returned."""
    steps = context.parameters.get("steps", [])
    made: list[Any] = []
    for number, step in enumerate(steps):
        do = STEPS[check_choice(step.get("do", ""), STEPS, "do", WorkspaceError)]
        context.progress(number / len(steps), f"step {number + 1} of {len(steps)}: {step['do']}", {"made": made})
        made.append(do(context, step))
    return {
        "made": made,
        "pid": os.getpid(),
        "nice": os.nice(0),
        "threads": os.environ.get("OMP_NUM_THREADS"),
    }


def _sleep(context: JobContext, step: Step) -> None:
    """Sleep and report progress, so that a cancel ends it at once."""
    start, seconds = time.monotonic(), float(step["seconds"])
    while (passed := time.monotonic() - start) < seconds:
        context.progress(passed / seconds, "sleeping", {"passed": passed})
        time.sleep(min(0.05, seconds))


def _hang(context: JobContext, step: Step) -> None:
    """Sleep without reporting, and ignore SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(float(step["seconds"]))


def _spawn(context: JobContext, step: Step) -> int:
    """Start a process that outlives its parent; in its own session if `session` is true."""
    code = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep({float(step['seconds'])})"
    child = subprocess.Popen([sys.executable, "-c", code], start_new_session=bool(step.get("session")))
    return child.pid


def _allocate(context: JobContext, step: Step) -> int:
    return len(bytearray(int(step["megabytes"]) * 1_000_000))


def _fail(context: JobContext, step: Step) -> None:
    if step.get("sentence"):
        raise WorkspaceError(str(step["sentence"]))
    raise RuntimeError("self-test failure, as told")


def _die(context: JobContext, step: Step) -> None:
    os.kill(os.getpid(), int(step.get("signal", signal.SIGKILL)))


def _save(context: JobContext, step: Step) -> str:
    return context.workspace.rule_sets.create(str(step["name"]), str(step.get("text", "{}"))).id


STEPS: dict[str, Callable[[JobContext, Step], Any]] = {
    "allocate": _allocate,
    "die": _die,
    "fail": _fail,
    "hang": _hang,
    "save": _save,
    "sleep": _sleep,
    "spawn": _spawn,
}


def check_jobs(workspace: Workspace, seconds: float = CHECK_SECONDS) -> tuple[Problem, ...]:
    """Start two real workers: one must finish its job, the other must obey a cancel. Returns the problems found."""
    started = [start_worker(workspace, _finishing()), start_worker(workspace, _hanging())]
    try:
        finishing, hanging = (job.id for job in started)
        return (*_finishes(workspace, finishing, seconds), *_cancels(workspace, hanging, seconds))
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
        what = f"A job without work is {job.status} after {seconds:g} seconds. {job.error}".rstrip()
        yield Problem(what, f"Its log ends with: {workspace.jobs.log(token)[-300:].strip() or 'nothing'}")


def _cancels(workspace: Workspace, token: str, seconds: float) -> Iterator[Problem]:
    wait_until(lambda: _hangs(refresh(workspace, token)), seconds)
    start = time.monotonic()
    job = cancel(workspace, token)
    if job.status is not JobStatus.CANCELLED:
        yield Problem(f"A cancelled job is {job.status}.", "Look at the processes of this machine.")
    if (passed := time.monotonic() - start) > 2.0:
        yield Problem(f"Cancelling took {passed:.1f} seconds.", "The machine has too much to do.")


def _hangs(job: JobRecord) -> bool:
    return job.status.is_over or "hang" in job.message
