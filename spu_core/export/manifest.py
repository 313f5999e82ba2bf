"""The members of a bundle as values and back: the manifest, JSON parts and arrays.

The manifest lists every other member with its hash and size. Whatever is read here may come from elsewhere, so each
part is checked strictly, and an error names the part. There is no pickle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from spu_core.codec import decode, dump_json, parse_json
from spu_core.errors import BundleError, SpuError
from spu_core.export.archive import MANIFEST, digest
from spu_core.training import TuningReport

FORMAT = "spu-studio bundle"
SCHEMA_VERSION = 4


@dataclass(frozen=True)
class PackedMember:
    """Hash and size of a member."""

    sha256: str
    size: int


@dataclass(frozen=True)
class PackedModel:
    """A model as the manifest describes it; its blobs are members."""

    description: Mapping[str, Any]
    blobs: Mapping[str, Mapping[str, Any]]
    settings: Mapping[str, Any]
    rule_columns: tuple[str, ...]
    tuning: TuningReport | None


@dataclass(frozen=True)
class Manifest:
    """Everything about a bundle that is not a member of its own; `soft_labels` holds combiner and floor."""

    format: str
    schema_version: int
    members: Mapping[str, PackedMember]
    run: Mapping[str, Any]
    candidate: Mapping[str, Any]
    model: PackedModel
    soft_labels: Mapping[str, Any] | None
    flag: Mapping[str, Any]
    passport: Mapping[str, Any]
    rows: Mapping[str, Mapping[str, Any]]


def seal_members(parts: Mapping[str, Any], members: Mapping[str, bytes]) -> dict[str, bytes]:
    """All members with the manifest that lists their hashes."""
    listed = {name: {"sha256": digest(data), "size": len(data)} for name, data in sorted(members.items())}
    manifest = {"format": FORMAT, "schema_version": SCHEMA_VERSION, **parts, "members": listed}
    return {MANIFEST: to_json(manifest), **members}


def open_manifest(members: Mapping[str, bytes]) -> Manifest:
    """The manifest, after checking that every member is as it lists it."""
    found = read_json(members[MANIFEST], MANIFEST)
    if found.get("format") != FORMAT:
        raise BundleError(f"The zip file is not a bundle: its {MANIFEST} says format {found.get('format')!r:.60}.")
    _check_version(found.get("schema_version"))
    manifest = decode(Manifest, found, f"The bundle's {MANIFEST}", BundleError)
    _check_members(manifest.members, members)
    return manifest


def to_json(value: Any) -> bytes:
    """Stable, readable JSON; numbers come back bit for bit."""
    try:
        return dump_json(value, indent=1, sort_keys=True).encode()
    except (TypeError, ValueError) as problem:
        raise BundleError(f"The run cannot be written as a bundle: {problem}.") from problem


def _check_version(version: Any) -> None:
    if type(version) is not int or version < 1:
        raise BundleError(f"The bundle's schema version is {version!r:.60}, which is not a whole number from 1 on.")
    if version > SCHEMA_VERSION:
        raise BundleError(
            f"The bundle has schema version {version}, but this version of spu-studio reads up to {SCHEMA_VERSION}; "
            "update spu-studio."
        )


def _check_members(listed: Mapping[str, PackedMember], members: Mapping[str, bytes]) -> None:
    for name in sorted(set(members) - {MANIFEST} - set(listed)):
        raise BundleError(f"The bundle has a member {name!r} that its manifest does not list.")
    for name, entry in listed.items():
        if name not in members or name == MANIFEST:
            raise BundleError(f"The bundle lacks the member {str(name)[:60]!r} that its manifest lists.")
        data = members[name]
        if len(data) != entry.size:
            raise BundleError(
                f"Member {name!r} has {len(data):,} bytes, but the manifest says {entry.size:,}; it was cut or changed."
            )
        if digest(data) != entry.sha256:
            raise BundleError(f"Member {name!r} was changed after the export: its SHA-256 is not that of the manifest.")


# An array is stored as its bytes; the manifest holds its shape and one of these types.
DTYPES = ("<f8", "<f4", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1")
# Formats that a library reads itself, with the bytes they start with: its own text or binary JSON.
NATIVE = {".txt": b"tree\n", ".ubj": b"{"}


def pack_blobs(blobs: Mapping[str, Any], folder: str) -> tuple[dict[str, dict[str, Any]], dict[str, bytes]]:
    """(type, shape and member of each blob, the members); names of blobs never become names of members.

    >>> entries, members = pack_blobs({"coef": np.array([1.0, 2.0])}, "model")
    >>> entries
    {'coef': {'member': 'model/0000.bin', 'dtype': '<f8', 'shape': [2]}}
    """
    entries: dict[str, dict[str, Any]] = {}
    members: dict[str, bytes] = {}
    for number, (name, blob) in enumerate(sorted(blobs.items())):
        if isinstance(blob, bytes | bytearray):
            suffix = next((suffix for suffix in NATIVE if name.endswith(suffix)), ".bin")
            member, data = f"{folder}/{number:04d}{suffix}", bytes(blob)
            entry: dict[str, Any] = {}
        else:
            member = f"{folder}/{number:04d}.bin"
            entry, data = pack_array(np.asarray(blob), name)
        entries[name] = {"member": member, **entry}
        members[member] = data
    return entries, members


def unpack_blobs(entries: Mapping[str, Mapping[str, Any]], members: Mapping[str, bytes]) -> dict[str, Any]:
    """The blobs by name."""
    return {name: _unpack(name, entry, members) for name, entry in entries.items()}


def pack_array(array: np.ndarray, name: str) -> tuple[dict[str, Any], bytes]:
    """(dtype and shape, raw bytes) of an array of numbers."""
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)
    if plain.dtype.str not in DTYPES:
        raise BundleError(f"{name!r} holds {array.dtype} values; a bundle keeps numbers and flags only.")
    return {"dtype": plain.dtype.str, "shape": list(plain.shape)}, plain.tobytes()


def unpack_array(entry: Mapping[str, Any], data: bytes, place: str) -> np.ndarray:
    """The array, read-only; the number of bytes must fit its shape."""
    dtype, shape = entry.get("dtype"), entry.get("shape")
    if dtype not in DTYPES or not isinstance(shape, list) or not all(_is_size(size) for size in shape):
        raise BundleError(f"{place} has dtype {dtype!r} and shape {shape!r}, which a bundle cannot have.")
    wanted = prod(shape) * np.dtype(dtype).itemsize
    if len(data) != wanted:
        raise BundleError(f"{place} has {len(data):,} bytes, but its shape {shape} needs {wanted:,}.")
    return np.frombuffer(data, dtype=dtype).reshape(shape)


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**40


def _unpack(name: str, entry: Mapping[str, Any], members: Mapping[str, bytes]) -> Any:
    member = entry["member"]
    data = members[member]
    if "dtype" in entry:
        return unpack_array(entry, data, f"Member {member!r} ({name})")
    for suffix, start in NATIVE.items():
        if member.endswith(suffix) and not data.startswith(start):
            raise BundleError(f"Member {member!r} does not start like a model in the format of its library.")
    return data


MAX_JSON_BYTES = 64_000_000


@contextmanager
def reading(part: str) -> Iterator[None]:
    """Turn errors while a part is read into a `BundleError` that names the part.

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
    found = parse_json(data, f"The bundle's {part}", BundleError, MAX_JSON_BYTES)
    if not isinstance(found, dict):
        raise BundleError(f"The bundle's {part} must be an object with named fields, got {type(found).__name__}.")
    return found
