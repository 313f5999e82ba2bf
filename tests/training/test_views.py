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
    best_model,
    ceiling_curve,
    compare_runs,
    mean_soft_label,
    perfect_link,
    review_point,
    run_band,
    run_calibration,
    run_curve,
    segment_intervals,
    segment_table,
    segment_values,
    sketch,
    soft_sum,
    suggested_model,
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
    assert soft_sum(run) == pytest.approx(soft_label.sum())
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


def test_the_sum_of_s_among_the_flagged_is_counted(run):
    point = run_curve(run).at_budget(100)
    flagged = np.argsort(-run.score[:1800], kind="stable")[: int(point.flagged)]

    found = review_point(soft_sum(run), point)

    assert found.soft_sum == pytest.approx(run.evaluation.soft_label[:1800][flagged].sum())
    assert found.mean_soft_label == pytest.approx(found.soft_sum / point.flagged)
    assert np.isnan(review_point(1.0, run_curve(run).at_budget(0)).mean_soft_label)


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


def test_rules_alone_lead_on_the_s_they_made_but_are_no_model(run, evaluation):
    rules, labels = (
        run_of("rule_score", evaluation.rule_score, evaluation),
        run_of("labeled_vs_rest", evaluation.truth * 1.0, evaluation),
    )
    comparison = compare_runs(
        [run_of("lightgbm", evaluation.rule_score * 0.9 + 0.05 * evaluation.truth, evaluation), rules, labels]
    )

    assert best_model(comparison).name == "lightgbm"
    assert suggested_model(comparison).name == comparison.verdict.pair.first
    assert best_model(compare_runs([rules])).name == "rule_score"


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
    assert "confirmed positives, and this table has none" in why_not("fused", unlabeled, has_beliefs=True)
    assert "there are none yet" in why_not("lightgbm", table, has_beliefs=False)
