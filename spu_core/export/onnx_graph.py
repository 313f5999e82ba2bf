"""Parts of an ONNX graph: nodes, one input per column with its encoding, and trees.

Trees become one TreeEnsemble in double precision, with the same splits and the same side for missing values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import BundleError
from spu_core.export.bundle_parts import INPUT_WORDS
from spu_core.export.model_checks import Tree
from spu_core.models.columns import LARGEST, Column, Family, as_numbers
from spu_core.models.learners.classic import SoftForest
from spu_core.rules.columns import level_text


@dataclass
class Graph:
    """Collects nodes and constants; every method returns the name of the value it has added.

    Names start with `_spu/`, so that they cannot equal names of columns.
    """

    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    count: int = 0

    def add(self, kind: str, *values: str, domain: str = "", **attributes: Any) -> str:
        """One operator on named values."""
        from onnx import helper

        name = self._fresh()
        self.nodes.append(helper.make_node(kind, list(values), [name], name=name, domain=domain, **attributes))
        return name

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        from onnx import numpy_helper

        array, name = np.asarray(value, dtype=dtype), self._fresh()
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def cast(self, value: str, dtype: Any) -> str:
        from onnx import helper

        return self.add("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def column_input(self, name: str, kind: str) -> None:
        """An input of shape rows × 1 with the name of a column: text, or numbers as double."""
        from onnx import TensorProto, helper

        dtype = TensorProto.STRING if kind == "text" else TensorProto.DOUBLE
        self.inputs.append(helper.make_tensor_value_info(name, dtype, ["rows", 1], doc_string=INPUT_WORDS[kind]))

    def is_missing(self, value: str, kind: str) -> str:
        """Whether the input is missing, rows × 1."""
        if kind == "text":
            return self.add("Equal", value, self.constant([[MISSING_TEXT]], object))
        return self.add("IsNaN", value)

    def linear(self, matrix: str, weight: np.ndarray) -> str:
        """The weighted sum of the columns of a matrix, rows × 1."""
        return self.add("MatMul", matrix, self.constant(np.asarray(weight)[:, None]))

    def affine(self, value: str, factor: float, shift: float) -> str:
        """factor · value + shift."""
        value = value if factor == 1.0 else self.add("Mul", value, self.constant(factor))
        return value if shift == 0.0 else self.add("Add", value, self.constant(shift))

    def mean(self, values: Sequence[str]) -> str:
        total = values[0] if len(values) == 1 else self.add("Sum", *values)
        return self.add("Div", total, self.constant(float(len(values))))

    def zeros(self, column: tuple[str, str]) -> str:
        """Zero in every row, as double; the input (name and kind) gives the number of rows."""
        zero = self.constant([[0.0]])
        return self.add("Where", self.is_missing(*column), zero, zero)

    def rename(self, value: str, name: str) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [value], [name], name=f"_spu/{name}"))
        return name

    def _fresh(self) -> str:
        self.count += 1
        return f"_spu/{self.count}"


def need_onnx() -> None:
    """Raise an error with the install command where onnx or onnxruntime is missing."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError:
        raise BundleError(
            "ONNX export needs onnx and onnxruntime, which are not installed; "
            "install the extra: pip install 'spu-studio[onnx]'."
        ) from None


# The input of a text column uses this value for a missing text.
MISSING_TEXT = ""


def input_values(kind: str, values: pd.Series) -> np.ndarray:
    """A column of a frame as the values of its input, rows × 1."""
    if kind == "text":
        text = values.astype("object").map(level_text, na_action="ignore")
        return text.where(text.notna(), MISSING_TEXT).to_numpy(dtype=object)[:, None]
    if kind == "days":
        return as_numbers(values, Family.DATE)[:, None]
    if values.dtype == object or isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype("Float64")
    return values.to_numpy(dtype=np.float64, na_value=np.nan)[:, None]


def encode_column(graph: Graph, column: Column, value: str, kind: str) -> str:
    """The encoding of an input of this kind: float32, rows × 1, NaN where missing."""
    if column.family is Family.EMPTY:
        return graph.add("Where", graph.is_missing(value, kind), *[graph.constant([[np.nan]], np.float32)] * 2)
    if column.is_category:
        return _category(graph, column, value)
    # Clip keeps NaN, and infinity becomes the largest value.
    value = graph.add("Clip", value, graph.constant(-LARGEST), graph.constant(LARGEST))
    if column.offset:
        value = graph.add("Sub", value, graph.constant(column.offset))
    return graph.cast(value, np.float32)


def interpolate(graph: Graph, value: str, points: Any, results: Any) -> str:
    """Piecewise linear interpolation by the formula of `np.interp`, equal to the bit; NaN stays NaN."""
    points, results = np.asarray(points, dtype=np.float64), np.asarray(results, dtype=np.float64)
    slopes = np.append(np.diff(results) / np.diff(points), 0.0)
    value = graph.add("Clip", value, graph.constant(points[0]), graph.constant(points[-1]))
    reached = graph.cast(graph.add("GreaterOrEqual", value, graph.constant(points[None, 1:])), np.int64)
    place = graph.add("ReduceSum", reached, graph.constant([1], np.int64), keepdims=1)
    start, slope, base = (graph.add("Gather", graph.constant(each), place) for each in (points, slopes, results))
    return graph.add("Add", graph.add("Mul", slope, graph.add("Sub", value, start)), base)


