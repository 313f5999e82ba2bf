"""The parts of a fitted model: which columns it reads, and whether a model from elsewhere is safe to load.

LightGBM's text is parsed here, to check it before LightGBM reads it and to translate it to ONNX. The check is useful
only if the library reads the same trees. The library takes them from where `tree_sizes` points, stops at the first
blank line, keeps the last of two equal fields, drops a sign `=` before a name and reads `1.0` as the integer 1 followed
by text. Whatever could be read in two ways is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from spu_core.errors import BundleError
from spu_core.export.manifest import PackedModel
from spu_core.models import Model
from spu_core.models.learners import SoftForest, SoftLearner, SoftNeighbors, SoftXGBoost
from spu_core.models.learners.network import SoftNetwork
from spu_core.models.methods.fused import FusedModel
from spu_core.models.model import AverageModel, RuleScoreModel, ScaledModel, WithRuleScoreModel


def active_columns(model: Model) -> np.ndarray:
    """Positions of the encoded columns that the model reads, in increasing order."""
    found: set[int] = set()
    for part in outer_parts(model):
        found |= {int(place) for place in _active(part)}
    return np.array(sorted(found), dtype=np.int64)


def reads_rule_score(model: Model) -> bool:
    """Whether the model needs the rule score of each row."""
    return any(
        isinstance(part, WithRuleScoreModel | RuleScoreModel) or (isinstance(part, FusedModel) and part.uses_rules)
        for part in outer_parts(model)
    )


def keeps_training_rows(model: Model) -> bool:
    """Whether the model contains rows of the training table, which anyone who has the file can read."""
    return any(isinstance(part, SoftNeighbors) for part in all_parts(model))


def outer_parts(model: Model) -> Iterator[Model]:
    """The model and its parts, except parts that get the rule score as a column: their columns have other numbers."""
    yield model
    if isinstance(model, AverageModel | FusedModel):
        for part in model.parts:
            yield from outer_parts(part)
    elif isinstance(model, ScaledModel):
        yield from outer_parts(model.part)


def all_parts(model: Model) -> Iterator[Model]:
    """The model and all its parts."""
    for part in outer_parts(model):
        yield part
        if isinstance(part, WithRuleScoreModel):
            yield from all_parts(part.part)


def check_parts(model: Model, width: int) -> None:
    """Check settings (a million threads would end the process), that the encoder has all columns, and that trees have
    no cycles."""
    for part in outer_parts(model):
        _check_range(_active(part), width, "a model reads a column that the encoder does not make")
    for part in all_parts(model):
        if isinstance(part, SoftLearner):
            part.check_settings()
        if isinstance(part, SoftForest):
            _check_forest(part)
        elif isinstance(part, SoftNetwork):
            _check_layers(part)


def _active(part: Model) -> np.ndarray:
    if isinstance(part, SoftLearner):
        return np.asarray(part.active_)
    return np.asarray(part.active) if isinstance(part, WithRuleScoreModel) else np.empty(0, dtype=np.int64)


def _check_range(values: np.ndarray, end: int, law: str) -> None:
    if values.size and (values.min() < 0 or values.max() >= end):
        raise ValueError(law)


def _check_forest(forest: SoftForest) -> None:
    tree = forest.trees_
    start, left, right = tree["start"], tree["children_left"], tree["children_right"]
    sizes = {tree[name].shape for name in tree if name != "start"}
    if len(sizes) != 1 or start[0] != 0 or start[-1] != left.size or (np.diff(start) < 1).any():
        raise ValueError("the arrays of a forest do not belong together")
    node = np.arange(left.size) - np.repeat(start[:-1], np.diff(start))
    end = np.repeat(np.diff(start), np.diff(start))
    inner = left >= 0
    for child in (left[inner], right[inner]):
        # Children come after their parent, so that every walk ends.
        if (child <= node[inner]).any() or (child >= end[inner]).any():
            raise ValueError("a tree of a forest has a cycle")
    _check_range(tree["feature"][inner], forest.active_.size, "a tree splits on a column that is not there")


def _check_layers(network: SoftNetwork) -> None:
    width = network.view_.width
    for weight, bias in zip(network.layers_.weights, network.layers_.biases, strict=True):
        if weight.ndim != 2 or weight.shape[0] != width or bias.shape != (weight.shape[1],):
            raise ValueError("the layers of a network do not fit each other")
        width = weight.shape[1]
    if width != 1:
        raise ValueError("a network must end in one number")


DEEPEST = 4


def check_native(part: PackedModel, members: Mapping[str, bytes]) -> None:
    """Check each LightGBM text in the description of a model: it must be complete and fit its columns."""
    _check(part.description, "", part.blobs, members, 0)


def check_loaded(model: Model) -> None:
    """Check XGBoost's trees after loading, since their format is binary: no node may point outside its tree."""
    for part in all_parts(model):
        if isinstance(part, SoftXGBoost):
            _check_xgboost(json.loads(bytes(part.booster_.save_raw("json"))), part.active_.size)


