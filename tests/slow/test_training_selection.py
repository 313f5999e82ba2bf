"""Choosing on SPU metrics, shown by simulation: it works, and only nested tuning reports an honest figure."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from spu_core.labels import SoftLabels
from spu_core.tables import Table
from spu_core.training import Candidate, TrainConfig, Tuning, cross_fit

CONFIG = TrainConfig(folds=3, threads=1)


def noise_world(seed, rows=150):
    """Features that know nothing of S: the AUC_SPU of every model on fresh rows is exactly ½."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(rows, 6)), columns=list("abcdef"))
    table = Table.from_frame(frame, roles=dict.fromkeys("abcdef", "feature"))
    return table, SoftLabels.from_values(rng.random(rows), np.zeros(rows, dtype=bool))


def standard_error(values):
    return np.std(values, ddof=1) / np.sqrt(len(values))


@pytest.mark.slow
def test_choosing_and_ranking_on_the_same_rows_is_optimistic_and_nesting_removes_it(replicates):
    # Twelve candidates that differ in the columns they happen to draw, and a search over the same twelve.
    few = {"rounds": 3, "num_leaves": 4, "learning_rate": 0.2, "min_child_samples": 6, "colsample_bytree": 0.17}
    few |= {"reg_lambda": 1.0, "subsample": 1.0}
    grid = [Candidate("lightgbm", {**few, "seed": seed}) for seed in range(12)]
    nested = Candidate("lightgbm", few, tuning=Tuning(trials=12, folds=3, ranges={"seed": (0, 11)}))
    chosen_on_the_same_rows, tuned_inside = [], []
    for seed in range(replicates(10, 80)):
        table, soft_labels = noise_world(seed)
        runs = cross_fit(table, soft_labels, [*grid, nested], CONFIG)
        values = [run.metrics.auc_spu.estimate for run in runs]
        chosen_on_the_same_rows.append(max(values[:-1]))
        tuned_inside.append(values[-1])

    # Monte-Carlo error: three standard errors, about .02 with 10 data sets and .008 with 80.
    assert np.mean(chosen_on_the_same_rows) - 0.5 > 3 * standard_error(chosen_on_the_same_rows)
    assert abs(np.mean(tuned_inside) - 0.5) < 3 * standard_error(tuned_inside)
    assert np.mean(chosen_on_the_same_rows) > np.mean(tuned_inside)


@pytest.mark.slow
def test_models_can_be_chosen_by_auc_spu_alone(replicates):
    """The paper's point: under its assumption the order by AUC_SPU is the order by the truth."""
    grid = [
        Candidate("lightgbm", {"rounds": rounds, "num_leaves": leaves}, f"{rounds} rounds, {leaves} leaves")
        for rounds in (2, 30, 150)
        for leaves in (2, 31)
    ]
    regrets = []
    for seed in range(replicates(3, 30)):
        rng = np.random.default_rng(seed)
        truth = rng.random(1500) < 0.4
        x = rng.normal(size=(1500, 8)) + 0.5 * truth[:, None]
        # S depends on the truth alone: generalised SCAR.
        belief = np.clip(0.2 + 0.4 * truth + 0.2 * rng.normal(size=1500), 0, 1)
        frame = pd.DataFrame(x, columns=list("abcdefgh")).assign(truth=truth.astype(int))
        table = Table.from_frame(frame, roles={"truth": "truth"})
        runs = cross_fit(table, SoftLabels.from_values(belief, np.zeros(1500, dtype=bool)), grid, CONFIG)
        chosen = max(runs, key=lambda run: run.metrics.auc_spu.estimate)
        true = [run.metrics.true_auc.estimate for run in runs]
        regrets.append((max(true) - chosen.metrics.true_auc.estimate) / (max(true) - min(true)))

    # The choice loses at most a tenth of what there is between the best and the worst candidate.
    assert np.mean(regrets) < 0.1
