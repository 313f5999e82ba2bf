"""The figures of a run against plain definitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spu_core.labels import SoftLabels
from spu_core.metrics import auc_spu_ceiling, auc_spu_score, calibration_gap, compare_auc_spu, roc_spu, soft_log_loss
from spu_core.training import Candidate, EvaluationData, TrainConfig, cross_fit, refine_soft_labels, with_refined
from spu_core.training.evaluation import (
    BUILT_FROM_IT,
    NOT_REFINED,
    compare_pairs,
    folded_auc,
    folded_interval,
    holm,
    judge,
)


@pytest.fixture
def evaluation():
    rng = np.random.default_rng(0)
    truth = rng.random(600) < 0.4
    labels = truth & (rng.random(600) < 0.3)
    rule = np.clip(0.3 * truth + 0.5 * rng.random(600), 0, 1)
    value = np.where(labels, 1.0, rule)
    fold = np.arange(600) % 4
    return EvaluationData(value, labels, rule, fold, np.ones(600, dtype=bool), truth=truth)


@pytest.fixture
def score(evaluation):
    return np.clip(0.4 * evaluation.truth + 0.6 * np.random.default_rng(1).random(600), 0, 1)


def mean_over_folds(figure, evaluation, *arrays):
    """The definition: the figure in each fold, averaged by rows."""
    parts = [
        (figure(*(a[evaluation.fold == k] for a in arrays)), (evaluation.fold == k).sum())
        for k in np.unique(evaluation.fold)
    ]
    return np.average([value for value, _ in parts], weights=[size for _, size in parts])


def test_every_figure_equals_its_definition(evaluation, score):
    found = judge(score, evaluation)

    assert found.auc_spu.estimate == pytest.approx(
        mean_over_folds(auc_spu_score, evaluation, evaluation.soft_label, score)
    )
    assert found.pooled_auc_spu == pytest.approx(auc_spu_score(evaluation.soft_label, score))
    assert found.ceiling == pytest.approx(auc_spu_ceiling(evaluation.soft_label))
    share = (found.auc_spu.estimate - 0.5) / (found.ceiling - 0.5)
    assert found.share_of_ceiling.estimate == pytest.approx(share)
    curve = roc_spu(evaluation.soft_label, score)
    assert found.tpr_spu_at_1 == curve.at_fpr(0.01).tpr
    assert found.tpr_spu_at_5 == curve.at_fpr(0.05).tpr
    assert found.tpr_spu_at_budget == curve.at_budget(0.02).tpr
    assert found.soft_log_loss == pytest.approx(soft_log_loss(evaluation.soft_label, score))
    assert found.calibration_gap == pytest.approx(calibration_gap(evaluation.soft_label, score))
    assert found.self_claimed == pytest.approx(mean_over_folds(auc_spu_ceiling, evaluation, score))
    labels = evaluation.is_labeled.astype(float)
    assert found.known_positive_auc.estimate == pytest.approx(mean_over_folds(auc_spu_score, evaluation, labels, score))
    true = mean_over_folds(auc_spu_score, evaluation, evaluation.truth.astype(float), score)
    assert found.true_auc.estimate == pytest.approx(true)
    assert found.refined_auc_spu is None
    assert found.refined_note == NOT_REFINED


def test_a_level_that_differs_between_folds_does_not_lower_the_folded_auc(evaluation, score):
    shifted = (score + evaluation.fold) / 5

    assert judge(shifted, evaluation).auc_spu.estimate == pytest.approx(judge(score, evaluation).auc_spu.estimate)
    assert judge(shifted, evaluation).pooled_auc_spu < judge(score, evaluation).pooled_auc_spu - 0.01


def test_one_fold_gives_the_plain_interval_of_the_metrics(evaluation, score):
    from spu_core.metrics import auc_spu_interval

    one = replace(evaluation, fold=np.zeros(600, dtype=int))
    plain = auc_spu_interval(evaluation.soft_label, score)
    found = folded_interval(evaluation.soft_label, score, one)

    assert (found.estimate, found.low, found.high) == pytest.approx((plain.estimate, plain.low, plain.high))


def test_a_perfect_order_still_has_an_interval(evaluation):
    found = folded_interval(evaluation.truth.astype(float), evaluation.truth.astype(float), evaluation)

    assert found.estimate == found.high == 1.0
    assert 0.9 < found.low < 1.0


def test_scores_that_are_no_probabilities_have_no_log_loss(evaluation, score):
    found = judge(10 * score - 3, evaluation)

    assert (found.soft_log_loss, found.calibration_gap, found.self_claimed) == (None, None, None)
    assert found.auc_spu.estimate == pytest.approx(judge(score, evaluation).auc_spu.estimate)


def test_known_positives_of_random_checks_are_compared_among_random_checks(evaluation, score):
    checked = np.random.default_rng(2).random(600) < 0.5
    found = judge(score, replace(evaluation, randomly_checked=checked))

    parts = [checked & (evaluation.fold == k) for k in range(4)]
    expected = np.average(
        [auc_spu_score(evaluation.is_labeled[rows].astype(float), score[rows]) for rows in parts],
        weights=[rows.sum() for rows in parts],
    )
    assert found.known_positive_auc.estimate == pytest.approx(expected)
    assert found.known_positive_note == f"On {checked.sum()} randomly checked rows."


def test_the_note_on_dependent_labels_is_carried(world, quick):
    table, soft_labels = world
    plain = SoftLabels.from_values(soft_labels.rule_score, soft_labels.is_labeled, ("a",))
    notes = [
        cross_fit(table, plain, ["rule_score"], replace(quick, **more))[0].metrics.known_positive_note
        for more in ({}, {"rules_chose_checks": True}, {"beliefs_from_labels": True})
    ]

    assert notes[0] is None
    assert "The rules decided who was checked" in notes[1]
    assert "no longer independent of the rules" in notes[2]
    looks_chosen = replace(plain, rules_chose_labels=True)
    note = cross_fit(table, looks_chosen, ["rule_score"], quick)[0].metrics.known_positive_note
    assert note.startswith("The rules may have decided who was checked"), "a finding is not stated as a fact"


def test_without_labels_known_positive_auc_is_absent_in_words(world, quick):
    table, soft_labels = world
    none = SoftLabels.from_values(soft_labels.rule_score, np.zeros(len(table), dtype=bool))
    metrics = cross_fit(table, none, ["rule_score"], quick)[0].metrics

    assert metrics.known_positive_auc is None
    assert metrics.known_positive_note == "No judged row is a confirmed case."


def test_metrics_become_plain_values(evaluation, score):
    import json

    text = json.dumps(judge(score, evaluation).to_dict())
    assert json.loads(text)["auc_spu"]["estimate"] == judge(score, evaluation).auc_spu.estimate


def test_refined_figures_leave_out_what_was_built_from_them(world, quick):
    table, soft_labels = world
    refined = refine_soft_labels(table, soft_labels, quick)
    few = {"rounds": 10}
    on_refined = cross_fit(table, refined, [Candidate("lightgbm", few, "on q")], quick)
    runs = cross_fit(table, soft_labels, [Candidate("fused", few), Candidate("lightgbm", few)], quick)

    fused, plain, own = with_refined([*runs, *on_refined], refined)

    assert fused.metrics.refined_auc_spu is None
    assert fused.metrics.refined_note == own.metrics.refined_note == BUILT_FROM_IT
    assert plain.metrics.refined_auc_spu is not None
    assert (refined.value[soft_labels.is_labeled] == 1).all()
    assert not np.array_equal(refined.value, soft_labels.value)


def test_the_difference_of_one_fold_equals_that_of_the_metrics(evaluation, score):
    one = replace(evaluation, fold=np.zeros(600, dtype=int))
    other = np.random.default_rng(5).random(600)
    aucs = {name: folded_auc(evaluation.soft_label, values, one) for name, values in (("a", score), ("b", other))}
    pair = compare_pairs(aucs)[0]
    plain = compare_auc_spu(evaluation.soft_label, score, other)

    assert pair.difference.estimate == pytest.approx(plain.estimate)
    assert pair.difference.standard_error == pytest.approx(plain.standard_error)
    assert pair.p_holm == pytest.approx(plain.p_value)


def test_holm_equals_its_definition_step_by_step():
    p = [0.001, 0.04, 0.03, 0.5]

    assert holm(p) == pytest.approx([0.004, 0.09, 0.09, 0.5])
    assert holm([]) == []


def test_equal_candidates_are_not_told_apart_however_many_pairs_are_compared(evaluation):
    """Of 66 pairs of pure noise some differ at the level by chance; after the correction none does."""
    rng = np.random.default_rng(7)
    one = replace(evaluation, fold=np.zeros(600, dtype=int))
    scores = {f"noise {k}": rng.random(600) for k in range(12)} | {"best": evaluation.soft_label}
    pairs = compare_pairs({name: folded_auc(one.soft_label, values, one) for name, values in scores.items()})
    noise = [pair for pair in pairs if "best" not in (pair.first, pair.second)]

    assert any(pair.difference.p_value < 0.05 for pair in noise)
    assert not any(pair.is_clear for pair in noise)
    assert all(pair.is_clear for pair in pairs if pair not in noise)


def test_a_budget_of_more_rows_than_there_are_reviews_all(evaluation, score):
    assert judge(score, replace(evaluation, budget=10_000)).tpr_spu_at_budget == 1.0


def test_config_of_a_run_is_its_own(world):
    table, soft_labels = world
    config = TrainConfig(folds=2, threads=1, review_budget=10)
    run = cross_fit(table, soft_labels, ["rule_score"], config)[0]

    assert run.config == config
    assert run.to_dict()["config"]["review_budget"] == 10