def _check_xgboost(found: Mapping[str, Any], width: int) -> None:
    model = found["learner"]["gradient_booster"]["model"]
    # The library uses the output number of a tree as an address in memory and does not check it.
    if any(model["tree_info"]) or any(int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in model["trees"]):
        raise BundleError("A tree of the bundle's XGBoost model adds to another output than the score.")
    # The same holds for the number of the first tree of a round.
    if model["iteration_indptr"] != list(range(len(model["trees"]) + 1)):
        raise BundleError("The bundle's XGBoost model does not have one tree per round.")
    for tree in model["trees"]:
        left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
        node, inner = np.arange(left.size), left != -1
        children = np.concatenate([left[inner], right[inner]])
        parents = np.concatenate([node[inner], node[inner]])
        columns = np.array(tree["split_indices"])[inner]
        outside = (children <= parents).any() or (children >= left.size).any() or left.size != right.size
        if outside or (columns < 0).any() or (columns >= width).any():
            raise BundleError("A tree of the bundle's XGBoost model points outside itself or its columns.")


def _check(
    description: Mapping[str, Any], prefix: str, blobs: Mapping[str, Any], members: Mapping[str, bytes], depth: int
) -> None:
    if depth > DEEPEST or not isinstance(description, Mapping):
        raise BundleError("The bundle's model is nested too deeply.")
    for place, inner in enumerate(description.get("parts", ())):
        _check(inner, f"{prefix}{place}/", blobs, members, depth + 1)
    if description.get("kind") == "lightgbm":
        member = blobs[f"{prefix}model.txt"]["member"]
        model = parse_text(members[member].decode())
        if model.width != len(description["active"]):
            raise BundleError(
                f"Member {member!r} reads {model.width} columns, but the bundle gives it {len(description['active'])}."
            )


