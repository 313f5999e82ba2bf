"""The job that reads an uploaded file, keeps it as a dataset, and looks at every column while it has the table."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from spu_core.engines.jobs import Task
from spu_core.engines.profiles import profile_of
from spu_core.engines.task_process import bound_memory, bound_processor
from spu_core.errors import SpuError, WorkspaceError, nearest_hint
from spu_core.tables import Dialect, read_table
from spu_core.workspace import in_bytes

# Text is passed over about three times: its encoding, its lines, its cells.
PASSES = 3
READING, KEEPING, LOOKING = 0.75, 0.8, 0.9


def read(task: Task) -> dict[str, Any]:
    """`{"upload": id, "name": "sales.csv", "dialect": {"separator": ";"}}` → the id of the dataset."""
    path = task.workspace.uploads.path(str(task.parameters.get("upload", "")))
    name, size = str(task.parameters.get("name") or "upload"), path.stat().st_size
    message = f"reading {in_bytes(size)}"

    def tell(done: int) -> None:
        task.progress(READING * min(1.0, done / max(1, PASSES * size)), message)

    task.progress(0.0, message)
    table = read_table(path, name=name, dialect=dialect_of(task.parameters.get("dialect", {})), on_bytes=tell)
    task.progress(KEEPING, f"keeping {len(table):,} rows")
    saved = task.workspace.datasets.save(table)
    task.progress(LOOKING, f"looking at {saved.n_columns:,} columns")
    profile_of(task.workspace, saved, task.workspace.datasets.with_saved_roles(table, saved))
    return {"dataset": saved.id, "rows": saved.n_rows, "columns": saved.n_columns}


def main(source: str, target: str, name: str, memory: str, seconds: str) -> None:
    """The child of `read_aside`: reads a file and writes it as parquet, or says why it cannot."""
    bound_memory(int(memory))
    bound_processor(float(seconds))
    try:
        read_table(Path(source), name=name).to_parquet(Path(target))
    except SpuError as problem:
        sys.stdout.write(str(problem))
        sys.exit(1)
    except MemoryError:
        sys.exit(1)


def dialect_of(given: Any) -> Dialect:
    """A dialect from plain values.

    >>> dialect_of({"separator": ";"}).separator
    ';'
    >>> dialect_of({"seperator": ";"})
    Traceback (most recent call last):
    spu_core.errors.WorkspaceError: A dialect has no 'seperator'. Did you mean 'separator'?
    """
    if not isinstance(given, dict):
        raise WorkspaceError(f"A dialect is given by its names and values, got {given!r}.")
    known = [item.name for item in fields(Dialect)]
    for name in given:
        if name not in known:
            raise WorkspaceError(f"A dialect has no {name!r}. {nearest_hint(name, known)}")
    return Dialect(**{**given, "missing": tuple(given.get("missing", ()))})


if __name__ == "__main__":
    main(*sys.argv[1:])