def _category(graph: Graph, column: Column, value: str) -> str:
    if column.family is Family.TEXT:
        return _text_codes(graph, column, value)
    if column.family is not Family.NUMBER:
        raise BundleError(
            f"Column {column.name!r} has {column.family} values as categories, which ONNX cannot encode; "
            "make it text or numbers and train again."
        )
    levels = graph.constant([[float(level) for level in column.levels]])
    # Rows × categories; at most one category is equal, and its position is its code.
    fits = graph.cast(graph.add("Equal", value, levels), np.float64)
    codes = graph.constant(np.arange(1.0, len(column.levels) + 1)[:, None])
    code = graph.add("MatMul", fits, codes)
    return graph.cast(graph.add("Where", graph.add("IsNaN", value), graph.constant([[np.nan]]), code), np.float32)


def _text_codes(graph: Graph, column: Column, value: str) -> str:
    if MISSING_TEXT in column.levels:
        raise BundleError(
            f"Column {column.name!r} has the empty text as a category, which the ONNX input uses for a missing value; "
            "name that category and train again."
        )
    return graph.add(
        "LabelEncoder",
        value,
        domain="ai.onnx.ml",
        keys_strings=[*column.levels, MISSING_TEXT],
        values_floats=[*np.arange(1.0, len(column.levels) + 1).tolist(), float("nan")],
        default_float=0.0,
    )


LEQ, LT, MEMBER = 0, 1, 6


@dataclass(frozen=True)
class TreeSplit:
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

    splits: tuple[TreeSplit, ...]
    leaves: tuple[float, ...]


def add_trees(graph: Graph, matrix: str, trees: Iterable[PlainTree]) -> str:
    """The sum of the trees as double, rows × 1."""
    from onnx import numpy_helper

    parts = _Ensemble()
    for tree in trees:
        parts.add(tree)
    if not parts.roots:
        # A model that learnt nothing: one tree with one leaf.
        parts.add(PlainTree((), (0.0,)))
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
    """LightGBM's trees: ≤ goes left, a category of the set goes left, and each node has a side for NaN."""
    for tree in trees:
        if (tree.missing == 1).any():
            raise BundleError("The LightGBM model treats zero as missing, which cannot be translated.")
        splits = tuple(_lightgbm_split(tree, node) for node in range(tree.feature.size))
        yield PlainTree(splits, tuple(tree.leaf.tolist()))


def xgboost_trees(raw: bytes) -> tuple[list[PlainTree], float]:
    """(trees, start of the sum) of an XGBoost model: < goes left, a category of the set goes right."""
    learner = json.loads(raw)["learner"]
    trees = learner["gradient_booster"]["model"]["trees"]
    start = float(str(learner["learner_model_param"]["base_score"]).strip("[]"))
    return [_xgboost_tree(tree) for tree in trees], float(np.log(start / (1.0 - start)))


def forest_trees(forest: SoftForest) -> Iterator[PlainTree]:
    """The trees of a forest: ≤ goes left. Each leaf is divided by the number of trees, so that the sum is the mean."""
    parts = forest.trees_
    count = parts["start"].size - 1
    for start, end in pairwise(parts["start"].tolist()):
        tree = {name: parts[name][start:end] for name in parts if name != "start"}
        inner = tree["children_left"] >= 0
        # Position of a node among the splits, or of a leaf among the leaves.
        place = np.where(inner, np.cumsum(inner) - 1, -np.cumsum(~inner, dtype=np.int64))
        splits = tuple(
            TreeSplit(
                column=int(tree["feature"][node]),
                mode=LEQ,
                value=float(tree["threshold"][node]),
                members=(),
                true=int(place[tree["children_left"][node]]),
                false=int(place[tree["children_right"][node]]),
                missing_is_true=bool(tree["missing_go_to_left"][node] == 1),
            )
            for node in np.flatnonzero(inner)
        )
        yield PlainTree(splits, tuple((tree["value"][~inner] / count).tolist()))


def _lightgbm_split(tree: Tree, node: int) -> TreeSplit:
    cut, category = float(tree.threshold[node]), bool(tree.is_category[node])
    members = tuple(tree.bitsets[int(cut)].astype(float).tolist()) if category else ()
    # Where NaN does not count as missing, LightGBM reads it as 0; NaN is never in a set of categories.
    missing = bool(tree.default_left[node]) if tree.missing[node] == 2 else cut >= 0.0
    return TreeSplit(
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
) -> TreeSplit:
    left, right = place[tree["left_children"][node]], place[tree["right_children"][node]]
    default_left = bool(tree["default_left"][node])
    column = int(tree["split_indices"][node])
    if tree["split_type"][node] == 1:
        return TreeSplit(column, MEMBER, 0.0, sets[node], right, left, not default_left)
    cut = float(np.float32(tree["split_conditions"][node]))
    return TreeSplit(column, LT, cut, (), left, right, default_left)


def _xgboost_sets(tree: Mapping[str, Any]) -> dict[int, tuple[float, ...]]:
    """The codes that go right, by node."""
    found = {}
    parts = zip(tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True)
    for node, start, size in parts:
        found[node] = tuple(float(code) for code in tree["categories"][start : start + size])
    return found


@dataclass
class _Ensemble:
    """The parallel lists of a TreeEnsemble node."""

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
        splits = tree.splits or (TreeSplit(0, LEQ, 0.0, (), -1, -1, True),)
        self.roots.append(nodes)
        for split in splits:
            self.columns.append(split.column)
            self.modes.append(split.mode)
            self.values.append(split.value)
            if split.mode == MEMBER:
                # The sets are stored one after the other; NaN ends each.
                self.members += [*split.members, np.nan]
            self.missing.append(int(split.missing_is_true))
            for child, ids, is_leaf in (
                (split.true, self.true, self.true_is_leaf),
                (split.false, self.false, self.false_is_leaf),
            ):
                is_leaf.append(int(child < 0))
                ids.append(leaves - child - 1 if child < 0 else nodes + child)
