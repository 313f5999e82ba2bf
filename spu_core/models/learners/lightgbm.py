"""Gradient-boosted trees on soft labels with LightGBM's `cross_entropy`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spu_core.errors import TrainingError
from spu_core.metrics import soft_log_loss
from spu_core.models.features import Features
from spu_core.models.fit_inputs import FitMonitor
from spu_core.models.learners.base import SoftLearner
from spu_core.models.model import Blob, State
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
