"""Fused: rules are used where labels bear them out, set aside where not, and never needed."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit
from sklearn.metrics import roc_auc_score

from spu_core.models import METHODS, Encoder, SoftForest, SoftLabelClassifier, TrainingRows, model_from_state
from spu_core.models.methods import fused as recipe
from spu_core.models.methods.fused import BEFORE_THE_FOREST, PRIOR_WEIGHT, FusedModel, fit_stack

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

    weights = METHODS["fused"].fit(rows_with(case, wrong), FAST).stack_weights

    assert weights["rule score"] < 0.05
    assert min(weights.values()) >= 0


def test_trusted_rules_keep_their_weight(case):
    rows = rows_with(case, np.random.default_rng(0).choice([0.0, 0.6], len(case.X)))

    doubted, trusted = (
        METHODS["fused"].fit(rows, {**FAST, "trust_rules": on}).stack_weights["rule score"] for on in (False, True)
    )

    assert trusted > doubted + 0.1


def test_with_few_labels_the_stack_stays_at_its_prior(case):
    rows = rows_with(case, case.rule_score)
    labels = np.zeros(len(rows), dtype=bool)
    labels[:2] = True
    few = TrainingRows(rows.features, rows.soft_label, labels, case.rule_score)

    weight = fit_stack(np.zeros((len(rows), 6)), tuple(PRIOR_WEIGHT), few, trust_rules=False)

    assert weight[1:] == pytest.approx([0.5, 0.5, 0.5, 0.1, 0.1, 0.1], abs=1e-3)


def test_scores_have_the_mean_of_the_posterior_on_training_rows_or_near(case):
    rows = rows_with(case, case.rule_score)

    model = METHODS["fused"].fit(rows, FAST)

    mean = model.score_rows(rows.features, case.rule_score).mean()
    assert mean == pytest.approx(model.refined_soft_label.mean(), abs=0.05)


def weak_world(seed=0, rows=3000):
    """Labels drawn at random from the positives, and a rule that is right but weak: it reads a poor column."""
    rng = np.random.default_rng(seed)
    truth = rng.random(rows) < 0.3
    X = pd.DataFrame(rng.normal(size=(rows, 4)) + np.outer(truth, [1.2, 1.0, 0.8, 0.3]), columns=list("abcd"))
    labels = truth & (rng.random(rows) < 0.15)
    score = np.where(X["d"] > 1.0, 0.4, 0.0)
    features = Encoder().fit(X).transform(X)
    return TrainingRows(features, np.where(labels, 1.0, score), labels, score, rule_columns=("d",)), truth


def test_a_weak_rule_is_not_mistaken_for_a_sign_of_selected_labels():
    """Scores learnt from the labels foresee them far better than a weak rule does; that must not favour the rule."""
    rows, truth = weak_world()
    part, rest = np.arange(1500), np.arange(1500, 3000)
    train, fresh = rows.take(part), rows.take(rest)
    alone = replace(train, soft_label=train.is_labeled.astype(float), rule_score=None)

    with_rule, without = (METHODS["fused"].fit(each, FAST) for each in (train, alone))

    score = with_rule.score_rows(fresh.features, fresh.rule_score), without.score_rows(fresh.features)
    with_auc, without_auc = (roc_auc_score(truth[rest], each) for each in score)
    assert with_rule.hedge == 0.0
    assert with_auc > without_auc - 0.005


def old_model(case, hedge):
    """A model as earlier versions stored it: no forest, ingredients without names, a hedge."""
    rows = rows_with(case, case.rule_score)
    model = METHODS["fused"].fit(rows, FAST)
    kept = [place for place, name in enumerate(model.ingredients) if name in BEFORE_THE_FOREST]
    parts = [part for part in model.parts if not isinstance(part, SoftForest)]
    numbers = {name: getattr(model, name)[kept] for name in ("center", "scale")}
    weight = model.weight[[0, *(place + 1 for place in kept)]]
    old = FusedModel(
        tuple(parts), model.folds, **numbers, weight=weight, ends=model.ends, ingredients=BEFORE_THE_FOREST, hedge=hedge
    )
    return old, rows


def test_a_model_of_an_earlier_version_scores_with_its_hedge_and_is_stored_as_it_was(case):
    old, rows = old_model(case, hedge=0.4)
    description, blobs = old.to_state()

    again = model_from_state((description, blobs))

    assert "ingredients" not in description
    assert again.ingredients == BEFORE_THE_FOREST
    assert again.to_state()[0] == description
    score = old.score_rows(rows.features, rows.rule_score)
    assert np.array_equal(again.score_rows(rows.features, rows.rule_score), score)
    unhedged = replace(old, hedge=0.0).score_rows(rows.features, rows.rule_score)
    # By hand: the hedge adds the sum of the three standardised ingredients from rules to the line.
    columns = [recipe.margin(old.parts[at : at + 4], rows.features) for at in (8, 12)]
    z = (np.column_stack([*columns, rows.rule_score]) - old.center[2:]) / old.scale[2:]
    assert logit(score) - logit(unhedged) == pytest.approx(old.ends[4] * 0.4 * z.sum(axis=1), abs=1e-6)


def test_a_model_comes_back_from_its_state_and_names_its_ingredients(case):
    rows = rows_with(case, case.rule_score)
    model = METHODS["fused"].fit(rows, FAST)

    again = model_from_state(model.to_state())

    assert again.stack_weights == model.stack_weights
    assert tuple(again.stack_weights) == tuple(PRIOR_WEIGHT)
    assert again.hedge == 0.0
    score = model.score_rows(rows.features, case.rule_score)
    assert np.array_equal(again.score_rows(rows.features, case.rule_score), score)


def rings(rows, labels, seed=0):
    """Positives lie in the middle of two columns: no linear score finds them, and small trees need many splits."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(rows, 6)), columns=list("abcdef"))
    truth = (X["a"] ** 2 + X["b"] ** 2 < 0.8).to_numpy()
    is_labeled = np.zeros(rows, dtype=bool)
    is_labeled[rng.choice(np.flatnonzero(truth), labels, replace=False)] = True
    return Encoder().fit(X).transform(X), truth, is_labeled


