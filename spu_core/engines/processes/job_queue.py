"""The job queue of a home: how many jobs run, which ones wait, and how a waiting one is started.

At most N jobs run and M wait, over all workspaces and processes of the home. A running job holds a slot: a lock file
that the kernel releases when its processes end. A waiting job has a ticket: a small file whose number gives the order.
What a job is stands in the catalogue of its workspace; a ticket only decides its turn.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import spu_core
from spu_core.codec import decode, dump_json, encode, parse_json
from spu_core.errors import WorkspaceError
from spu_core.workspace import Attempt, Disk, Home, JobStatus, Workspace
from spu_core.workspace.disk import locked, try_lock
from spu_core.workspace.home import make_private_folder
from spu_core.workspace.records import new_id
from spu_core.workspace.storage_errors import readable_errors

_TICKET = re.compile(r"(\d{12})-([0-9a-f]{24})")
_ROOT = str(Path(spu_core.__file__).resolve().parents[1])
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
# Supervisors that this process started; kept only to reap them when they end.
_started: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, kw_only=True)
class QueueLimits:
    """At most `running` jobs run and at most `waiting` jobs wait in one home."""

    running: int = 2
    waiting: int = 20

    def __post_init__(self) -> None:
        for name, least in (("running", 1), ("waiting", 0)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= 1000:
                raise WorkspaceError(f"{name} must be a whole number from {least} to 1000, got {value!r}.")


@dataclass(frozen=True, slots=True)
class Ticket:
    """A waiting job: its number in the queue, its id, and the workspace (`place` in the home) that holds it."""

    number: int
    job: str
    place: str


@dataclass(frozen=True, slots=True)
class JobQueue:
    """Slots and tickets of a home. Change them only while `locked()` is held."""

    home: Home

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process at a time changes the queue."""
        for folder in (self.home.queue_folder, self.home.slot_folder):
            make_private_folder(folder)
        with readable_errors(self.home.folder), locked(self.home.queue_folder / "queue.lock"):
            yield

    @property
    def limits(self) -> QueueLimits:
        """The limits of this home."""
        path = self._limits_path
        if not path.exists():
            return QueueLimits()
        try:
            return decode(QueueLimits, parse_json(path.read_text("utf-8"), str(path)), str(path))
        except ValueError as error:
            raise WorkspaceError(
                f"{path} must hold {dump_json(encode(QueueLimits()))} or other numbers; correct or delete it."
            ) from error

    def set_limits(self, limits: QueueLimits) -> None:
        """Store the limits of this home."""
        with self.locked():
            self._publish(dump_json(encode(limits)), self._limits_path)

    def tickets(self) -> list[Ticket]:
        """Waiting jobs in their order."""
        found = ((path, _TICKET.fullmatch(path.name)) for path in sorted(self.home.queue_folder.glob("*-*")))
        return [Ticket(int(match[1]), match[2], path.read_text("utf-8")) for path, match in found if match is not None]

    def put(self, job: str, place: str) -> None:
        """Add a job at the end. Numbers give the order, since clocks can jump."""
        last = max((ticket.number for ticket in self.tickets()), default=0)
        self._publish(place, self._path(Ticket(last + 1, job, place)))

    def drop(self, ticket: Ticket) -> None:
        """Remove a job from the queue."""
        self._path(ticket).unlink(missing_ok=True)

    def free_slot(self) -> int | None:
        """A file descriptor that holds a free slot; None if all are taken."""
        for number in range(self.limits.running):
            slot = try_lock(self.home.slot_folder / f"slot-{number}.lock")
            if slot is not None:
                return slot
        return None

    def has_free_slot(self) -> bool:
        """Whether a job could start now."""
        slot = self.free_slot()
        if slot is not None:
            os.close(slot)
        return slot is not None

    @property
    def _limits_path(self) -> Path:
        return self.home.queue_folder / "limits.json"

    def _path(self, ticket: Ticket) -> Path:
        return self.home.queue_folder / f"{ticket.number:012d}-{ticket.job}"

    def _publish(self, text: str, target: Path) -> None:
        draft = self.home.queue_folder / f"{new_id()}.draft"
        Disk().publish(lambda path: path.write_text(text, "utf-8"), draft, target)


def start_waiting(queue: JobQueue) -> None:
    """Give free slots to waiting jobs, in their order. The caller holds `queue.locked()`."""
    _started[:] = [process for process in _started if process.poll() is None]
    for ticket in queue.tickets():
        slot = queue.free_slot()
        if slot is None:
            return
        try:
            _start(queue.home, ticket, slot)
        finally:
            os.close(slot)  # the supervisor has inherited the descriptor and holds the lock
        queue.drop(ticket)


def drop_void_tickets(queue: JobQueue) -> None:
    """Remove tickets of jobs that were cancelled or deleted. The caller holds `queue.locked()`."""
    for ticket in queue.tickets():
        try:
            with Workspace.join(queue.home, ticket.place) as workspace:
                job = workspace.jobs.find(ticket.job)
        except WorkspaceError:
            job = None
        if job is None or job.status is not JobStatus.WAITING:
            queue.drop(ticket)


def spawn(module: str, arguments: tuple[str, ...], keep: tuple[int, ...], **options: Any) -> subprocess.Popen[bytes]:
    """Start a module of ours as a Python process in its own session; it inherits the descriptors `keep`."""
    environment = options.pop("environment", {})
    path = os.pathsep.join(filter(None, [_ROOT, os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        # -P: never import from the current folder, where a file could be called json.py.
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.DEVNULL,
        pass_fds=keep,
        start_new_session=True,
        env={**os.environ, **environment, "PYTHONPATH": path},
        **options,
    )


def thread_variables(threads: int) -> Mapping[str, str]:
    """Environment variables that limit the threads of numeric libraries and let idle threads sleep."""
    return {**dict.fromkeys(_THREAD_VARIABLES, str(threads)), "OMP_WAIT_POLICY": "PASSIVE"}


def _start(home: Home, ticket: Ticket, slot: int) -> None:
    """Start the job of a ticket, unless it was cancelled, deleted or started meanwhile."""
    try:
        workspace = Workspace.join(home, ticket.place)
    except WorkspaceError:
        return  # a workspace that was removed or is damaged must not block the jobs of others
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
        supervisor = spawn(
            "spu_core.engines.processes.supervisor",
            (*arguments, *map(str, keep)),
            keep,
            stdout=log,
            stderr=log,
            cwd=workspace.home.folder,
        )
        _started.append(supervisor)
    except OSError as error:
        message = f"The worker could not be started ({error.strerror}); start the job again later."
        workspace.jobs.end(attempt, JobStatus.FAILED, message)
    finally:
        os.close(log)
