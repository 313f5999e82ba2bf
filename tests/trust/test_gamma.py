"""Γ bounds: sharp against brute force, right at Γ = 1, and true when the assumption holds."""

from itertools import product

import numpy as np
import pytest

from spu_core.errors import TrainingError
from spu_core.labels import SoftLabels
from spu_core.metrics import auc_spu_score
from spu_core.training import Candidate, EvaluationData, Run, TrainConfig
from spu_core.trust import gamma_bounds, tipping_by_rule


def runs_of(soft_label, **scores):
    size = soft_label.size
    data = EvaluationData(soft_label, np.zeros(size, bool), soft_label, np.zeros(size, int), np.ones(size, bool))
    return [Run(name, Candidate("fused"), TrainConfig(), data, score=score) for name, score in scores.items()]


def labels_of(soft_label):
    return SoftLabels(soft_label, soft_label, np.zeros(soft_label.size, bool))


def test_without_doubt_the_bounds_are_auc_spu():
    rng = np.random.default_rng(0)
    soft_label, score = rng.random(50), rng.normal(size=50).round(1)
    found = gamma_bounds(runs_of(soft_label, a=score), labels_of(soft_label), gammas=[1.0])

    assert found.low[0, 0] == pytest.approx(auc_spu_score(soft_label, score))
    assert found.high[0, 0] == pytest.approx(auc_spu_score(soft_label, score))


def test_the_bounds_are_those_of_the_best_and_worst_corner_of_all_probabilities():
    """By trying every combination of lowest and highest probabilities of eight rows, with ties."""
    rng = np.random.default_rng(1)
    soft_label, gamma = rng.uniform(0.1, 0.9, 8), 2.5
    a, b = rng.integers(0, 5, 8) * 1.0, rng.normal(size=8)
    low, high = (
        soft_label / (soft_label + gamma * (1 - soft_label)),
        gamma * soft_label / (gamma * soft_label + 1 - soft_label),
    )
    corners = [np.where(choice, high, low) for choice in product([True, False], repeat=8)]
    aucs = [auc_spu_score(p, a) for p in corners]
    gaps = [auc_spu_score(p, a) - auc_spu_score(p, b) for p in corners]
    found = gamma_bounds(runs_of(soft_label, a=a, b=b), labels_of(soft_label), leader="a", gammas=[gamma])

    assert (found.low[0, 0], found.high[0, 0]) == pytest.approx((min(aucs), max(aucs)))
    assert (found.pairs[0].low[0], found.pairs[0].high[0]) == pytest.approx((min(gaps), max(gaps)))


def test_the_truth_lies_inside_when_the_odds_are_off_by_less_than_gamma():
    rng = np.random.default_rng(2)
    score = rng.normal(size=20_000)
    soft_label = 1.0 / (1.0 + np.exp(1.5 - score))
    for seed in range(20):
        draw = np.random.default_rng([3, seed])
        factor = np.exp(draw.uniform(-1.0, 1.0, score.size) * np.log(2.0))
        chance = factor * soft_label / (factor * soft_label + 1.0 - soft_label)
        truth = (draw.random(score.size) < chance).astype(float)
        found = gamma_bounds(runs_of(soft_label, a=score), labels_of(soft_label), gammas=[2.0])
        assert found.low[0, 0] <= auc_spu_score(truth, score) <= found.high[0, 0]


def test_the_order_can_change_at_the_tipping_gamma_and_not_below():
    rng = np.random.default_rng(4)
    score = rng.normal(size=2_000)
    soft_label = 1.0 / (1.0 + np.exp(1.0 - score))
    runs = runs_of(soft_label, good=score + rng.normal(size=2_000), poor=score + 2.0 * rng.normal(size=2_000))
    found = gamma_bounds(runs, labels_of(soft_label))
    [pair] = found.pairs
    below, above = (
        gamma_bounds(runs, labels_of(soft_label), gammas=[pair.tipping * factor]).pairs[0].low[0]
        for factor in (0.99, 1.01)
    )

    assert (found.leader, found.tipping) == ("good", pair.tipping)
    assert above < 0.0 < below
    assert pair.sentence == f"'good' stays ahead of 'poor' up to odds wrong by a factor of {pair.tipping:.2g}."


def test_rows_that_are_certain_do_not_move():
    soft_label = np.array([0.0, 1.0, 0.0, 1.0])
    found = gamma_bounds(runs_of(soft_label, a=np.array([0.1, 0.9, 0.5, 0.4])), labels_of(soft_label), gammas=[1, 50])

    assert found.low[:, 0].tolist() == found.high[:, 0].tolist() == [0.75, 0.75]
    assert found.certain == 1.0


def test_ready_made_soft_labels_have_no_single_rule_to_doubt():
    soft_label = np.array([0.2, 0.8, 0.5])
    runs = runs_of(soft_label, a=np.arange(3.0), b=np.arange(3.0)[::-1])

    with pytest.raises(TrainingError, match="ready-made"):
        gamma_bounds(runs, labels_of(soft_label), rule="Late")
    assert tipping_by_rule(runs, labels_of(soft_label), "a", "b").empty
    with pytest.raises(TrainingError, match="1 or more"):
        gamma_bounds(runs, labels_of(soft_label), gammas=[0.5])
    with pytest.raises(TrainingError, match="scores of 3 rows, but there are 2 soft labels"):
        gamma_bounds(runs, labels_of(soft_label[:2]))
