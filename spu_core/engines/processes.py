"""Processes by their true identity: a pid alone may be somebody else's by now."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

# Beyond this, a process hangs in the kernel, where no signal reaches it.
_ROUNDS = 25
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PR_SET_CHILD_SUBREAPER = 36


def this_process() -> dict[str, Any]:
    """What identifies this process on this machine until it ends."""
    return _identity(os.getpid())


def find_process(worker: Mapping[str, Any]) -> psutil.Process | None:
    """The living process that `this_process` described; None where it ended, even if its pid is used again."""
    pid = worker.get("pid")
    if not isinstance(pid, int) or pid <= 1:
        return None
    try:
        same = all(worker.get(key) == value for key, value in _identity(pid).items())
        process = psutil.Process(pid)
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return None


def adopt_orphans() -> None:
    """Descendants whose parent ends become our children, so that none escapes (Linux; elsewhere groups must do)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants(process: psutil.Process, grace: float = 0.4) -> None:
    """Ask every descendant to end, then make it; the process itself stays."""
    asked = _living(process)
    _signal(asked, signal.SIGTERM)
    psutil.wait_procs(asked, timeout=grace)
    kill_descendants(process)


def kill_descendants(process: psutil.Process) -> None:
    """Kill every descendant, and those that they started meanwhile, until none is left."""
    for _ in range(_ROUNDS):
        left = _living(process)
        if not left:
            return
        _signal(left, signal.SIGKILL)
        psutil.wait_procs(left, timeout=0.2)


def end_tree(process: psutil.Process) -> None:
    """Kill a process and its descendants at once; the process first, so that it starts no others."""
    descendants = _living(process)
    _signal([process, *descendants], signal.SIGKILL)
    psutil.wait_procs([process, *descendants], timeout=1.0)


def wait_until(condition: Callable[[], bool], seconds: float, pause: float = 0.05) -> bool:
    """Whether `condition()` came true within `seconds`."""
    last = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > last:
            return False
        time.sleep(pause)
    return True


def _identity(pid: int) -> dict[str, Any]:
    return {"pid": pid, "start": _start_of(pid), "boot": _boot(), "host": platform.node()}


def _start_of(pid: int) -> float:
    """When a process started, in ticks since boot on Linux: a clock that jumps does not change it."""
    if sys.platform == "linux":
        # The name in parentheses may hold blanks, so count fields after it; start time is the 22nd of all.
        return float(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return float(psutil.Process(pid).create_time())


def _boot() -> str:
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""


def _living(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return [child for child in process.children(recursive=True) if _is_alive(child)]
    return []


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _signal(processes: Iterable[psutil.Process], number: int) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process.send_signal(number)  # psutil compares the start time first
