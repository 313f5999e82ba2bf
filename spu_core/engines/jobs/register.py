"""The job "register": a folder on the server becomes a dataset. Its rows stay there; a sample is stored.

A large text file is first converted to a folder in the workspace. The first passes over the rows find types, roles and
the fingerprint, the last one makes the profile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spu_core.engines.jobs import Job, JobContext
from spu_core.engines.jobs.read import REGISTER, keep_profile
from spu_core.engines.processes import start_worker
from spu_core.errors import WorkspaceError
from spu_core.tables import Reading, Table, convert_table, open_folder, parquet_store
from spu_core.tables.folder_files import list_files
from spu_core.workspace import DatasetRecord, JobRecord, Workspace
from spu_core.workspace.home import FolderOffer

# Enough rows to try rules on, few enough that every page responds at once.
SAMPLE_ROWS = 100_000
# Shares of the work that are done when each step begins.
OPENING, FINGERPRINT, SAMPLING, PROFILING = 0.0, 0.2, 0.35, 0.45


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
