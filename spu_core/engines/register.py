"""The job that registers a folder of the server as a dataset: its rows stay there, a sample is kept to explore.

A large text file becomes a folder of the workspace first.

The first passes settle types and roles and find the fingerprint; then every column is looked at over all rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spu_core.engines.control import start_worker
from spu_core.engines.jobs import Job, Task
from spu_core.engines.profiles import keep_profile
from spu_core.engines.reading import REGISTER
from spu_core.errors import WorkspaceError
from spu_core.tables import Reading, TableFolder, convert_table, open_folder
from spu_core.tables.folder_files import list_files
from spu_core.tables.folder_profile import profile_folder
from spu_core.workspace import DatasetRecord, JobRecord, Workspace
from spu_core.workspace.home import FolderOffer

# Enough to see rules work on; small enough that every page answers at once.
SAMPLE_ROWS = 100_000
OPENING, FINGERPRINT, SAMPLING, LOOKING = 0.0, 0.2, 0.35, 0.45


def register(task: Task) -> dict[str, Any]:
    """`{"folder": path}` registers a folder or text file → the id of its dataset.

    `{"dataset": id}` looks at all rows of a registered one again, under the roles that it has now.
    """
    token = task.parameters.get("dataset")
    dataset = _saved(task) if token is None else task.workspace.datasets.get(str(token))
    _look(task, dataset)
    return {"dataset": dataset.id, "rows": dataset.n_rows, "columns": dataset.n_columns}


def start_registering(workspace: Workspace, offer: FolderOffer) -> JobRecord:
    """Register a folder in the background; returns at once."""
    return start_worker(workspace, Job(kind=REGISTER, parameters={"folder": str(offer.path)}, title=offer.name))


def start_looking(workspace: Workspace, dataset: DatasetRecord) -> JobRecord:
    """Profile all rows of a registered folder under its current roles, in the background."""
    return start_worker(workspace, Job(kind=REGISTER, parameters={"dataset": dataset.id}, title=dataset.name))


def _saved(task: Task) -> DatasetRecord:
    roots = task.workspace.datasets.roots
    offer = roots.find(str(task.parameters.get("folder") or ""))
    if offer.is_text:
        folder, reading = _converted(task, offer)
    else:
        # Before a byte is read: a link must not lead to files that nobody offered.
        roots.refuse_links(offer, list_files(offer.path))
        task.progress(OPENING, "reading every row once")
        folder, reading = open_folder(offer.path, name=offer.name), None
    task.progress(FINGERPRINT, f"taking the fingerprint of {len(folder):,} rows")
    assert folder.fingerprint
    task.progress(SAMPLING, f"drawing {min(SAMPLE_ROWS, len(folder)):,} rows to explore")
    sample = replace(folder.sample(SAMPLE_ROWS), reading=reading)
    if folder.changed_files:
        raise WorkspaceError(f"{offer.name!r} changed while it was read; register it when nobody writes to it.")
    return task.workspace.datasets.save_folder(folder, sample)


def _converted(task: Task, offer: FolderOffer) -> tuple[TableFolder, Reading]:
    """A text file as a folder of the workspace; what could not be read of it is told with the sample."""
    task.progress(OPENING, "converting the file, once")

    def tell(share: float) -> None:
        task.progress(FINGERPRINT * share, "writing its rows in parts")

    folder, reading = convert_table(offer.path, task.workspace.converted.new(), on_progress=tell)
    files = tuple(replace(file, written=0) for file in folder.files)
    return replace(folder, name=offer.name, files=files), reading


def _look(task: Task, dataset: DatasetRecord) -> None:
    words = f"looking at {dataset.n_columns:,} columns of {dataset.n_rows:,} rows"
    opened = task.workspace.datasets.open(dataset.id)
    if not isinstance(opened, TableFolder):
        return  # somebody brought its rows; the page that shows them profiles them
    made = profile_folder(opened, lambda share: task.progress(LOOKING + (1 - LOOKING) * share, words))
    keep_profile(task.workspace, dataset, made)
