"""Frozen values as plain JSON and back: whatever the engine stores or exchanges as JSON goes through here.

`encode` writes a dataclass field by field. `decode` reads untrusted values by the type hints of a dataclass: unknown,
missing and mistyped fields are refused with a sentence that names the place; the dataclass checks the rest itself.

JSON has no NaN and no infinity. `encode` writes null for them, and `decode` reads null in a field of type float as NaN;
`encode(..., exact=True)` refuses them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Literal, NoReturn, Self, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from spu_core.errors import SpuError, nearest_hint

MAX_BYTES = 4_000_000
MAX_DEPTH = 40
MAX_KEYS = 200_000
Value = TypeVar("Value")


def encode(
    value: Any,
    name: str = "The value",
    error: type[SpuError] = SpuError,
    *,
    exact: bool = False,
    default: Callable[[Any], Any] | None = None,
) -> Any:
    """Dataclasses, mappings, sequences, enums and NumPy values as plain JSON values.

    `name` starts error messages. `default` converts values of other types, which are refused without it.

    >>> encode({"auc": float("nan"), "folds": (1, 2)})
    {'auc': None, 'folds': [1, 2]}
    """

    def convert(value: Any, place: str) -> Any:
        if isinstance(value, Enum):
            value = value.value
        if hasattr(value, "tolist"):  # NumPy scalars and arrays
            value = value.tolist()
        if value is None or isinstance(value, str | int):
            return value
        if isinstance(value, float):
            if exact and not math.isfinite(value):
                raise error(f"{place} holds {value}, which JSON cannot represent; use None where there is no number.")
            return value if math.isfinite(value) else None
        if is_dataclass(value) and not isinstance(value, type):
            value = {field.name: getattr(value, field.name) for field in fields(value)}
        if isinstance(value, Mapping):
            return {str(key): convert(inner, f"{place}.{key}") for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [convert(inner, f"{place}[{at}]") for at, inner in enumerate(value)]
        if default is not None:
            return convert(default(value), place)
        kind = type(value).__name__
        raise error(f"{place} must be made of text, numbers, lists and mappings, but holds a {kind}.")

    return convert(value, name)


def encode_tagged(value: Any) -> dict[str, Any]:
    """The same for one of several classes, which `kind` tells apart; fields that are None are left out."""
    return {"kind": value.kind} | {name: part for name, part in encode(value).items() if part is not None}


def dump_json(value: Any, *, indent: int | None = None, sort_keys: bool = False) -> str:
    """JSON text of plain values; letters of all scripts stay readable, and numbers come back bit for bit."""
    return json.dumps(value, indent=indent, sort_keys=sort_keys, ensure_ascii=False, allow_nan=False)


def parse_json(
    source: str | bytes, what: str = "The JSON text", error: type[SpuError] = SpuError, max_bytes: int = MAX_BYTES
) -> Any:
    """Parse an untrusted JSON text. Bytes, depth and keys are limited; duplicate keys and NaN are refused.

    >>> parse_json('{"a": [1, 2.5, null]}', "The file")
    {'a': [1, 2.5, None]}
    >>> parse_json('{"a": 1, "a": 2}', "The file")
    Traceback (most recent call last):
    spu_core.errors.SpuError: The file has the key 'a' twice in one object; keep one of them.
    """
    text = _text(source, what, error, max_bytes)
    hooks = _JsonHooks(what, error)
    too_deep = error(f"{what} is nested deeper than {MAX_DEPTH} levels; flatten it.")
    try:
        value = json.loads(
            text,
            object_pairs_hook=hooks.read_object,
            parse_constant=hooks.refuse_constant,
            parse_float=hooks.read_float,
            parse_int=hooks.read_int,
        )
    except json.JSONDecodeError as problem:
        place = f"line {problem.lineno}, column {problem.colno}"
        raise error(f"{what} is not valid JSON at {place}: {problem.msg}.") from None
    except RecursionError:
        raise too_deep from None
    if not _is_flat_enough(value):
        raise too_deep
    return value


class _JsonHooks:
    """Hooks for `json.loads`: they count keys and refuse what `json` accepts beyond the standard."""

    def __init__(self, what: str, error: type[SpuError]) -> None:
        self.what, self.error, self.keys = what, error, 0

    def read_object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        self.keys += len(pairs)
        if self.keys > MAX_KEYS:
            raise self.error(f"{self.what} has more than {MAX_KEYS:,} keys; split it.")
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for at, key in enumerate(keys) if key in keys[:at])
            raise self.error(f"{self.what} has the key {shorten(twice)} twice in one object; keep one of them.")
        return found

    def refuse_constant(self, text: str) -> NoReturn:
        raise self.error(f"{self.what} holds {text}, which is not a number in JSON; write a finite number.")

    def read_float(self, text: str) -> float:
        number = float(text)
        if not math.isfinite(number):
            raise self.error(f"{self.what} holds {shorten(text)}, which is too large; write a finite number.")
        return number

    def read_int(self, text: str) -> int:
        # Longer integers do not fit into a float, and Python does not parse very long ones.
        if len(text) > 300:
            raise self.error(f"{self.what} holds an integer of {len(text)} digits; write a finite number.")
        return int(text)


def _text(source: str | bytes, what: str, error: type[SpuError], max_bytes: int) -> str:
    try:
        source = source.encode() if isinstance(source, str) else source
    except UnicodeEncodeError as problem:
        raise error(f"{what} has an invalid character at position {problem.start}; save it as UTF-8.") from None
    if not isinstance(source, bytes | bytearray):
        raise error(f"{what} must be text or bytes, got {type(source).__name__}.")
    if len(source) > max_bytes:
        raise error(f"{what} has {len(source):,} bytes, more than the limit of {max_bytes:,}.")
    try:
        return bytes(source).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise error(f"{what} is not UTF-8 text (byte {problem.start}); save it as UTF-8.") from None


def _is_flat_enough(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        inside = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [part for parts in inside for part in parts]
    return not any(isinstance(each, dict | list) for each in level)


def decode(
    kind: type[Value],
    data: Any,
    what: str,
    error: type[SpuError] = SpuError,
    *,
    schema: tuple[str, int] | None = None,
    **options: Any,
) -> Value:
    """The value of a dataclass (or another type) from plain JSON values; `what` names the whole in error messages.

    `schema` is the field that tells the version of the format, and the version that is read. `options` are those of
    `Reader`.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: float
    ...     names: tuple[str, ...] = ()
    >>> decode(Point, {"x": 1.5, "names": ["a"]}, "The point")
    Point(x=1.5, names=('a',))
    >>> decode(Point, {"x": 1.5, "names": ["a", 2]}, "The point")
    Traceback (most recent call last):
    spu_core.errors.SpuError: names[1] must be text, got 2.
    >>> decode(Point, {"x": 1.5, "name": ["a"]}, "The point")
    Traceback (most recent call last):
    spu_core.errors.SpuError: The point has an unknown field 'name'. Did you mean 'names'?
    """
    reader = Reader(what, error, **options)
    if schema is not None:
        data = reader.without_version(data, *schema)
    return reader.read(kind, data)


class JsonFields:
    """Base of frozen dataclasses whose plain form is their fields: `to_dict` and `from_dict`.

    `json_form` holds the name of the value in error messages, the class of errors, and options of `Reader`.
    """

    __slots__ = ()
    json_form: tuple[str, type[SpuError], Mapping[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, each field by its name."""
        return encode(self)

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """The value that `to_dict` described; unknown and mistyped fields are refused."""
        what, error, options = cls.json_form
        return decode(cls, data, what, error, **options)


