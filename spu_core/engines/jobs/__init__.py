"""Jobs: their kinds, their limits, and what a job function is given.

A job names a kind and plain JSON parameters; nothing in it is code. The files of this package hold the kinds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any

from spu_core.checks import check_choice
from spu_core.errors import WorkspaceError, nearest_hint
from spu_core.workspace import Attempt, JobRecord, Workspace

# Kind → "module:function". Only these functions can be run as jobs. They are named, not imported, so that the
# supervisor process starts in a fraction of a second: most jobs import the training package.
JOBS: dict[str, str] = {
    "echo": "spu_core.engines.jobs.retraining_checks:echo",
    "experiment": "spu_core.experiments.catalog:run_experiment",
    "features": "spu_core.engines.jobs.retraining_checks:features",
    "read": "spu_core.engines.jobs.read:read",
    "register": "spu_core.engines.jobs.read:register",
    "score": "spu_core.engines.jobs.score:score",
    "self_test": "spu_core.engines.jobs.self_test:self_test",
    "simulate": "spu_core.engines.jobs.read:simulate",
    "train": "spu_core.engines.jobs.train:train",
}
REPORT_SECONDS = 0.25


class JobCancelled(BaseException):
    """Raised inside a job that was cancelled or deleted. Not an `Exception`, so that no job catches it by accident."""


@dataclass(frozen=True, kw_only=True)
class JobLimits:
    """Limits of a job: wall time, memory (bytes of address space), threads, processor time."""

    seconds: float = 6 * 3600.0
    memory: int | None = None
    threads: int = 2
    processor_seconds: float | None = None

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise WorkspaceError(f"seconds must be positive, got {self.seconds}.")
        if self.memory is not None and self.memory < 100_000_000:
            raise WorkspaceError(
                f"memory must be at least 100,000,000 bytes (Python itself needs that), got {self.memory:,}."
            )
        if self.processor_seconds is not None and not self.processor_seconds > 0:
            raise WorkspaceError(f"processor_seconds must be positive, got {self.processor_seconds}.")
        if self.threads < 1:
            raise WorkspaceError(f"threads must be at least 1, got {self.threads}.")


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job to be run: its kind, parameters (plain JSON values), title and limits.

    >>> Job(kind="self_tset")
    Traceback (most recent call last):
    spu_core.errors.WorkspaceError: There is no job of kind 'self_tset'. Did you mean 'self_test'?
    """

    kind: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    limits: JobLimits = field(default_factory=JobLimits)

    def __post_init__(self) -> None:
        if self.kind not in JOBS:
            raise WorkspaceError(f"There is no job of kind {self.kind!r}. {nearest_hint(self.kind, JOBS)}")

    def add_to(self, workspace: Workspace, token: str) -> None:
        """Store the job as a waiting one under the id `token`."""
        workspace.jobs.add(token, self.kind, self.title or self.kind, self.parameters, asdict(self.limits))


class JobContext:
    """What a job function gets: the workspace, the parameters, its limits, and `progress` to report with.

    `is_worker` says whether the job has a process of its own.
    """

    def __init__(self, workspace: Workspace, job: JobRecord, attempt: Attempt) -> None:
        self.workspace = workspace
        self.job = job.id
        self.parameters = job.parameters
        self.threads, self.memory = int(job.limits["threads"]), job.limits.get("memory")
        self.is_worker = bool(job.worker.get("detached"))
        self._attempt = attempt
        self._last = float("-inf")
        self._message = ""

    def progress(self, share: float, message: str, detail: Mapping[str, Any] | None = None) -> None:
        """Report the share that is done. Call it at every step: it also ends a cancelled job.

        A new message is stored at once. The same message again is stored at most every quarter of a second, so put
        counters into `detail`, not into the message.

        Raises
        ------
        JobCancelled
            The job was cancelled or deleted.
        """
        if not self.is_due(message):
            return
        self._last, self._message = time.monotonic(), message
        kept = self.workspace.jobs.report(self._attempt, share, message, detail or {})
        record = self.workspace.jobs.find(self.job)
        if not kept or record is None or record.cancel_requested:
            raise JobCancelled

    def is_due(self, message: str) -> bool:
        """Whether `progress` would store this message now; ask it before you make a costly `detail`."""
        return message != self._message or time.monotonic() - self._last >= REPORT_SECONDS

    def need(self, name: str) -> str:
        """The text parameter `name`; a job without it is refused."""
        value = self.parameters.get(name)
        if not isinstance(value, str) or not value:
            raise WorkspaceError(f"This job must name its {name}.")
        return value


def job_function(kind: str) -> Callable[[JobContext], Mapping[str, Any]]:
    """The function that runs a kind of job."""
    check_choice(kind, JOBS, "kind", WorkspaceError)
    module, _, name = JOBS[kind].partition(":")
    function: Callable[[JobContext], Mapping[str, Any]] = getattr(import_module(module), name)
    return function
