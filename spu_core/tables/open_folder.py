"""Opening a folder of parquet files: one pass over all rows finds the form of each column.

The result of that pass can be stored as text, so that the folder is opened again without another pass.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from spu_core.codec import decode
from spu_core.errors import TableError
from spu_core.tables.column_facts import ColumnFacts, as_series
from spu_core.tables.folder_files import FolderColumn, FolderFile, batches_of, list_files, open_files
from spu_core.tables.reading.blocks import longest_cell
from spu_core.tables.reading.reading_report import Finding, ReadLimits
from spu_core.tables.reading.typed_columns import empty_findings
from spu_core.tables.reading.values import ColumnType
from spu_core.tables.roles import Role, guess_roles, parse_roles
from spu_core.tables.stores import ParquetStore
from spu_core.tables.table import Table


def open_folder(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    roles: Mapping[str, Role | str] | None = None,
    positive_values: Iterable[Any] | None = None,
    limits: ReadLimits | None = None,
) -> Table:
    """A table over all parquet files below a folder; roles and values not given are guessed, as for a table in memory.

    One pass over the rows is made. Types and roles equal those of one file with the same rows.

    Parameters
    ----------
    path : path
        Folder that holds the parquet files, also in folders below it.
    name : str, optional
        Name of the table; the name of the folder by default.
    roles : mapping of column to role, optional
        Roles that are known; the others are guessed.
    positive_values : iterable, optional
        Label values that mean *confirmed positive*.
    limits : ReadLimits, optional
        Sizes beyond which a cell is refused, and the largest number of distinct texts in a category.

    Returns
    -------
    Table
        The table; its rows stay in the files.

    Raises
    ------
    TableError
        If there is no parquet file, or if files do not fit together.
    """
    limits = limits or ReadLimits()
    files, types, findings = open_files(list_files(path))
    facts = survey(files, types, limits)
    columns = tuple(form_of(fact, limits.levels) for fact in facts.values())
    stand_ins = {column.name: in_form(column, facts[column.name].stand_in()) for column in columns}
    given = parse_roles(roles or {}, list(stand_ins))
    kinds = {column.name: column.type for column in columns}
    table = Table(
        name=name or Path(path).name,
        roles=guess_roles(stand_ins, kinds, given),
        types=kinds,
        positive_values=() if positive_values is None else tuple(positive_values),
        findings=(*findings, *(found for each in columns for found in empty_findings(each.name, stand_ins[each.name]))),
        store=ParquetStore(Path(path), files, columns, stand_ins),
    )
    return table.without_copies(given)


def survey(files: Iterable[FolderFile], types: dict[str, pa.DataType], limits: ReadLimits) -> dict[str, ColumnFacts]:
    """The statistics of every column, in one pass."""
    facts = {name: ColumnFacts.empty(name, kind, limits.levels) for name, kind in types.items()}
    for file in files:
        for batch in batches_of(file, types):
            for name, values in batch.items():
                _check_cells(name, values, file, limits)
                facts[name] = facts[name].add(values)
    return facts


def form_of(facts: ColumnFacts, levels: int) -> FolderColumn:
    """The form of the column in every part."""
    kind = facts.type(levels)
    is_level = kind is ColumnType.CATEGORY and (pa.types.is_string(facts.kind) or pa.types.is_null(facts.kind))
    names = tuple(sorted(facts.few or ())) if is_level else ()
    return FolderColumn(facts.name, facts.kind, kind, facts.missing > 0, names)


def in_form(column: FolderColumn, short: pd.Series) -> pd.Series:
    """A stand-in with the categories of its column."""
    if column.type is ColumnType.CATEGORY and not pd.api.types.is_numeric_dtype(short.dtype):
        return short.astype(pd.CategoricalDtype(pd.Index(column.levels, dtype="str")))
    return short


def _check_cells(name: str, values: pa.Array, file: FolderFile, limits: ReadLimits) -> None:
    longest = longest_cell(values)
    if longest > limits.cell_bytes:
        raise TableError(
            f"{file.name!r} has a cell of {longest:,} bytes in column {name!r}; the limit is {limits.cell_bytes:,}. "
            "Shorten it, or raise the limit 'cell_bytes'."
        )


def is_folder(source: Any) -> bool:
    """Whether a path names a folder, so that `open_folder` should open it."""
    return isinstance(source, str | os.PathLike) and os.path.isdir(source)


def parquet_store(table: Table) -> ParquetStore:
    """The files of a table that `open_folder` made; a table in memory is refused."""
    if not isinstance(table.store, ParquetStore):
        raise TableError(f"The rows of {table.name!r} are in memory, not in files; open files with open_folder().")
    return table.store


_SCHEMA = 1
_MOMENT = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]")


@dataclass(frozen=True)
class StoredColumn:
    """The form of a column as it is stored: `kind` is the name of its Arrow type, `stand_in` a few typical values."""

    name: str
    kind: str
    type: ColumnType
    has_gaps: bool
    levels: tuple[str, ...]
    stand_in: tuple[Any, ...]


@dataclass(frozen=True)
class StoredSurvey:
    """The result of the pass over all rows: files (path, rows, bytes, time of writing), columns and findings."""

    files: tuple[tuple[str, int, int, int], ...]
    columns: tuple[StoredColumn, ...]
    findings: tuple[Finding, ...]


def survey_to_json(folder: Table) -> str:
    """The result of the pass over all rows as JSON, without rows."""
    store = parquet_store(folder)
    files = ((file.path.relative_to(store.path).as_posix(), file.rows, file.size, file.written) for file in store.files)
    columns = (_stored_column(column, store.stand_ins[column.name]) for column in store.columns)
    found = asdict(StoredSurvey(tuple(files), tuple(columns), folder.findings))
    # Not by `encode`: a stand-in may hold infinite numbers, and has to keep them.
    return json.dumps({"schema": _SCHEMA, **found}, ensure_ascii=False)


def folder_from_survey(text: str, path: Path, known_fingerprint: str = "", **described: Any) -> Table:
    """The table as it was opened; `described` gives name, roles and values, which people may change.

    Its files may have changed since; `store.changed_files` lists them.
    """
    what = f"The stored description of the folder {path.name!r}"
    try:
        kept = decode(StoredSurvey, json.loads(text), what, TableError, schema=("schema", _SCHEMA))
        columns = tuple(
            FolderColumn(each.name, _kind(each.kind), each.type, each.has_gaps, each.levels) for each in kept.columns
        )
        pairs = zip(columns, kept.columns, strict=True)
        store = ParquetStore(
            path,
            tuple(FolderFile(path / name, *facts) for name, *facts in kept.files),
            columns,
            {column.name: _stand_in(column, stored.stand_in) for column, stored in pairs},
            known_fingerprint,
        )
        return Table(
            types={column.name: column.type for column in columns}, findings=kept.findings, store=store, **described
        )
    except (TypeError, ValueError, pa.ArrowException) as problem:
        raise TableError(f"{what} is damaged ({problem}); open it again.") from None


def _stored_column(column: FolderColumn, stand_in: pd.Series) -> StoredColumn:
    values = pa.Array.from_pandas(stand_in.astype(object) if column.levels else stand_in, type=column.kind)
    if pa.types.is_timestamp(column.kind):
        values = values.cast(pa.int64())
    kept = tuple(values.to_pylist())
    return StoredColumn(column.name, str(column.kind), column.type, column.has_gaps, column.levels, kept)


def _stand_in(column: FolderColumn, kept: Sequence[Any]) -> pd.Series:
    is_moment = pa.types.is_timestamp(column.kind)
    values = pa.array(kept, type=pa.int64()).cast(column.kind).to_pylist() if is_moment else kept
    present = [value for value in values if value is not None]
    return in_form(column, as_series(column.name, column.kind, present, len(kept) - len(present)))


def _kind(text: str) -> pa.DataType:
    moment = _MOMENT.fullmatch(text)
    return pa.type_for_alias(text) if moment is None else pa.timestamp(moment[1], moment[2])
