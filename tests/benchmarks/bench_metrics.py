"""AUC_SPU, its standard error and thin curves against NumPy's sort and scikit-learn."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import roc_auc_score

from spu_core.metrics import auc_spu_interval, auc_spu_score, roc_spu
from tests.benchmarks.harness import BenchRow, alternate, peak_bytes
from tests.metrics.bootstrap import bootstrap_auc_spu

ROWS = 1_000_000
BOOTSTRAP_ROWS = 100_000


def rows() -> list[BenchRow]:
    rng = np.random.default_rng(0)
    soft_label = rng.random(ROWS)
    score = soft_label + rng.normal(size=ROWS)
    hard = rng.random(ROWS) < soft_label
    classes, doubled = np.repeat([1, 0], ROWS), np.tile(score, 2)
    weight = np.concatenate([soft_label, 1 - soft_label])
    curve = roc_spu(soft_label, score)
    seconds = alternate(
        {
            "argsort": lambda: np.argsort(score),
            "auc": lambda: auc_spu_score(soft_label, score),
            "duplicated": lambda: roc_auc_score(classes, doubled, sample_weight=weight),
            "hard sklearn": lambda: roc_auc_score(hard, score),
            "hard ours": lambda: auc_spu_score(hard, score),
            "interval": lambda: auc_spu_interval(soft_label, score),
            "thin": lambda: curve.thin(1e-3),
        },
        repeats=7,
    )
    sort = seconds["argsort"]
    return [
        BenchRow("AUC_SPU against np.argsort", seconds["auc"] / sort, 1.3, "at most"),
        BenchRow("scikit-learn on duplicated rows", seconds["duplicated"] / seconds["auc"], 15, "at least"),
        BenchRow("scikit-learn on hard labels", seconds["hard sklearn"] / seconds["hard ours"], 6, "at least"),
        BenchRow("scratch", peak_bytes(lambda: auc_spu_score(soft_label, score)) / ROWS, 16, "at most", "bytes/row"),
        BenchRow("AUC_SPU with standard error against np.argsort", seconds["interval"] / sort, 3, "at most"),
        BenchRow("thinning against np.argsort", seconds["thin"] / sort, 0.1, "at most"),
        _bootstrap_row(soft_label[:BOOTSTRAP_ROWS], score[:BOOTSTRAP_ROWS]),
        *_growth_rows(rng),
    ]


def _bootstrap_row(soft_label: np.ndarray, score: np.ndarray) -> BenchRow:
    seconds = alternate(
        {
            "interval": lambda: auc_spu_interval(soft_label, score),
            "bootstrap": lambda: bootstrap_auc_spu(soft_label, score, replicates=2000),
        },
        repeats=1,
    )
    quick = alternate({"interval": lambda: auc_spu_interval(soft_label, score)}, repeats=9)["interval"]
    return BenchRow("2,000 presorted bootstrap replicates", seconds["bootstrap"] / quick, 300, "at least")


def _growth_rows(rng: np.random.Generator) -> list[BenchRow]:
    """Cost per row and per doubling: N log N makes it flat, up to what the processor's cache holds."""
    costs = {}
    for size in (10_000, 100_000, 1_000_000, 10_000_000):
        soft_label, score = rng.random(size), rng.random(size)
        repeats = 3 if size == 10_000_000 else 7
        seconds = alternate({"auc": lambda s=soft_label, g=score: auc_spu_score(s, g)}, repeats)["auc"]
        costs[size] = seconds / (size * np.log2(size))
    return [
        BenchRow(f"cost per N log N at {size:.0e} rows against 1e5", cost / costs[100_000], 4, "at most")
        for size, cost in costs.items()
    ]
