"""The comparison: an honest table, fair pairs, one S at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spu_core.errors import TrainingError
from spu_core.labels import SoftLabels
from spu_core.metrics import auc_spu_ceiling
from spu_core.models import METHODS
from spu_core.training import (
    Candidate,
    EvaluationData,
    Run,
    TrainConfig,
    compare_runs,
    cross_fit,
    refine_soft_labels,
    runs_on,
    with_refined,
)
from spu_core.training.comparison import uses_rules

CONFIG = TrainConfig()


def stored_run(method, score, evaluation, **more):
    """A run as it comes from storage: scores without a table."""
    name = more.pop("name", method)
    run = Run(name, Candidate(method, **more), CONFIG, evaluation, score=np.asarray(score, dtype=float))
    return run.judged_by(evaluation)


@pytest.fixture
def evaluation():
    """Rules that know nothing: S of unlabelled rows is noise."""
    rng = np.random.default_rng(0)
    truth = rng.random(2000) < 0.4
    labels = truth & (rng.random(2000) < 0.3)
    rule = np.round(rng.random(2000), 1)
    return EvaluationData(
        np.where(labels, 1.0, rule), labels, rule, np.arange(2000) % 5, np.ones(2000, dtype=bool), truth=truth
    )


def noisy(evaluation, strength, seed):
    return strength * evaluation.truth + np.random.default_rng(seed).normal(size=evaluation.truth.size)


def test_the_leaderboard_has_every_figure_and_failed_candidates_last(evaluation):
    failed = Run("oracle", Candidate("oracle"), CONFIG, evaluation, error="no truth")
    good = stored_run("lightgbm", noisy(evaluation, 2.0, 1), evaluation)
    poor = stored_run("logistic", noisy(evaluation, 0.0, 2), evaluation)

    table = compare_runs([failed, poor, good]).leaderboard

    assert table["name"].tolist() == ["lightgbm", "logistic", "oracle"]
    assert table["error"].isna().tolist() == [True, True, False]
    assert table["error"][2] == "no truth"
    wanted = {"auc_spu", "auc_spu_low", "ceiling", "share_of_ceiling", "tpr_spu_at_1", "tpr_spu_at_5", "true_auc"}
    wanted |= {"tpr_spu_at_budget", "soft_log_loss", "calibration_gap", "known_positive_auc", "refined_auc_spu"}
    assert wanted | {"self_claimed", "seconds"} <= set(table.columns)


def test_wrong_rules_make_the_figures_disagree_and_the_comparison_says_so(evaluation):
    follower = stored_run("rule_score", evaluation.rule_score, evaluation)
    knower = stored_run("labeled_vs_rest", noisy(evaluation, 2.0, 1), evaluation)

    comparison = compare_runs([follower, knower])

    assert comparison.runs[0].name == "rule_score"
    sentence = comparison.disagreements[0]
    assert "AUC_SPU on your soft labels favours 'rule_score', AUC on confirmed cases 'labeled_vs_rest'" in sentence
    assert "follows the rules, right or wrong" in sentence
    figures = comparison.three_figures.set_index("name")
    assert figures.loc["rule_score", "auc_spu_rank"] == 1
    assert figures.loc["rule_score", "known_positive_auc_rank"] == 2


def test_different_soft_labels_are_never_ranked_together(evaluation):
    other = replace(evaluation, soft_label=np.where(evaluation.is_labeled, 1.0, 1.0 - evaluation.rule_score))
    one = stored_run("lightgbm", noisy(evaluation, 1.0, 1), evaluation)
    two = stored_run("logistic", noisy(evaluation, 1.0, 2), other)

    with pytest.raises(TrainingError, match=r"AUC_SPU on different soft labels must not be ranked.*runs_on"):
        compare_runs([one, two])

    chosen = SoftLabels.from_values(evaluation.rule_score, evaluation.is_labeled)
    together = compare_runs(runs_on([one, two], chosen))
    ceilings = {run.metrics.ceiling for run in together.runs}
    assert ceilings == {auc_spu_ceiling(chosen.value)}


def test_nothing_built_from_refined_labels_is_ranked_by_them(world, quick):
    table, soft_labels = world
    refined = refine_soft_labels(table, soft_labels, quick)
    few = {"rounds": 10}
    runs = cross_fit(table, soft_labels, [Candidate("fused", few), Candidate("lightgbm", few), "rule_score"], quick)

    comparison = compare_runs(runs, refined=refined)

    assert set(comparison.figures["refined_auc_spu"].value) == {"lightgbm", "rule_score"}
    assert all("fused" not in (p.first, p.second) for p in comparison.figures["refined_auc_spu"].pairs)
    row = comparison.three_figures.set_index("name").loc["fused"]
    assert row["note"] == "built from it"
    assert np.isnan(row["refined_auc_spu_rank"])


def test_learning_from_refined_labels_is_judged_by_the_analysts_own(world, quick):
    table, soft_labels = world
    refined = refine_soft_labels(table, soft_labels, quick)
    few = {"rounds": 10}
    plain = cross_fit(table, soft_labels, [Candidate("lightgbm", few)], quick)
    on_refined = cross_fit(table, refined, [Candidate("lightgbm", few, "on refined")], quick)

    comparison = compare_runs([*plain, *on_refined], refined=refined)

    assert {run.metrics.ceiling for run in comparison.runs} == {auc_spu_ceiling(soft_labels.value)}
    assert set(comparison.figures["refined_auc_spu"].value) == {"lightgbm"}
    assert not np.array_equal(plain[0].score, on_refined[0].score)
    with pytest.raises(TrainingError, match="Refined soft labels are no S to rank by"):
        runs_on(plain, refined)
    with pytest.raises(TrainingError, match="These soft labels are refined already"):
        refine_soft_labels(table, refined, quick)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda runs: [], "There is no run to compare."),
        (lambda runs: [runs[0], runs[0]], "Two runs are called 'lightgbm'"),
        (lambda runs: [replace(runs[0], score=None, metrics=None, error="broken")], "nothing to compare: broken"),
    ],
)
def test_what_cannot_be_compared_says_why(evaluation, change, sentence):
    runs = [stored_run("lightgbm", noisy(evaluation, 1.0, 1), evaluation)]
    with pytest.raises(TrainingError) as problem:
        compare_runs(change(runs))

    assert sentence in str(problem.value)


def test_runs_of_other_tables_or_folds_are_refused(evaluation):
    half = EvaluationData(
        *(getattr(evaluation, n)[:1000] for n in ("soft_label", "is_labeled", "rule_score", "fold", "judged"))
    )
    one = stored_run("lightgbm", noisy(evaluation, 1.0, 1), evaluation)
    short = stored_run("logistic", noisy(evaluation, 1.0, 1)[:1000], half)
    shuffled = stored_run("logistic", noisy(evaluation, 1.0, 1), replace(evaluation, fold=evaluation.fold[::-1].copy()))

    with pytest.raises(TrainingError, match="only runs of the same table can be compared"):
        compare_runs([one, short])
    with pytest.raises(TrainingError, match="have different folds"):
        compare_runs([one, shuffled])
    with pytest.raises(TrainingError, match="only runs of the same table can be judged together"):
        runs_on([short], SoftLabels.from_values(evaluation.rule_score, evaluation.is_labeled))
    with pytest.raises(TrainingError, match="use runs_on for other soft labels"):
        with_refined([one], SoftLabels.from_values(evaluation.rule_score, evaluation.is_labeled))


def test_a_stored_run_cannot_be_refitted_without_its_table(evaluation):
    with pytest.raises(TrainingError, match="was read from storage without its table"):
        stored_run("lightgbm", noisy(evaluation, 1.0, 1), evaluation).fit_all()


def test_notes_tell_of_selection_levels_and_few_positives(evaluation):
    shifted = noisy(evaluation, 2.0, 1) + 3 * evaluation.fold
    comparison = compare_runs(
        [stored_run("lightgbm", shifted, evaluation), stored_run("logistic", noisy(evaluation, 1.0, 2), evaluation)]
    )
    words = " ".join(comparison.notes)

    assert "hold for all 2 models at once, so also for the chosen one" in words
    assert "take the soft labels as given" in words
    assert "folds of 'lightgbm' score at different levels" in words


def test_pairs_come_as_a_table(evaluation):
    runs = [
        stored_run(key, noisy(evaluation, k, k), evaluation)
        for k, key in enumerate(["lightgbm", "logistic", "rule_score"])
    ]
    table = compare_runs(runs).pairs_table

    assert len(table) == 3
    assert (table["p_holm"] >= table["p_value"]).all()
    assert (table["difference"] >= 0).all()


def test_methods_that_need_soft_labels_or_rules_use_them_unless_they_are_hidden():
    labels_only = {"labeled_vs_rest", "elkan_noto", "weighted_elkan_noto", "bagging_pu", "nnpu", "sar_em"}
    runs = [Run(key, Candidate(key), CONFIG, None) for key in METHODS]

    assert {run.name for run in runs if uses_rules(run)} == set(METHODS) - labels_only - {"oracle"}
    assert not uses_rules(Run("x", Candidate("fused", without_rules=True), CONFIG, None))
