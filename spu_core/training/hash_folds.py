"""Folds by a seeded hash of each row's id: the same row lands in the same fold, however the rows are partitioned.

Dealing rows to folds evenly needs to see all of them at once; a hash needs only the row. With many rows the folds come
out nearly equal anyway: their sizes differ by about √N.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import TrainingError
from spu_core.tables.reading.values import moment_bits
from spu_core.training.config import TrainConfig
from spu_core.training.folds import HELD_OUT

# Hold-out and folds must not be cut from the same stream, or one of them would be predictable from the other.
_HOLD_OUT_STREAM = 1_000_003


def hash_rows(row_id: Any, seed: int = 0) -> np.ndarray:
    """A well-mixed 64-bit number for each id; 5, 5.0 and nothing else are the same id, as are equal texts.

    >>> bool((hash_rows([1, 2, 3]) == hash_rows(np.array([1.0, 2.0, 3.0]))).all())
    True
    >>> hash_rows(["a", "b"])[1] == hash_rows(["b"])[0]
    np.True_
    """
    stream = np.uint64(0x9E3779B97F4A7C15 * (2 * seed + 1) % 2**64)
    return _mixed(_plain_keys(row_id) + stream)


def hash_folds(row_id: Any, config: TrainConfig) -> np.ndarray:
    """The fold of each row, 0 … folds − 1, or −1 where the config holds it out; give groups in place of ids to keep
    them together.

    >>> hash_folds(range(8), TrainConfig(folds=2)).tolist() == [
    ...     int(hash_folds([row], TrainConfig(folds=2))[0]) for row in range(8)
    ... ]
    True
    """
    fold = (hash_rows(row_id, config.seed) % np.uint64(config.folds)).astype(np.int64)
    if config.hold_out:
        share = hash_rows(row_id, config.seed + _HOLD_OUT_STREAM) / 2.0**64
        fold[share < config.hold_out] = HELD_OUT
    return fold


def _plain_keys(row_id: Any) -> np.ndarray:
    """64 bits that depend on the value of an id only, never on its dtype or its neighbours."""
    values = pd.Series(row_id) if not isinstance(row_id, pd.Series) else row_id
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(values.cat.categories.dtype)
    _refuse_missing(values)
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return moment_bits(values).view(np.uint64)
    if pd.api.types.is_numeric_dtype(values.dtype):
        return _number_keys(values.to_numpy())
    texts = values.astype("str").astype(object).to_numpy()
    return pd.util.hash_array(texts, categorize=False)


def _number_keys(numbers: np.ndarray) -> np.ndarray:
    if numbers.dtype.kind in "bui":
        return numbers.astype(np.int64).view(np.uint64)
    numbers = numbers.astype(np.float64) + 0.0
    whole = numbers.astype(np.int64)
    return np.where(whole == numbers, whole, numbers.view(np.int64)).view(np.uint64)


def _refuse_missing(values: pd.Series) -> None:
    missing = values.isna().to_numpy()
    if missing.any():
        raise TrainingError(
            f"The id of a row is missing (first: row {int(missing.argmax())}), so its fold is not known; "
            "fill the id column, or give it another role: rows then go by their number."
        )


def _mixed(key: np.ndarray) -> np.ndarray:
    """The finalizer of splitmix64: every bit of the key moves every bit of the result."""
    with np.errstate(over="ignore"):
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))
