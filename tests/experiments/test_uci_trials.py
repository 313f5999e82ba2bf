"""A draw labels positives of the training rows by u, keeps patients together, and hides what must be hidden."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spu_core.errors import SpuError
from spu_core.experiments.runners.table1 import LIBRARY_DEFAULTS, honest_methods, paper_pair
from spu_core.experiments.runners.uci import (
    CHANCE,
    draw_trial,
    fit_method,
    known_settings,
    make_trial,
    rule_columns,
)
from spu_core.models import METHODS
from tests.experiments.tables import small_adult, small_diabetes

TABLES = {"adult": small_adult(6000), "diabetes130": small_diabetes()}


def test_labels_are_positives_whose_chance_is_u():
    draw = draw_trial(make_trial("adult", TABLES), seed=0)
    labeled, truth = draw.soft_labels.is_labeled, draw.trial.truth

    assert not (labeled & ~truth).any()
    assert draw.chance.min() >= 0
    assert draw.chance.max() <= 0.5
    # Labelled positives have the density 2u/0.25 on [0, ½], whose mean is ⅓; 0.02 is four standard errors here.
    assert draw.chance[labeled].mean() == pytest.approx(1 / 3, abs=0.02)
    assert draw.train.mean() == pytest.approx(2 / 3, abs=1e-3)


def test_a_grouped_split_never_parts_a_patient():
    draw = draw_trial(make_trial("diabetes_closest", TABLES), seed=1, grouped=True)
    groups = draw.trial.groups

    assert not set(groups[draw.train]) & set(groups[draw.test])
    assert draw.groups.size == draw.train.sum()


def test_a_sample_takes_whole_patients():
    trial = make_trial("diabetes_closest", TABLES)
    sample = trial.sample(300)
    kept = np.isin(trial.groups, sample.groups)

    assert kept.sum() == len(sample.frame)
    assert 200 < kept.sum() < 400


def test_targets_are_not_among_the_features():
    for name, hidden in (
        ("diabetes_closest", ("diag_1", "patient_nbr", "encounter_id")),
        ("diabetes_medicated", ("diabetesMed", "insulin", "change")),
        ("diabetes_readmitted", ("readmitted",)),
        ("adult", ("income",)),
    ):
        assert not set(hidden) & set(make_trial(name, TABLES).frame.columns)


def test_malignant_is_the_positive_class():
    trial = make_trial("breast_cancer", {})

    assert trial.truth.sum() == 212
    assert trial.frame["worst radius"][trial.truth].mean() > trial.frame["worst radius"][~trial.truth].mean()


def test_the_soft_method_does_not_see_rule_columns_and_the_baseline_does():
    """Changing the rule columns of test rows moves the baseline's scores only."""
    draw = draw_trial(make_trial("adult", TABLES), seed=0)
    for method, is_moved in (("lightgbm", False), ("labeled_vs_rest", True)):
        fit = fit_method(draw, method, {"rounds": 20, "threads": 1}, chance_in_x=True)
        seen = fit.frame[draw.test]
        changed = seen.assign(**{name: seen[name].to_numpy()[::-1] for name in rule_columns(draw.trial)})
        assert CHANCE in fit.frame
        assert (not np.array_equal(fit.score(), fit.score(changed))) == is_moved


def test_test_labels_reach_no_score():
    trial = make_trial("adult", TABLES)
    draw = draw_trial(trial, seed=0)
    other = replace(draw, trial=replace(trial, truth=np.where(draw.train, trial.truth, ~trial.truth)))

    scores = [fit_method(each, "oracle", {"rounds": 10, "threads": 1}).score() for each in (draw, other)]
    assert np.array_equal(*scores)


def test_equal_seeds_give_equal_cells():
    trial = make_trial("breast_cancer_few", {})

    first = paper_pair(trial, "lightgbm", 3, chance_in_x=True)
    assert first == paper_pair(trial, "lightgbm", 3, chance_in_x=True)
    assert first != paper_pair(trial, "lightgbm", 4, chance_in_x=True)


def test_the_honest_comparison_holds_every_baseline_of_the_registry():
    listed = {method for method, _ in honest_methods()}

    assert {key for key, method in METHODS.items() if method.group in ("baseline", "ours")} <= listed
    assert {"lightgbm", "xgboost"} <= listed


def test_library_defaults_are_the_libraries_own():
    import lightgbm
    import xgboost  # noqa: F401  (its defaults are documented, not exposed)

    own = lightgbm.LGBMClassifier()
    ours = LIBRARY_DEFAULTS["lightgbm"]
    assert (ours["rounds"], ours["learning_rate"], ours["num_leaves"]) == (
        own.n_estimators,
        own.learning_rate,
        own.num_leaves,
    )
    assert (ours["min_child_samples"], ours["reg_lambda"]) == (own.min_child_samples, own.reg_lambda)


def test_settings_that_a_method_does_not_have_are_left_out():
    assert known_settings("rule_score", None, {"threads": 1, "seed": 2}) == {"seed": 2}
    assert known_settings("labeled_vs_rest", "xgboost", {"max_depth": 3}) == {"learner": "xgboost", "max_depth": 3}


def test_categories_can_be_written_as_numbers():
    trial = make_trial("adult", TABLES).with_codes()

    assert all(dtype.kind in "if" for dtype in trial.frame.dtypes)


def test_an_unknown_trial_names_the_nearest():
    with pytest.raises(SpuError, match=r"There is no trial 'adlt'. Did you mean 'adult'"):
        make_trial("adlt", TABLES)
