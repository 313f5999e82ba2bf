"""Theorem 5 and Section 5: soft cross-entropy comes to the optimal ROC_SPU as rows grow, if the model can follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import expit

from spu_core.experiments.averages import average
from spu_core.experiments.result import Claim, ResultTable
from spu_core.experiments.theorems.part import Part, rounded
from spu_core.metrics import RocSpu, auc_spu_score, roc_spu
from spu_core.models import Features, SoftLightGBM, SoftLogistic, SoftNeighbors, SoftNetwork

COLUMNS = 4
GRID = np.linspace(0.0, 1.0, 201)
LEARNERS: dict[str, Callable[[int], Any]] = {
    "neural network": lambda seed: SoftNetwork(seed=seed, rounds=20),
    "LightGBM": lambda seed: SoftLightGBM(seed=seed, threads=1),
    "nearest neighbours": lambda seed: SoftNeighbors(threads=1),
    "logistic regression": lambda seed: SoftLogistic(),
}
TOO_POOR = "logistic regression"


def soft_mean(matrix: np.ndarray) -> np.ndarray:
    """E[S|X]: bent and with an interaction, so that no straight line orders the rows."""
    bent = 2.0 * np.sin(2.0 * matrix[:, 0]) + matrix[:, 1] * matrix[:, 2] - 1.0
    return 0.02 + 0.9 * expit(bent)


def draw_rows(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(X, S) with S scattered around E[S|X]."""
    matrix = rng.normal(size=(rows, COLUMNS))
    mean = soft_mean(matrix)
    return matrix.astype(np.float32), rng.beta(2.0 * mean, 2.0 * (1.0 - mean))


def run(sizes: tuple[int, ...], seeds: int, fresh_rows: int) -> Part:
    """The gap to the best AUC_SPU on fresh rows, for four learners and growing tables."""
    rng = np.random.default_rng(12345)
    fresh = rng.normal(size=(fresh_rows, COLUMNS)).astype(np.float32)
    mean = soft_mean(fresh)
    best = roc_spu(mean, mean)
    found, series = [], {}
    for name, make in LEARNERS.items():
        gaps, curves = [], {}
        for rows in sizes:
            scores = [_score(make, rows, seed, fresh) for seed in range(seeds)]
            gap = average([best.auc - auc_spu_score(mean, score) for score in scores])
            apart = average([_distance(best, roc_spu(mean, score)) for score in scores])
            off = average([np.abs(score - mean).mean() for score in scores])
            found.append((name, rows, best.auc, best.auc - gap.mean, gap.mean, gap.error, apart.mean, off.mean))
            gaps.append((gap.mean, gap.error))
            curves[str(rows)] = rounded(_on_grid(roc_spu(mean, scores[0])), 4)
        series[name] = {"gap": [g for g, _ in gaps], "error": [e for _, e in gaps], "curves": curves}
    table = ResultTable(
        "theorem5",
        "Theorem 5: soft cross-entropy as the rows grow",
        ("learner", "rows", "best AUC_SPU", "reached", "gap", "gap SE", "curves apart", "mean |g − E[S|X]|"),
        tuple(found),
        f"{seeds} seeds, judged on {fresh_rows:,} fresh rows whose E[S|X] is known; “curves apart” is the largest "
        "vertical distance to the optimal ROC_SPU.",
    )
    drawn = {"grid": rounded(GRID, 4), "best": rounded(_on_grid(best), 4), "best_auc": best.auc}
    return Part((table,), {**drawn, "sizes": list(sizes), "learners": series})


def claim(tables: Mapping[str, ResultTable]) -> Claim:
    gaps: dict[str, list[float]] = {}
    for row in tables["theorem5"].records():
        gaps.setdefault(row["learner"], []).append(row["gap"])
    rows = tables["theorem5"].column("rows")
    falling = [name for name, values in gaps.items() if name != TOO_POOR and values[-1] < 0.5 * values[0]]
    told = ", ".join(f"{name} {values[0]:.3f} → {values[-1]:.4f}" for name, values in gaps.items() if name != TOO_POOR)
    return Claim(
        "Theorem 5: thresholding E[S|X] is optimal, and minimising soft cross-entropy comes to it as N grows.",
        "holds" if len(falling) == len(gaps) - 1 else "holds partly" if falling else "does not hold",
        f"From {rows[0]:,} to {rows[-1]:,} rows the gap to the best AUC_SPU falls ({told}). It needs a model that is "
        f"rich enough: {TOO_POOR} stays {gaps[TOO_POOR][-1]:.3f} below, however many rows it gets.",
    )


def _score(make: Callable[[int], Any], rows: int, seed: int, fresh: np.ndarray) -> np.ndarray:
    matrix, soft_label = draw_rows(rows, np.random.default_rng([seed, rows]))
    return make(seed).fit_rows(Features.of(matrix), soft_label).score_rows(Features.of(fresh))


def _on_grid(curve: RocSpu) -> np.ndarray:
    return np.interp(GRID, curve.fpr, curve.tpr)


def _distance(best: RocSpu, curve: RocSpu) -> float:
    return float((_on_grid(best) - _on_grid(curve)).max())
