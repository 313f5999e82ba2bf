"""Blobs of a model as members: library formats as they are, arrays as raw little-endian numbers; never pickle."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from spu_core.errors import BundleError

# Written in the manifest, so that an array is its bytes, a shape and one of these words.
DTYPES = ("<f8", "<f4", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1")
# The bytes that a library reads itself: its own text or binary JSON.
NATIVE = {".txt": b"tree\n", ".ubj": b"{"}


def pack_blobs(blobs: Mapping[str, Any], folder: str) -> tuple[dict[str, dict[str, Any]], dict[str, bytes]]:
    """(what each blob is and where, the members); names of blobs never become names of members.

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
    """The array, read-only; its bytes must be exactly as many as its shape asks for."""
    dtype, shape = entry.get("dtype"), entry.get("shape")
    if dtype not in DTYPES or not isinstance(shape, list) or not all(_is_size(size) for size in shape):
        raise BundleError(f"{place} has dtype {dtype!r} and shape {shape!r}, which are none of a bundle.")
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
            raise BundleError(f"Member {member!r} does not start like a model in its library's own format.")
    return data
