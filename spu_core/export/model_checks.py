"""What can be said of a model before its library sees it, and in a trial process after it was loaded there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from spu_core.errors import BundleError
from spu_core.export.lightgbm_text import parse_text
from spu_core.export.parts import all_parts
from spu_core.models import Model
from spu_core.models.learners import SoftXGBoost

DEEPEST = 4


def check_native(part: Mapping[str, Any], members: Mapping[str, bytes]) -> None:
    """Walk the description of a model: each LightGBM text must be whole and fit the columns it is given."""
    _check(part["description"], "", part["blobs"], members, 0)


def check_loaded(model: Model) -> None:
    """XGBoost's trees are binary, so they are looked at once they are loaded: none may lead outside itself."""
    for part in all_parts(model):
        if isinstance(part, SoftXGBoost):
            _check_xgboost(json.loads(bytes(part.booster_.save_raw("json"))), part.active_.size)


def _check_xgboost(found: Mapping[str, Any], width: int) -> None:
    model = found["learner"]["gradient_booster"]["model"]
    # The output that a tree adds to is a place in memory, which the library does not check.
    if any(model["tree_info"]) or any(int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in model["trees"]):
        raise BundleError("A tree of the bundle's XGBoost model adds to another output than the score.")
    # So is the first tree of a round.
    if model["iteration_indptr"] != list(range(len(model["trees"]) + 1)):
        raise BundleError("The bundle's XGBoost model counts its trees otherwise than one a round.")
    for tree in model["trees"]:
        left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
        node, inner = np.arange(left.size), left != -1
        children = np.concatenate([left[inner], right[inner]])
        parents = np.concatenate([node[inner], node[inner]])
        columns = np.array(tree["split_indices"])[inner]
        outside = (children <= parents).any() or (children >= left.size).any() or left.size != right.size
        if outside or (columns < 0).any() or (columns >= width).any():
            raise BundleError("A tree of the bundle's XGBoost model leads outside itself or its columns.")


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
