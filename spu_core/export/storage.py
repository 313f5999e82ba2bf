"""Saving and loading bundles: one `.spu` file each, checked before any byte reaches a native loader."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spu_core.errors import BundleError
from spu_core.export.archive import (
    BundleLimits,
    digest,
    is_sealed,
    pack_archive,
    read_file,
    unpack_archive,
    write_file,
)
from spu_core.export.blobs import pack_blobs, unpack_blobs
from spu_core.export.bundle import Bundle
from spu_core.export.facts import RunFacts, check_rows, plain, tuning_from_dict, tuning_to_dict
from spu_core.export.flagging import FlagPoint
from spu_core.export.manifest import open_manifest, seal_members, to_json
from spu_core.export.model_checks import check_native
from spu_core.export.parts import check_parts
from spu_core.export.passport import Passport, Recipe
from spu_core.export.profile import Profile
from spu_core.export.reading import need_fields, read_json, reading
from spu_core.models import FittedEncoder, model_from_state
from spu_core.rules import FittedRules
from spu_core.training import Candidate, FittedCandidate, Run

_MODEL_FIELDS: dict[str, type | tuple[type, ...]] = {
    "description": dict,
    "blobs": dict,
    "settings": dict,
    "rule_columns": list,
    "tuning": (dict, type(None)),
}


def save_bundle(run: Run | Bundle, path: str | os.PathLike[str], **parts: Any) -> Path:
    """Write a run as one `.spu` file, whole or not at all; equal runs give equal bytes.

    A run is refitted on all rows first; `parts` are those of `Bundle.of`: `recipe` (the rules), `passport` (words),
    `point` (where to flag), `fitted` (a refit that was made already), `keep_rows`.
    """
    return write_file(bundle_bytes(run, **parts), path)


def bundle_bytes(run: Run | Bundle, **parts: Any) -> bytes:
    """The bytes of the file that `save_bundle` writes."""
    if isinstance(run, Bundle) and parts:
        raise BundleError("A bundle has its parts already; change it with with_point, with_passport or without_rows.")
    return pack_archive(_members(run if isinstance(run, Bundle) else Bundle.of(run, **parts)))


def load_bundle(
    source: str | os.PathLike[str] | bytes, *, known_hash: str | None = None, limits: BundleLimits | None = None
) -> Bundle:
    """Read a bundle from a path or bytes. Nothing in it is ever run as code.

    Size, names, hashes and schema are checked first; then the model is tried in a child process under limits, since
    a native library may die of a damaged model. `known_hash` is the SHA-256 of a file that this installation has
    stored itself: it must fit, and the trial is left out.
    """
    limits = limits or BundleLimits()
    data = bytes(source) if isinstance(source, bytes | bytearray | memoryview) else read_file(source, limits)
    if known_hash is not None and digest(data) != known_hash:
        raise BundleError("The bundle is not the file that was stored: its SHA-256 differs. Restore it from a backup.")
    members, manifest = open_members(data, limits)
    if known_hash is None:
        from spu_core.export.trial import try_in_child

        _read_parts(members, manifest)
        try_in_child(data)
    return bundle_of(members, manifest)


def open_members(data: bytes, limits: BundleLimits) -> tuple[dict[str, bytes], dict[str, Any]]:
    """(members, manifest) of a bundle in which every byte is as it was written."""
    members = unpack_archive(data, limits)
    manifest = open_manifest(members)
    if not is_sealed(data):
        raise BundleError(
            "The bundle's zip directory was changed after the export, although its members are whole; "
            "copy the original file again."
        )
    return members, manifest


def bundle_of(members: Mapping[str, bytes], manifest: Mapping[str, Any]) -> Bundle:
    """The bundle of checked members; here the model reaches its library."""
    parts = _read_parts(members, manifest)
    model_part = manifest["model"]
    with reading("model"):
        blobs = unpack_blobs(model_part["blobs"], members)
        model = model_from_state((model_part["description"], blobs))
        check_parts(model, len(parts["encoder"].columns))
    fitted = FittedCandidate(
        candidate=parts["candidate"],
        encoder=parts["encoder"],
        model=model,
        settings=dict(model_part["settings"]),
        rule_columns=tuple(model_part["rule_columns"]),
        tuning=parts["tuning"],
    )
    bundle = Bundle(fitted, *(parts[name] for name in ("facts", "point", "profile", "recipe", "passport", "rows")))
    with reading("model"):
        bundle.check_probe()
    return bundle


def _members(bundle: Bundle) -> dict[str, bytes]:
    fitted = bundle.fitted
    description, blobs = fitted.model.to_state()
    model_entries, model_members = pack_blobs(blobs, "model")
    row_entries, row_members = pack_blobs(bundle.rows, "rows")
    parts = {
        "run": bundle.facts.to_dict(),
        "candidate": plain(fitted.candidate.to_dict()),
        "model": {
            "description": _exact(description),
            "blobs": model_entries,
            "settings": plain(fitted.settings),
            "rule_columns": list(fitted.rule_columns),
            "tuning": None if fitted.tuning is None else tuning_to_dict(fitted.tuning),
        },
        "soft_labels": None,
        "flag": bundle.point.to_dict(),
        "passport": bundle.passport.to_dict(),
        "rows": row_entries,
    }
    members = {
        "encoder.json": to_json(fitted.encoder.to_dict()),
        "profile.json": to_json(bundle.profile.to_dict()),
        **model_members,
        **row_members,
    }
    if bundle.recipe is not None:
        parts["soft_labels"] = {"combine": bundle.recipe.combine, "floor": float(bundle.recipe.floor)}
        members["rules.json"] = bundle.recipe.rules.to_json().encode()
    return seal_members(parts, members)


def _read_parts(members: Mapping[str, bytes], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Everything but the model, as values; and what can be said of the model without its library."""
    found: dict[str, Any] = {}
    _check_model_part(manifest["model"], members)
    with reading("encoder.json"):
        found["encoder"] = FittedEncoder.from_dict(read_json(members["encoder.json"], "encoder.json"))
    with reading("profile.json"):
        found["profile"] = Profile.from_dict(read_json(members["profile.json"], "profile.json"))
    with reading("record of the run"):
        found["candidate"] = Candidate.from_dict(manifest["candidate"])
        found["facts"] = RunFacts.from_dict(manifest["run"])
        tuning = manifest["model"]["tuning"]
        found["tuning"] = None if tuning is None else tuning_from_dict(tuning)
    with reading("operating point"):
        found["point"] = FlagPoint.from_dict(manifest["flag"])
    with reading("passport"):
        found["passport"] = Passport.from_dict(manifest["passport"])
    with reading("stored rows"):
        found["rows"] = check_rows(unpack_blobs(manifest["rows"], members), found["facts"].rows)
    found["recipe"] = _read_recipe(members, manifest)
    if [column.name for column in found["profile"].columns] != list(found["encoder"].names):
        raise BundleError("The bundle's profile.json and encoder.json describe different columns.")
    return found


def _read_recipe(members: Mapping[str, bytes], manifest: Mapping[str, Any]) -> Recipe | None:
    part = manifest["soft_labels"]
    if part is None:
        return None
    with reading("rules.json"):
        need_fields(part, {"combine": str, "floor": (int, float)}, "soft-label recipe")
        return Recipe(rules=FittedRules.from_json(members["rules.json"]), **part)


def _check_model_part(part: Mapping[str, Any], members: Mapping[str, bytes]) -> None:
    need_fields(part, _MODEL_FIELDS, "model")
    with reading("model"):
        unpack_blobs(part["blobs"], members)
        check_native(part, members)


def _exact(value: Any) -> Any:
    """The description of a model as JSON can hold it; a number that is not finite would come back wrong."""
    found = plain(value)
    if _has_lost(value, found):
        raise BundleError("The model's description holds a number that is not finite, so it cannot be written.")
    return found


def _has_lost(before: Any, after: Any) -> bool:
    if isinstance(before, Mapping):
        return any(_has_lost(inner, after[str(name)]) for name, inner in before.items())
    if isinstance(before, list | tuple):
        return any(_has_lost(one, two) for one, two in zip(before, after, strict=True))
    return before is not None and after is None
