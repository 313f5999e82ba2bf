"""A table as one typed parquet file: values, roles, types, positive values, reading and findings survive together."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, fields
from typing import Any, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from spu_core.errors import TableError
from spu_core.tables.findings import Finding
from spu_core.tables.parquet_files import schema_metadata
from spu_core.tables.reading import Dialect, Reading, RejectedLine
from spu_core.tables.table import Table
from spu_core.tables.written import TEXT_COLUMN, Written

AnyTable = TypeVar("AnyTable", bound=Table)
_KEY = b"spu_table"
_SCHEMA = 2
_LARGEST_NOTE = 32 * 1024**2


def write_table(table: Table, path: str | os.PathLike[str]) -> None:
    """Write the table; what stood at the path is replaced."""
    texts = {f"{TEXT_COLUMN}{name}": how.texts for name, how in table.written.items() if how.texts is not None}
    values = pa.Table.from_pandas(table.frame.assign(**texts), preserve_index=False)
    note = json.dumps(_to_json(table), allow_nan=False, ensure_ascii=False).encode()
    values = values.replace_schema_metadata({**(values.schema.metadata or {}), _KEY: note})
    pq.write_table(values, path, compression="zstd")


def read_stored(path: str | os.PathLike[str], kind: type[AnyTable]) -> AnyTable:
    """Read a table that `write_table` wrote, as this kind of table; the note is parsed strictly."""
    shown = os.fspath(path)
    try:
        with open(path, "rb") as stream:
            metadata = schema_metadata(stream, str(shown))
        frame = pq.read_table(path).to_pandas()
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{shown!r} cannot be read as a stored table: {str(error).splitlines()[0]}.") from error
    if _KEY not in metadata:
        raise TableError(f"{shown!r} was not written by Table.to_parquet; use read_table for other parquet files.")
    return _from_json(_parse(metadata[_KEY], str(shown)), frame, str(shown), kind)


def _to_json(table: Table) -> dict[str, Any]:
    return {
        "schema": _SCHEMA,
        "name": table.name,
        "roles": {name: role.value for name, role in table.roles.items()},
        "types": {name: kind.value for name, kind in table.types.items()},
        "positive_values": list(table.positive_values),
        "truth_values": list(table.truth_values),
        "reading": None if table.reading is None else asdict(table.reading),
        "written": {name: [how.style, how.decimal, how.missing] for name, how in table.written.items()},
        "findings": [{**asdict(finding), "severity": finding.severity.value} for finding in table.findings],
    }


def _parse(note: bytes, shown: str) -> dict[str, Any]:
    if len(note) > _LARGEST_NOTE:
        raise TableError(f"{shown!r}: the note stored with the table has {len(note):,} bytes; it is refused.")
    try:
        parsed = json.loads(note, object_pairs_hook=_no_twins, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise TableError(f"{shown!r}: the note stored with the table is damaged: {error}.") from error
    expected = {"schema", "name", "roles", "types", "positive_values", "truth_values", "reading", "findings", "written"}
    if isinstance(parsed, dict) and parsed.get("schema") == 1:
        parsed = {"written": {}, **parsed, "schema": _SCHEMA}
    if not isinstance(parsed, dict) or set(parsed) != expected:
        raise TableError(f"{shown!r}: the note stored with the table must have exactly the fields {sorted(expected)}.")
    if parsed["schema"] != _SCHEMA:
        raise TableError(f"{shown!r} was stored in schema {parsed['schema']!r}; this version reads {_SCHEMA}.")
    return parsed


def _from_json(note: dict[str, Any], frame: pd.DataFrame, shown: str, kind: type[AnyTable]) -> AnyTable:
    texts = {name for name in frame.columns if name.startswith(TEXT_COLUMN)}
    try:
        return kind(
            name=_text(note["name"]),
            frame=frame.drop(columns=texts) if texts else frame,
            roles=note["roles"],
            types=note["types"],
            positive_values=tuple(note["positive_values"]),
            truth_values=tuple(note["truth_values"]),
            reading=None if note["reading"] is None else _reading(note["reading"]),
            written={
                name: _how_written(how, frame.get(f"{TEXT_COLUMN}{name}")) for name, how in note["written"].items()
            },
            findings=tuple(_exactly(Finding, item, lines=tuple(item["lines"])) for item in note["findings"]),
        )
    except TableError as error:
        raise TableError(f"{shown!r}: the stored table contradicts itself. {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TableError(f"{shown!r}: the note stored with the table is damaged: {error}.") from error


def _how_written(note: list[Any], texts: pd.Series | None) -> Written:
    style, decimal, missing = map(_text, note)
    return Written(texts, style, decimal, missing)


def _reading(note: dict[str, Any]) -> Reading:
    dialect = _exactly(Dialect, note["dialect"], missing=tuple(note["dialect"]["missing"]))
    rejected = tuple(_exactly(RejectedLine, item) for item in note["rejected"])
    return _exactly(Reading, note, dialect=dialect, rejected=rejected, preamble=tuple(note["preamble"]))


def _exactly(kind: Any, note: dict[str, Any], **parsed: Any) -> Any:
    """The dataclass from a note that has exactly its fields."""
    names = {item.name for item in fields(kind)}
    if set(note) != names:
        raise TableError(f"A stored {kind.__name__} must have exactly the fields {sorted(names)}, got {sorted(note)}.")
    return kind(**{**note, **parsed})


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TableError(f"The name of a stored table must be text, got {value!r}.")
    return value


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise ValueError("a field is given twice")
    return dict(pairs)


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not a number")
