"""Opening a folder of parquet files: one pass over the rows settles types, levels, roles and positive values."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
import pyarrow as pa

from spu_core.errors import TableError
from spu_core.tables.blocks import longest_cell
from spu_core.tables.column_facts import ColumnFacts
from spu_core.tables.column_types import ColumnType
from spu_core.tables.finishing import hollow
from spu_core.tables.folder import FolderColumn, TableFolder
from spu_core.tables.folder_files import FolderFile, batches_of, list_files, open_files
from spu_core.tables.folder_roles import settled_values, without_copies
from spu_core.tables.reading import ReadLimits
from spu_core.tables.role_guesses import guess_roles
from spu_core.tables.roles import Role, check_roles, parse_roles


def open_folder(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    roles: Mapping[str, Role | str] | None = None,
    positive_values: Iterable[Any] | None = None,
    limits: ReadLimits | None = None,
) -> TableFolder:
    """A table over all parquet files below a folder; what is not given is guessed, as for a table in memory.

    One pass over the rows is made. Types and roles equal those of one file with the same rows; only whether more than
    32,768 values are *all* different is estimated (within 2 %).
    """
    limits = limits or ReadLimits()
    files, types, findings = open_files(list_files(path))
    facts = survey(files, types, limits)
    columns = tuple(form_of(fact, limits.levels) for fact in facts.values())
    stand_ins = {column.name: in_form(column, facts[column.name].stand_in()) for column in columns}
    given = parse_roles(roles or {}, list(stand_ins))
    kinds = {column.name: column.type for column in columns}
    guessed = guess_roles(_ByName(stand_ins), kinds, given)  # type: ignore[arg-type]
    check_roles(guessed, _ByName(stand_ins))  # type: ignore[arg-type]
    folder = TableFolder(
        name=name or Path(path).name,
        path=Path(path),
        files=files,
        columns=columns,
        roles=MappingProxyType(guessed),
        findings=(*findings, *(found for each in columns for found in hollow(each.name, stand_ins[each.name]))),
        stand_ins=MappingProxyType(stand_ins),
    )
    chosen = None if positive_values is None else tuple(positive_values)
    return without_copies(settled_values(folder, chosen), given)


def survey(files: Iterable[FolderFile], types: dict[str, pa.DataType], limits: ReadLimits) -> dict[str, ColumnFacts]:
    """The facts of every column, in one pass."""
    facts = {name: ColumnFacts.empty(name, kind, limits.levels) for name, kind in types.items()}
    for file in files:
        for batch in batches_of(file, types):
            for name, values in batch.items():
                _check_cells(name, values, file, limits)
                facts[name] = facts[name].add(values)
    return facts


def form_of(facts: ColumnFacts, levels: int) -> FolderColumn:
    """How the column comes in every part."""
    kind = facts.type(levels)
    is_level = kind is ColumnType.CATEGORY and (pa.types.is_string(facts.kind) or pa.types.is_null(facts.kind))
    names = tuple(sorted(facts.few or ())) if is_level else ()
    return FolderColumn(facts.name, facts.kind, kind, facts.missing > 0, names)


class _ByName:
    """Columns of different lengths by name: all that guessing asks of a frame."""

    def __init__(self, columns: Mapping[str, pd.Series]) -> None:
        self._columns, self.columns = columns, list(columns)

    def __getitem__(self, name: str) -> pd.Series:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


def in_form(column: FolderColumn, short: pd.Series) -> pd.Series:
    """A stand-in with the levels of its column."""
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
