"""The members of a bundle and back: one manifest that names every other member with its hash and size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from spu_core.errors import BundleError
from spu_core.export.archive import MANIFEST, digest
from spu_core.export.reading import need_fields, read_json

FORMAT = "spu-studio bundle"
SCHEMA_VERSION = 3
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "format": str,
    "schema_version": int,
    "members": dict,
    "run": dict,
    "candidate": dict,
    "model": dict,
    "soft_labels": (dict, type(None)),
    "flag": dict,
    "passport": dict,
    "rows": dict,
}


def seal_members(parts: Mapping[str, Any], members: Mapping[str, bytes]) -> dict[str, bytes]:
    """All members with the manifest that vouches for them."""
    listed = {name: {"sha256": digest(data), "size": len(data)} for name, data in sorted(members.items())}
    manifest = {"format": FORMAT, "schema_version": SCHEMA_VERSION, **parts, "members": listed}
    return {MANIFEST: to_json(manifest), **members}


def open_manifest(members: Mapping[str, bytes]) -> dict[str, Any]:
    """The manifest, once every member is found to be what it says."""
    found = read_json(members[MANIFEST], MANIFEST)
    if found.get("format") != FORMAT:
        raise BundleError(
            f"The zip file is not a bundle of ours: its {MANIFEST} says format {found.get('format')!r:.60}."
        )
    _check_version(found.get("schema_version"))
    need_fields(found, _FIELDS, MANIFEST)
    _check_members(found["members"], members)
    return found


def to_json(value: Any) -> bytes:
    """Stable, readable JSON; numbers come back bit for bit."""
    try:
        return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False, sort_keys=True).encode()
    except (TypeError, ValueError) as problem:
        raise BundleError(f"The run cannot be written as a bundle: {problem}.") from problem


def _check_version(version: Any) -> None:
    if type(version) is not int or version < 1:
        raise BundleError(f"The bundle's schema version is {version!r:.60}, which is no whole number from 1 on.")
    if version > SCHEMA_VERSION:
        raise BundleError(
            f"The bundle has schema version {version}, but this version of spu-studio reads up to {SCHEMA_VERSION}; "
            "update spu-studio."
        )


def _check_members(listed: Mapping[str, Any], members: Mapping[str, bytes]) -> None:
    for name in sorted(set(members) - {MANIFEST} - set(listed)):
        raise BundleError(f"The bundle has a member {name!r} that its manifest does not list.")
    for name, entry in listed.items():
        if name not in members or name == MANIFEST:
            raise BundleError(f"The bundle lacks the member {str(name)[:60]!r} that its manifest lists.")
        need_fields(entry if isinstance(entry, dict) else {}, {"sha256": str, "size": int}, f"entry for {name!r}")
        data = members[name]
        if len(data) != entry["size"]:
            raise BundleError(
                f"Member {name!r} has {len(data):,} bytes, but the manifest says {entry['size']:,}; "
                "it was cut or changed."
            )
        if digest(data) != entry["sha256"]:
            raise BundleError(f"Member {name!r} was changed after the export: its SHA-256 is not that of the manifest.")
