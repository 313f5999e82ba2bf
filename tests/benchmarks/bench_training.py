"""Training benchmarks: cross-fitting against the naive loop, and its peak memory against one LightGBM training.

What cross-fitting can share is encoding and bins; the trees must be grown all the same. So the ratio rises with the
rounds, and growing the very same trees is the floor that no sharing can go below: it is printed beside.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from spu_core.labels import SoftLabels
from spu_core.tables import Table
from spu_core.training import Candidate, TrainConfig, cross_fit
from tests.benchmarks.harness import BenchRow, peak_memory_of

ROWS = 100_000 if os.environ.get("SPU_SLOW") == "1" else 40_000
COLUMNS, FOLDS = 30, 5
LEAVES = (4, 8, 12, 16, 24, 31)


def rows() -> list[BenchRow]:
    few, _ = cross_fit_against_the_naive_loop(20)
    many, over_growing = cross_fit_against_the_naive_loop(100)
    return [few, many, over_growing, peak_memory_against_one_training()]


def cross_fit_against_the_naive_loop(rounds: int) -> tuple[BenchRow, BenchRow]:
    """Six candidates on five folds, one binned Dataset for all: against a new one for every fit, and against the
    growing of the same trees alone."""
    table, soft_labels = _world(ROWS)
    config = TrainConfig(folds=FOLDS, threads=1)
    candidates = [Candidate("lightgbm", {"rounds": rounds, "num_leaves": leaves}, str(leaves)) for leaves in LEAVES]
    # A first small fit loads the libraries, whose cost belongs to nobody.
    fold = cross_fit(table, soft_labels, [Candidate("lightgbm", {"rounds": 1})], config)[0].fold
    naive, growing = _seconds(lambda: _naive_loop(table, soft_labels, fold, rounds))
    ours, _ = _seconds(lambda: cross_fit(table, soft_labels, candidates, config))
    name = f"cross_fit, 6 candidates × 5 folds, {rounds} rounds"
    return (
        BenchRow(f"{name} / naive loop", ours / naive, 0.6, "at most"),
        BenchRow(f"{name} / growing the same trees", ours / growing, 1.15, "at most"),
    )


def peak_memory_against_one_training() -> BenchRow:
    """Peak memory of cross-fitting two candidates, over that of one plain LightGBM training on the same table."""
    ours = peak_memory_of(_SETUP + _CROSS_FIT)
    plain = peak_memory_of(_SETUP + _ONE_TRAINING)
    return BenchRow("cross_fit, peak memory / one LightGBM training", ours / plain, 1.5, "at most")


def _world(count: int) -> tuple[Table, SoftLabels]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(count, COLUMNS)), columns=[f"c{k}" for k in range(COLUMNS)])
    belief = np.clip(0.2 + 0.2 * frame["c0"] + 0.2 * rng.normal(size=count), 0, 1).to_numpy()
    table = Table.from_frame(frame, roles=dict.fromkeys(frame.columns, "feature"))
    return table, SoftLabels.from_values(belief, np.zeros(count, dtype=bool))


def _naive_loop(table: Table, soft_labels: SoftLabels, fold: np.ndarray, rounds: int) -> float:
    """What one would write by hand: slice, bin, train and predict for every candidate and fold. Returns the CPU seconds
    spent in growing trees."""
    import lightgbm as lgb

    growing = 0.0
    for leaves in LEAVES:
        score = np.empty(len(table))
        params = {"objective": "cross_entropy", "num_leaves": leaves, "learning_rate": 0.05, "lambda_l2": 1.0}
        params |= {"num_threads": 1, "deterministic": True, "force_row_wise": True, "verbosity": -1}
        for number in range(FOLDS):
            inside = fold != number
            data = lgb.Dataset(table.frame[inside], label=soft_labels.value[inside], params=params).construct()
            seconds, booster = _seconds(lambda data=data, params=params: lgb.train(params, data, rounds))
            growing += seconds
            score[~inside] = booster.predict(table.frame[~inside], num_threads=1)
    return growing


def _seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """(CPU seconds of the call, what it returns)."""
    start = time.process_time()
    found = call()
    return time.process_time() - start, found


_SETUP = """
import numpy as np, pandas as pd
import lightgbm as lgb, scipy.special, sklearn.base
from spu_core.training import Candidate, TrainConfig, cross_fit
from tests.benchmarks.bench_training import _world
table, soft_labels = _world(500_000)
"""
_CROSS_FIT = """
candidates = [Candidate("lightgbm", {"rounds": 5}), Candidate("lightgbm", {"rounds": 5, "num_leaves": 8})]
cross_fit(table, soft_labels, candidates, TrainConfig(folds=5, threads=1))
"""
_ONE_TRAINING = """
data = lgb.Dataset(table.frame, label=soft_labels.value)
booster = lgb.train({"objective": "cross_entropy", "num_threads": 1, "verbosity": -1}, data, 5)
booster.predict(table.frame, num_threads=1)
"""
