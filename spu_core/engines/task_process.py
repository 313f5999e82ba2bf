"""The process that does one job: low priority, bounded memory, and gone when its watcher is gone."""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import sys
import threading

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
        bound_memory(workspace.jobs.get(job).limits.get("memory"))
        workspace.jobs.report(attempt, 0.0, "running", {})
        try:
            perform(workspace, attempt)
        except Exception:
            sys.exit(1)  # the sentence is in the catalogue, the traceback in the log


def bound_memory(limit: int | None) -> None:
    """Limit the address space of this process, by default to most of the machine."""
    if sys.platform != "linux":
        return  # elsewhere the kernel takes the limit and does not keep it
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = int(limit or psutil.virtual_memory().total * _SHARE_OF_MACHINE)
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _die_with_watcher(lifeline: int) -> None:
    """The watcher holds the other end of this pipe; when it dies, reading ends, and so does our tree."""

    def wait() -> None:
        os.read(lifeline, 1)
        kill_descendants(psutil.Process())
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True, name="lifeline").start()


if __name__ == "__main__":
    main(sys.argv[1:])
