"""The jobs that make datasets: "read" from an uploaded file, "register" from a folder, "simulate" from a simulator.

Uncompressed text of up to 5 MB is read in the calling process. Everything else (Excel, parquet, gzip, large text) can
need far more memory and time than its size suggests, so a separate process with limits reads it.

The rows of a registered folder stay there, and a sample is stored. A large text file is first converted to a folder in
the workspace. The first passes over the rows find types, roles and the fingerprint, the last one makes the profile.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

from spu_core.checks import check_choice
from spu_core.codec import decode
from spu_core.engines.jobs import Job, JobContext, JobLimits
from spu_core.engines.processes import run_in_process, start_worker
from spu_core.engines.processes.job_queue import spawn, thread_variables
from spu_core.engines.processes.os_processes import limit_memory, limit_processor_time, lower_priority
from spu_core.errors import SpuError, TableError, WorkspaceError
from spu_core.tables import (
    Dialect,
    Reading,
    ReadLimits,
    Role,
    Table,
    TableProfile,
    convert_table,
    open_folder,
    parquet_store,
    read_table,
)
from spu_core.tables import simulators as simulated
from spu_core.tables.profiles import profile_from_json, profile_to_json
from spu_core.tables.reading.sources import as_upload
from spu_core.tables.stores import list_files
from spu_core.workspace import DatasetRecord, JobRecord, Workspace, in_bytes
from spu_core.workspace.home import FolderOffer
from spu_core.workspace.jobs import READ

# Text is read about three times: for its encoding, its lines and its cells. Used for the share that is done.
PASSES = 3
READING, KEEPING, LOOKING = 0.75, 0.8, 0.9
# The name of a stored profile. The number changes with the content, so that older profiles are computed again.
PROFILE = "profile_3"
REGISTER = "register"
# Smaller texts are read at once: starting a worker would take longer.
SMALL = 5_000_000
# Limits of memory (bytes) and processor time for reading; a large file gets more. SPU_READ_MEMORY and SPU_READ_SECONDS
# change them. The limit of wall time is ten times that of processor time, since the machine may be busy.
MEMORY, SECONDS = 2_000_000_000, 120.0
MEMORY_PER_BYTE, SECONDS_PER_BYTE = 10, 1e-6
WALL_TIME_FACTOR = 10
# Rows that are stored of a folder: enough to try rules on, few enough that every page responds at once.
SAMPLE_ROWS = 100_000
# Shares of the registration that are done when each step begins.
OPENING, FINGERPRINT, SAMPLING, PROFILING = 0.0, 0.2, 0.35, 0.45


def read(context: JobContext) -> dict[str, Any]:
    """`{"upload": id, "name": "sales.csv", "dialect": {"separator": ";"}}` → the id of the dataset."""
    path = context.workspace.uploads.path(str(context.parameters.get("upload", "")))
    name, size = str(context.parameters.get("name") or "upload"), path.stat().st_size
    message = f"reading {in_bytes(size)}"

    def report(done: int) -> None:
        context.progress(READING * min(1.0, done / max(1, PASSES * size)), message)

    context.progress(0.0, message)
    dialect = decode(Dialect, context.parameters.get("dialect", {}), "The dialect", WorkspaceError)
    table = read_table(path, name=name, dialect=dialect, on_bytes=report)
    context.progress(KEEPING, f"keeping {len(table):,} rows")
    saved = context.workspace.datasets.save(table)
    context.progress(LOOKING, f"looking at {saved.n_columns:,} columns")
    profile_of(context.workspace, saved, context.workspace.datasets.with_saved_roles(table, saved))
    return {"dataset": saved.id, "rows": saved.n_rows, "columns": saved.n_columns}


def import_file(workspace: Workspace, stream: IO[bytes], name: str) -> JobRecord:
    """Copy a file into the workspace and start to read it. If reading fails, the job has an `error`."""
    return _start(workspace, workspace.uploads.save(stream), name, Dialect())


def read_again(workspace: Workspace, earlier: JobRecord, dialect: Dialect) -> JobRecord:
    """Read the same upload again with another dialect."""
    return _start(workspace, str(earlier.parameters["upload"]), str(earlier.parameters["name"]), dialect)


def readings(jobs: Sequence[JobRecord]) -> tuple[JobRecord, ...]:
    """The jobs among these that read a file or a folder."""
    return tuple(job for job in jobs if job.kind in (READ, REGISTER))


def reading_of(workspace: Workspace, dataset: str) -> JobRecord | None:
    """The job that read this dataset; None if its upload no longer exists."""
    made = (job for job in workspace.jobs.list() if job.kind == READ and job.result.get("dataset") == dataset)
    return next((job for job in made if workspace.uploads.has(str(job.parameters["upload"]))), None)


def is_read_at_once(stream: IO[bytes]) -> bool:
    """Whether a file is small, uncompressed text (or no table at all), which is safe to read in this process."""
    if stream.seek(0, os.SEEK_END) > SMALL:
        return False
    try:
        return as_upload(stream, "upload", ReadLimits()).kind == "text"
    except TableError:
        return True  # reading it fails at the first bytes
    finally:
        stream.seek(0)


def read_limits(size: int) -> JobLimits:
    """The limits for reading a file of `size` bytes."""
    memory = max(int(_setting("SPU_READ_MEMORY", MEMORY)), MEMORY_PER_BYTE * size)
    seconds = max(_setting("SPU_READ_SECONDS", SECONDS), SECONDS_PER_BYTE * size)
    return JobLimits(memory=memory, processor_seconds=seconds, seconds=WALL_TIME_FACTOR * seconds)


def read_without_storing(stream: IO[bytes], name: str) -> Table:
    """Read a table that is not stored, such as a list of outcomes. A harmful file only ends a child process."""
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
    arguments = (str(source), str(target), name, str(limits.memory), str(limits.processor_seconds))
    child = spawn("spu_core.engines.jobs.read", arguments, (), environment=thread_variables(1), stdout=subprocess.PIPE)
    try:
        printed, _ = child.communicate(timeout=limits.seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise TableError(f"{name!r} was not read within {limits.seconds:g} seconds; use a smaller file.") from None
    if child.returncode or not target.exists():
        allowed = in_bytes(limits.memory or 0)
        within = f"{allowed} of memory and {limits.processor_seconds:g} seconds"
        raise TableError(printed.decode() or f"{name!r} could not be read within {within}; use a smaller file.")


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
        return run_in_process(workspace, job)
    except SpuError:
        return next(each for each in readings(workspace.jobs.list()) if each.parameters.get("upload") == upload)


def earlier_upload(workspace: Workspace, dataset: DatasetRecord) -> DatasetRecord | None:
    """The dataset before this one with the same name and some of its columns; None if there is none."""
    older = [each for each in workspace.datasets.list() if each.name == dataset.name and each.made < dataset.made]
    return next((each for each in older if set(each.roles) & set(dataset.roles)), None)


def carry_over(workspace: Workspace, earlier: DatasetRecord, dataset: DatasetRecord) -> None:
    """Give a dataset the roles of an earlier one, where columns have the same name, and a copy of its rules."""
    table = workspace.datasets.open(dataset.id)
    roles = {name: role for name, role in earlier.roles.items() if name in table.roles}
    table = table.with_roles(roles)
    known = [value for value in earlier.positive_values if _has_value(table, value)]
    workspace.datasets.save_roles(table.with_positive_values(known) if known else table, dataset)
    workspace.datasets.save_origin(dataset.id, earlier.origin)
    rules = workspace.rule_sets.newest_of(earlier.id)
    if rules is not None:
        workspace.rule_sets.copy(rules, dataset.name, dataset.id)


def _has_value(table: Table, value: Any) -> bool:
    label = table.column_with(Role.LABEL)
    return label is not None and value in table.store.stand_ins[label].unique().tolist()


def profile_of(workspace: Workspace, dataset: DatasetRecord, table: Table) -> TableProfile:
    """The profile of a dataset: the stored one, or a new one of `table`, its rows with the saved roles."""
    kept = kept_profile(workspace, dataset)
    if kept is not None:
        return kept
    return keep_profile(workspace, dataset, table.profile())


def keep_profile(workspace: Workspace, dataset: DatasetRecord, made: TableProfile) -> TableProfile:
    """Store the profile of a dataset with its current roles."""
    workspace.derived.keep(dataset, PROFILE, profile_to_json(made))
    return made


def kept_profile(workspace: Workspace, dataset: DatasetRecord) -> TableProfile | None:
    """The stored profile of a dataset with its current roles; None if there is none."""
    kept = workspace.derived.get(dataset, PROFILE)
    if kept is None:
        return None
    try:
        return profile_from_json(kept)
    except TableError:
        return None  # a damaged profile is computed again


def main(source: str, target: str, name: str, memory: str, seconds: str) -> None:
    """The child process of `read_without_storing`: read a file and write it as parquet, or print why that failed."""
    lower_priority()
    limit_memory(int(memory))
    limit_processor_time(float(seconds))
    try:
        read_table(Path(source), name=name).to_parquet(Path(target))
    except SpuError as problem:
        sys.stdout.write(str(problem))
        sys.exit(1)
    except MemoryError:
        sys.exit(1)


def register(context: JobContext) -> dict[str, Any]:
    """`{"folder": path}` registers a folder or text file → the id of its dataset.

    `{"dataset": id}` makes the profile of a registered folder again, with its current roles.
    """
    token = context.parameters.get("dataset")
    dataset = _saved(context) if token is None else context.workspace.datasets.get(str(token))
    _profile(context, dataset)
    return {"dataset": dataset.id, "rows": dataset.n_rows, "columns": dataset.n_columns}


def start_registering(workspace: Workspace, offer: FolderOffer) -> JobRecord:
    """Register a folder in the background; returns at once."""
    return start_worker(workspace, Job(kind=REGISTER, parameters={"folder": str(offer.path)}, title=offer.name))


def start_looking(workspace: Workspace, dataset: DatasetRecord) -> JobRecord:
    """Make the profile of a registered folder with its current roles, in the background."""
    return start_worker(workspace, Job(kind=REGISTER, parameters={"dataset": dataset.id}, title=dataset.name))


def _saved(context: JobContext) -> DatasetRecord:
    roots = context.workspace.datasets.roots
    offer = roots.find(str(context.parameters.get("folder") or ""))
    if offer.is_text:
        folder, reading = _converted(context, offer)
    else:
        # Before anything is read: a link must not lead to files outside the allowed folders.
        roots.refuse_links(offer, list_files(offer.path))
        context.progress(OPENING, "reading every row once")
        folder, reading = open_folder(offer.path, name=offer.name), None
    context.progress(FINGERPRINT, f"taking the fingerprint of {len(folder):,} rows")
    assert folder.fingerprint
    context.progress(SAMPLING, f"drawing {min(SAMPLE_ROWS, len(folder)):,} rows to explore")
    sample = replace(folder.sample(SAMPLE_ROWS), reading=reading)
    if parquet_store(folder).changed_files:
        raise WorkspaceError(f"{offer.name!r} changed while it was read; register it when no program writes to it.")
    return context.workspace.datasets.save_folder(folder, sample)


def _converted(context: JobContext, offer: FolderOffer) -> tuple[Table, Reading]:
    """Convert a text file to a folder in the workspace; problems of reading are stored with the sample."""
    context.progress(OPENING, "converting the file, once")

    def report(share: float) -> None:
        context.progress(FINGERPRINT * share, "writing its rows in parts")

    folder, reading = convert_table(offer.path, context.workspace.converted.new(), on_progress=report)
    store = parquet_store(folder)
    files = tuple(replace(file, written=0) for file in store.files)
    return replace(folder, name=offer.name, store=replace(store, files=files)), reading


def _profile(context: JobContext, dataset: DatasetRecord) -> None:
    message = f"looking at {dataset.n_columns:,} columns of {dataset.n_rows:,} rows"
    opened = context.workspace.datasets.open(dataset.id)
    if opened.in_memory:
        return  # an uploaded table; the page makes its profile
    made = opened.profile(lambda share: context.progress(PROFILING + (1 - PROFILING) * share, message))
    keep_profile(context.workspace, dataset, made)


def simulate(context: JobContext) -> dict[str, Any]:
    """`{"simulator": "ads", "settings": {"users": 5000, "seed": 1}, "name": "ads, seed 1"}` → the id of the dataset."""
    kind = check_choice(context.parameters.get("simulator", ""), SIMULATORS, "simulator", WorkspaceError)
    config_type, make = SIMULATORS[kind]
    config: Any = decode(config_type, context.parameters.get("settings", {}), "The simulator", WorkspaceError)
    context.progress(0.1, f"simulating {kind.replace('_', ' ')}")
    table = make(config)
    context.progress(0.9, "saving")
    saved = context.workspace.datasets.save(table, context.parameters.get("name"))
    return {"dataset": saved.id, "rows": saved.n_rows, "columns": saved.n_columns}


def _anti_cheat(config: simulated.AntiCheatConfig) -> Table:
    return simulated.simulate_anti_cheat(config).players


SIMULATORS: dict[str, tuple[type, Callable[[Any], Table]]] = {
    "ads": (simulated.AdsConfig, simulated.simulate_ads),
    "anti_cheat": (simulated.AntiCheatConfig, _anti_cheat),
    "breast_cancer": (simulated.BreastCancerConfig, simulated.simulate_breast_cancer),
    "medical": (simulated.MedicalConfig, simulated.simulate_medical),
}


if __name__ == "__main__":
    main(*sys.argv[1:])
