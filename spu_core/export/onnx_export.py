"""A bundle as one ONNX graph, encoder included, proven on real rows before it is handed out."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import BundleError
from spu_core.export.archive import write_file
from spu_core.export.bundle import Bundle
from spu_core.export.conform import check_names, conform
from spu_core.export.onnx_columns import column_values, describe_inputs, encode_column
from spu_core.export.onnx_graph import Graph, need_onnx
from spu_core.export.onnx_models import add_model, translatable
from spu_core.export.onnx_refit import refit_note
from spu_core.export.parts import active_columns
from spu_core.models import Model
from spu_core.models.columns import Column

TOLERANCE = 1e-6
OPSET, ML_OPSET, IR_VERSION = 21, 5, 10


@dataclass(frozen=True)
class OnnxModel:
    """A translated model: its bytes, the rows it was proven on, and the largest difference that was found there.

    `note` says where its scores are not those of the bundle, and how far from them (fused gives its refit alone).
    """

    data: bytes
    rows: int
    worst: float
    note: str = ""

    def save(self, path: str | os.PathLike[str]) -> Path:
        return write_file(self.data, path)


def export_onnx(bundle: Bundle, frame: pd.DataFrame) -> OnnxModel:
    """Translate the bundle and compare it with the native model on the rows of `frame`.

    Give rows that look like production: the training table, or a validation table. A difference above 1e-6 in any row
    refuses the translation and names that row. Inputs are one per column, rows × 1, named like the columns.
    """
    need_onnx()
    model = translatable(bundle.fitted.model)
    columns = _columns_of(bundle, model)
    data = _build(bundle, model, columns)
    worst = _prove(bundle, model, columns, data, frame)
    note = "" if model is bundle.fitted.model else refit_note(bundle, model, frame)
    return OnnxModel(data, len(frame), worst, note)


def onnx_inputs(bundle: Bundle, frame: pd.DataFrame) -> dict[str, np.ndarray]:
    """The rows of a frame as the inputs of the translated model."""
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
    """What the stand-alone script reads from the model itself."""
    facts = {
        "name": bundle.name,
        "score": score,
        "id_column": bundle.passport.id_column,
        "inputs": describe_inputs(tuple(columns.values())),
    }
    return {"spu-studio": json.dumps(facts, sort_keys=True)}


def _prove(bundle: Bundle, model: Model, columns: Mapping[int, Column], data: bytes, frame: pd.DataFrame) -> float:
    import onnxruntime

    if not len(frame):
        raise BundleError(
            "ONNX export is proven on rows, but the table has none; give the training or a validation table."
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
    """An output must not be called like a column."""
    taken = {column.name for column in columns.values()}
    return name if name not in taken else _free(f"spu_{name}", columns)
