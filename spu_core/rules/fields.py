"""Reading the fields of a parsed JSON object: known names only, each of the right type, with its place in the error."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from spu_core.errors import RuleError, nearest_hint

MAX_TEXT = 10_000
_MISSING = object()


class Fields:
    """One JSON object at a known place; `done()` refuses whatever was not asked for.

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
        """Refuse fields that nobody asked for: a misspelt one would silently change nothing."""
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
        raise RuleError(f"{place} holds half a character (a lone surrogate), which cannot be stored.")
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
        raise RuleError(f"{place} must be one of the known words, got {shorten(value)}. {nearest_hint(value, choices)}")
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
