"""A job that does as it is told: to see that workers start, report, obey and die as promised on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from spu_core.checks import check_choice
from spu_core.engines.jobs import Task
from spu_core.errors import WorkspaceError

Step = Mapping[str, Any]


def self_test(task: Task) -> dict[str, Any]:
    """Do the steps one after the other: `{"steps": [{"do": "sleep", "seconds": 1}, …]}`."""
    steps = task.parameters.get("steps", [])
    made: list[Any] = []
    for number, step in enumerate(steps):
        do = STEPS[check_choice(step.get("do", ""), STEPS, "do", WorkspaceError)]
        task.progress(number / len(steps), f"step {number + 1} of {len(steps)}: {step['do']}", {"made": made})
        made.append(do(task, step))
    return {
        "made": made,
        "pid": os.getpid(),
        "nice": os.nice(0),
        "threads": os.environ.get("OMP_NUM_THREADS"),
    }


def _sleep(task: Task, step: Step) -> None:
    """Sleeps; reports on the way, and so cooperates with a cancel."""
    start, seconds = time.monotonic(), float(step["seconds"])
    while (passed := time.monotonic() - start) < seconds:
        task.progress(passed / seconds, "sleeping", {"passed": passed})
        time.sleep(min(0.05, seconds))


def _hang(task: Task, step: Step) -> None:
    """Never reports and ignores every request to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(float(step["seconds"]))


def _spawn(task: Task, step: Step) -> int:
    """Starts a process that outlives its parent, in its own session where `session` is true."""
    code = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep({float(step['seconds'])})"
    child = subprocess.Popen([sys.executable, "-c", code], start_new_session=bool(step.get("session")))
    return child.pid


def _allocate(task: Task, step: Step) -> int:
    return len(bytearray(int(step["megabytes"]) * 1_000_000))


def _fail(task: Task, step: Step) -> None:
    if step.get("in_words"):
        raise WorkspaceError(str(step["in_words"]))
    raise RuntimeError("self-test failure, as told")


def _die(task: Task, step: Step) -> None:
    os.kill(os.getpid(), int(step.get("signal", signal.SIGKILL)))


def _save(task: Task, step: Step) -> str:
    return task.workspace.rule_sets.create(str(step["name"]), str(step.get("text", "{}"))).id


STEPS: dict[str, Callable[[Task, Step], Any]] = {
    "allocate": _allocate,
    "die": _die,
    "fail": _fail,
    "hang": _hang,
    "save": _save,
    "sleep": _sleep,
    "spawn": _spawn,
}
