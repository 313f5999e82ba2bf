"""Frozen values to JSON and back: strict on the way in, stable on the way out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from spu_core.errors import TrainingError, nearest_hint
from spu_core.rules.strict_json import parse_json

Value = TypeVar("Value")


def to_fields(value: Any) -> dict[str, Any]:
    """A frozen value as plain dictionaries, lists and numbers."""
    return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}


def from_fields(cls: type[Value], given: Any, what: str) -> Value:
    """The value of named fields; its own checks then state their laws."""
    if not isinstance(given, Mapping):
        raise TrainingError(f"{what} must be an object with named fields, got {type(given).__name__}.")
    known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            raise TrainingError(f"{what} has no field {name!r}. {nearest_hint(str(name), known)}")
    try:
        return cls(**given)
    except TypeError:
        needed = ", ".join(repr(field.name) for field in fields(cls))  # type: ignore[arg-type]
        raise TrainingError(f"{what} lacks a field; it has {needed}.") from None


def read_object(text: str | bytes, what: str) -> dict[str, Any]:
    """The object that a JSON text describes."""
    found = parse_json(text, what=what, error=TrainingError)
    if not isinstance(found, dict):
        raise TrainingError(f"{what} must be an object with named fields, got {type(found).__name__}.")
    return found


def write_json(value: Any) -> str:
    """Readable JSON with a stable order of keys."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return to_fields(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.item() if hasattr(value, "item") else value
