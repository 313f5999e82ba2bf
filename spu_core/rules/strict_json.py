"""Strict reading of untrusted JSON.

`parse_json` limits bytes, depth and keys, and rejects duplicate keys and NaN. `Fields` reads one object: known fields
only, each of the right type. Error messages name the place.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, NoReturn

from spu_core.errors import RuleError, SpuError, nearest_hint

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
    """Parse a JSON text; anything invalid raises an error.

    >>> parse_json('{"a": [1, 2.5, null]}')
    {'a': [1, 2.5, None]}
    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    spu_core.errors.RuleError: The rule file has the key 'a' twice in one object; keep one of them.
    """
    text = _text(source, what, error, max_bytes)
    reader = _StrictReader(what, error)
    too_deep = error(f"{what} is nested deeper than {MAX_DEPTH} levels; flatten it.")
    try:
        value = json.loads(
            text,
            object_pairs_hook=reader.read_object,
            parse_constant=reader.refuse_constant,
            parse_float=reader.read_float,
            parse_int=reader.read_int,
        )
    except json.JSONDecodeError as problem:
        place = f"line {problem.lineno}, column {problem.colno}"
        raise error(f"{what} is not valid JSON at {place}: {problem.msg}.") from None
    except RecursionError:
        raise too_deep from None
    if not _is_flat_enough(value):
        raise too_deep
    return value


class _StrictReader:
    """Hooks for `json.loads`: they count keys and reject what `json` accepts beyond the standard."""

    def __init__(self, what: str, error: type[SpuError]) -> None:
        self.what, self.error, self.keys = what, error, 0

    def read_object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        self.keys += len(pairs)
        if self.keys > MAX_KEYS:
            raise self.error(f"{self.what} has more than {MAX_KEYS:,} keys; split it.")
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise self.error(f"{self.what} has the key {_short(key)} twice in one object; keep one of them.")
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
        # Longer integers do not fit into a float, and Python does not parse very long ones.
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
        raise error(f"{what} has an invalid character at position {problem.start}; save it as UTF-8.") from None


def _is_flat_enough(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [part for each in level if isinstance(each, dict | list) for part in _parts(each)]
    return not any(isinstance(each, dict | list) for each in level)


def _parts(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "…")


MAX_TEXT = 10_000
_MISSING = object()


class Fields:
    """One JSON object at a known place; `done()` raises an error for fields that were not read.

    >>> fields = Fields({"value": 0.5, "colour": "red"}, "rules[0].belief")
    >>> fields.number("value")
    0.5
    >>> fields.done()
    Traceback (most recent call last):
    spu_core.errors.RuleError: rules[0].belief has an unknown field 'colour'. Available: 'value'.
    """

    def __init__(self, value: Any, place: str) -> None:
        if not isinstance(value, dict):
            raise RuleError(f"{place} must be an object, got {describe(value)}.")
        self.value, self.place = value, place
        self._asked: list[str] = []

    def __contains__(self, name: str) -> bool:
        return name in self.value

    def get(self, name: str, default: Any = _MISSING) -> Any:
        """The raw value of a field; without a default the field is required."""
        self._asked.append(name)
        found = self.value.get(name, default)
        if found is _MISSING:
            raise RuleError(f"{self.place} lacks the field {name!r}.")
        return found

    def text(self, name: str, default: Any = _MISSING) -> str:
        return check_text(self.get(name, default), self.at(name))

    def number(self, name: str) -> float:
        return check_json_number(self.get(name), self.at(name))

    def flag(self, name: str, default: bool) -> bool:
        found = self.get(name, default)
        if not isinstance(found, bool):
            raise RuleError(f"{self.at(name)} must be true or false, got {describe(found)}.")
        return found

    def items(self, name: str, most: int) -> list[Any]:
        found = self.get(name)
        if not isinstance(found, list):
            raise RuleError(f"{self.at(name)} must be a list, got {describe(found)}.")
        if len(found) > most:
            raise RuleError(f"{self.at(name)} has {len(found):,} entries, more than the limit of {most:,}.")
        return found

    def numbers(self, name: str, most: int) -> tuple[float, ...]:
        entries = enumerate(self.items(name, most))
        return tuple(check_json_number(entry, f"{self.at(name)}[{i}]") for i, entry in entries)

    def texts(self, name: str, most: int) -> tuple[str, ...]:
        entries = enumerate(self.items(name, most))
        return tuple(check_text(entry, f"{self.at(name)}[{i}]") for i, entry in entries)

    def choice(self, name: str, choices: Iterable[str]) -> str:
        return check_known(self.text(name), choices, self.at(name))

    def at(self, name: str) -> str:
        return f"{self.place}.{name}"

    def done(self) -> None:
        """Raise an error for unknown fields, since a misspelt field would be ignored silently."""
        for name in self.value:
            if name not in self._asked:
                hint = nearest_hint(name, self._asked)
                raise RuleError(f"{self.place} has an unknown field {shorten(name)}. {hint}")


def check_text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise RuleError(f"{place} must be text, got {describe(value)}.")
    if len(value) > MAX_TEXT:
        raise RuleError(f"{place} has {len(value):,} characters, more than the limit of {MAX_TEXT:,}.")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise RuleError(f"{place} has an invalid character (a lone surrogate), which cannot be stored.")
    return value


def check_json_number(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RuleError(f"{place} must be a number, got {describe(value)}.")
    if not math.isfinite(_as_float(value)):
        raise RuleError(f"{place} must be a finite number, got {describe(value)}.")
    return value


def check_known(value: str, choices: Iterable[str], place: str) -> str:
    choices = list(choices)
    if value not in choices:
        raise RuleError(f"{place} has an unknown value {shorten(value)}. {nearest_hint(value, choices)}")
    return value


def describe(value: Any) -> str:
    """A short description of a JSON value for an error message."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    return shorten(value)


def shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
