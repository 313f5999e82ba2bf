"""LightGBM's text model as plain trees: to check a foreign one before its library sees it, and to translate ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from spu_core.errors import BundleError

_INNER = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
_END = "\nend of trees\n"


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
    objective: str


def parse_text(text: str) -> TextModel:
    """The trees of a model text; one that is cut, or that leads outside itself, is refused."""
    try:
        return _parse(text)
    except (KeyError, IndexError, ValueError) as problem:
        if isinstance(problem, BundleError):
            raise
        raise BundleError(f"The LightGBM model text is damaged or cut off ({str(problem)[:80]}).") from problem


def _parse(text: str) -> TextModel:
    head, _, rest = text.partition("\nTree=")
    whole = text.endswith("\n") and text.rstrip().rpartition("\n")[2].startswith("pandas_categorical:")
    if not text.startswith("tree\n") or _END not in text or not whole:
        raise BundleError("The LightGBM model text is cut off: its beginning or its end is not there.")
    fields = _fields(head)
    if fields["num_class"] != "1" or fields["num_tree_per_iteration"] != "1":
        raise BundleError("The LightGBM model has several outputs; a bundle holds models with one score.")
    width = int(fields["max_feature_idx"]) + 1
    parts = rest.partition(_END)[0].split("\nTree=") if rest else []
    trees = tuple(_tree(_fields(part.partition("\n")[2]), width) for part in parts)
    if len(trees) != len(fields.get("tree_sizes", "").split()):
        raise BundleError(f"The LightGBM model text announces other trees than the {len(trees)} it holds.")
    return TextModel(trees, width, fields["objective"])


def _fields(block: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in block.split("\n") if "=" in line)
    return {name: value for name, _, value in pairs}


def _tree(fields: dict[str, str], width: int) -> Tree:
    leaves = int(fields["num_leaves"])
    if fields.get("is_linear", "0") != "0":
        raise BundleError("The LightGBM model has linear leaves, which no bundle of ours has.")
    leaf = _floats(fields["leaf_value"])
    if leaf.size != leaves or not np.isfinite(leaf).all():
        raise ValueError(f"{leaf.size} leaf values for {leaves} leaves")
    if leaves == 1:
        return _stump(leaf)
    feature, threshold, decision, left, right = (_floats(fields[name]) for name in _INNER)
    kinds = decision.astype(np.int64)
    tree = Tree(
        feature=feature.astype(np.int64),
        threshold=threshold,
        is_category=(kinds & 1) > 0,
        default_left=(kinds & 2) > 0,
        missing=(kinds >> 2) & 3,
        left=left.astype(np.int64),
        right=right.astype(np.int64),
        leaf=leaf,
        bitsets=tuple(_bitsets(fields)),
    )
    _check_tree(tree, leaves, width)
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
    if int(fields.get("num_cat", "0")) == 0:
        return
    bounds = [int(bound) for bound in fields["cat_boundaries"].split()]
    words = np.array([int(word) for word in fields["cat_threshold"].split()], dtype=np.int64)
    if bounds[0] != 0 or bounds[-1] != words.size or any(a > b for a, b in pairwise(bounds)):
        raise ValueError("the sets of category splits do not fit their bounds")
    for start, end in pairwise(bounds):
        bits = (words[start:end, None] >> np.arange(32)) & 1
        yield np.flatnonzero(bits.ravel())


def _floats(text: str) -> np.ndarray:
    return np.array([float(value) for value in text.split()])