_END = "end of trees\n"
_PLAIN = re.compile(r"[\n -~]*")
# A split between missing and other values has the threshold inf.
_INTS, _FLOATS = re.compile(r"[-0-9 ]*"), re.compile(r"([-+.e0-9 ]|inf)*+")
# Both give one probability. Other objectives can have several outputs, which would overwrite other memory.
_OBJECTIVES = ("cross_entropy", "binary sigmoid:1")
# The library reads at most so many lines of a tree.
_MOST_FIELDS = 22
# No setting allows more. The memory for contributions grows with the square of the depth of a tree.
_MOST_LEAVES = 4096


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree: node k splits `feature[k]`; a child ≥ 0 is a node, a child c < 0 is leaf −c − 1.

    A category split sends code c left where bit c of `bitsets[threshold]` is set. `missing` is 0 (none: NaN counts
    as 0), 1 (zero is missing) or 2 (NaN is missing).
    """

    feature: np.ndarray
    threshold: np.ndarray
    is_category: np.ndarray
    default_left: np.ndarray
    missing: np.ndarray
    left: np.ndarray
    right: np.ndarray
    leaf: np.ndarray
    bitsets: tuple[np.ndarray, ...] = ()


@dataclass(frozen=True, eq=False)
class TextModel:
    """All trees of a text model, with the number of columns they were trained on."""

    trees: tuple[Tree, ...]
    width: int


def parse_text(text: str) -> TextModel:
    """The trees of a model text; a text that is cut off, or a tree that points outside itself, is refused."""
    try:
        return _parse(text)
    except (KeyError, IndexError, ValueError, OverflowError) as problem:
        if isinstance(problem, BundleError):
            raise
        raise BundleError(f"The LightGBM model text is damaged or cut off ({str(problem)[:80]}).") from problem


def _parse(text: str) -> TextModel:
    head = text.partition("\nTree=")[0]
    whole = text.endswith("\n") and text.rstrip().rpartition("\n")[2].startswith("pandas_categorical:")
    if not text.startswith("tree\n") or f"\n{_END}" not in text or not whole:
        raise BundleError("The LightGBM model text is cut off: its beginning or its end is missing.")
    if not _PLAIN.fullmatch(text):
        raise ValueError("it holds characters that no model text has")
    fields = _fields(head.removeprefix("tree\n").rstrip("\n"))
    if fields["num_class"] != "1" or fields["num_tree_per_iteration"] != "1":
        raise BundleError("The LightGBM model has several outputs; a bundle holds models with one score.")
    if fields["objective"] not in _OBJECTIVES:
        raise BundleError("The LightGBM model has an objective that bundles do not use.")
    width = int(_ints(fields["max_feature_idx"])[0]) + 1
    trees = tuple(_tree(_fields(block), width) for block in _blocks(text, len(head) + 1, _ints(fields["tree_sizes"])))
    return TextModel(trees, width)


def _blocks(text: str, start: int, sizes: np.ndarray) -> Iterator[str]:
    """The fields of each tree, from where the library takes them."""
    for number, size in enumerate(sizes):
        block = text[start : start + size]
        if not block.startswith(f"Tree={number}\n"):
            raise BundleError(f"The LightGBM model text has no tree number {number} where its tree_sizes point to.")
        start += size
        yield block.partition("\n")[2].rstrip("\n")
    if not text.startswith(_END, start):
        raise BundleError("The LightGBM model text does not hold the trees that its tree_sizes list.")


def _fields(block: str) -> dict[str, str]:
    pairs = [line.partition("=") for line in block.split("\n")]
    found = {name: value for name, _, value in pairs}
    if len(found) < len(pairs) or not all(name and sign and "=" not in value for name, sign, value in pairs):
        raise ValueError("a line gives no field, one that was given before, or more than one")
    return found


def _tree(fields: dict[str, str], width: int) -> Tree:
    if len(fields) > _MOST_FIELDS:
        raise ValueError("a tree has more fields than the library reads")
    [leaves] = _ints(fields["num_leaves"])
    if fields.get("is_linear", "0") != "0":
        raise BundleError("The LightGBM model has linear leaves, which bundles do not use.")
    if leaves > _MOST_LEAVES:
        raise BundleError(f"The LightGBM model has a tree of {leaves:,} leaves; a bundle's may have {_MOST_LEAVES:,}.")
    leaf = _floats(fields["leaf_value"])
    if leaf.size != leaves or not np.isfinite(leaf).all():
        raise ValueError(f"{leaf.size} leaf values for {leaves} leaves")
    if leaves == 1:
        return _stump(leaf)
    kinds = _ints(fields["decision_type"])
    tree = Tree(
        feature=_ints(fields["split_feature"]),
        threshold=_floats(fields["threshold"]),
        is_category=(kinds & 1) > 0,
        default_left=(kinds & 2) > 0,
        missing=(kinds >> 2) & 3,
        left=_ints(fields["left_child"]),
        right=_ints(fields["right_child"]),
        leaf=leaf,
        bitsets=tuple(_bitsets(fields)),
    )
    _check_tree(tree, int(leaves), width)
    return tree


def _stump(leaf: np.ndarray) -> Tree:
    none, flags = np.empty(0, dtype=np.int64), np.empty(0, dtype=bool)
    return Tree(none, np.empty(0), flags, flags, none, none, none, leaf)


def _check_tree(tree: Tree, leaves: int, width: int) -> None:
    sizes = {part.size for part in (tree.feature, tree.threshold, tree.left, tree.right, tree.is_category)}
    if sizes != {leaves - 1}:
        raise ValueError(f"the parts of a tree with {leaves} leaves have sizes {sorted(sizes)}")
    if tree.feature.min() < 0 or tree.feature.max() >= width:
        raise ValueError("a tree splits on a column that is not there")
    node = np.arange(leaves - 1)
    for child in (tree.left, tree.right):
        # Nodes come after their parent, so that every walk ends.
        if ((child >= 0) & (child <= node)).any() or child.max() >= leaves - 1 or child.min() < -leaves:
            raise ValueError("a tree leads outside itself or back")
    cuts = tree.threshold[tree.is_category]
    if cuts.size and (cuts.min() < 0 or cuts.max() >= len(tree.bitsets) or (cuts % 1 != 0).any()):
        raise ValueError("a category split names a set that is not there")


def _bitsets(fields: dict[str, str]) -> Iterator[np.ndarray]:
    """The codes that go left, one array for each category split."""
    [count] = _ints(fields.get("num_cat", "0"))
    if count == 0:
        return
    bounds, words = _ints(fields["cat_boundaries"]), _ints(fields["cat_threshold"])
    if bounds.size != count + 1 or bounds[0] != 0 or bounds[-1] != words.size or (np.diff(bounds) < 0).any():
        raise ValueError("the sets of category splits do not fit their bounds")
    for start, end in pairwise(bounds):
        bits = (words[start:end, None] >> np.arange(32)) & 1
        yield np.flatnonzero(bits.ravel())


def _ints(text: str) -> np.ndarray:
    return np.array([int(value) for value in _numbers(text, _INTS)], dtype=np.int64)


def _floats(text: str) -> np.ndarray:
    return np.array([float(value) for value in _numbers(text, _FLOATS)])


def _numbers(text: str, law: re.Pattern[str]) -> list[str]:
    if not law.fullmatch(text):
        raise ValueError("it holds a number that could be read in two ways")
    return text.split()
