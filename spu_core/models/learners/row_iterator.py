"""Rows as XGBoost takes them: a matrix in memory, or blocks of a file one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from spu_core.models.features import Features
from spu_core.models.matrix_file import MatrixFile

Block = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def quantile_matrix(
    features: Features, target: np.ndarray, weight: np.ndarray | None, max_bin: int, schema: Mapping[str, Any]
) -> Any:
    """The binned rows. With a file, raw values never lie in memory together, only their bins."""
    import xgboost as xgb

    if not isinstance(features.store.matrix, MatrixFile):
        return xgb.QuantileDMatrix(features.matrix, label=target, weight=weight, max_bin=max_bin, **schema)
    of_columns = {name: value for name, value in schema.items() if name.startswith("feature_")}
    of_matrix = {name: value for name, value in schema.items() if name not in of_columns}
    return xgb.QuantileDMatrix(_iterator(features, target, weight, of_columns), max_bin=max_bin, **of_matrix)


def _iterator(features: Features, target: np.ndarray, weight: np.ndarray | None, of_columns: Mapping[str, Any]) -> Any:
    """XGBoost asks for all blocks several times: to find the bins, then to fill them."""
    import xgboost as xgb

    class Blocks(xgb.DataIter):
        def __init__(self) -> None:
            super().__init__(release_data=True)
            self.left: Iterator[Block] = iter(())

        def reset(self) -> None:
            self.left = _blocks(features, target, weight)

        def next(self, input_data: Any) -> bool:
            block = next(self.left, None)
            if block is None:
                return False
            data, label, weights = block
            input_data(data=data, label=label, weight=weights, **of_columns)
            return True

    return Blocks()


def _blocks(features: Features, target: np.ndarray, weight: np.ndarray | None) -> Iterator[Block]:
    start = 0
    for block in features.blocks():
        end = start + len(block)
        yield block.matrix, target[start:end], None if weight is None else weight[start:end]
        start = end
