"""Starting workers: a slot, the lock of the job, and a detached process that inherits both."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import spu_core
from spu_core.engines.queue import Queue, Ticket
from spu_core.errors import WorkspaceError
from spu_core.workspace import Attempt, Home, JobStatus, Workspace
from spu_core.workspace.disk import try_lock

_ROOT = str(Path(spu_core.__file__).resolve().parents[1])
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
# Workers that this process started: kept only to reap them when they end.
_started: list[subprocess.Popen[bytes]] = []


def start_waiting(queue: Queue) -> None:
    """Give free slots to those who wait, in turn. The caller holds `queue.alone()`."""
    _started[:] = [process for process in _started if process.poll() is None]
    for ticket in queue.tickets():
        slot = queue.free_slot()
        if slot is None:
            return
        try:
            _start(queue.home, ticket, slot)
        finally:
            os.close(slot)  # the worker has inherited it and holds the lock now
        queue.drop(ticket)


def drop_void_tickets(queue: Queue) -> None:
    """Take away the turns of jobs that were cancelled or deleted. The caller holds `queue.alone()`."""
    for ticket in queue.tickets():
        try:
            with Workspace.join(queue.home, ticket.place) as workspace:
                job = workspace.jobs.find(ticket.job)
        except WorkspaceError:
            job = None
        if job is None or job.status is not JobStatus.WAITING:
            queue.drop(ticket)


def spawn(module: str, arguments: tuple[str, ...], keep: tuple[int, ...], **options: Any) -> subprocess.Popen[bytes]:
    """A Python process of ours in a session of its own; `keep` are the descriptors that it inherits."""
    environment = options.pop("environment", {})
    path = os.pathsep.join(filter(None, [_ROOT, os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        # -P: a file called json.py in some current folder is not our json.
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.DEVNULL,
        pass_fds=keep,
        start_new_session=True,
        env={**os.environ, **environment, "PYTHONPATH": path},
        **options,
    )


def thread_variables(threads: int) -> Mapping[str, str]:
    """What keeps numeric libraries to their number of threads, and lets waiting ones sleep; read when they load."""
    return {**dict.fromkeys(_THREAD_VARIABLES, str(threads)), "OMP_WAIT_POLICY": "PASSIVE"}


def _start(home: Home, ticket: Ticket, slot: int) -> None:
    """Start the job of a ticket; one that was cancelled, deleted or started already is left as it is."""
    try:
        workspace = Workspace.join(home, ticket.place)
    except WorkspaceError:
        return  # a workspace that was removed or is damaged must not stop the others
    with workspace:
        lock = try_lock(workspace.jobs.lock_path(ticket.job))
        if lock is None:
            return
        try:
            attempt = workspace.jobs.begin(ticket.job)
            if attempt is not None:
                _launch(workspace, attempt, (slot, lock))
        finally:
            os.close(lock)


def _launch(workspace: Workspace, attempt: Attempt, keep: tuple[int, int]) -> None:
    log = os.open(workspace.jobs.log_path(attempt.job), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    arguments = (str(workspace.home.folder), workspace.place, attempt.job, str(attempt.number))
    try:
        worker = spawn(
            "spu_core.engines.worker",
            (*arguments, *map(str, keep)),
            keep,
            stdout=log,
            stderr=log,
            cwd=workspace.home.folder,
        )
        _started.append(worker)
    except OSError as error:
        sentence = f"The worker could not be started ({error.strerror}); start the job again later."
        workspace.jobs.end(attempt, JobStatus.FAILED, sentence)
    finally:
        os.close(log)
