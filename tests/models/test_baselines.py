"""Each baseline against a small obvious implementation or a published identity."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from spu_core import auc_spu_score
from spu_core.errors import TrainingError
from spu_core.models import (
    METHODS,
    Encoder,
    Features,
    SoftLabelClassifier,
    SoftLightGBM,
    TrainingRows,
)
from spu_core.models.learners.network import NonNegativePu, soft_cross_entropy
from spu_core.models.method import LearnerFitter
from spu_core.models.methods.baselines import (
    above_threshold,
    any_belief,
    bag_counts,
    e_step,
    hidden_positive,
    label_frequency,
)
from spu_core.models.model import FitMonitor, inner_folds

TREES = {"rounds": 20, "threads": 1}


def rows_of(case):
    features = Encoder().fit(case.X).transform(case.X)
    return TrainingRows(
        features,
        case.soft_label,
        case.is_labeled,
        case.rule_score,
        case.truth,
        rule_columns=case.rule_columns,
    )


def plain_fit(rows, target):
    return SoftLightGBM(**TREES).fit_rows(rows.features, np.asarray(target, dtype=float)).score_rows(rows.features)


TARGETS_IN_PLAIN_WORDS = {
    "labeled_vs_rest": lambda case: case.is_labeled,
    "soft_as_positive": lambda case: case.soft_label > 0,
    "soft_threshold": lambda case: case.soft_label >= 0.5,
    "oracle": lambda case: case.truth,
    "lightgbm": lambda case: case.soft_label,
}


@pytest.mark.parametrize("key", sorted(TARGETS_IN_PLAIN_WORDS))
def test_one_fit_methods_are_their_target_and_a_learner(key, case):
    rows = rows_of(case)

    model = METHODS[key].fit(rows, {**TREES, "keep_rule_columns": True})

    assert np.array_equal(model.score_rows(rows.features), plain_fit(rows, TARGETS_IN_PLAIN_WORDS[key](case)))


def test_elkan_noto_is_min_of_one_and_g_over_c(case):
    rows = rows_of(case)
    model = METHODS["elkan_noto"].fit(rows, TREES)

    g = model.part.score_rows(rows.features)

    assert model.score_rows(rows.features) == pytest.approx(np.minimum(1, g / model.divisor))


def test_elkan_noto_stays_a_probability_where_g_exceeds_c():
    """A library in use divides and returns 1.9; a probability cannot."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=400)})
    labels = (X["x"] > 1).to_numpy() & (rng.random(400) < 0.9)

    score = SoftLabelClassifier("elkan_noto", **TREES).fit(X, labels.astype(float), is_labeled=labels)

    assert score.predict_proba(X)[:, 1].max() <= 1.0


def test_the_label_frequency_is_the_mean_held_out_score_of_labelled_rows(case):
    held_out = np.linspace(0.1, 0.9, len(case.X))

    assert label_frequency(rows_of(case), held_out) == pytest.approx(held_out[case.is_labeled].mean())


def test_a_labelled_row_of_weight_two_counts_for_the_label_frequency_like_two_rows(case):
    held_out = np.linspace(0.1, 0.9, len(case.X))
    weight = 1 + np.arange(len(case.X)) // (len(case.X) // 2)
    twice = np.repeat(np.arange(len(case.X)), weight)

    weighted = replace(rows_of(case), weight=weight.astype(float))

    assert label_frequency(weighted, held_out) == pytest.approx(held_out[twice][case.is_labeled[twice]].mean())


@pytest.mark.parametrize("method", ["elkan_noto", "weighted_elkan_noto"])
def test_elkan_noto_learns_hardly_anything_from_rows_of_hardly_any_weight(method):
    """Half of the rows, which say the opposite, weigh a thousandth: every other row above 0 is labelled, none below."""
    x = np.tile(np.linspace(-1.0, 1.0, 200), 2)
    opposite = np.arange(400) >= 200
    labels = (x > 0) != opposite
    weight = np.where(opposite, 1e-3, 1.0)

    model = SoftLabelClassifier(method, rounds=50, threads=1)
    model.fit(pd.DataFrame({"x": x}), labels.astype(float), is_labeled=labels, sample_weight=weight)

    score = model.predict_proba(pd.DataFrame({"x": [-0.5, 0.5]}))[:, 1]
    assert score[1] - score[0] > 0.5
    if method == "elkan_noto":
        assert model.model_.divisor > 0.85


