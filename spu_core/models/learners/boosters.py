"""Gradient-boosted trees on soft labels: LightGBM's `cross_entropy` and XGBoost's `binary:logistic`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from spu_core.errors import TrainingError
from spu_core.metrics import soft_log_loss
from spu_core.models.features import Features, MatrixFile
from spu_core.models.learners.base import SoftLearner
from spu_core.models.model import BestRound, Blob, FitMonitor, State
from spu_core.models.settings import (
    COLSAMPLE_BYTREE,
    LEARNING_RATE,
    REG_LAMBDA,
    ROUNDS,
    SEED,
    SUBSAMPLE,
    THREADS,
    setting,
    useful_threads,
)


class SoftLightGBM(SoftLearner):
    """Boosted trees that minimise soft cross-entropy; the fastest learner here, and the first one to try.

    >>> X = np.arange(40.0).reshape(-1, 1)
    >>> model = SoftLightGBM(rounds=20).fit(X, np.linspace(0, 1, 40))
    >>> bool(model.predict_proba(X)[39, 1] > model.predict_proba(X)[0, 1])
    True
    >>> SoftLightGBM(objective="binary").fit(X, np.linspace(0, 1, 40))
    Traceback (most recent call last):
    spu_core.errors.TrainingError: LightGBM's objective 'binary' silently treats every soft label above 0 as a
    positive; use objective='cross_entropy', which equals it on hard labels.
    """

    key = "lightgbm"
    title = "LightGBM"
    stops_early = True

    rounds: int = setting(ROUNDS)
    learning_rate: float = setting(LEARNING_RATE)
    num_leaves: int = setting(
        default=31, low=2, high=4096, log=True, tunable=True, help="Leaves per tree; fewer is smoother."
    )
    min_child_samples: int | None = setting(
        default=None,
        low=1,
        high=1_000_000,
        log=True,
        optional=True,
        tunable=True,
        help="Fewest rows in a leaf; None takes 1/25 of the rows, from 3 to 20.",
    )
    reg_lambda: float = setting(REG_LAMBDA)
    colsample_bytree: float = setting(COLSAMPLE_BYTREE)
    subsample: float = setting(SUBSAMPLE)
    max_bin: int = setting(default=255, low=2, high=65_535, help="Histogram bins per column.")
    objective: str = setting(
        default="cross_entropy", choices=("cross_entropy", "binary"), help="The loss; 'binary' serves hard labels only."
    )
    seed: int = setting(SEED)
    threads: int = setting(THREADS)

    def _learn(self, features: Features, target: np.ndarray, weight: np.ndarray | None, monitor: FitMonitor) -> None:
        import lightgbm as lgb

        if self.objective == "binary" and np.any((target != 0.0) & (target != 1.0)):
            raise TrainingError(
                "LightGBM's objective 'binary' silently treats every soft label above 0 as a positive; "
                "use objective='cross_entropy', which equals it on hard labels."
            )
        data = features.binned(self.max_bin, target, weight)
        callbacks: list[Any] = [_progress(monitor, self.rounds, target, weight)]
        evaluation: dict[str, Any] = {}
        if monitor.stop is not None:
            stop = monitor.stop
            features.check_same_store(stop.features)
            held_out = stop.features.select(features.active).binned(self.max_bin, stop.target, stop.weight)
            evaluation = {"valid_sets": [held_out], "feval": lambda score, _: ("loss", stop(score), False)}
            callbacks.append(lgb.early_stopping(stop.patience, verbose=False))
        # Without keep_training_booster, LightGBM writes and reads the text form once more.
        booster = lgb.train(
            self.params(len(features)), data, self.rounds, callbacks=callbacks, keep_training_booster=True, **evaluation
        )
        self.rounds_ = booster.best_iteration if booster.best_iteration > 0 else booster.current_iteration()
        # The text form drops what training leaves behind: a reference to the bins, the rounds after the best.
        self._load(booster.model_to_string(num_iteration=max(self.rounds_, 1)))

    def _score(self, features: Features) -> np.ndarray:
        score = self.booster_.predict(features.matrix, num_threads=useful_threads(self.threads, len(features)))
        return np.asarray(score, dtype=np.float64)

    def contributions(self, features: Features) -> np.ndarray:
        """What each column adds to the log-odds of each row, and last the baseline; they sum to the row's log-odds."""
        own = features.select(self.active_)
        found = self.booster_.predict(own.matrix, pred_contrib=True, num_threads=useful_threads(self.threads, len(own)))
        return np.asarray(found)

    def gains(self) -> dict[int, float]:
        """Total gain of the splits by position of the column in the encoded matrix."""
        gains = self.booster_.feature_importance("gain")
        return {int(place): float(gain) for place, gain in zip(self.active_, gains, strict=True)}

    def params(self, rows: int) -> dict[str, Any]:
        """The library's own parameters for a fit on so many rows."""
        smallest_leaf = int(np.clip(rows // 25, 3, 20)) if self.min_child_samples is None else self.min_child_samples
        return {
            "objective": self.objective,
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "min_data_in_leaf": smallest_leaf,
            "lambda_l2": self.reg_lambda,
            "feature_fraction": self.colsample_bytree,
            "bagging_fraction": self.subsample,
            "bagging_freq": 1 if self.subsample < 1 else 0,
            "max_bin": self.max_bin,
            "metric": "none",
            "seed": self.seed,
            "num_threads": useful_threads(self.threads, rows),
            "deterministic": True,
            "force_row_wise": True,
            "feature_pre_filter": False,
            "verbosity": -1,
        }

    def _load(self, text: str) -> None:
        import lightgbm as lgb

        self.booster_, self.size_ = lgb.Booster(model_str=text), len(text)

    def size_in_memory(self) -> int:
        return self.size_

    def settings_that_matter(self) -> dict[str, Any]:
        """All but the seed, where no rows and columns are drawn."""
        settings = super().settings_that_matter()
        if self.subsample == 1.0 and self.colsample_bytree == 1.0:
            del settings["seed"]
        return settings

    def to_state(self) -> State:
        """LightGBM's own text form."""
        text = self.booster_.model_to_string(num_iteration=-1)
        description = {**self.describe(), "rounds": self.rounds_, "active": self.active_.tolist()}
        return description, {"model.txt": text.encode()}

    @classmethod
    def from_state(cls, description: Mapping[str, Any], blobs: Mapping[str, Blob]) -> SoftLightGBM:
        model = cls.restored(description)
        model._load(bytes(blobs["model.txt"]).decode())
        return model


def _progress(monitor: FitMonitor, rounds: int, target: np.ndarray, weight: np.ndarray | None) -> Any:
    def training_loss(score: np.ndarray, _: Any) -> tuple[str, float, bool]:
        return "loss", soft_log_loss(target, score, sample_weight=weight), False

    def after_round(env: Any) -> None:
        done, looks = env.iteration + 1, monitor.wants_training_loss(env.iteration + 1, rounds)
        loss = env.evaluation_result_list[0][2] if env.evaluation_result_list else None
        monitor.report(done, rounds, loss, env.model.eval_train(training_loss)[0][2] if looks else None)

    return after_round


class SoftXGBoost(SoftLearner):
    """Boosted trees with `binary:logistic`, whose loss is soft cross-entropy; `XGBClassifier` refuses such labels."""

    key = "xgboost"
    title = "XGBoost"
    stops_early = True

    rounds: int = setting(ROUNDS)
    learning_rate: float = setting(LEARNING_RATE)
    max_depth: int = setting(default=5, low=1, high=30, tunable=True, help="Depth of each tree.")
    min_child_weight: float = setting(
        default=1.0, low=0.0, high=1e6, tunable=True, help="Fewest rows in a leaf, each counted by g(1−g)."
    )
    reg_lambda: float = setting(REG_LAMBDA)
    colsample_bytree: float = setting(COLSAMPLE_BYTREE)
    subsample: float = setting(SUBSAMPLE)
    max_bin: int = setting(default=256, low=2, high=65_535, help="Histogram bins per column.")
    seed: int = setting(SEED)
    threads: int = setting(THREADS)

    def _learn(self, features: Features, target: np.ndarray, weight: np.ndarray | None, monitor: FitMonitor) -> None:
        import xgboost as xgb

        data = quantile_matrix(features, target, weight, self.max_bin, self._schema(features))
        held_out = None if monitor.stop is None else self._data(monitor.stop.features.select(features.active))

        def training_loss(booster: Any) -> float:
            return soft_log_loss(target, booster.predict(data).astype(np.float64), sample_weight=weight)

        hook = _hook(monitor, self.rounds, held_out, training_loss)
        booster = xgb.train(
            self.params(float(np.average(target, weights=weight)), target.size),
            data,
            self.rounds,
            callbacks=[hook],
            verbose_eval=False,
        )
        self.rounds_ = hook.best.iteration if monitor.stop is not None else self.rounds
        self._load(booster[: self.rounds_].save_raw("ubj"))

    def contributions(self, features: Features) -> np.ndarray:
        """What each column adds to the log-odds of each row, and last the baseline; they sum to the row's log-odds."""
        return np.asarray(self.booster_.predict(self._data(features.select(self.active_)), pred_contribs=True))

    def gains(self) -> dict[int, float]:
        """Total gain of the splits by position of the column in the encoded matrix."""
        by_name = self.booster_.get_score(importance_type="total_gain")
        return {int(place): float(by_name.get(f"f{place}", 0.0)) for place in self.active_}  # type: ignore[arg-type]

    def _score(self, features: Features) -> np.ndarray:
        return self.booster_.predict(self._data(features)).astype(np.float64)

    def _data(self, features: Features) -> Any:
        import xgboost as xgb

        return xgb.DMatrix(features.matrix, **self._schema(features))

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

    def size_in_memory(self) -> int:
        return len(self.raw_)

    def to_state(self) -> State:
        """XGBoost's own binary JSON."""
        description = {**self.describe(), "rounds": self.rounds_, "active": self.active_.tolist()}
        return description, {"model.ubj": self.raw_}

    @classmethod
    def from_state(cls, description: Mapping[str, Any], blobs: Mapping[str, Blob]) -> SoftXGBoost:
        model = cls.restored(description)
        model._load(bytes(blobs["model.ubj"]))
        return model


def _hook(monitor: FitMonitor, rounds: int, held_out: Any, training_loss: Callable[[Any], float]) -> Any:
    """A callback that reports each round and stops early; a local class, so that xgboost is imported only here."""
    import xgboost as xgb

    class Hook(xgb.callback.TrainingCallback):
        best = BestRound(monitor.stop.patience if monitor.stop else 0)

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            done, loss = epoch + 1, None
            if monitor.stop is not None:
                loss = monitor.stop(model.predict(held_out).astype(np.float64))
                self.best.update(done, loss)
            monitor.report(
                done, rounds, loss, training_loss(model) if monitor.wants_training_loss(done, rounds) else None
            )
            return monitor.stop is not None and self.best.is_over(done)

    return Hook()


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
