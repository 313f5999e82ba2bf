"""Bringing a file: copied at once, and read where it cannot harm the process that serves everybody.

Uncompressed text of up to 5 MB is read at once. Everything else (Excel, parquet, gzip, large text) can need far more
memory and time than its size says, and is read by a process of its own with limits on both.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO

from spu_core.engines.control import start_worker
from spu_core.engines.jobs import Job, JobLimits
from spu_core.engines.launch import spawn, thread_variables
from spu_core.engines.perform import run_here
from spu_core.errors import SpuError, TableError, WorkspaceError
from spu_core.tables import Dialect, ReadLimits, Table, read_table
from spu_core.tables.reading.sources import as_upload
from spu_core.workspace import JobRecord, Workspace, in_bytes
from spu_core.workspace.uploads import READ

REGISTER = "register"
# Smaller texts are read while one waits: starting a worker would take longer.
SMALL = 5_000_000
# Memory and processor time that reading may use at least; a large file may use more. SPU_READ_MEMORY (bytes) and
# SPU_READ_SECONDS change them. By the clock it may last ten times as long: a busy machine is not the file's fault.
MEMORY, SECONDS = 2_000_000_000, 120.0
MEMORY_PER_BYTE, SECONDS_PER_BYTE = 10, 1e-6
PATIENCE = 10


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


def is_read_at_once(stream: IO[bytes]) -> bool:
    """Whether this is uncompressed text (or no table at all) that is small enough to be read in this process."""
    if stream.seek(0, os.SEEK_END) > SMALL:
        return False
    try:
        return as_upload(stream, "upload", ReadLimits()).kind == "text"
    except TableError:
        return True  # refused by its first bytes
    finally:
        stream.seek(0)


def read_limits(size: int) -> JobLimits:
    """What reading a file of so many bytes may use."""
    memory = max(int(_setting("SPU_READ_MEMORY", MEMORY)), MEMORY_PER_BYTE * size)
    seconds = max(_setting("SPU_READ_SECONDS", SECONDS), SECONDS_PER_BYTE * size)
    return JobLimits(memory=memory, processor_seconds=seconds, seconds=PATIENCE * seconds)


def read_aside(stream: IO[bytes], name: str) -> Table:
    """A table that is looked at now and kept nowhere, such as a list of outcomes; no file can harm this process."""
    if is_read_at_once(stream):
        return read_table(stream, name=name)
    with tempfile.TemporaryDirectory(prefix="spu-read-") as folder:
        source, target = Path(folder) / "given", Path(folder) / "read"
        with source.open("wb") as copy:
            shutil.copyfileobj(stream, copy)
        _read_in_child(source, target, name)
        return Table.from_parquet(target)


def _read_in_child(source: Path, target: Path, name: str) -> None:
    limits = read_limits(source.stat().st_size)
    words = (str(source), str(target), name, str(limits.memory), str(limits.processor_seconds))
    child = spawn("spu_core.engines.read", words, (), environment=thread_variables(1), stdout=subprocess.PIPE)
    try:
        said, _ = child.communicate(timeout=limits.seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise TableError(f"{name!r} was not read within {limits.seconds:g} seconds; bring a smaller file.") from None
    if child.returncode or not target.exists():
        allowed = in_bytes(limits.memory or 0)
        within = f"{allowed} of memory and {limits.processor_seconds:g} seconds"
        raise TableError(said.decode() or f"{name!r} could not be read within {within}; bring a smaller one.")


def _setting(name: str, default: float) -> float:
    given = os.environ.get(name, "").strip()
    try:
        value = float(given or default)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise WorkspaceError(f"{name} must be a positive number, got {given!r}.")
    return value


def _start(workspace: Workspace, upload: str, name: str, dialect: Dialect) -> JobRecord:
    given = {key: value for key, value in asdict(dialect).items() if value not in (None, ())}
    path = workspace.uploads.path(upload)
    with path.open("rb") as stream:
        at_once = is_read_at_once(stream)
    parameters = {"upload": upload, "name": name, "dialect": given}
    job = Job(kind=READ, parameters=parameters, title=name, limits=read_limits(path.stat().st_size))
    if not at_once:
        return start_worker(workspace, job)
    try:
        return run_here(workspace, job)
    except SpuError:
        return next(each for each in readings(workspace.jobs.list()) if each.parameters.get("upload") == upload)
