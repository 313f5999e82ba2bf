"""A bundle as one ONNX graph: encoder, rules and model, compared with the bundle on real rows before it is returned."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import BundleError
from spu_core.export.archive import write_file
from spu_core.export.bundle import Bundle, check_names, conform
from spu_core.export.model_checks import active_columns, all_parts, parse_text
from spu_core.export.onnx_graph import (
    Graph,
    add_trees,
    encode_column,
    forest_trees,
    input_values,
    interpolate,
    lightgbm_trees,
    need_onnx,
    xgboost_trees,
)
from spu_core.export.onnx_rules import RuleGraph
from spu_core.models import Model
from spu_core.models.features import LinearView
from spu_core.models.learners import SoftForest, SoftLightGBM, SoftLogistic, SoftNetwork, SoftXGBoost
from spu_core.models.methods.fused import EDGE, FusedModel
from spu_core.models.model import AverageModel, RuleScoreModel, ScaledModel, WithRuleScoreModel

TOLERANCE = 1e-6
OPSET, ML_OPSET, IR_VERSION = 21, 5, 10
# Versions 1.22 and 1.23 give wrong scores without an error.
LOWEST_RUNTIME = "1.24"


@dataclass
class Inputs:
    """What models read: the encoded columns by position (float32, rows × 1), and the rule score (double)."""

    columns: dict[int, str]
    rule_score: str | None = None


def refuse_untranslatable(bundle: Bundle) -> None:
    """Raise an error in words where a bundle cannot become ONNX because of its kind of model or its missing rules."""
    for part in all_parts(bundle.fitted.model):
        if type(part) not in _COMPOSED and not any(isinstance(part, kind) for kind in _LEARNERS):
            kind = part.to_state()[0]["kind"]
            raise BundleError(
                f"A model with a part of kind {kind!r} cannot become ONNX; use the bundle itself, "
                "or choose boosters, forests, logistic regression or neural networks."
            )
    if bundle.reads_rules and bundle.label_rules is None:
        raise BundleError(
            f"The score of {bundle.name!r} depends on the rules, but the bundle was saved without them, so it cannot "
            "become ONNX; save it with label_rules=."
        )


def add_model(graph: Graph, model: Model, inputs: Inputs) -> str:
    """The score of the model as double, rows × 1."""
    if type(model) in _COMPOSED:
        return _COMPOSED[type(model)](graph, model, inputs)
    write = next(write for kind, write in _LEARNERS.items() if isinstance(model, kind))
    return write(graph, model, inputs.columns)


def _average(graph: Graph, model: Any, inputs: Inputs) -> str:
    return graph.mean([add_model(graph, part, inputs) for part in model.parts])


def _scaled(graph: Graph, model: Any, inputs: Inputs) -> str:
    share = graph.add("Div", add_model(graph, model.part, inputs), graph.constant(model.divisor))
    return graph.add("Min", share, graph.constant(1.0))


def _rule_score(graph: Graph, model: Any, inputs: Inputs) -> str:
    assert inputs.rule_score is not None
    return inputs.rule_score


def _with_rule_score(graph: Graph, model: Any, inputs: Inputs) -> str:
    """The part has columns of its own: the active ones in their order, then the rule score."""
    own = {at: inputs.columns[int(place)] for at, place in enumerate(model.active)}
    own[len(own)] = graph.cast(_rule_score(graph, model, inputs), np.float32)
    return add_model(graph, model.part, Inputs(own))


def _fused(graph: Graph, model: Any, inputs: Inputs) -> str:
    """The ingredients (mean log-odds over the inner folds; the rule score last), their stack, the refit, the hedge."""
    *parts, refit = [_log_odds(graph, add_model(graph, part, inputs)) for part in model.parts]
    ingredients = [graph.mean(parts[at : at + model.folds]) for at in range(0, len(parts), model.folds)]
    if model.uses_rules:
        ingredients.append(_rule_score(graph, model, inputs))
    z = graph.add("Sub", graph.add("Concat", *ingredients, axis=1), graph.constant(model.center[None, :]))
    z = graph.add("Div", z, graph.constant(model.scale[None, :]))
    stack_mean, stack_sd, refit_mean, refit_sd, stretch, shift = model.ends
    stack = graph.affine(graph.linear(z, model.weight[1:]), 1.0, model.weight[0])
    lines = [
        graph.affine(graph.affine(stack, 1.0, -stack_mean), 1.0 / stack_sd, 0.0),
        graph.affine(graph.affine(refit, 1.0, -refit_mean), 1.0 / refit_sd, 0.0),
    ]
    if model.hedge:
        # Earlier versions added the ingredients from rules, which are all but the first two.
        lines.append(graph.linear(z, np.array([0.0, 0.0] + [model.hedge] * (len(ingredients) - 2))))
    return graph.add("Sigmoid", graph.affine(graph.add("Sum", *lines), stretch, shift))


def _log_odds(graph: Graph, score: str) -> str:
    score = graph.add("Clip", score, graph.constant(EDGE), graph.constant(1.0 - EDGE))
    return graph.add("Log", graph.add("Div", score, graph.add("Sub", graph.constant(1.0), score)))


def _lightgbm(graph: Graph, model: Any, columns: Mapping[int, str]) -> str:
    trees = parse_text(model.to_state()[1]["model.txt"].decode()).trees
    return graph.add("Sigmoid", add_trees(graph, _matrix(graph, columns, model.active_), lightgbm_trees(trees)))


def _xgboost(graph: Graph, model: Any, columns: Mapping[int, str]) -> str:
    trees, start = xgboost_trees(bytes(model.booster_.save_raw("json")))
    total = add_trees(graph, _matrix(graph, columns, model.active_), trees)
    return graph.add("Sigmoid", graph.affine(total, 1.0, start))


def _forest(graph: Graph, model: Any, columns: Mapping[int, str]) -> str:
    mean = add_trees(graph, _matrix(graph, columns, model.active_), forest_trees(model))
    return graph.add("Clip", mean, graph.constant(0.0), graph.constant(1.0))


def _logistic(graph: Graph, model: Any, columns: Mapping[int, str]) -> str:
    coef = model.coef_ if model.coef_.size else np.zeros(1)
    line = graph.linear(_linear_view(graph, model.view_, columns), coef)
    return graph.add("Sigmoid", graph.affine(line, 1.0, model.intercept_))


def _network(graph: Graph, model: Any, columns: Mapping[int, str]) -> str:
    value = _linear_view(graph, model.view_, columns)
    layers = model.layers_.as_double()
    for depth, (weight, bias) in enumerate(zip(layers.weights, layers.biases, strict=True)):
        value = graph.add("Relu", value) if depth else value
        weight = weight if len(weight) else np.zeros((1, weight.shape[1]))
        value = graph.add("Add", graph.add("MatMul", value, graph.constant(weight)), graph.constant(bias))
    return graph.add("Sigmoid", value)


def _matrix(graph: Graph, columns: Mapping[int, str], active: np.ndarray) -> str:
    return graph.add("Concat", *(columns[int(place)] for place in active), axis=1)


def _linear_view(graph: Graph, view: LinearView, columns: Mapping[int, str]) -> str:
    """Normal scores, level flags and missing flags, in the order of the linear view, as double."""
    parts = []
    for k, place in enumerate(view.active):
        value = graph.cast(columns[int(place)], np.float64)
        missing = graph.add("IsNaN", value)
        if view.flag_missing[k]:
            parts.append(graph.cast(missing, np.float64))
        if view.is_category[k] and view.levels[k].size:
            parts.append(graph.cast(graph.add("Equal", value, graph.constant(view.levels[k][None, :])), np.float64))
        elif view.grids[k].size:
            score = interpolate(graph, value, *view.grids[k])
            parts.append(graph.add("Where", missing, graph.constant([[0.0]]), score))
    if not parts:
        # Every column was constant. One column of zeros gives the number of rows, and its weight does not matter.
        return graph.zeros((next(iter(columns.values())), "number"))
    return graph.add("Concat", *parts, axis=1)


_COMPOSED: dict[type, Callable[[Graph, Any, Inputs], str]] = {
    AverageModel: _average,
    ScaledModel: _scaled,
    RuleScoreModel: _rule_score,
    WithRuleScoreModel: _with_rule_score,
    FusedModel: _fused,
}
_LEARNERS: dict[type, Callable[[Graph, Any, Mapping[int, str]], str]] = {
    SoftLightGBM: _lightgbm,
    SoftXGBoost: _xgboost,
    SoftForest: _forest,
    SoftLogistic: _logistic,
    SoftNetwork: _network,
}


@dataclass(frozen=True)
class OnnxModel:
    """An ONNX model: its bytes, the number of rows it was compared on, and the largest difference there."""

    data: bytes
    rows: int
    worst: float

    @property
    def summary(self) -> str:
        return (
            f"The same scores as the bundle: on {self.rows:,} rows they differ by {self.worst:.1g} at most. "
            f"Needs onnxruntime {LOWEST_RUNTIME} or newer."
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        return write_file(self.data, path)


def export_onnx(bundle: Bundle, frame: pd.DataFrame) -> OnnxModel:
    """Translate a bundle to ONNX, rules included, and compare both on the rows of `frame` and on the self-test rows.

    Parameters
    ----------
    bundle : Bundle
        The exported run.
    frame : DataFrame
        Rows like those in production: the training table or a validation table.

    Returns
    -------
    OnnxModel
        The model, with one input of shape rows × 1 per column, named like the column.

    Raises
    ------
    BundleError
        If the kind of model cannot be translated, or any score differs by more than 1e-6.
    """
    need_onnx()
    refuse_untranslatable(bundle)
    if not len(frame):
        raise BundleError(
            "The ONNX model is compared on rows, but the table has none; give the training or a validation table."
        )
    data = _sealed(_build(bundle), _facts(bundle))
    if bundle.self_test is not None:
        _prove(bundle, data, bundle.self_test.frame)
    return OnnxModel(data, len(frame), _prove(bundle, data, frame))


def onnx_inputs(bundle: Bundle, frame: pd.DataFrame) -> dict[str, np.ndarray]:
    """The rows of a frame as the inputs of the ONNX model."""
    return {name: input_values(kind, frame[name]) for name, kind in bundle.input_kinds.items()}


def _build(bundle: Bundle) -> Any:
    """The model without metadata."""
    from onnx import TensorProto, checker, helper

    graph, kinds, model = Graph(), bundle.input_kinds, bundle.fitted.model
    if not kinds:
        raise BundleError("The model reads no column, so its score is the same for every row.")
    for name, kind in kinds.items():
        graph.column_input(name, kind)
    encoder = bundle.fitted.encoder.columns
    places = {int(place): encoder[place] for place in active_columns(model)}
    encoded = {place: encode_column(graph, column, column.name, kinds[column.name]) for place, column in places.items()}
    inputs, refused = Inputs(encoded), []
    if bundle.reads_rules:
        assert bundle.label_rules is not None
        rules = RuleGraph(graph, bundle.label_rules, kinds)
        inputs.rule_score, refused = rules.score(), rules.refused
    else:
        inputs.rule_score = graph.zeros(next(iter(kinds.items())))
    found = add_model(graph, model, inputs)
    if refused:
        lost = reduce(lambda left, right: graph.add("Or", left, right), refused)
        found = graph.add("Where", lost, graph.constant([[np.nan]]), found)
    score = graph.rename(found, _free("score", kinds))
    above = graph.add("Greater", score, graph.constant([[bundle.point.threshold]]))
    outputs = {score: TensorProto.DOUBLE, graph.rename(above, _free("flagged", kinds)): TensorProto.BOOL}
    described = [helper.make_tensor_value_info(name, kind, ["rows", 1]) for name, kind in outputs.items()]
    body = helper.make_graph(graph.nodes, "spu-studio", graph.inputs, described, graph.constants)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    whole = helper.make_model(body, opset_imports=opsets, ir_version=IR_VERSION, producer_name="spu-studio")
    checker.check_model(whole)
    return whole


def _facts(bundle: Bundle) -> dict[str, Any]:
    """What the stand-alone script needs to know: inputs, outputs, the lowest version of onnxruntime, the self-test."""
    kinds = bundle.input_kinds
    return {
        "name": bundle.name,
        "score": _free("score", kinds),
        "id_column": bundle.details.id_column,
        "inputs": [{"name": name, "kind": kind} for name, kind in kinds.items()],
        "onnxruntime": LOWEST_RUNTIME,
        "self_test": None if bundle.self_test is None else bundle.self_test.to_dict(),
    }


def _sealed(model: Any, facts: Mapping[str, Any]) -> bytes:
    """The model with its metadata; the last 64 bytes are the SHA-256 of all bytes before them."""
    from onnx import helper

    helper.set_model_props(model, {"spu-studio": json.dumps(facts, sort_keys=True), "spu-studio-sha256": "0" * 64})
    data = bytes(model.SerializeToString(deterministic=True))
    assert data.endswith(b"0" * 64)
    return data[:-64] + hashlib.sha256(data[:-64]).hexdigest().encode()


def _prove(bundle: Bundle, data: bytes, frame: pd.DataFrame) -> float:
    import onnxruntime

    check_names(bundle, tuple(map(str, frame.columns)))
    fitting = conform(bundle, frame)
    native = bundle.score_features(fitting, bundle.features(fitting))
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    found: Any = session.run([session.get_outputs()[0].name], onnx_inputs(bundle, fitting))[0]
    gap = np.abs(found.ravel() - native)
    row = int(np.argmax(np.where(np.isnan(gap), np.inf, gap)))
    if not gap[row] <= TOLERANCE:
        raise BundleError(
            f"The ONNX model differs from the native one by {gap[row]:.3g} in row {row + 1} ({found.ravel()[row]:.9g} "
            f"against {native[row]:.9g}), more than {TOLERANCE:g}; it was not written."
        )
    return float(gap[row])


def _free(name: str, taken: Mapping[str, str]) -> str:
    """A name for an output that no column has."""
    return name if name not in taken else _free(f"spu_{name}", taken)
