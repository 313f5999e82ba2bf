"""The process that does one job: low priority, bounded memory, and gone when its watcher is gone."""

from __future__ import annotations

import faulthandler
import math
import os
import resource
import signal
import sys
import threading
import time

import psutil

from spu_core.engines.perform import perform
from spu_core.engines.processes import adopt_orphans, kill_descendants
from spu_core.workspace import Attempt, Home, Workspace

NICENESS = 10
_SHARE_OF_MACHINE = 0.9


def main(arguments: list[str]) -> None:
    home, place, job, number, lifeline = arguments
    adopt_orphans()
    _die_with_watcher(int(lifeline))
    faulthandler.enable()  # a native crash leaves its Python stack in the log
    os.nice(NICENESS)
    attempt = Attempt(job, int(number))
    with Workspace.join(Home.at(home), place) as workspace:
        limits = workspace.jobs.get(job).limits
        bound_memory(limits.get("memory"))
        bound_processor(limits.get("processor_seconds"))
        workspace.jobs.report(attempt, 0.0, "running", {})
        try:
            perform(workspace, attempt)
        except Exception:
            sys.exit(1)  # the sentence is in the catalogue, the traceback in the log


def bound_memory(limit: int | None) -> None:
    """Limit the address space of this process: `limit` beyond what libraries reserve, else most of the machine."""
    if sys.platform != "linux":
        return  # elsewhere the kernel takes the limit and does not keep it
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = psutil.virtual_memory().total * _SHARE_OF_MACHINE
    # Libraries reserve a gigabyte and more of addresses, of which they use little.
    wanted = int(most if limit is None else limit + psutil.Process().memory_info().vms)
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def bound_processor(seconds: float | None) -> None:
    """End this process (SIGXCPU) once it has used so much more processor time; waiting for a busy machine is free."""
    if seconds is not None:
        used = time.process_time()
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used + seconds), hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _die_with_watcher(lifeline: int) -> None:
    """The watcher holds the other end of this pipe; when it dies, reading ends, and so does our tree."""

    def wait() -> None:
        os.read(lifeline, 1)
        kill_descendants(psutil.Process())
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True, name="lifeline").start()


if __name__ == "__main__":
    main(sys.argv[1:])
