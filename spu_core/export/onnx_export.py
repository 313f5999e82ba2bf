"""A bundle as one ONNX graph, encoder included, compared with the native model on real rows before it is returned."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import BundleError
from spu_core.export.archive import write_file
from spu_core.export.bundle import Bundle, check_names, conform
from spu_core.export.bundle_parts import share_threshold
from spu_core.export.model_checks import active_columns, parse_text
from spu_core.export.onnx_graph import (
    Graph,
    add_trees,
    column_values,
    describe_inputs,
    encode_column,
    lightgbm_trees,
    need_onnx,
    xgboost_trees,
)
from spu_core.models import Model
from spu_core.models.columns import Column
from spu_core.models.features import LinearView
from spu_core.models.learners import SoftLightGBM, SoftLogistic, SoftNetwork, SoftXGBoost
from spu_core.models.methods.fused import FusedModel
from spu_core.models.model import AverageModel, ScaledModel

# Names of the encoded columns by position; each is float32 of shape rows × 1.
Columns = dict[int, str]


def translatable(model: Model) -> Model:
    """The model that the ONNX file will hold: the last part of fused, otherwise the model itself.

    A kind of model that cannot be translated is refused.
    """
    if isinstance(model, FusedModel):
        return model.parts[-1]
    if isinstance(model, AverageModel | ScaledModel):
        for part in model.parts if isinstance(model, AverageModel) else (model.part,):
            translatable(part)
        return model
    if not any(isinstance(model, kind) for kind in _WRITERS):
        raise BundleError(
            f"A model of kind {_kind(model)!r} cannot become ONNX; boosters, logistic regression, neural networks and "
            "the refit of fused can. Use the bundle itself, or choose one of these."
        )
    return model


def add_model(graph: Graph, model: Model, columns: Columns) -> str:
    """The score of the model as double, rows × 1."""
    if isinstance(model, AverageModel):
        parts = [add_model(graph, part, columns) for part in model.parts]
        total = parts[0] if len(parts) == 1 else graph.add("Sum", *parts)
        return graph.add("Div", total, graph.constant(float(len(parts))))
    if isinstance(model, ScaledModel):
        share = graph.add("Div", add_model(graph, model.part, columns), graph.constant(model.divisor))
        return graph.add("Min", share, graph.constant(1.0))
    for kind, write in _WRITERS.items():
        if isinstance(model, kind):
            return graph.add("Sigmoid", write(graph, model, columns))
    raise BundleError(f"A model of kind {_kind(model)!r} cannot become ONNX.")


def _lightgbm(graph: Graph, model: Any, columns: Columns) -> str:
    trees = parse_text(model.to_state()[1]["model.txt"].decode()).trees
    return add_trees(graph, _matrix(graph, columns, model.active_), lightgbm_trees(trees))


def _xgboost(graph: Graph, model: Any, columns: Columns) -> str:
    trees, start = xgboost_trees(bytes(model.booster_.save_raw("json")))
    total = add_trees(graph, _matrix(graph, columns, model.active_), trees)
    return graph.add("Add", total, graph.constant(start))


def _logistic(graph: Graph, model: Any, columns: Columns) -> str:
    rows = _linear(graph, model.view_, columns)
    return graph.add(
        "Add", graph.add("MatMul", rows, graph.constant(model.coef_[:, None])), graph.constant(model.intercept_)
    )


def _network(graph: Graph, model: Any, columns: Columns) -> str:
    value = graph.cast(_linear(graph, model.view_, columns), np.float32)
    last = len(model.layers_.weights) - 1
    for depth, (weight, bias) in enumerate(zip(model.layers_.weights, model.layers_.biases, strict=True)):
        product = graph.add("MatMul", value, graph.constant(weight, np.float32))
        value = graph.add("Add", product, graph.constant(bias, np.float32))
        value = value if depth == last else graph.add("Relu", value)
    return graph.cast(value, np.float64)


def _matrix(graph: Graph, columns: Columns, active: np.ndarray) -> str:
    return graph.add("Concat", *(columns[int(place)] for place in active), axis=1)


def _linear(graph: Graph, view: LinearView, columns: Columns) -> str:
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
            score = _interpolate(graph, value, view.grids[k])
            parts.append(graph.add("Where", missing, graph.constant([[0.0]]), score))
    if not parts:
        raise BundleError("Every column of the model is constant, so its score is the same for every row.")
    return graph.add("Concat", *parts, axis=1)


def _interpolate(graph: Graph, value: str, grid: np.ndarray) -> str:
    """Piecewise linear interpolation: the start plus each step times the part of it that lies below the value.

    All steps have the same sign, so rounding errors stay small.
    """
    points, scores = grid
    done = graph.add(
        "Div", graph.add("Sub", value, graph.constant(points[None, :-1])), graph.constant(np.diff(points)[None, :])
    )
    done = graph.add("Clip", done, graph.constant(0.0), graph.constant(1.0))
    climbed = graph.add("MatMul", done, graph.constant(np.diff(scores)[:, None]))
    return graph.add("Add", climbed, graph.constant(scores[0]))


def _kind(model: Model) -> str:
    return str(model.to_state()[0]["kind"])


_WRITERS: dict[type, Callable[[Graph, Any, Columns], str]] = {
    SoftLightGBM: _lightgbm,
    SoftXGBoost: _xgboost,
    SoftLogistic: _logistic,
    SoftNetwork: _network,
}


WHAT = (
    "This is the refit of fused alone: its last part, one LightGBM model that learnt what fused believes of each row "
    "and needs no rules. The bundle adds a stack of label models, rule models and rules to it, so their scores differ."
)


def refit_note(bundle: Bundle, refit: Model, frame: pd.DataFrame) -> str:
    """Which part of fused the graph computes, and how far its scores are from those of the bundle on these rows."""
    if bundle.reads_rules and bundle.label_rules is None:
        return f"{WHAT} How far cannot be said, since the bundle was saved without its rules."
    fitting = conform(bundle, frame)
    features = bundle.features(fitting)
    whole, alone = bundle.score_features(fitting, features), refit.score_rows(features)
    gap = np.abs(whole - alone)
    share = float(bundle.point.share)
    own = share_threshold(np.sort(alone), share)
    both = _agreement(whole, alone, share)
    return (
        f"{WHAT} On {len(frame):,} rows they differ by {gap.mean():.3g} on average and by {gap.max():.3g} at most;"
        f" their rank correlation is {_rank_correlation(whole, alone):.3f}{both}. The threshold of the bundle does not "
        f"apply to them: scores above {own:.9g} flag {(alone > own).mean():.2%} of these rows."
    )


def _rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    return float(pd.Series(one).rank().corr(pd.Series(other).rank()))


def _agreement(whole: np.ndarray, alone: np.ndarray, share: float) -> str:
    """How many of the flagged rows are the same for both scores."""
    flagged = [score > share_threshold(np.sort(score), share) for score in (whole, alone)]
    if not flagged[0].any():
        return ""
    same = int((flagged[0] & flagged[1]).sum())
    return f", and {same:,} of the {int(flagged[0].sum()):,} rows with the highest scores are the same"


TOLERANCE = 1e-6
OPSET, ML_OPSET, IR_VERSION = 21, 5, 10


@dataclass(frozen=True)
class OnnxModel:
    """An ONNX model: its bytes, the number of rows it was compared on, and the largest difference there.

    `note` says how far its scores are from those of the bundle where they differ by design (fused).
    """

    data: bytes
    rows: int
    worst: float
    note: str = ""

    def save(self, path: str | os.PathLike[str]) -> Path:
        return write_file(self.data, path)


def export_onnx(bundle: Bundle, frame: pd.DataFrame) -> OnnxModel:
    """Translate a bundle to ONNX and compare both models on the rows of `frame`.

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
    model = translatable(bundle.fitted.model)
    columns = _columns_of(bundle, model)
    data = _build(bundle, model, columns)
    worst = _prove(bundle, model, columns, data, frame)
    note = "" if model is bundle.fitted.model else refit_note(bundle, model, frame)
    return OnnxModel(data, len(frame), worst, note)


