"""A large text file to a folder of parquet files, once: read as `read_table` reads it, with its columns on disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spu_core.errors import TableError
from spu_core.tables.column_types import ColumnType
from spu_core.tables.folder import TableFolder
from spu_core.tables.open_folder import open_folder
from spu_core.tables.read import read_table
from spu_core.tables.reading import Dialect, Reading, ReadLimits
from spu_core.tables.scratch import Scratch
from spu_core.tables.table import Table

FILE_ROWS = 1_000_000
GROUP_ROWS = 1 << 17
# What is converted need not fit into memory, so the file may be larger than one that is read.
LIMITS = ReadLimits(bytes=1 << 42, expanded_bytes=1 << 42, rows=1 << 40)


def convert_table(
    source: Any,
    target: str | os.PathLike[str],
    *,
    dialect: Dialect | None = None,
    limits: ReadLimits | None = None,
    types: Mapping[str, ColumnType | str] | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> tuple[TableFolder, Reading]:
    """Convert a file to a new folder of parquet files, and open it; also what was read and what was rejected.

    Columns, types and rejected lines are those of `read_table`. Only one column at a time is looked at as a whole.
    """
    folder = Path(target)
    if folder.exists():
        raise TableError(f"{folder.name!r} exists already; name a folder that does not, so that nothing is mixed.")
    draft = folder.with_name(f".{folder.name}.writing")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(parents=True)
        # Beside the target, since that disk must hold the rows anyway.
        with Scratch(draft.parent) as scratch:
            table = read_table(source, dialect=dialect, limits=limits or LIMITS, types=types, scratch=scratch)
            write_parts(table, draft, on_progress)
        assert table.reading is not None
        os.replace(draft, folder)
    except OSError as problem:
        raise TableError(f"{folder.name!r} cannot be written: {problem.strerror or problem}.") from problem
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return open_folder(folder, name=table.name, limits=limits), table.reading


def write_parts(table: Table, folder: Path, on_progress: Callable[[float], None] | None = None) -> None:
    """The rows of a table as files of a million rows each."""
    schema = None
    for number, start in enumerate(range(0, len(table), FILE_ROWS)):
        part = table.frame.iloc[start : start + FILE_ROWS]
        rows = pa.Table.from_pandas(part, schema=schema, preserve_index=False)
        schema = rows.schema
        pq.write_table(rows, folder / f"part-{number:05d}.parquet", row_group_size=GROUP_ROWS, compression="zstd")
        if on_progress is not None:
            on_progress(min(1.0, (start + len(part)) / len(table)))
