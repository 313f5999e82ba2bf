"""The fingerprint of a table's content: equal data give equal text, whatever form the columns are kept in."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pandas as pd
from pandas.api import types as kinds

from spu_core.tables.moments import moment_bits


def fingerprint(frame: pd.DataFrame) -> str:
    """sha256 over column names, kinds and values, in order.

    >>> a = pd.DataFrame({"x": [1, 2], "c": ["u", "v"]})
    >>> fingerprint(a) == fingerprint(a.astype({"c": "category"})), fingerprint(a) == fingerprint(a[::-1])
    (True, False)
    """
    digest = hashlib.sha256(json.dumps([list(frame.columns), len(frame)]).encode())
    for name in frame.columns:
        values = frame[name]
        digest.update(kind_of_values(values).encode())
        digest.update(np.ascontiguousarray(column_bits(values)).data)
    return digest.hexdigest()


def kind_of_values(values: pd.Series) -> str:
    """What a column holds, whatever form it is kept in."""
    if kinds.is_bool_dtype(values.dtype):
        return "boolean"
    if kinds.is_datetime64_any_dtype(values.dtype):
        return "datetime"
    return "number" if kinds.is_numeric_dtype(values.dtype) else "text"


def column_bits(values: pd.Series) -> np.ndarray:
    """Bits of each cell that depend on nothing but the cell, so that parts of a column can follow each other."""
    kind = kind_of_values(values)
    if kind == "datetime":
        return moment_bits(values)
    if kind == "number" and isinstance(values.dtype, np.dtype):
        # One bit pattern for every NaN and for both zeros.
        return values.to_numpy() if values.dtype.kind in "iu" else _canonical(values.to_numpy())
    return pd.util.hash_pandas_object(values, index=False).to_numpy()


def _canonical(numbers: np.ndarray) -> np.ndarray:
    numbers = numbers + 0.0
    numbers[np.isnan(numbers)] = np.nan
    return numbers