def onnx_inputs(bundle: Bundle, frame: pd.DataFrame) -> dict[str, np.ndarray]:
    """The rows of a frame as the inputs of the ONNX model."""
    return _inputs(_columns_of(bundle, translatable(bundle.fitted.model)), frame)


def _columns_of(bundle: Bundle, model: Model) -> dict[int, Column]:
    return {int(place): bundle.fitted.encoder.columns[place] for place in active_columns(model)}


def _inputs(columns: Mapping[int, Column], frame: pd.DataFrame) -> dict[str, np.ndarray]:
    return {column.name: column_values(column, frame[column.name]) for column in columns.values()}


def _build(bundle: Bundle, model: Model, columns: Mapping[int, Column]) -> bytes:
    from onnx import TensorProto, checker, helper

    graph = Graph()
    encoded = {place: encode_column(graph, column) for place, column in columns.items()}
    score = graph.rename(add_model(graph, model, encoded), _free("score", columns))
    outputs = [helper.make_tensor_value_info(score, TensorProto.DOUBLE, ["rows", 1])]
    if model is bundle.fitted.model:
        above = graph.add("Greater", score, graph.constant([[bundle.point.threshold]]))
        flagged = graph.rename(above, _free("flagged", columns))
        outputs.append(helper.make_tensor_value_info(flagged, TensorProto.BOOL, ["rows", 1]))
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    body = helper.make_graph(graph.nodes, "spu-studio", graph.inputs, outputs, graph.constants)
    whole = helper.make_model(body, opset_imports=opsets, ir_version=IR_VERSION, producer_name="spu-studio")
    helper.set_model_props(whole, _properties(bundle, columns, score))
    checker.check_model(whole)
    return bytes(whole.SerializeToString())


def _properties(bundle: Bundle, columns: Mapping[int, Column], score: str) -> dict[str, str]:
    """Metadata of the model, which the stand-alone script reads."""
    facts = {
        "name": bundle.name,
        "score": score,
        "id_column": bundle.details.id_column,
        "inputs": describe_inputs(tuple(columns.values())),
    }
    return {"spu-studio": json.dumps(facts, sort_keys=True)}


def _prove(bundle: Bundle, model: Model, columns: Mapping[int, Column], data: bytes, frame: pd.DataFrame) -> float:
    import onnxruntime

    if not len(frame):
        raise BundleError(
            "The ONNX model is compared on rows, but the table has none; give the training or a validation table."
        )
    check_names(bundle, tuple(map(str, frame.columns)))
    fitting = conform(bundle, frame)
    native = model.score_rows(bundle.features(fitting))
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    found: Any = session.run([session.get_outputs()[0].name], _inputs(columns, fitting))[0]
    gap = np.abs(found.ravel() - native)
    row = int(np.argmax(np.where(np.isnan(gap), np.inf, gap)))
    if not gap[row] <= TOLERANCE:
        raise BundleError(
            f"The ONNX model differs from the native one by {gap[row]:.3g} in row {row + 1} ({found.ravel()[row]:.9g} "
            f"against {native[row]:.9g}), more than {TOLERANCE:g}; it was not written."
        )
    return float(gap[row])


def _free(name: str, columns: Mapping[int, Column]) -> str:
    """A name for an output that no column has."""
    taken = {column.name for column in columns.values()}
    return name if name not in taken else _free(f"spu_{name}", columns)