def test_elkan_noto_finds_the_share_of_positives_that_were_labelled():
    """Under SCAR and separable classes c is the share itself: 0.4 here, within three standard errors."""
    rng = np.random.default_rng(1)
    truth = rng.random(3000) < 0.3
    X = pd.DataFrame({"x": truth + 0.05 * rng.normal(size=3000)})
    labels = truth & (rng.random(3000) < 0.4)

    model = SoftLabelClassifier("elkan_noto", rounds=100, threads=1).fit(X, labels.astype(float), is_labeled=labels)

    error = np.sqrt(0.4 * 0.6 / truth.sum())
    assert model.model_.divisor == pytest.approx(0.4, abs=3 * error + 0.01)


def test_weights_of_hidden_positives_follow_bayes():
    """With P(labelled|x) = c·f, the chance that an unlabelled row is positive is f(1−c)/(1−c f)."""
    f, c = np.array([0.1, 0.5, 0.9]), 0.3

    weight = hidden_positive(np.zeros(3, dtype=bool), c * f, c)

    assert weight == pytest.approx(f * (1 - c) / (1 - c * f))


def test_the_hold_out_is_stratified():
    """An unstratified hold-out of rare labels may hold none of them, and then c is undefined."""
    labels = np.zeros(1000, dtype=bool)
    labels[[3, 500, 700, 999]] = True

    fold = inner_folds(labels, None, 4, seed=0)

    assert sorted(fold[labels]) == [0, 1, 2, 3]
    assert np.ptp(np.bincount(fold)) <= 1


def test_inner_folds_keep_groups_together_and_spread_the_labels():
    rng = np.random.default_rng(0)
    groups, labels = rng.integers(0, 60, 1000), rng.random(1000) < 0.1

    fold = inner_folds(labels, groups, 4, seed=0)

    assert all(np.unique(fold[groups == group]).size == 1 for group in range(60))
    assert np.ptp(np.bincount(fold[labels])) <= 5


@pytest.mark.parametrize("labeled_groups", [3, 4, 5, 7])
def test_groups_without_labels_are_spread_evenly_however_many_have_one(labeled_groups):
    groups = np.repeat(np.arange(100), 3)
    labels = groups < labeled_groups

    fold = inner_folds(labels, groups, 4, seed=0)

    assert np.ptp(np.bincount(fold, minlength=4)) <= 3
    assert np.ptp(np.bincount(fold[labels], minlength=4)) <= 3


def test_one_group_alone_cannot_be_split():
    with pytest.raises(TrainingError, match="All rows belong to one group"):
        inner_folds(np.array([True, False]), np.array([7, 7]), 2, seed=0)


def test_a_bag_holds_each_labelled_row_once_and_a_bootstrap_of_the_rest(case):
    fitter = LearnerFitter("lightgbm", {}, {"bags": 3, "bag_ratio": 1.0, "seed": 0}, FitMonitor())

    for times in bag_counts(rows_of(case), fitter):
        assert (times[case.is_labeled] == 1).all()
        assert times[~case.is_labeled].sum() == case.is_labeled.sum()


def test_bagging_averages_its_bags(case):
    rows = rows_of(case)

    model = METHODS["bagging_pu"].fit(rows, {**TREES, "bags": 3})

    by_hand = np.mean([part.score_rows(rows.features) for part in model.parts], axis=0)
    assert model.score_rows(rows.features) == pytest.approx(by_hand)


@pytest.mark.parametrize("labels", [1, 2, 3])
def test_bagging_with_a_handful_of_labels_is_no_constant(labels):
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"x": rng.normal(size=300), "y": rng.normal(size=300)})
    is_labeled = np.zeros(300, dtype=bool)
    is_labeled[np.argsort(X["x"])[-20 : -20 + labels]] = True

    model = SoftLabelClassifier("bagging_pu", threads=1, bags=10).fit(X, is_labeled.astype(int))

    score = model.predict_proba(X)[:, 1]
    assert np.unique(score).size > 10
    assert np.corrcoef(score, X["x"])[0, 1] > 0.3


