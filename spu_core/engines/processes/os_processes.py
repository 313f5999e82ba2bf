"""Operating system processes: identify them, end them with all their children, and limit what they use.

A pid alone does not identify a process, since the system reuses it.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

# How far workers give way to the server, from 0 to 19; SPU_WORKER_NICENESS changes it.
NICENESS = 10
# A process that survives this many SIGKILLs hangs in the kernel, where no signal reaches it.
_ROUNDS = 25
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_AUTOGROUP = Path("/proc/self/autogroup")
_PR_SET_CHILD_SUBREAPER = 36
_SHARE_OF_MACHINE = 0.9


def this_process() -> dict[str, Any]:
    """The identity of this process: pid, start time, boot and host."""
    return _identity(os.getpid())


def find_process(worker: Mapping[str, Any]) -> psutil.Process | None:
    """The running process with this identity; None if it has ended, even if its pid is used again."""
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
    """Become the parent of descendants whose own parent ends, so that all can be ended (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants(process: psutil.Process) -> None:
    """End every descendant: SIGTERM first, SIGKILL 0.4 seconds later. The process itself keeps running."""
    asked = _living(process)
    _signal(asked, signal.SIGTERM)
    psutil.wait_procs(asked, timeout=0.4)
    kill_descendants(process)


def kill_descendants(process: psutil.Process) -> None:
    """Kill every descendant, again and again until none is left: they may start others meanwhile."""
    for _ in range(_ROUNDS):
        left = _living(process)
        if not left:
            return
        _signal(left, signal.SIGKILL)
        psutil.wait_procs(left, timeout=0.2)


def end_tree(process: psutil.Process) -> None:
    """Kill a process and its descendants; the process first, so that it starts no others."""
    descendants = _living(process)
    _signal([process, *descendants], signal.SIGKILL)
    psutil.wait_procs([process, *descendants], timeout=1.0)


def wait_until(condition: Callable[[], bool], seconds: float, pause: float = 0.05) -> bool:
    """Wait until `condition()` is true, at most `seconds`; returns whether it became true."""
    last = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > last:
            return False
        time.sleep(pause)
    return True


def lower_priority() -> None:
    """Lower the priority of this process and of all that it starts, so that the server answers meanwhile.

    Linux may share the processor among sessions first (autogroup), and our workers have sessions of their own. Between
    sessions `nice` alone changes nothing, so the whole session gets the same niceness.
    """
    own = os.nice(int(os.environ.get("SPU_WORKER_NICENESS", NICENESS)))
    wait_until(lambda: _set_session_niceness(own), seconds=2.0, pause=0.11)


def limit_memory(limit: int | None) -> None:
    """Limit the address space of this process: `limit` bytes beyond what is reserved now, else most of the machine."""
    if sys.platform != "linux":
        return  # other kernels accept the limit and ignore it
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = psutil.virtual_memory().total * _SHARE_OF_MACHINE
    # Libraries reserve a gigabyte and more of addresses and use little of it.
    wanted = int(most if limit is None else limit + psutil.Process().memory_info().vms)
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def limit_processor_time(seconds: float | None) -> None:
    """End this process (SIGXCPU) after this much more processor time. Time spent waiting does not count."""
    if seconds is not None:
        used = time.process_time()
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used + seconds), hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _set_session_niceness(niceness: int) -> bool:
    """Whether it is set, or cannot be set on this system; the kernel accepts one change in a tenth of a second."""
    try:
        _AUTOGROUP.write_text(str(niceness))
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _identity(pid: int) -> dict[str, Any]:
    return {"pid": pid, "start": _start_of(pid), "boot": _boot(), "host": platform.node()}


def _start_of(pid: int) -> float:
    """Start time of a process; on Linux in ticks since boot, which no change of the clock affects."""
    if sys.platform == "linux":
        # The name in parentheses may contain blanks, so count the fields after it. The start time is field 22.
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
