"""One booster fitted by several workers, each on the rows that it holds.

The result is right under two conditions, which the libraries do not check. Each category has the same code on all
workers, so one encoder serves all rows. And the rows of each worker are a random part of all rows: LightGBM makes the
bins of a column from the rows of one worker, so a category that only other workers hold would be ignored (AUC_SPU .72
instead of .87 in a trial with two sorted partitions).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spu_core.engines.executors.dask_cluster import Cluster
from spu_core.errors import TrainingError
from spu_core.models.columns import Column
from spu_core.models.learners import SoftLearner
from spu_core.models.learners.boosters import SoftLightGBM, SoftXGBoost

if TYPE_CHECKING:
    from distributed import Future

_LOG = logging.getLogger("lightgbm")


@dataclass(frozen=True, eq=False)
class Chunk:
    """Training rows on a worker: the future of (matrix, target, weight), with their number and sums."""

    future: Future
    rows: int
    target_sum: float
    weight_sum: float


@dataclass(frozen=True, eq=False)
class Schema:
    """All encoded columns, and the positions of those that the model may see."""

    columns: tuple[Column, ...]
    active: np.ndarray

    @property
    def names(self) -> list[str]:
        """Names of the visible columns for the libraries: f0…fn."""
        return [f"f{place}" for place in self.active]

    @property
    def is_category(self) -> list[bool]:
        """Which of the visible columns are categories."""
        return [self.columns[place].is_category for place in self.active]


def can_fit_together(learner: type[SoftLearner]) -> bool:
    """Whether a learner can be fitted by several workers."""
    return learner in _FITS


def fit_together(cluster: Cluster, learner: SoftLearner, chunks: Sequence[Chunk], schema: Schema, what: str) -> Any:
    """Fit the learner on all chunks, on the workers that hold them. Chunks without rows are ignored."""
    filled = [chunk for chunk in chunks if chunk.rows]
    if not filled:
        raise TrainingError(f"{what} has no row to learn from; use fewer folds, or more rows.")
    fit = _FITS.get(type(learner))
    if fit is None:
        raise TrainingError(
            f"{learner.title} cannot be fitted by several workers together; use lightgbm or xgboost, or a table that "
            "fits into the memory of one."
        )
    learner.check_settings()
    return cluster.guarded(lambda: fit(cluster, learner, filled, schema), what=what)


def _fit_lightgbm(cluster: Cluster, learner: SoftLightGBM, chunks: list[Chunk], schema: Schema) -> SoftLightGBM:
    import lightgbm as lgb

    _LOG.addFilter(_is_worth_logging)
    lgb.register_logger(_LOG)  # else LightGBM prints to standard output, which may be JSON
    rows = sum(chunk.rows for chunk in chunks)
    matrix, target, weight = _arrays(chunks, len(schema.active))
    params = learner.params(rows)
    model = lgb.DaskLGBMRegressor(client=cluster.client, n_estimators=learner.rounds, **params)
    categories = [place for place, category in enumerate(schema.is_category) if category]
    model.fit(matrix, target, sample_weight=weight, feature_name=schema.names, categorical_feature=categories)
    text = model.booster_.model_to_string(num_iteration=-1)
    description = {**learner.describe(), "rounds": model.booster_.num_trees(), "active": schema.active.tolist()}
    return SoftLightGBM.from_state(description, {"model.txt": text.encode()})


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """False for the note that the number of threads is that of the workers: it comes with every fit."""
    return "will be ignored" not in record.getMessage()


def _fit_xgboost(cluster: Cluster, learner: SoftXGBoost, chunks: list[Chunk], schema: Schema) -> SoftXGBoost:
    from xgboost import dask as dxgb

    matrix, target, weight = _arrays(chunks, len(schema.active))
    data = dxgb.DaskQuantileDMatrix(
        cluster.client,
        matrix,
        target,
        weight=weight,
        max_bin=learner.max_bin,
        feature_names=schema.names,
        feature_types=["c" if category else "q" for category in schema.is_category],
        enable_categorical=True,
    )
    mean = sum(chunk.target_sum for chunk in chunks) / sum(chunk.weight_sum for chunk in chunks)
    # nthread 0: each worker uses the threads that it was started with.
    params = {**learner.params(mean, sum(chunk.rows for chunk in chunks)), "nthread": 0}
    found = dxgb.train(cluster.client, params, data, learner.rounds)
    description = {**learner.describe(), "rounds": learner.rounds, "active": schema.active.tolist()}
    return SoftXGBoost.from_state(description, {"model.ubj": bytes(found["booster"].save_raw("ubj"))})


_FITS: dict[type[SoftLearner], Any] = {SoftLightGBM: _fit_lightgbm, SoftXGBoost: _fit_xgboost}


def _arrays(chunks: list[Chunk], columns: int) -> tuple[Any, Any, Any]:
    """Matrix, target and weight as Dask arrays over the futures."""
    import dask.array as da
    from dask import delayed

    parts = [delayed(chunk.future) for chunk in chunks]
    matrix = [
        da.from_delayed(part[0], (chunk.rows, columns), dtype=np.float32, meta=np.empty((0, columns), np.float32))
        for part, chunk in zip(parts, chunks, strict=True)
    ]
    target, weight = (
        [
            da.from_delayed(part[place], (chunk.rows,), dtype=np.float64, meta=np.empty(0))
            for part, chunk in zip(parts, chunks, strict=True)
        ]
        for place in (1, 2)
    )
    return da.concatenate(matrix), da.concatenate(target), da.concatenate(weight)
