"""Experiment results as JSON: written plainly, read strictly."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NoReturn

from spu_core.errors import WorkspaceError
from spu_core.experiments.result import Claim, ExperimentResult, Provenance, ResultTable
from spu_core.rules.strict_json import parse_json

SCHEMA = 1
WHAT = "The stored experiment"
MAX_BYTES = 20_000_000


def to_json(result: ExperimentResult) -> str:
    """The result as indented JSON, one table row a line."""
    value = {"schema": SCHEMA, **_plain(asdict(result), "result")}
    return _indented(value) + "\n"


def from_json(source: str | bytes) -> ExperimentResult:
    """The result that the text describes; missing, unknown or wrongly typed fields are refused."""
    value = _fields(
        parse_json(source, what=WHAT, error=WorkspaceError, max_bytes=MAX_BYTES),
        "result",
        {"schema": int, "name": str, "title": str, "tables": list, "claims": list, "choices": list}
        | {"provenance": dict, "series": dict},
    )
    if value["schema"] != SCHEMA:
        _refuse(f"has schema {value['schema']}, but this version reads schema {SCHEMA}; store it again")
    return ExperimentResult(
        name=value["name"],
        title=value["title"],
        tables=tuple(map(_table, value["tables"])),
        claims=tuple(Claim(**_fields(each, "claim", dict.fromkeys(CLAIM, str))) for each in value["claims"]),
        choices=tuple(_texts(value["choices"], "choices")),
        provenance=Provenance(**_fields(value["provenance"], "provenance", PROVENANCE)),
        series=value["series"],
    )


CLAIM = ("text", "verdict", "words")
PROVENANCE: dict[str, Any] = {
    "commit": str, "versions": dict, "settings": dict, "seconds": (int, float), "made_on": str,
}  # fmt: skip
TABLE: dict[str, Any] = {"name": str, "title": str, "columns": list, "rows": list, "note": str}


def _table(value: Any) -> ResultTable:
    fields = _fields(value, "table", TABLE)
    columns = tuple(_texts(fields["columns"], "columns"))
    return ResultTable(fields["name"], fields["title"], columns, tuple(map(_row, fields["rows"])), fields["note"])


def _row(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        _refuse(f"holds the row {value!r}; a row must be a list")
    return tuple(map(_cell, value))


def _cell(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float | type(None)):
        _refuse(f"holds the cell {value!r}; a cell must be text, a number or null")
    return value


def _texts(values: Sequence[Any], name: str) -> list[str]:
    if not all(isinstance(value, str) for value in values):
        _refuse(f"holds {name} that are not all text")
    return list(values)


def _fields(value: Any, what: str, types: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(types):
        found = sorted(value) if isinstance(value, dict) else type(value).__name__
        _refuse(f"has a {what} with {found}; exactly {sorted(types)} are wanted")
    for name, kind in types.items():
        if not isinstance(value[name], kind) or isinstance(value[name], bool):
            _refuse(f"has {name} = {value[name]!r} in its {what}, which has the wrong type")
    return value


def _refuse(words: str) -> NoReturn:
    raise WorkspaceError(f"{WHAT} {words}.")


def _plain(value: Any, where: str) -> Any:
    """Lists, dictionaries, text and finite numbers; numpy's numbers become Python's."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner, f"{where}.{name}") for name, inner in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(inner, where) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise WorkspaceError(f"{where} holds {value}, which JSON cannot say; use None where there is no figure.")
    if isinstance(value, str | int | float | bool | type(None)):
        return value
    raise WorkspaceError(f"{where} holds a {type(value).__name__}; results keep text, numbers, lists and dictionaries.")


def _indented(value: Any, depth: int = 0) -> str:
    """JSON whose lists of plain values stay on one line, so that a table reads as a table."""
    inside, outside = "  " * (depth + 1), "  " * depth
    if isinstance(value, dict) and value:
        lines = [f"{inside}{json.dumps(name)}: {_indented(inner, depth + 1)}" for name, inner in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{outside}}}"
    if isinstance(value, list) and any(_is_long(inner) for inner in value):
        return "[\n" + ",\n".join(inside + _indented(inner, depth + 1) for inner in value) + f"\n{outside}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _is_long(value: Any) -> bool:
    return isinstance(value, list | dict) or (isinstance(value, str) and len(value) > 40)
