"""What opening a folder found, as text: so that it is opened again at once, without another pass over its rows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
import pyarrow as pa

from spu_core.errors import TableError
from spu_core.tables.column_facts import as_series
from spu_core.tables.column_types import ColumnType
from spu_core.tables.findings import Finding
from spu_core.tables.folder import FolderColumn, TableFolder
from spu_core.tables.folder_files import FolderFile
from spu_core.tables.open_folder import in_form

_SCHEMA = 1
_MOMENT = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]")


def survey_to_json(folder: TableFolder) -> str:
    """Files, forms of columns and findings: what a pass over all rows has found, and no row."""
    return json.dumps(
        {
            "schema": _SCHEMA,
            "files": [
                [file.path.relative_to(folder.path).as_posix(), file.rows, file.size, file.written]
                for file in folder.files
            ],
            "columns": [_column_to_json(column, folder.stand_ins[column.name]) for column in folder.columns],
            "findings": [{**asdict(finding), "severity": finding.severity.value} for finding in folder.findings],
        },
        ensure_ascii=False,
    )


def folder_from_survey(text: str, path: Path, **described: Any) -> TableFolder:
    """The folder as it was opened; `described` gives name, roles, values and fingerprint, which people may change.

    Its files may have changed since: ask `changed_files`.
    """
    try:
        note = json.loads(text)
        if note["schema"] != _SCHEMA:
            raise TableError(f"The folder was opened in schema {note['schema']!r}; this version reads {_SCHEMA}.")
        return _folder(note, path, described)
    except TableError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, pa.ArrowException) as problem:
        raise TableError(f"What was kept of the folder {path.name!r} is damaged ({problem}); open it again.") from None


def _folder(note: Mapping[str, Any], path: Path, described: Mapping[str, Any]) -> TableFolder:
    columns = tuple(_column(item) for item in note["columns"])
    kept = zip(columns, note["columns"], strict=True)
    return TableFolder(
        path=path,
        files=tuple(FolderFile(path / name, rows, size, written) for name, rows, size, written in note["files"]),
        columns=columns,
        findings=tuple(Finding(**item) for item in note["findings"]),
        stand_ins=MappingProxyType({column.name: _stand_in(column, item["stand_in"]) for column, item in kept}),
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
