"""A job: the name of a job function, plain parameters, and limits; nothing in it is ever code."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any

from spu_core.checks import check_choice
from spu_core.errors import WorkspaceError, nearest_hint
from spu_core.workspace import Attempt, JobRecord, Workspace

# The only functions that a job may name. A new kind of job is a new line here.
JOBS: dict[str, str] = {
    "echo": "spu_core.engines.echo:echo",
    "experiment": "spu_core.experiments.catalog:run_experiment",
    "read": "spu_core.engines.read:read",
    "register": "spu_core.engines.register:register",
    "score": "spu_core.engines.score:score",
    "self_test": "spu_core.engines.self_test:self_test",
    "simulate": "spu_core.engines.simulate:simulate",
    "train": "spu_core.engines.train:train",
}
REPORT_SECONDS = 0.25


class JobCancelled(BaseException):
    """Raised inside a job when nobody waits for it any more; no `except Exception` may swallow it."""


@dataclass(frozen=True, kw_only=True)
class JobLimits:
    """How long a job may run, how much processor time and address space it may use, and how many threads."""

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
    """What is to be done; two equal jobs do the same.

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
        """Write the job into the catalogue, where it waits."""
        workspace.jobs.add(token, self.kind, self.title or self.kind, self.parameters, asdict(self.limits))


class Task:
    """What a job function gets: the workspace, its parameters, and a way to say how far it is."""

    def __init__(self, workspace: Workspace, job: JobRecord, attempt: Attempt) -> None:
        self.workspace = workspace
        self.job = job.id
        self.parameters = job.parameters
        self.threads = int(job.limits["threads"])
        self._attempt = attempt
        self._last = float("-inf")
        self._message = ""

    def progress(self, share: float, message: str, detail: Mapping[str, Any] | None = None) -> None:
        """Say how far the job is; as often as one likes, if the message names the stage and `detail` counts.

        A new message is written at once, since the stage may last; the same one again only now and then.
        Raises `JobCancelled` where the job was cancelled or deleted, so call it at every step.
        """
        now = time.monotonic()
        if message == self._message and now - self._last < REPORT_SECONDS:
            return
        self._last, self._message = now, message
        kept = self.workspace.jobs.report(self._attempt, share, message, detail or {})
        record = self.workspace.jobs.find(self.job)
        if not kept or record is None or record.cancel_requested:
            raise JobCancelled


def job_function(kind: str) -> Callable[[Task], Mapping[str, Any]]:
    """The function behind a kind of job; only `JOBS` is asked."""
    check_choice(kind, JOBS, "kind", WorkspaceError)
    module, _, name = JOBS[kind].partition(":")
    function: Callable[[Task], Mapping[str, Any]] = getattr(import_module(module), name)
    return function
