"""The encoder as part of an ONNX graph: one named input per column, and the same float32 codes as at training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import BundleError
from spu_core.export.onnx_graph import Graph
from spu_core.models.columns import LARGEST, Column, Family, as_numbers

# Rows that lack a text carry this mark; a level that is called so would be taken for missing.
MISSING_TEXT = ""


def encode_column(graph: Graph, column: Column) -> str:
    """Add the input of a column and its encoding; the result is float32, rows × 1, NaN where missing."""
    if column.is_category:
        return _category(graph, column)
    value = graph.column_input(column.name, np.float64, _words(column))
    if column.family is Family.EMPTY:
        return graph.cast(graph.add("Mul", value, graph.constant(np.nan)), np.float32)
    # Clip lets NaN pass; infinity keeps its place in the order.
    value = graph.add("Clip", value, graph.constant(-LARGEST), graph.constant(LARGEST))
    if column.offset:
        value = graph.add("Sub", value, graph.constant(column.offset))
    return graph.cast(value, np.float32)


def input_kind(column: Column) -> str:
    """What the input of a column wants: number, flag, days or text."""
    if column.is_category and column.family is Family.TEXT:
        return "text"
    return {Family.DATE: "days", Family.BOOLEAN: "flag"}.get(column.family, "number")


def column_values(column: Column, values: pd.Series) -> np.ndarray:
    """A column of a frame as its input wants it, rows × 1."""
    if input_kind(column) == "text":
        text = values.astype("object").map(str, na_action="ignore")
        return text.where(text.notna(), MISSING_TEXT).to_numpy(dtype=object)[:, None]
    if column.family is Family.EMPTY:
        return np.full((len(values), 1), np.nan)
    return as_numbers(values, column.family)[:, None]


def _category(graph: Graph, column: Column) -> str:
    if column.family is Family.TEXT:
        return _text_codes(graph, column)
    if column.family is not Family.NUMBER:
        raise BundleError(
            f"Column {column.name!r} has {column.family} values as levels, which ONNX cannot encode; "
            "make it text or numbers and train again."
        )
    value = graph.column_input(column.name, np.float64, _words(column))
    levels = graph.constant([[float(level) for level in column.levels]])
    # Rows × levels; at most one level fits, and its place is its code.
    fits = graph.cast(graph.add("Equal", value, levels), np.float64)
    codes = graph.constant(np.arange(1.0, len(column.levels) + 1)[:, None])
    code = graph.add("MatMul", fits, codes)
    return graph.cast(graph.add("Where", graph.add("IsNaN", value), graph.constant([[np.nan]]), code), np.float32)


def _text_codes(graph: Graph, column: Column) -> str:
    if MISSING_TEXT in column.levels:
        raise BundleError(
            f"Column {column.name!r} has the empty text as a level, which the ONNX input uses for a missing value; "
            "name that level and train again."
        )
    value = graph.column_input(column.name, str, _words(column))
    return graph.add(
        "LabelEncoder",
        value,
        domain="ai.onnx.ml",
        keys_strings=[*column.levels, MISSING_TEXT],
        values_floats=[*np.arange(1.0, len(column.levels) + 1).tolist(), float("nan")],
        default_float=0.0,
    )


def _words(column: Column) -> str:
    return {
        "text": "text as in the training table; the empty text means missing",
        "days": "days since 1970-01-01 in UTC, with fractions; NaN means missing",
        "flag": "1 or 0; NaN means missing",
        "number": "a number; NaN means missing",
    }[input_kind(column)]


def describe_inputs(columns: tuple[Column, ...]) -> list[dict[str, Any]]:
    """Names and kinds of the inputs, for whoever runs the model."""
    return [{"name": column.name, "kind": input_kind(column)} for column in columns]
