"""Intervals and tests of cross-fitted figures, shown by simulation where they are hardest: few labels, no signal.

The target of an interval is the mean AUC of the fold models on fresh rows. Most designs use the nearest-centroid
classifier, which is unstable without signal and costs nothing to fit; the product's own candidates follow with
SPU_SLOW=1. Shares are judged within four Monte-Carlo standard errors of the bar.
"""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from spu_core.labels import SoftLabels
from spu_core.tables import Table
from spu_core.training import Candidate, EvaluationData, TrainConfig, compare_runs, cross_fit, recommend, with_twins
from spu_core.training.evaluation import compare_pairs, folded_auc, interval_of, simultaneous_intervals

pytestmark = pytest.mark.slow
full_size = pytest.mark.skipif(os.environ.get("SPU_SLOW") != "1", reason="takes minutes; SPU_SLOW=1 runs it")

# labels, rows, folds, shift of the labelled rows in each of ten columns
DESIGNS = [
    *((8, 800, 5, 0.0), (15, 300, 3, 0.0), (20, 1000, 10, 0.0), (40, 800, 5, 0.0), (150, 3000, 5, 0.0)),
    *((8, 800, 5, 0.4), (20, 300, 5, 0.3), (40, 800, 3, 0.15), (150, 3000, 5, 0.3), (600, 5000, 10, 0.15)),
]


def draw(rng, labels, rows, folds, shift):
    """A table of ten normal columns, with folds that have equally many labelled rows."""
    is_labeled = np.arange(rows) < labels
    X = rng.normal(size=(rows, 10)) + shift * is_labeled[:, None]
    evaluation = EvaluationData(
        is_labeled.astype(float), is_labeled, np.zeros(rows), np.arange(rows) % folds, np.ones(rows, dtype=bool)
    )
    return X, evaluation


def centroid_scores(X, evaluation, shift, columns):
    """Out-of-fold scores of the nearest-centroid classifier on some columns, and the mean true AUC of its models."""
    score, aucs = np.empty(len(X)), []
    for k in np.unique(evaluation.fold):
        train, test = evaluation.fold != k, evaluation.fold == k
        direction = X[train & evaluation.is_labeled].mean(axis=0) - X[train & ~evaluation.is_labeled].mean(axis=0)
        direction[~columns] = 0.0
        score[test] = X[test] @ direction
        # Both classes are normal with unit variance, so the true AUC of a direction is known.
        aucs.append(norm.cdf(shift * direction.sum() / np.linalg.norm(direction) / np.sqrt(2.0)))
    return score, float(np.mean(aucs))


ALL, HALF = np.ones(10, dtype=bool), np.arange(10) < 5


@pytest.mark.parametrize(("labels", "rows", "folds", "shift"), DESIGNS)
def test_an_interval_over_folds_holds_the_mean_auc_of_the_fold_models(labels, rows, folds, shift, replicates):
    rng = np.random.default_rng(labels + folds)
    count = replicates(150, 2000)
    covered = 0
    for _ in range(count):
        X, evaluation = draw(rng, labels, rows, folds, shift)
        score, truth = centroid_scores(X, evaluation, shift, ALL)
        covered += truth in interval_of(folded_auc(evaluation.soft_label, score, evaluation), 0.95)

    assert covered / count > 0.93 - 4 * np.sqrt(0.93 * 0.07 / count)
    assert covered / count < 0.985 + 4 * np.sqrt(0.98 * 0.02 / count)


@pytest.mark.parametrize(("labels", "rows", "folds"), [(12, 800, 5), (20, 1000, 10), (40, 300, 3), (150, 3000, 5)])
def test_two_candidates_that_learn_noise_are_seldom_told_apart(labels, rows, folds, replicates):
    rng = np.random.default_rng(labels)
    count = replicates(150, 2000)
    apart = 0
    for _ in range(count):
        X, evaluation = draw(rng, labels, rows, folds, 0.0)
        scores = {
            name: centroid_scores(X, evaluation, 0.0, columns)[0] for name, columns in (("all", ALL), ("half", HALF))
        }
        apart += compare_pairs({name: folded_auc(evaluation.soft_label, s, evaluation) for name, s in scores.items()})[
            0
        ].is_clear

    assert apart / count < 0.06 + 4 * np.sqrt(0.06 * 0.94 / count)


def thirty_candidates(rng, rows=600, labels=60):
    """Thirty scores of equal quality that share some of their errors, judged on the same folds."""
    is_labeled = np.arange(rows) < labels
    evaluation = EvaluationData(
        is_labeled.astype(float), is_labeled, np.zeros(rows), np.arange(rows) % 5, np.ones(rows, dtype=bool)
    )
    common = rng.normal(size=rows)
    scores = [0.8 * is_labeled + 0.6 * common + 0.8 * rng.normal(size=rows) for _ in range(30)]
    return {str(k): folded_auc(evaluation.soft_label, score, evaluation) for k, score in enumerate(scores)}


def test_the_interval_of_the_winner_of_thirty_equal_candidates_holds(replicates):
    rng = np.random.default_rng(3)
    count, truth = replicates(100, 1000), norm.cdf(0.8 / np.sqrt(2.0))
    covered = alone = 0
    for _ in range(count):
        aucs = thirty_candidates(rng)
        winner = max(aucs, key=lambda name: aucs[name].value)
        covered += truth in simultaneous_intervals(aucs)[winner]
        alone += truth in interval_of(aucs[winner], 0.95)

    assert covered / count > 0.95 - 4 * np.sqrt(0.95 * 0.05 / count)
    assert alone < covered


@full_size
@pytest.mark.parametrize("labels", [8, 20, 40, 150])
def test_noise_seldom_gets_a_confident_answer_about_rules(labels):
    rng = np.random.default_rng(labels)
    count, confident = 200, 0
    for _ in range(count):
        rows = 800 if labels < 150 else 3000
        frame = pd.DataFrame(rng.normal(size=(rows, 8)), columns=list("abcdefgh"))
        is_labeled = rng.permutation(rows) < labels
        rule_score = np.where(rng.random(rows) < 0.2, 0.5, 0.0)
        table = Table.from_frame(frame.assign(label=is_labeled), roles={"label": "label"})
        soft = SoftLabels.from_values(rule_score, is_labeled)
        few = {"rounds": 30}
        twins = with_twins([Candidate("fused", few), Candidate("labeled_vs_rest", few)])
        found = recommend(compare_runs(cross_fit(table, soft, twins, TrainConfig(threads=1))))
        confident += found.help_of_rules in ("yes", "no")

    assert confident / count <= 0.07 + 2 * np.sqrt(0.07 * 0.93 / count)
    assert labels >= 10 or confident == 0
