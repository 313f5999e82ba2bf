"""What a judged run can show, and what to begin a training with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from spu_core.metrics import auc_spu_score, roc_spu_band
from spu_core.tables.samples import load_sample
from spu_core.training import (
    SHORTLIST,
    Candidate,
    EvaluationData,
    Run,
    TrainConfig,
    auc_figures,
    ceiling_curve,
    compare_runs,
    hindsight,
    mean_soft_label,
    perfect_link,
    review_curve,
    run_band,
    run_calibration,
    run_curve,
    segment_intervals,
    segment_table,
    segment_values,
    sketch,
    true_aucs,
    why_not,
)


@pytest.fixture
def evaluation():
    rng = np.random.default_rng(0)
    truth = rng.random(2000) < 0.3
    rule_score = np.clip(0.2 + 0.4 * truth + 0.2 * rng.normal(size=2000), 0, 1)
    is_labeled = truth & (rng.random(2000) < 0.3)
    soft_label = np.where(is_labeled, 1.0, rule_score)
    fold = np.arange(2000) % 4
    return EvaluationData(soft_label, is_labeled, rule_score, fold, np.arange(2000) < 1800, truth=truth)


def run_of(method, score, evaluation, **more):
    return Run(method, Candidate(method, **more), TrainConfig(), evaluation, score=score).judged_by(evaluation)


@pytest.fixture
def run(evaluation):
    noise = np.random.default_rng(1).normal(size=2000)
    return run_of("lightgbm", np.clip(evaluation.soft_label + 0.2 * noise, 0, 1), evaluation)


def test_views_count_the_judged_rows_only(run):
    soft_label, score = run.evaluation.soft_label[:1800], run.score[:1800]

    assert run_curve(run).auc == pytest.approx(auc_spu_score(soft_label, score))
    assert ceiling_curve(run).auc == pytest.approx(auc_spu_score(soft_label, soft_label))
    assert mean_soft_label(run) == pytest.approx(soft_label.mean())
    assert run_calibration(run)["rows"].sum() == 1800
    assert (run_band(run).low <= run_band(run).tpr).all()


def test_the_band_takes_rows_of_a_group_as_dependent(run):
    groups = np.arange(2000) // 40
    band = run_band(replace(run, evaluation=replace(run.evaluation, groups=groups)))

    expected = roc_spu_band(run.evaluation.soft_label[:1800], run.score[:1800], groups=groups[:1800])
    assert band.simultaneous_low.tolist() == expected.simultaneous_low.tolist()
    few = run_band(replace(run, evaluation=replace(run.evaluation, groups=np.arange(2000) // 400)))
    assert "groups with negatives" in few.missing_because


def test_a_review_counts_soft_labels_and_held_out_confirmed_cases_of_the_flagged_rows(run):
    found = review_curve(run).at_rows(100)
    flagged = np.argsort(-run.score[:1800], kind="stable")[:100]
    labels = run.evaluation.is_labeled[:1800]

    assert found.point.flagged == 100
    assert found.soft_sum == pytest.approx(run.evaluation.soft_label[:1800][flagged].sum())
    assert found.soft_total == pytest.approx(run.evaluation.soft_label[:1800].sum())
    assert (found.found, found.confirmed) == (labels[flagged].sum(), labels.sum())
    assert found.recall[0] < found.found / found.confirmed < found.recall[1]
    assert f"finds {found.found} of the {found.confirmed} confirmed cases" in found.sentence


@pytest.mark.parametrize("rows", [0, 1800])
def test_a_review_of_nothing_or_everything_has_a_threshold_that_can_be_stored(run, rows):
    found = review_curve(run).at_rows(rows)

    assert np.isfinite(found.point.threshold)
    assert found.point.flagged == rows
    assert review_curve(run).at_threshold(found.point.threshold) == found


def test_a_budget_never_flags_nobody(evaluation):
    tied = run_of("elkan_noto", np.minimum(evaluation.soft_label, 0.3), evaluation)
    highest = int((tied.score[:1800] == 0.3).sum())
    found = review_curve(tied).at_budget()

    assert found.point.flagged == highest > 0.02 * 1800
    assert found.tie_sentence.startswith(f"The {highest:,} highest scores are equal")


def test_without_confirmed_cases_a_review_says_so(evaluation):
    blind = replace(evaluation, is_labeled=np.zeros(2000, bool))
    found = review_curve(run_of("lightgbm", evaluation.soft_label, blind)).at_rows(10)

    assert found.recall is None
    assert "there are none" in found.sentence


def test_the_revealed_truth_says_whether_the_recommendation_was_right(run, evaluation):
    other = run_of("logistic", np.random.default_rng(2).random(2000), evaluation)
    found = true_aucs([run, other], evaluation.truth)

    assert found["lightgbm"] == run.metrics.true_auc
    assert hindsight("lightgbm", found).startswith("Yes: 'lightgbm' has the highest true AUC")
    assert hindsight("logistic", found).startswith("No: 'lightgbm' has the highest true AUC")
    near = {**found, "logistic": replace(found["lightgbm"], estimate=found["lightgbm"].estimate - 0.004)}
    assert hindsight("logistic", near).startswith("Nearly: ")


def test_figures_of_runs_come_in_the_given_order_with_the_intervals_of_the_leaderboard(run, evaluation):
    other = run_of("logistic", np.random.default_rng(2).random(2000), evaluation)
    comparison = compare_runs([run, other])
    found = auc_figures(comparison, ["logistic", "lightgbm"])

    assert [list(values) for values in found.values()] == [["logistic", "lightgbm"]] * 3
    assert found["AUC_SPU"]["lightgbm"] == comparison.auc_spu["lightgbm"]
    assert found["AUC on confirmed cases"]["logistic"] == other.metrics.known_positive_auc
    assert found["true AUC"]["logistic"] == other.metrics.true_auc


def test_scores_that_are_no_probabilities_have_no_calibration(evaluation):
    assert run_calibration(run_of("lightgbm", 5 * evaluation.soft_label, evaluation)) is None


def test_a_sketch_has_few_points_of_the_curve_and_the_same_area():
    rng = np.random.default_rng(0)
    soft_label = rng.random(30_000)
    evaluation = EvaluationData(
        soft_label, np.zeros(30_000, bool), soft_label, np.arange(30_000) % 2, np.ones(30_000, bool)
    )
    whole = run_curve(run_of("lightgbm", soft_label + rng.normal(size=30_000), evaluation))
    few = sketch(whole)

    assert few.fpr.size < 2100
    assert few.auc == pytest.approx(whole.auc, abs=1e-5)
    assert set(few.fpr) <= set(whole.fpr)
    assert sketch(few) is few


def test_the_perfect_level_needs_the_truth(run, evaluation):
    from dataclasses import replace

    truth, soft_label = evaluation.truth[:1800], evaluation.soft_label[:1800]
    link = perfect_link(run)

    assert link.perfect_level == pytest.approx(auc_spu_score(soft_label, truth.astype(float)))
    assert perfect_link(replace(run, evaluation=replace(evaluation, truth=None))) is None
    assert perfect_link(replace(run, evaluation=replace(evaluation, truth=~evaluation.truth))) is None


def test_segments_are_quarters_of_numbers_and_levels_of_the_rest(run):
    number = segment_values(pd.Series(np.arange(2000.0)))
    assert number.value_counts().tolist() == [500, 500, 500, 500]
    levels = segment_values(pd.Series([f"level {at % 20}" for at in range(1999)] + [None]))
    assert {"other", "missing"} <= set(levels)
    assert segment_values(pd.Series([True, False] * 1000)).nunique() == 2

    intervals = segment_intervals(run, number)
    assert next(iter(intervals)).startswith("0 to")
    assert all(0.5 < found.estimate <= 1 for found in intervals.values() if found is not None)
    table = segment_table(run, number, threshold=0.5)
    assert table["rows"].sum() == 1800
    assert table["flagged_share"].between(0, 1).all()


def test_a_table_allows_some_of_the_shortlist_and_says_why_not_the_others():
    table = load_sample("breast_cancer", truth=True)

    assert [key for key in SHORTLIST if why_not(key, table, has_beliefs=True)] == []
    assert [key for key in SHORTLIST if why_not(key, table, has_beliefs=False)] == ["lightgbm", "rule_score"]
    assert "no column with that role" in why_not("oracle", table.with_roles({"malignant": "ignore"}), has_beliefs=True)
    unlabeled = table.with_roles({"labeled": "ignore"})
    assert "confirmed cases, and this table has none" in why_not("fused", unlabeled, has_beliefs=True)
    assert "there are none yet" in why_not("lightgbm", table, has_beliefs=False)
