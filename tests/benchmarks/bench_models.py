"""What soft labels cost: training and prediction against the boosters' own, on the same rows."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd

from spu_core.models import Features, SoftLightGBM
from tests.benchmarks.harness import BenchRow, alternate, print_table

ROWS = 1_000_000 if os.environ.get("SPU_SLOW") == "1" else 200_000
COLUMNS = 30
THREADS = 1  # waiting OpenMP threads spin and charge CPU time to whoever is measured
ROUNDS = 50
REPEATS = 3


def rows() -> list[BenchRow]:
    """Training on soft labels against hard ones, and predicting against the booster's own predict."""
    X, soft = _data()
    return [_training(X, soft), _prediction(X, soft)]


def _training(X: np.ndarray, soft: np.ndarray) -> BenchRow:
    def ours() -> Any:
        learner = SoftLightGBM(rounds=ROUNDS, threads=THREADS)
        return learner.fit_rows(Features.of(X), soft)

    def hard() -> Any:
        import lightgbm as lgb

        params = {
            "objective": "binary",
            "num_leaves": 31,
            "learning_rate": 0.05,
            "lambda_l2": 1.0,
            "verbosity": -1,
        }
        params |= {"num_threads": THREADS, "deterministic": True, "force_row_wise": True}
        return lgb.train(params, lgb.Dataset(X, label=(soft > 0.5).astype(float)), ROUNDS)

    seconds = alternate({"soft": ours, "hard": hard}, repeats=REPEATS)
    return BenchRow("soft LightGBM / hard LightGBM, training", seconds["soft"] / seconds["hard"], 1.2, "at most")


def _prediction(X: np.ndarray, soft: np.ndarray) -> BenchRow:
    names = [f"x{place}" for place in range(COLUMNS)]
    frame = pd.DataFrame(X, columns=names)
    few = frame[: min(ROWS, 100_000)]
    model = SoftLightGBM(rounds=ROUNDS, threads=THREADS).fit(few, soft[: len(few)])
    calls = {
        "ours": lambda: model.predict_proba(frame),
        "booster": lambda: model.booster_.predict(frame, num_threads=THREADS, validate_features=False),
    }
    seconds = alternate(calls, repeats=REPEATS)
    return BenchRow("our predict_proba / the booster's predict", seconds["ours"] / seconds["booster"], 1.1, "at most")


def _data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    return X, 1 / (1 + np.exp(-X[:, 0] - 0.5 * X[:, 1] * X[:, 2]))


if __name__ == "__main__":
    print_table(rows())
