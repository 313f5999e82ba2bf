"""Gradient-boosted trees on soft labels with XGBoost's `binary:logistic` through its native interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spu_core.models.features import Features
from spu_core.models.learners.base import SoftLearner, useful_threads
from spu_core.models.learners.row_iterator import quantile_matrix
from spu_core.models.settings import SEED, THREADS, Setting
from spu_core.models.state import Blob, State, loads
from spu_core.models.watch import BestRound, Watch


@loads("xgboost")
class SoftXGBoost(SoftLearner):
    """Boosted trees with `binary:logistic`, whose loss is soft cross-entropy; `XGBClassifier` refuses such labels."""

    key = "xgboost"
    title = "XGBoost"
    stops_early = True
    settings = (
        Setting(name="rounds", default=200, low=1, high=20_000, log=True, help="Trees to grow."),
        Setting(
            name="learning_rate",
            default=0.05,
            low=1e-4,
            high=1.0,
            log=True,
            tunable=True,
            help="Weight of each tree; smaller needs more rounds.",
        ),
        Setting(name="max_depth", default=5, low=1, high=30, tunable=True, help="Depth of each tree."),
        Setting(
            name="min_child_weight",
            default=1.0,
            low=0.0,
            high=1e6,
            tunable=True,
            help="Fewest rows in a leaf, each counted by g(1−g).",
        ),
        Setting(name="reg_lambda", default=1.0, low=0.0, high=1e6, tunable=True, help="Ridge on the leaf values."),
        Setting(
            name="colsample_bytree",
            default=1.0,
            low=0.01,
            high=1.0,
            tunable=True,
            help="Share of columns each tree may use.",
        ),
        Setting(
            name="subsample",
            default=1.0,
            low=0.01,
            high=1.0,
            tunable=True,
            help="Share of rows each tree sees.",
        ),
        Setting(name="max_bin", default=256, low=2, high=65_535, help="Histogram bins per column."),
        SEED,
        THREADS,
    )

    def __init__(
        self,
        *,
        rounds: int = 200,
        learning_rate: float = 0.05,
        max_depth: int = 5,
        min_child_weight: float = 1.0,
        reg_lambda: float = 1.0,
        colsample_bytree: float = 1.0,
        subsample: float = 1.0,
        max_bin: int = 256,
        seed: int = 0,
        threads: int = 2,
    ) -> None:
        self.rounds = rounds
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.min_child_weight = min_child_weight
        self.reg_lambda = reg_lambda
        self.colsample_bytree = colsample_bytree
        self.subsample = subsample
        self.max_bin = max_bin
        self.seed = seed
        self.threads = threads

    def _learn(self, features: Features, target: np.ndarray, weight: np.ndarray | None, watch: Watch) -> None:
        import xgboost as xgb

        data = quantile_matrix(features, target, weight, self.max_bin, self._schema(features))
        held_out = None
        if watch.stop is not None:
            matrix = watch.stop.features.select(features.active).matrix
            held_out = xgb.DMatrix(matrix, **self._schema(features))
        hook = _hook(watch, self.rounds, held_out)
        booster = xgb.train(
            self.params(float(np.average(target, weights=weight)), target.size),
            data,
            self.rounds,
            callbacks=[hook],
            verbose_eval=False,
        )
        self.rounds_ = hook.best.iteration if watch.stop is not None else self.rounds
        self._load(booster[: self.rounds_].save_raw("ubj"))

    def _score(self, features: Features) -> np.ndarray:
        import xgboost as xgb

        data = xgb.DMatrix(features.matrix, **self._schema(features))
        return self.booster_.predict(data).astype(np.float64)

    def _schema(self, features: Features) -> dict[str, Any]:
        kinds = ["c" if category else "q" for category in features.is_category]
        return {
            "feature_names": features.model_names,
            "feature_types": kinds,
            "enable_categorical": True,
            "nthread": useful_threads(self.threads, len(features)),
        }

    def params(self, mean: float, rows: int) -> dict[str, Any]:
        """The library's own parameters for a fit on so many rows, whose target has this mean."""
        return {
            "objective": "binary:logistic",
            # A start at exactly 0 or 1 has an infinite logit.
            "base_score": float(np.clip(mean, 1e-6, 1 - 1e-6)),
            "tree_method": "hist",
            "learning_rate": self.learning_rate,
            "max_depth": self.max_depth,
            "min_child_weight": self.min_child_weight,
            "reg_lambda": self.reg_lambda,
            "colsample_bytree": self.colsample_bytree,
            "subsample": self.subsample,
            "max_bin": self.max_bin,
            "seed": self.seed,
            "nthread": useful_threads(self.threads, rows),
            "disable_default_eval_metric": True,
            "verbosity": 0,
        }

    def _load(self, raw: bytes | bytearray) -> None:
        import xgboost as xgb

        self.booster_ = xgb.Booster({"nthread": self.threads}, model_file=bytearray(raw))
        self.raw_ = bytes(raw)

    def to_state(self) -> State:
        """XGBoost's own binary JSON."""
        description = {**self.describe(), "rounds": self.rounds_, "active": self.active_.tolist()}
        return description, {"model.ubj": self.raw_}

    @classmethod
    def from_state(cls, description: Mapping[str, Any], blobs: Mapping[str, Blob]) -> SoftXGBoost:
        model = cls(**description["settings"])
        model.active_ = np.array(description["active"], dtype=np.int64)
        model.rounds_ = description["rounds"]
        model.classes_ = np.array([0, 1])
        model._load(bytes(blobs["model.ubj"]))
        return model


def _hook(watch: Watch, rounds: int, held_out: Any) -> Any:
    """A callback that reports each round and stops by the watched loss; made here so that xgboost loads late."""
    import xgboost as xgb

    class Hook(xgb.callback.TrainingCallback):
        best = BestRound(watch.stop.patience if watch.stop else 0)

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            done, loss = epoch + 1, None
            if watch.stop is not None:
                loss = watch.stop(model.predict(held_out).astype(np.float64))
                self.best.update(done, loss)
            watch.report(done, rounds, loss)
            return watch.stop is not None and self.best.is_over(done)

    return Hook()
