"""Feature effects: the columns that carry the signal come first, and SHAP values add up."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logit

from spu_core.errors import TrainingError
from spu_core.training import Candidate, cross_fit, gain_importance, permutation_importance, shap_values

FEW = {"rounds": 20}


@pytest.fixture(scope="module")
def runs(world):
    from spu_core.training import TrainConfig

    table, soft_labels = world
    keys = ("lightgbm", "xgboost", "soft_as_feature", "elkan_noto", "fused")
    candidates = [Candidate(key, {**FEW, "keep_rule_columns": True}) for key in keys]
    listed = cross_fit(table, soft_labels, [*candidates, "rule_score", "logistic"], TrainConfig(folds=3, threads=1))
    return {run.name: run for run in listed}


def test_shuffling_the_column_that_rules_read_costs_most(runs):
    table = permutation_importance(runs["lightgbm"], repeats=3)

    assert table["column"][0] == "a"
    assert table["importance"][0] > 0.1
    assert set(table["column"]) == {"a", "b", "c", "d", "job"}


def test_importance_is_repeated_to_the_bit_and_touches_no_stored_row(runs):
    run = runs["lightgbm"]
    before = run.need_data().rows.features.matrix.copy()
    one, two = permutation_importance(run, repeats=2), permutation_importance(run, repeats=2)

    assert one.equals(two)
    np.testing.assert_array_equal(run.need_data().rows.features.matrix, before)


def test_a_dropped_column_has_no_importance(world, quick):
    table, soft_labels = world
    run = cross_fit(table, soft_labels, [Candidate("lightgbm", FEW)], quick)[0]
    found = permutation_importance(run, repeats=2).set_index("column")

    assert found.loc["a", "importance"] == 0.0


def test_the_rule_score_counts_as_a_column_where_it_is_read(runs):
    table = permutation_importance(runs["rule_score"], repeats=2)

    assert table["column"][0] == "rule score"
    assert table["importance"][1:].tolist() == [0.0] * 5


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "soft_as_feature", "elkan_noto", "fused"])
def test_gains_are_shares_by_column(runs, name):
    table = gain_importance(runs[name].fit_all())

    assert table["gain"].sum() == pytest.approx(1.0)
    assert (table["gain"].diff().dropna() <= 0).all()
    if name in ("lightgbm", "xgboost"):
        assert table["column"][0] == "a"
    if name == "soft_as_feature":
        assert "rule score" in set(table["column"])


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "soft_as_feature"])
def test_shap_values_add_up_to_the_log_odds_of_the_score(world, runs, name):
    table, soft_labels = world
    fitted = runs[name].fit_all()
    values = shap_values(fitted, table.frame, soft_labels.rule_score)
    score = fitted.score(table.frame, soft_labels.rule_score)

    assert "baseline" in values.columns
    np.testing.assert_allclose(values.sum(axis=1), logit(score), atol=1e-4)


def test_methods_without_one_booster_say_what_to_use_instead(runs, world):
    table, _ = world
    with pytest.raises(TrainingError, match="does not end in one booster"):
        shap_values(runs["fused"].fit_all(), table.frame)
    with pytest.raises(TrainingError, match="has no boosted trees, so no gains"):
        gain_importance(runs["logistic"].fit_all())
    with pytest.raises(TrainingError, match="reads the rule score of each row"):
        shap_values(runs["soft_as_feature"].fit_all(), table.frame)


def test_gains_of_xgboost_are_the_total_gains_of_its_trees(runs):
    fitted = runs["xgboost"].fit_all()
    total = fitted.model.booster_.get_score(importance_type="total_gain")

    found = gain_importance(fitted)["gain"].to_numpy()

    assert np.sort(found[found > 0]) == pytest.approx(np.sort(list(total.values())) / sum(total.values()))
