"""Bringing a file into a workspace: copied at once, read in the background where it is large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import IO

from spu_core.engines.control import start_worker
from spu_core.engines.jobs import Job
from spu_core.engines.perform import run_here
from spu_core.errors import SpuError
from spu_core.tables import Dialect
from spu_core.workspace import JobRecord, Workspace
from spu_core.workspace.uploads import READ

REGISTER = "register"
# Smaller files are read while one waits: starting a worker would take longer.
SMALL = 5_000_000


def bring_file(workspace: Workspace, stream: IO[bytes], name: str, dialect: Dialect | None = None) -> JobRecord:
    """Copy the stream into the workspace and start to read it; a job that failed says why in its `error`."""
    return _start(workspace, workspace.uploads.save(stream), name, dialect or Dialect())


def read_again(workspace: Workspace, earlier: JobRecord, dialect: Dialect) -> JobRecord:
    """Read the same upload differently."""
    return _start(workspace, str(earlier.parameters["upload"]), str(earlier.parameters["name"]), dialect)


def readings(jobs: Sequence[JobRecord]) -> tuple[JobRecord, ...]:
    """The jobs among these that read a file or a folder."""
    return tuple(job for job in jobs if job.kind in (READ, REGISTER))


def reading_of(workspace: Workspace, dataset: str) -> JobRecord | None:
    """The job that read this dataset, while its upload is still there to be read differently."""
    made = (job for job in workspace.jobs.list() if job.kind == READ and job.result.get("dataset") == dataset)
    return next((job for job in made if workspace.uploads.has(str(job.parameters["upload"]))), None)


def _start(workspace: Workspace, upload: str, name: str, dialect: Dialect) -> JobRecord:
    given = {key: value for key, value in asdict(dialect).items() if value not in (None, ())}
    job = Job(kind=READ, parameters={"upload": upload, "name": name, "dialect": given}, title=name)
    if workspace.uploads.path(upload).stat().st_size > SMALL:
        return start_worker(workspace, job)
    try:
        return run_here(workspace, job)
    except SpuError:
        return next(each for each in readings(workspace.jobs.list()) if each.parameters.get("upload") == upload)
