"""Self-test jobs in one line, and the state of their processes."""

from __future__ import annotations

import psutil

from spu_core.engines import Job, JobLimits
from spu_core.engines.processes.os_processes import wait_until


def job(*steps: dict, title: str = "", **limits) -> Job:
    return Job(kind="self_test", parameters={"steps": list(steps)}, title=title, limits=JobLimits(**limits))


def sleep(seconds: float) -> dict:
    return {"do": "sleep", "seconds": seconds}


def processes_of(token: str) -> list[psutil.Process]:
    """The watcher and the working process of a job."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if token in words and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_for_step(workspace, token: str, number: int, seconds: float = 120.0) -> None:
    """Until the job has begun its step of this number."""
    assert wait_until(lambda: workspace.jobs.get(token).message.startswith((f"step {number} ", "sleeping")), seconds), (
        workspace.jobs.get(token)
    )