def test_soft_bagging_learns_something_from_bags_of_twenty_rows():
    """LightGBM with 20 rows per leaf returns a constant on such bags; the leaf size adapts."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=300)})
    labels = (X["x"] > 1.2).to_numpy() & (rng.random(300) < 0.3)
    soft = np.where(labels, 1.0, expit(X["x"].to_numpy() - 1))

    score = SoftLabelClassifier("soft_bagging", threads=1).fit(X, soft, is_labeled=labels).predict_proba(X)[:, 1]

    assert labels.sum() < 20
    assert np.corrcoef(score, X["x"])[0, 1] > 0.6


def test_nnpu_risk_equals_its_definition():
    rng = np.random.default_rng(0)
    margin, target, prior = rng.normal(size=50), (rng.random(50) < 0.4).astype(float), 0.25
    positive, unlabeled = margin[target == 1], margin[target == 0]
    negative = (expit(unlabeled).mean() - prior * expit(positive).mean()) / (1 - prior)
    risk = 0.5 * expit(-positive).mean() + 0.5 * max(0, negative)

    assert NonNegativePu(prior)(margin, target, np.ones(50))[0] == pytest.approx(risk)


@pytest.mark.parametrize("loss", [soft_cross_entropy, NonNegativePu(0.25)], ids=["soft cross-entropy", "nnPU"])
def test_slopes_of_the_losses_match_differences(loss):
    rng = np.random.default_rng(0)
    margin, target, weight = rng.normal(size=8), (rng.random(8) < 0.5).astype(float), rng.random(8) + 0.5

    def moved(place, step):
        return loss(margin + step * np.eye(8)[place], target, weight)[0]

    by_differences = [(moved(place, 1e-6) - moved(place, -1e-6)) / 2e-6 for place in range(8)]
    assert loss(margin, target, weight)[1] == pytest.approx(by_differences, abs=1e-6)


def test_nnpu_climbs_back_when_the_negative_part_falls_below_zero():
    margin, target = np.array([5.0, 5.0, -5.0]), np.array([1.0, 1.0, 0.0])

    risk, slope = NonNegativePu(0.9)(margin, target, np.ones(3))

    assert risk == pytest.approx(0.5 * expit(-5.0))
    assert slope[2] < 0, "the margin of the unlabelled row rises, since it was pushed too low"


@pytest.mark.parametrize("prior", [None, 0.02])
def test_nnpu_ranks_rare_positives_forwards(prior):
    """Two positives in a hundred rows: under a risk weighted by the prior, calling every row negative is the best."""
    rng = np.random.default_rng(0)
    truth = rng.random(4000) < 0.02
    X = pd.DataFrame(rng.normal(size=(4000, 5)), columns=list("abcde")) + 1.5 * truth[:, None]
    labels = truth & (rng.random(4000) < 0.5)

    model = SoftLabelClassifier("nnpu", prior=prior).fit(X, labels.astype(float), is_labeled=labels)

    score = model.predict_proba(X)[:, 1]
    assert auc_spu_score(truth.astype(float), score) > 0.9
    assert score.max() > 0.5


def test_nnpu_uses_the_prior_among_unlabelled_rows(case):
    """π is the share among all rows; unlabelled rows have lost the labelled positives: π_U = (π − ρ)/(1 − ρ)."""
    from spu_core.models.learners import NnpuNetwork

    labeled = case.is_labeled.mean()
    loss = NnpuNetwork(prior=0.4)._loss(case.is_labeled.astype(float), np.ones(len(case.X)))

    assert loss.unlabeled_prior == pytest.approx((0.4 - labeled) / (1 - labeled))


def test_nnpu_refuses_a_prior_below_the_labelled_share(case):
    with pytest.raises(TrainingError, match="of the rows are labelled already; give a prior above that share"):
        METHODS["nnpu"].fit(rows_of(case), {"prior": 0.01})


def test_nnpu_estimates_the_prior_when_none_is_given(case):
    model = METHODS["nnpu"].fit(rows_of(case), {"rounds": 2})

    assert case.is_labeled.mean() < model.prior < 0.95


def test_the_e_step_of_sar_em_is_bayes():
    assert e_step(np.array([False]), np.array([0.6]), np.array([0.25])) == pytest.approx(0.6 * 0.75 / (1 - 0.15))


def test_sar_em_names_a_propensity_column_that_is_not_there(case):
    with pytest.raises(TrainingError, match=r"Propensity column 'agee' is not a feature\. Did you mean 'age'"):
        METHODS["sar_em"].fit(rows_of(case), {"propensity_columns": ("agee",)})


def test_sar_em_corrects_labels_that_favour_one_column():
    """Labels are given mostly where `seen` is high; labelled-vs-rest learns `seen`, SAR-EM learns it less."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=4000), "seen": rng.normal(size=4000)})
    truth = rng.random(4000) < expit(2 * X["x"] - 1)
    labels = truth & (rng.random(4000) < 0.6 * expit(3 * X["seen"]))

    def pull_of_seen(key, **settings):
        model = SoftLabelClassifier(key, **settings).fit(X, labels.astype(float), is_labeled=labels).model_
        return abs(model.coef_[1] / model.coef_[0])

    blind = pull_of_seen("labeled_vs_rest", learner="logistic")
    assert pull_of_seen("sar_em", propensity_columns=("seen",), em_steps=60) < 0.5 * blind


