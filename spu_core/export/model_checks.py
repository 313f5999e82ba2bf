"""What can be said of a model before its library sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spu_core.errors import BundleError
from spu_core.export.lightgbm_text import parse_text

DEEPEST = 4


def check_native(part: Mapping[str, Any], members: Mapping[str, bytes]) -> None:
    """Walk the description of a model: each LightGBM text must be whole and fit the columns it is given."""
    _check(part["description"], "", part["blobs"], members, 0)


def _check(
    description: Mapping[str, Any], prefix: str, blobs: Mapping[str, Any], members: Mapping[str, bytes], depth: int
) -> None:
    if depth > DEEPEST or not isinstance(description, Mapping):
        raise BundleError("The bundle's model is nested in a way that none of ours is.")
    for place, inner in enumerate(description.get("parts", ())):
        _check(inner, f"{prefix}{place}/", blobs, members, depth + 1)
    if description.get("kind") == "lightgbm":
        member = blobs[f"{prefix}model.txt"]["member"]
        model = parse_text(members[member].decode())
        if model.width != len(description["active"]):
            raise BundleError(
                f"Member {member!r} reads {model.width} columns, but the bundle gives it {len(description['active'])}."
            )
