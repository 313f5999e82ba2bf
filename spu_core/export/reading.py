"""Turning untrusted parts of a bundle into values: whatever is wrong is said of the part it is wrong in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from spu_core.errors import BundleError, SpuError
from spu_core.rules import parse_json

MAX_JSON_BYTES = 64_000_000


@contextmanager
def reading(part: str) -> Iterator[None]:
    """Errors while a part is read become a sentence about that part.

    >>> with reading("encoder.json"):
    ...     {}["columns"]
    Traceback (most recent call last):
    spu_core.errors.BundleError: The bundle's encoder.json is damaged or incomplete ('columns').
    """
    try:
        yield
    except BundleError:
        raise
    except SpuError as problem:
        raise BundleError(f"The bundle's {part} cannot be read: {problem}") from problem
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as problem:
        raise BundleError(f"The bundle's {part} is damaged or incomplete ({str(problem)[:120]}).") from problem


def read_json(data: bytes, part: str) -> dict[str, Any]:
    """The object in a JSON member, read strictly."""
    found = parse_json(data, what=f"The bundle's {part}", error=BundleError, max_bytes=MAX_JSON_BYTES)
    if not isinstance(found, dict):
        raise BundleError(f"The bundle's {part} must be an object with named fields, got {type(found).__name__}.")
    return found


def need_fields(found: Mapping[str, Any], names: Mapping[str, type | tuple[type, ...]], part: str) -> None:
    """Exactly these fields, each of its type: a field nobody reads would be a claim nobody checks."""
    for name, kind in names.items():
        if name not in found:
            raise BundleError(f"The bundle's {part} lacks the field {name!r}.")
        if not isinstance(found[name], kind):
            raise BundleError(f"The bundle's {part} has a field {name!r} that is a {type(found[name]).__name__}.")
    for name in found:
        if name not in names:
            raise BundleError(f"The bundle's {part} has a field {str(name)[:60]!r}, which this version does not know.")