def test_soft_as_feature_sees_the_rule_score_and_never_the_soft_label(case):
    rows = rows_of(case)
    other_s = TrainingRows(rows.features, 1 - case.soft_label, case.is_labeled, case.rule_score)

    scores = [
        METHODS["soft_as_feature"].fit(r, TREES).score_rows(rows.features, case.rule_score) for r in (rows, other_s)
    ]

    assert np.array_equal(*scores)


def test_two_stage_learns_the_cross_fitted_belief(case):
    rows = rows_of(case)
    blind = rows.without_rule_columns()
    fitter = LearnerFitter("lightgbm", TREES, {"seed": 0}, FitMonitor())
    smooth = fitter.out_of_fold(blind, case.soft_label, folds=4, of=5)

    model = METHODS["two_stage"].fit(rows, TREES)

    by_hand = SoftLightGBM(**TREES, seed=4).fit_rows(rows.features, np.where(case.is_labeled, 1.0, smooth))
    assert np.array_equal(model.score_rows(rows.features), by_hand.score_rows(rows.features))


def test_logistic_on_hard_labels_matches_scikit_learn(case):
    model = SoftLabelClassifier("logistic", ridge=2.0).fit(case.X[["income"]], case.truth)
    matrix = model.model_.view_.transform_rows(model.encoder_.transform(case.X[["income"]]))

    theirs = LogisticRegression(C=0.5, tol=1e-10).fit(matrix, case.truth)

    assert model.model_.coef_ == pytest.approx(theirs.coef_[0], rel=1e-4)


def test_logistic_on_soft_labels_equals_two_weighted_copies_of_each_row(case):
    """The definition of soft cross-entropy: a row counts as s positive and 1 − s negative."""
    model = SoftLabelClassifier("logistic", ridge=1.0).fit(case.X[["income", "age"]], case.soft_label)
    matrix = model.model_.view_.transform_rows(model.encoder_.transform(case.X[["income", "age"]]))
    s = case.soft_label

    twice = LogisticRegression(C=1.0, tol=1e-10).fit(
        np.vstack([matrix, matrix]), np.repeat([1, 0], len(s)), sample_weight=np.concatenate([s, 1 - s])
    )

    assert model.model_.coef_ == pytest.approx(twice.coef_[0], rel=1e-4)


def test_neighbours_average_the_soft_labels_of_the_nearest_rows():
    X, soft = np.arange(20.0).reshape(-1, 1), np.linspace(0, 1, 20)
    model = METHODS["nearest_neighbors"].fit(
        TrainingRows(Features.of(X), soft, np.zeros(20, dtype=bool)), {"neighbors": 3, "threads": 1}
    )

    assert model.score_rows(Features.of(np.array([[10.0]]))) == pytest.approx(soft[9:12].mean())


@pytest.mark.parametrize("splits", ["random", "best"])
def test_the_forest_of_plain_arrays_scores_like_scikit_learn(splits, case):
    from spu_core.models import SoftForest

    features = Encoder().fit(case.X).transform(case.X)
    model = SoftForest(rounds=7, splits=splits, threads=1)

    forest = model._grow(features.matrix, case.soft_label, None, FitMonitor())

    model.fit_rows(features, case.soft_label)
    assert model.score_rows(features) == pytest.approx(forest.predict(features.matrix))


@pytest.mark.parametrize("target", [any_belief, above_threshold])
def test_a_cut_that_leaves_one_class_is_told(target):
    rows = TrainingRows(Features.of(np.zeros((3, 1))), np.ones(3), np.zeros(3, dtype=bool))

    with pytest.raises(TrainingError, match="in every row, so there are not two classes"):
        target(rows, {"threshold": 0.5})
