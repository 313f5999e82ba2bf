"""Each kind of model as part of an ONNX graph; kinds that cannot be translated say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spu_core.errors import BundleError
from spu_core.export.lightgbm_text import parse_text
from spu_core.export.onnx_graph import Graph
from spu_core.export.onnx_trees import add_trees, lightgbm_trees, xgboost_trees
from spu_core.models import Model
from spu_core.models.features import LinearView
from spu_core.models.learners import SoftLightGBM, SoftLogistic, SoftNetwork, SoftXGBoost
from spu_core.models.methods.fused import FusedModel
from spu_core.models.model import AverageModel, ScaledModel

# The encoded columns by position: each a float32 value of rows × 1.
Columns = dict[int, str]


def translatable(model: Model) -> Model:
    """The model that an ONNX file will hold: fused gives its refit alone, all others themselves; or a refusal."""
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
    """Piecewise linear: the start plus each step times how much of it is done. Steps never cancel, so it is exact."""
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
