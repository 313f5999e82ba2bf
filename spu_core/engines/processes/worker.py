"""The worker process: runs one job with low priority and limited memory. It ends when its supervisor ends."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading

import psutil

from spu_core.engines.processes import perform
from spu_core.engines.processes.os_processes import (
    adopt_orphans,
    kill_descendants,
    limit_memory,
    limit_processor_time,
    lower_priority,
)
from spu_core.workspace import Attempt, Home, Workspace


def main(arguments: list[str]) -> None:
    """Run the job that the supervisor names: home, workspace, job, attempt, and the pipe to the supervisor."""
    home, place, job, number, pipe = arguments
    adopt_orphans()
    _end_with_supervisor(int(pipe))
    faulthandler.enable()  # a crash in native code writes its Python stack to the log
    lower_priority()
    attempt = Attempt(job, int(number))
    with Workspace.join(Home.at(home), place) as workspace:
        limits = workspace.jobs.get(job).limits
        limit_memory(limits.get("memory"))
        limit_processor_time(limits.get("processor_seconds"))
        workspace.jobs.report(attempt, 0.0, "running", {})
        try:
            perform(workspace, attempt)
        except Exception:
            sys.exit(1)  # the message is in the catalogue, the traceback in the log


def _end_with_supervisor(pipe: int) -> None:
    """The supervisor holds the other end of this pipe; when it ends, `read` returns, and we end with our children."""

    def wait() -> None:
        os.read(pipe, 1)
        kill_descendants(psutil.Process())
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True, name="supervisor pipe").start()


if __name__ == "__main__":
    main(sys.argv[1:])
