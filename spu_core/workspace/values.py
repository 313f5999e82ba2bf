"""Small values of the catalogue: our own ids, names as people type them, times and JSON."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from spu_core.errors import WorkspaceError

Clock = Callable[[], datetime]
LONGEST_NAME = 200


def utc_now() -> datetime:
    return datetime.now(UTC)


def new_id() -> str:
    """A random token: an id says nothing, cannot be guessed, and is safe as the name of a file."""
    return secrets.token_hex(12)


def clean_name(name: object) -> str:
    """A name as it may be shown on one line; it lives in the catalogue only and never becomes a path.

    >>> clean_name("  ../../etc/passwd\\n ")
    '../../etc/passwd'
    >>> clean_name("")
    'unnamed'
    """
    text = str(name).encode("utf-8", "replace").decode("utf-8")
    shown = "".join(letter if letter.isprintable() else " " for letter in text[: LONGEST_NAME * 4])
    return " ".join(shown.split())[:LONGEST_NAME].strip() or "unnamed"


def to_json(value: Any, name: str) -> str:
    """JSON text of a plain value; numbers that JSON lacks (NaN, infinity) become null.

    >>> to_json({"auc": float("nan"), "folds": (1, 2)}, "summary")
    '{"auc": null, "folds": [1, 2]}'
    """
    return json.dumps(_plain(value, name), allow_nan=False, ensure_ascii=False)


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, Enum):
        value = value.value
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        value = value.tolist()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f"{name}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{name}[{place}]") for place, item in enumerate(value)]
    raise WorkspaceError(
        f"{name} must be made of text, numbers, lists and mappings, but holds a {type(value).__name__}."
    )