class Reader:
    """Reads plain values as types; `what` and the place inside it are named in error messages.

    `hooks` read types that are written in their own form. With `complete`, fields with a default must be there too.
    Texts have at most `max_text` characters, lists at most `max_items` entries.
    """

    def __init__(
        self,
        what: str,
        error: type[SpuError],
        *,
        hooks: Mapping[Any, Hook] | None = None,
        complete: bool = False,
        max_text: float = math.inf,
        max_items: float = math.inf,
    ) -> None:
        self.what, self.error, self.hooks, self.complete = what, error, hooks or {}, complete
        self.max_text, self.max_items = max_text, max_items

    def read(self, kind: Any, data: Any, place: str = "") -> Any:
        """The value of the type `kind`; the place "" is the whole."""
        if kind in self.hooks:
            return self.hooks[kind](self, data, place)
        read = _READERS.get(get_origin(kind) or kind)
        if read is not None:
            return read(self, kind, data, place)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return kind(self.choice(data, [each.value for each in kind], place))
        return self.fields(kind, data, place)

    def fields(self, kind: Any, data: Any, place: str) -> Any:
        """A dataclass from an object with exactly its fields; those with a default may be absent."""
        data, known = self.need_object(data, place), _fields_of(kind)
        self.refuse_unknown(data, known, place)
        for name, (_, is_needed) in known.items():
            if name not in data and (is_needed or self.complete):
                self.refuse(place, f"lacks the field {name!r}")
        given = {name: self.read(known[name][0], part, self.at(place, name)) for name, part in data.items()}
        return self.make(place, kind, **given)

    def make(self, place: str, kind: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        """Call a constructor; its error message gets the place as a prefix."""
        try:
            return kind(*arguments, **named)
        except SpuError as problem:
            raise self.error(f"{place or self.what}: {problem}") from None

    def need_object(self, data: Any, place: str) -> Mapping[str, Any]:
        if not isinstance(data, Mapping):
            self.refuse(place, f"must be an object, got {describe(data)}")
        return data

    def without_version(self, data: Any, name: str, version: int, place: str = "") -> dict[str, Any]:
        """The other fields of an object that tells the version of its format; another version is refused."""
        rest = dict(self.need_object(data, place))
        if name not in rest:
            self.refuse(place, f"lacks the field {name!r}")
        found = rest.pop(name)
        if type(found) is not int or found != version:
            hint = "update the program, or store it again"
            self.refuse(place, f"has {name} {describe(found)}, but this version reads {version}; {hint}")
        return rest

    def choice(self, data: Any, choices: Iterable[Any], place: str) -> Any:
        choices = list(choices)
        text = _read_text(self, str, data, place)
        if text not in choices:
            self.refuse(place, f"has an unknown value {shorten(text)}", nearest_hint(text, choices))
        return text

    def refuse_unknown(self, data: Iterable[str], known: Iterable[str], place: str) -> None:
        """An error for unknown fields, since a misspelt field would be ignored silently."""
        names = list(known)
        for name in data:
            if name not in names:
                self.refuse(place, f"has an unknown field {shorten(name)}", nearest_hint(str(name), names))

    def refuse(self, place: str, problem: str, hint: str = "") -> NoReturn:
        raise self.error(f"{place or self.what} {problem}. {hint}".rstrip())

    def at(self, place: str, name: object) -> str:
        return f"{place}.{name}" if place else str(name)


Hook: TypeAlias = Callable[[Reader, Any, str], Any]


def tagged(*kinds: Any) -> Hook:
    """A hook that reads one of several classes; the field `kind` tells which, as `encode_tagged` writes it."""
    known = {each.kind: each for each in kinds}

    def read(reader: Reader, data: Any, place: str) -> Any:
        rest = dict(reader.need_object(data, place))
        if "kind" not in rest:
            reader.refuse(place, "lacks the field 'kind'")
        kind = reader.choice(rest.pop("kind"), known, reader.at(place, "kind"))
        return reader.fields(known[kind], rest, place)

    return read


def _read_any(reader: Reader, kind: Any, data: Any, place: str) -> Any:
    return data


def _read_text(reader: Reader, kind: Any, data: Any, place: str) -> str:
    if not isinstance(data, str):
        reader.refuse(place, f"must be text, got {describe(data)}")
    if len(data) > reader.max_text:
        reader.refuse(place, f"has {len(data):,} characters, more than the limit of {reader.max_text:,}")
    if not data.isascii() and any("\ud800" <= character <= "\udfff" for character in data):
        reader.refuse(place, "has an invalid character (a lone surrogate), which cannot be stored")
    return data


def _read_flag(reader: Reader, kind: Any, data: Any, place: str) -> bool:
    if not isinstance(data, bool):
        reader.refuse(place, f"must be true or false, got {describe(data)}")
    return data


def _read_whole(reader: Reader, kind: Any, data: Any, place: str) -> int:
    if isinstance(data, bool) or not isinstance(data, int):
        reader.refuse(place, f"must be a whole number, got {describe(data)}")
    return data


def _read_number(reader: Reader, kind: Any, data: Any, place: str) -> float:
    if data is None:
        return math.nan
    if isinstance(data, bool) or not isinstance(data, int | float):
        reader.refuse(place, f"must be a number, got {describe(data)}")
    try:
        float(data)
    except OverflowError:
        reader.refuse(place, f"must be a finite number, got {describe(data)}")
    # A whole number stays one: a review budget of 1 is a row, and 1.0 is all rows.
    return data


def _read_nothing(reader: Reader, kind: Any, data: Any, place: str) -> None:
    if data is not None:
        reader.refuse(place, f"must be null, got {describe(data)}")


def _read_union(reader: Reader, kind: Any, data: Any, place: str) -> Any:
    """The first alternative that the value fits; with one alternative besides null, its own error message."""
    kinds = get_args(kind)
    if data is None and type(None) in kinds:
        return None
    others = [each for each in kinds if each is not type(None)]
    for each in others if len(others) > 1 else ():
        try:
            return reader.read(each, data, place)
        except SpuError:
            continue
    if len(others) > 1 and all(each in _WORDS for each in others):
        reader.refuse(place, f"must be {' or '.join(_WORDS[each] for each in others)}, got {describe(data)}")
    return reader.read(others[-1], data, place)


def _read_literal(reader: Reader, kind: Any, data: Any, place: str) -> Any:
    return reader.choice(data, get_args(kind), place)


def _read_list(reader: Reader, kind: Any, data: Any, place: str) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        reader.refuse(place, f"must be a list, got {describe(data)}")
    if len(data) > reader.max_items:
        reader.refuse(place, f"has {len(data):,} entries, more than the limit of {reader.max_items:,}")
    kinds = get_args(kind)
    if get_origin(kind) is tuple and kinds[-1] is not Ellipsis:
        if len(data) != len(kinds):
            reader.refuse(place, f"must have {len(kinds)} entries, got {len(data)}")
        return tuple(
            reader.read(one, part, f"{place}[{at}]") for at, (one, part) in enumerate(zip(kinds, data, strict=True))
        )
    return tuple(reader.read(kinds[0], part, f"{place}[{at}]") for at, part in enumerate(data))


def _read_mapping(reader: Reader, kind: Any, data: Any, place: str) -> dict[str, Any]:
    _, inner = get_args(kind)
    found = reader.need_object(data, place)
    return {name: reader.read(inner, part, reader.at(place, name)) for name, part in found.items()}


_WORDS = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}
_READERS: Mapping[Any, Callable[[Reader, Any, Any, str], Any]] = {
    Any: _read_any,
    object: _read_any,
    str: _read_text,
    bool: _read_flag,
    int: _read_whole,
    float: _read_number,
    type(None): _read_nothing,
    Union: _read_union,
    UnionType: _read_union,
    Literal: _read_literal,
    tuple: _read_list,
    Sequence: _read_list,
    dict: _read_mapping,
    Mapping: _read_mapping,
}


@cache
def _fields_of(kind: type) -> dict[str, tuple[Any, bool]]:
    """The type of each field of a dataclass, and whether it has no default."""
    types = get_type_hints(kind)
    return {
        field.name: (types[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(kind)
    }


def describe(value: Any) -> str:
    """A short description of a JSON value for an error message."""
    if isinstance(value, Mapping | list | tuple):
        return f"{'an object' if isinstance(value, Mapping) else 'a list'} of {len(value)}"
    return shorten(value)


def shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