def test_the_forest_helps_where_columns_interact(monkeypatch):
    """True AUC on fresh rows, against the same recipe without the forest."""
    made = recipe._ingredients

    def fresh_auc(seed):
        features, truth, is_labeled = rings(1600, 60, seed)
        rows = TrainingRows(features, is_labeled.astype(float), is_labeled).take(np.arange(1600) < 800)
        model = METHODS["fused"].fit(rows, {"threads": 1, "seed": seed})
        return roc_auc_score(truth[800:], model.score_rows(features.take(np.arange(800, 1600))))

    with_forest = [fresh_auc(seed) for seed in range(3)]
    monkeypatch.setattr(recipe, "_ingredients", lambda *given: made(*given)[:2])
    without = [fresh_auc(seed) for seed in range(3)]

    assert np.mean(with_forest) > np.mean(without) + 0.004


def test_a_forest_learns_from_all_labels_and_a_bounded_number_of_other_rows(monkeypatch):
    monkeypatch.setattr(recipe, "FOREST_ROWS", 100)
    features, _, is_labeled = rings(900, 30)
    seen = []
    grow = SoftForest._grow

    def spy(self, matrix, target, weight, monitor):
        seen.append((len(matrix), target.sum()))
        return grow(self, matrix, target, weight, monitor)

    monkeypatch.setattr(SoftForest, "_grow", spy)
    METHODS["fused"].fit(TrainingRows(features, is_labeled.astype(float), is_labeled), FAST)

    assert [rows for rows, _ in seen] == [100] * 4
    assert sum(labels for _, labels in seen) == 3 * 30  # each label is outside of one of the four folds
