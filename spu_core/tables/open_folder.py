"""Opening a folder of parquet files: one pass over all rows finds the form of each column.

The result of that pass can be stored as text, so that the folder is opened again without another pass.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

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


def survey_to_json(folder: Table) -> str:
    """The result of the pass over all rows as JSON: files, forms of columns and findings, without rows."""
    store = parquet_store(folder)
    return json.dumps(
        {
            "schema": _SCHEMA,
            "files": [
                [file.path.relative_to(store.path).as_posix(), file.rows, file.size, file.written]
                for file in store.files
            ],
            "columns": [_column_to_json(column, store.stand_ins[column.name]) for column in store.columns],
            "findings": [{**asdict(finding), "severity": finding.severity.value} for finding in folder.findings],
        },
        ensure_ascii=False,
    )


def folder_from_survey(text: str, path: Path, known_fingerprint: str = "", **described: Any) -> Table:
    """The table as it was opened; `described` gives name, roles and values, which people may change.

    Its files may have changed since; `store.changed_files` lists them.
    """
    try:
        note = json.loads(text)
        if note["schema"] != _SCHEMA:
            raise TableError(f"The folder was opened in schema {note['schema']!r}; this version reads {_SCHEMA}.")
        return _folder(note, path, known_fingerprint, described)
    except TableError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, pa.ArrowException) as problem:
        raise TableError(
            f"The stored description of the folder {path.name!r} is damaged ({problem}); open it again."
        ) from None


def _folder(note: Mapping[str, Any], path: Path, known_fingerprint: str, described: Mapping[str, Any]) -> Table:
    columns = tuple(_column(item) for item in note["columns"])
    kept = zip(columns, note["columns"], strict=True)
    files = tuple(FolderFile(path / name, rows, size, written) for name, rows, size, written in note["files"])
    stand_ins = {column.name: _stand_in(column, item["stand_in"]) for column, item in kept}
    return Table(
        types={column.name: column.type for column in columns},
        findings=tuple(Finding(**item) for item in note["findings"]),
        store=ParquetStore(path, files, columns, stand_ins, known_fingerprint),
        **described,
    )


def _column_to_json(column: FolderColumn, stand_in: pd.Series) -> dict[str, Any]:
    values = pa.Array.from_pandas(stand_in.astype(object) if column.levels else stand_in, type=column.kind)
    if pa.types.is_timestamp(column.kind):
        values = values.cast(pa.int64())
    return {
        "name": column.name,
        "kind": str(column.kind),
        "type": column.type.value,
        "has_gaps": column.has_gaps,
        "levels": list(column.levels),
        "stand_in": values.to_pylist(),
    }


def _column(item: Mapping[str, Any]) -> FolderColumn:
    kind, type_ = _kind(item["kind"]), ColumnType(item["type"])
    return FolderColumn(item["name"], kind, type_, bool(item["has_gaps"]), tuple(item["levels"]))


def _stand_in(column: FolderColumn, kept: list[Any]) -> pd.Series:
    is_moment = pa.types.is_timestamp(column.kind)
    values = pa.array(kept, type=pa.int64()).cast(column.kind).to_pylist() if is_moment else kept
    present = [value for value in values if value is not None]
    return in_form(column, as_series(column.name, column.kind, present, len(kept) - len(present)))


def _kind(text: str) -> pa.DataType:
    moment = _MOMENT.fullmatch(text)
    return pa.type_for_alias(text) if moment is None else pa.timestamp(moment[1], moment[2])
