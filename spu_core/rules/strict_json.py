"""Untrusted JSON read strictly: capped in bytes and depth, no duplicate keys, no NaN, and never a traceback."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from spu_core.errors import RuleError, SpuError

MAX_BYTES = 4_000_000
MAX_DEPTH = 40
MAX_KEYS = 200_000


def parse_json(
    source: str | bytes,
    *,
    what: str = "The rule file",
    error: type[SpuError] = RuleError,
    max_bytes: int = MAX_BYTES,
) -> Any:
    """The value that a JSON text describes, or an error in one sentence.

    >>> parse_json('{"a": [1, 2.5, null]}')
    {'a': [1, 2.5, None]}
    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    spu_core.errors.RuleError: The rule file names the key 'a' twice in one object; keep one of them.
    """
    text = _text(source, what, error, max_bytes)
    _check_depth(text, what, error)
    reader = _StrictReader(what, error)
    try:
        return json.loads(
            text,
            object_pairs_hook=reader.read_object,
            parse_constant=reader.refuse_constant,
            parse_float=reader.read_float,
            parse_int=reader.read_int,
        )
    except json.JSONDecodeError as problem:
        place = f"line {problem.lineno}, column {problem.colno}"
        raise error(f"{what} is not valid JSON at {place}: {problem.msg}.") from None


class _StrictReader:
    """The hooks of one reading: they count keys and refuse what `json` would let pass."""

    def __init__(self, what: str, error: type[SpuError]) -> None:
        self.what, self.error, self.keys = what, error, 0

    def read_object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        self.keys += len(pairs)
        if self.keys > MAX_KEYS:
            raise self.error(f"{self.what} has more than {MAX_KEYS:,} keys; split it.")
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise self.error(f"{self.what} names the key {_short(key)} twice in one object; keep one of them.")
            found[key] = value
        return found

    def refuse_constant(self, text: str) -> NoReturn:
        raise self.error(f"{self.what} holds {text}, which is not a number in JSON; write a finite number.")

    def read_float(self, text: str) -> float:
        number = float(text)
        if not math.isfinite(number):
            raise self.error(f"{self.what} holds {_short(text)}, which is too large; write a finite number.")
        return number

    def read_int(self, text: str) -> int:
        # Longer integers could not be floats, and Python itself refuses to read very long ones.
        if len(text) > 300:
            raise self.error(f"{self.what} holds an integer of {len(text)} digits; write a finite number.")
        return int(text)


def _text(source: str | bytes, what: str, error: type[SpuError], max_bytes: int) -> str:
    if isinstance(source, str):
        source = _encoded(source, what, error)
    if not isinstance(source, bytes | bytearray):
        raise error(f"{what} must be text or bytes, got {type(source).__name__}.")
    if len(source) > max_bytes:
        raise error(f"{what} has {len(source):,} bytes, more than the limit of {max_bytes:,}.")
    try:
        return bytes(source).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise error(f"{what} is not UTF-8 text (byte {problem.start}); save it as UTF-8.") from None


def _encoded(text: str, what: str, error: type[SpuError]) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as problem:
        raise error(f"{what} holds half a character at position {problem.start}; save it as UTF-8.") from None


def _check_depth(text: str, what: str, error: type[SpuError]) -> None:
    """Count open brackets outside strings, before a recursive parser meets them."""
    depth, in_string, escaped = 0, False, False
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise error(f"{what} is nested deeper than {MAX_DEPTH} levels; flatten it.")
        elif character in "]}":
            depth -= 1


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "…")
