"""Fused: rules are used where labels bear them out, set aside where not, and never needed."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from spu_core.models import METHODS, Encoder, LabelSelection, SoftLabelClassifier, TrainingRows, model_from_state
from spu_core.models.methods.fused import fit_stack

FAST = {"rounds": 20, "threads": 1}


def rows_with(case, rule_score):
    features = Encoder().fit(case.X).transform(case.X)
    soft = case.soft_label if rule_score is None else np.where(case.is_labeled, 1.0, rule_score)
    return TrainingRows(features, soft, case.is_labeled, rule_score, rule_columns=case.rule_columns)


def test_the_refined_soft_label_is_one_for_labels_and_a_belief_elsewhere(case):
    model = SoftLabelClassifier("fused", **FAST).fit(case.X, case.soft_label, **case.beliefs)

    q = model.refined_soft_label_

    assert (q[case.is_labeled] == 1).all()
    assert ((q >= 0) & (q <= 1)).all()
    hidden = ~case.is_labeled
    assert roc_auc_score(case.truth[hidden], q[hidden]) > 0.7


def test_other_methods_have_no_refined_soft_label(case):
    model = SoftLabelClassifier("lightgbm", rounds=2, threads=1).fit(case.X, case.soft_label)

    with pytest.raises(AttributeError, match="lightgbm has no refined soft label"):
        _ = model.refined_soft_label_


@pytest.mark.parametrize("rule_score", [None, 0.0], ids=["no rule score", "rules that never fire"])
def test_without_rules_it_learns_from_labels_and_scores_without_rules(case, rule_score):
    rows = rows_with(case, None if rule_score is None else np.zeros(len(case.X)))

    model = METHODS["fused"].fit(rows, FAST)

    assert not model.uses_rules
    assert roc_auc_score(case.truth, model.score_rows(rows.features)) > 0.75


def test_a_wrong_rule_loses_its_weight_and_is_never_turned_around(case):
    wrong = np.where(case.is_labeled, 0.0, 0.6)

    weight = METHODS["fused"].fit(rows_with(case, wrong), FAST).weight

    assert weight[5] < 0.05
    assert (weight[1:] >= 0).all()


def test_trusted_rules_keep_their_weight(case):
    rows = rows_with(case, np.random.default_rng(0).choice([0.0, 0.6], len(case.X)))

    doubted, trusted = (METHODS["fused"].fit(rows, {**FAST, "trust_rules": on}).weight[5] for on in (False, True))

    assert trusted > doubted + 0.1


def test_with_few_labels_the_stack_stays_at_its_prior(case):
    rows = rows_with(case, case.rule_score)
    labels = np.zeros(len(rows), dtype=bool)
    labels[:2] = True
    few = TrainingRows(rows.features, rows.soft_label, labels, case.rule_score)

    weight = fit_stack(np.zeros((len(rows), 5)), few, trust_rules=False)

    assert weight[1:] == pytest.approx([0.5, 0.5, 0.2, 0.2, 0.2], abs=1e-3)


def test_scores_have_the_mean_of_the_posterior_on_training_rows_or_near(case):
    rows = rows_with(case, case.rule_score)

    model = METHODS["fused"].fit(rows, FAST)

    mean = model.score_rows(rows.features, case.rule_score).mean()
    assert mean == pytest.approx(model.refined_soft_label.mean(), abs=0.05)


def selected_world(*, by_age, rule, seed=0, rows=1500):
    """Columns a…d know the class, `age` knows nothing of it; labels are a share of the positives, or the old ones."""
    rng = np.random.default_rng(seed)
    truth = rng.random(rows) < 0.3
    X = pd.DataFrame(rng.normal(size=(rows, 4)) + 0.6 * truth[:, None], columns=list("abcd"))
    X["age"] = rng.random(rows)
    chance = 0.8 * X["age"] ** 6 if by_age else 0.15
    labels = truth & (rng.random(rows) < chance)
    sign = {"right": 1, "wrong": -1}[rule]
    score = np.where(sign * X["a"] > 0.8, 0.6, 0.0)
    features = Encoder().fit(X).transform(X)
    soft = np.where(labels, 1.0, score)
    return TrainingRows(features, soft, labels, score, rule_columns=("a",)), truth


@pytest.mark.parametrize(
    ("by_age", "rule", "hedged"),
    [(True, "right", True), (False, "right", False), (True, "wrong", False), (False, "wrong", False)],
)
def test_rules_get_a_say_of_their_own_only_where_labels_look_selected_and_the_rules_are_borne_out(by_age, rule, hedged):
    model = METHODS["fused"].fit(selected_world(by_age=by_age, rule=rule)[0], FAST)

    assert (model.hedge > 0) == hedged
    assert (model.selection.share > 0) == hedged


def test_the_hedge_helps_under_selected_labels():
    rows, truth = selected_world(by_age=True, rule="right")
    model = METHODS["fused"].fit(rows, FAST)
    unhedged = replace(model, hedge=0.0)

    gain = np.subtract(*(roc_auc_score(truth, m.score_rows(rows.features, rows.rule_score)) for m in (model, unhedged)))

    assert gain > 0.02


def test_a_hedged_model_comes_back_from_its_state_and_an_older_state_has_no_hedge():
    rows, _ = selected_world(by_age=True, rule="right")
    model = METHODS["fused"].fit(rows, FAST)
    description, blobs = model.to_state()
    older = {name: value for name, value in description.items() if name != "hedge"}

    score = model.score_rows(rows.features, rows.rule_score)

    assert np.array_equal(model_from_state((description, blobs)).score_rows(rows.features, rows.rule_score), score)
    assert model_from_state((older, blobs)).hedge == 0.0


def test_few_labels_bear_out_less_than_many():
    assert not LabelSelection(0.9, 0.62, labels=15).rules_agree
    assert LabelSelection(0.9, 0.62, labels=60).rules_agree
