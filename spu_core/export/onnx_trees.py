"""Boosted trees as one TreeEnsemble in double precision: the same splits, the same side for missing values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spu_core.errors import BundleError
from spu_core.export.lightgbm_text import Tree
from spu_core.export.onnx_graph import Graph

LEQ, LT, MEMBER = 0, 1, 6


@dataclass(frozen=True)
class Split:
    """One inner node: `mode` compares the column with `value` or `members`; a child ≥ 0 is a node, else a leaf."""

    column: int
    mode: int
    value: float
    members: tuple[float, ...]
    true: int
    false: int
    missing_is_true: bool


@dataclass(frozen=True)
class PlainTree:
    """Splits and leaves; child −k − 1 is leaf k."""

    splits: tuple[Split, ...]
    leaves: tuple[float, ...]


def add_trees(graph: Graph, matrix: str, trees: Iterable[PlainTree]) -> str:
    """The sum of the trees as double, rows × 1."""
    from onnx import numpy_helper

    parts = _Ensemble()
    for tree in trees:
        parts.add(tree)
    if not parts.roots:
        raise BundleError("The model has no tree, so its score is the same for every row; there is nothing to export.")
    tensors: dict[str, Any] = {
        "nodes_modes": np.array(parts.modes, dtype=np.uint8),
        "nodes_splits": np.array(parts.values, dtype=np.float64),
        "leaf_weights": np.array(parts.weights, dtype=np.float64),
    }
    if any(mode == MEMBER for mode in parts.modes):
        tensors["membership_values"] = np.array(parts.members, dtype=np.float64)
    return graph.add(
        "TreeEnsemble",
        graph.cast(matrix, np.float64),
        domain="ai.onnx.ml",
        tree_roots=parts.roots,
        nodes_featureids=parts.columns,
        nodes_truenodeids=parts.true,
        nodes_trueleafs=parts.true_is_leaf,
        nodes_falsenodeids=parts.false,
        nodes_falseleafs=parts.false_is_leaf,
        nodes_missing_value_tracks_true=parts.missing,
        leaf_targetids=[0] * len(parts.weights),
        n_targets=1,
        aggregate_function=1,
        post_transform=0,
        **{name: numpy_helper.from_array(array, name) for name, array in tensors.items()},
    )


def lightgbm_trees(trees: Iterable[Tree]) -> Iterator[PlainTree]:
    """LightGBM's trees: ≤ goes left, a level of the set goes left, and NaN as each node says."""
    for tree in trees:
        if (tree.missing == 1).any():
            raise BundleError("The LightGBM model takes zero for missing, which none of our models does.")
        splits = tuple(_lightgbm_split(tree, node) for node in range(tree.feature.size))
        yield PlainTree(splits, tuple(tree.leaf.tolist()))


def xgboost_trees(raw: bytes) -> tuple[list[PlainTree], float]:
    """(trees, start of the sum) of an XGBoost model: < goes left, a level of the set goes right."""
    learner = json.loads(raw)["learner"]
    trees = learner["gradient_booster"]["model"]["trees"]
    start = float(str(learner["learner_model_param"]["base_score"]).strip("[]"))
    return [_xgboost_tree(tree) for tree in trees], float(np.log(start / (1.0 - start)))


def _lightgbm_split(tree: Tree, node: int) -> Split:
    cut, category = float(tree.threshold[node]), bool(tree.is_category[node])
    members = tuple(tree.bitsets[int(cut)].astype(float).tolist()) if category else ()
    # Where NaN is no missing value, LightGBM reads it as 0; among levels it is in no set.
    missing = bool(tree.default_left[node]) if tree.missing[node] == 2 else cut >= 0.0
    return Split(
        column=int(tree.feature[node]),
        mode=MEMBER if category else LEQ,
        value=0.0 if category else cut,
        members=members,
        true=int(tree.left[node]),
        false=int(tree.right[node]),
        missing_is_true=missing and not category,
    )


def _xgboost_tree(tree: Mapping[str, Any]) -> PlainTree:
    left, values = tree["left_children"], tree["split_conditions"]
    inner = [node for node in range(len(left)) if left[node] != -1]
    place = {node: at for at, node in enumerate(inner)}
    place |= {node: -at - 1 for at, node in enumerate(node for node in range(len(left)) if left[node] == -1)}
    sets = _xgboost_sets(tree)
    splits = tuple(_xgboost_split(tree, node, place, sets) for node in inner)
    leaves = [values[node] for node in range(len(left)) if left[node] == -1]
    return PlainTree(splits, tuple(float(np.float32(value)) for value in leaves))


def _xgboost_split(
    tree: Mapping[str, Any], node: int, place: Mapping[int, int], sets: Mapping[int, tuple[float, ...]]
) -> Split:
    left, right = place[tree["left_children"][node]], place[tree["right_children"][node]]
    default_left = bool(tree["default_left"][node])
    column = int(tree["split_indices"][node])
    if tree["split_type"][node] == 1:
        return Split(column, MEMBER, 0.0, sets[node], right, left, not default_left)
    cut = float(np.float32(tree["split_conditions"][node]))
    return Split(column, LT, cut, (), left, right, default_left)


def _xgboost_sets(tree: Mapping[str, Any]) -> dict[int, tuple[float, ...]]:
    """The codes that go right, by node."""
    found = {}
    parts = zip(tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True)
    for node, start, size in parts:
        found[node] = tuple(float(code) for code in tree["categories"][start : start + size])
    return found


@dataclass
class _Ensemble:
    """The parallel lists that a TreeEnsemble is made of."""

    roots: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    modes: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    members: list[float] = field(default_factory=list)
    true: list[int] = field(default_factory=list)
    true_is_leaf: list[int] = field(default_factory=list)
    false: list[int] = field(default_factory=list)
    false_is_leaf: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)

    def add(self, tree: PlainTree) -> None:
        nodes, leaves = len(self.columns), len(self.weights)
        self.weights += tree.leaves
        splits = tree.splits or (Split(0, LEQ, 0.0, (), -1, -1, True),)
        self.roots.append(nodes)
        for split in splits:
            self.columns.append(split.column)
            self.modes.append(split.mode)
            self.values.append(split.value)
            if split.mode == MEMBER:
                # Sets follow one another, each closed by NaN.
                self.members += [*split.members, np.nan]
            self.missing.append(int(split.missing_is_true))
            for child, ids, is_leaf in (
                (split.true, self.true, self.true_is_leaf),
                (split.false, self.false, self.false_is_leaf),
            ):
                is_leaf.append(int(child < 0))
                ids.append(leaves - child - 1 if child < 0 else nodes + child)
