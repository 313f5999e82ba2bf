"""`SoftLabelClassifier` among scikit-learn's tools."""

import inspect

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline

from spu_core import (
    SoftLabelClassifier,
    auc_spu_score,
    auc_spu_scorer,
    known_positive_auc_score,
    known_positive_auc_scorer,
)
from spu_core.errors import TrainingError
from spu_core.models import METHODS, model_from_state
from spu_core.models.settings import MethodSettings

FAST = {"rounds": 5, "threads": 1}


@pytest.fixture
def model():
    return SoftLabelClassifier("lightgbm", **FAST)


def test_the_second_argument_is_y_and_its_former_name_warns(case, model):
    score = model.fit(X=case.X, y=case.soft_label).predict_proba(case.X)

    with pytest.warns(FutureWarning, match="is now called y"):
        model.fit(case.X, soft_label=case.soft_label)

    assert np.array_equal(model.predict_proba(case.X), score)
    with pytest.raises(TrainingError, match="give y alone"):
        model.fit(case.X, case.soft_label, soft_label=case.soft_label)
    with pytest.raises(ValueError, match="requires y to be passed"):
        model.fit(case.X)


def test_the_score_is_auc_spu_and_for_classes_the_usual_auc(case, model):
    weight = np.linspace(0.5, 2.0, len(case.X))
    score = model.fit(case.X, case.soft_label).predict_proba(case.X)[:, 1]

    assert model.score(case.X, case.soft_label) == auc_spu_score(case.soft_label, score)
    assert model.score(case.X, case.soft_label, weight) == auc_spu_score(case.soft_label, score, sample_weight=weight)

    names = np.where(case.truth, "a", "b")  # the greater class, b, is the labelled one
    score = model.fit(case.X, names).predict_proba(case.X)[:, 1]
    assert model.score(case.X, names) == pytest.approx(roc_auc_score(names == "b", score))


def test_random_state_and_n_jobs_are_names_of_seed_and_threads():
    model = SoftLabelClassifier("lightgbm", random_state=7, n_jobs=1)

    assert repr(model) == "SoftLabelClassifier('lightgbm', seed=7, threads=1)"
    assert clone(model).set_params(random_state=8).get_params()["seed"] == 8
    assert SoftLabelClassifier("lightgbm", n_jobs=-1).get_params()["threads"] >= 1
    unset = SoftLabelClassifier("lightgbm", random_state=None, n_jobs=None)
    assert unset.get_params() == SoftLabelClassifier("lightgbm").get_params()
    with pytest.raises(TrainingError, match="random_state and seed are the same setting"):
        SoftLabelClassifier("lightgbm", random_state=7, seed=7)


def test_unknown_names_are_refused_at_once_and_change_nothing(model):
    before = repr(model)

    with pytest.raises(TrainingError, match=r"Method 'lightgbm' has no setting 'round'. Did you mean 'rounds'\?"):
        model.set_params(round=3)
    with pytest.raises(TrainingError, match=r"Method 'logistic' has no setting 'rounds'"):
        model.set_params(method="logistic", rounds=3)
    with pytest.raises(TrainingError, match="no setting 'round'"):
        SoftLabelClassifier("lightgbm", round=3)

    assert repr(model) == before


def test_every_setting_of_every_method_has_a_name_and_a_type_in_the_signature():
    types = {"integer": "int", "number": "float", "flag": "bool", "choice": "str", "columns": "Sequence[str]"}
    chosen = {(each, learner) for each in METHODS.values() for learner in (each.learners or (None,))}
    known = {setting.name: types[setting.kind] for each, learner in chosen for setting in each.settings(learner)}

    written = {name: str(kind.__forward_arg__) for name, kind in MethodSettings.__annotations__.items()}
    assert written == {name: f"{kind} | None" for name, kind in known.items()}
    shown = inspect.signature(SoftLabelClassifier).parameters
    assert set(shown) == {"method", "random_state", "n_jobs", *known} - {"seed", "threads"}
    assert shown["rounds"].annotation == int | None


def test_none_is_the_default_of_the_method(case):
    model = SoftLabelClassifier("lightgbm", rounds=None, threads=1)

    assert repr(model) == "SoftLabelClassifier('lightgbm', threads=1)"
    assert repr(model.set_params(rounds=5, threads=None)) == "SoftLabelClassifier('lightgbm', rounds=5)"
    assert np.isfinite(model.fit(case.X, case.soft_label).predict_proba(case.X)).all()


def test_the_default_is_the_recommended_method_and_falls_back_where_it_cannot_be_used(case):
    model = SoftLabelClassifier(rounds=5, threads=1)

    assert clone(model).fit(case.X, case.soft_label).method_ == "fused"
    assert clone(model).fit(case.X[["income", "age"]].to_numpy(), case.soft_label).method_ == "fused"
    assert clone(model).fit(case.X, case.rule_score).method_ == "lightgbm"  # no row is confirmed
    assert clone(model).fit(case.X, case.rule_score, is_labeled=case.is_labeled).method_ == "fused"
    assert clone(model).set_params(num_leaves=4).fit(case.X, case.soft_label).method_ == "lightgbm"
    with pytest.raises(TrainingError, match=r"Method 'auto' has no setting 'round'. Did you mean 'rounds'"):
        model.set_params(round=3)


def test_the_default_ranks_hidden_cases_better_than_the_soft_labels_alone_in_a_pipeline(case):
    search = GridSearchCV(make_pipeline(SoftLabelClassifier(n_jobs=1)), {"softlabelclassifier__rounds": [20, 40]}, cv=2)
    auto = search.fit(case.X, case.soft_label).predict_proba(case.X)[:, 1]
    alone = SoftLabelClassifier("lightgbm", **FAST).fit(case.X, case.soft_label).predict_proba(case.X)[:, 1]
    hidden = ~case.is_labeled

    assert roc_auc_score(case.truth[hidden], auto[hidden]) > roc_auc_score(case.truth[hidden], alone[hidden])


def test_without_a_rule_score_the_fused_method_learns_the_rules_from_rows_that_are_not_confirmed(case):
    model = SoftLabelClassifier("fused", **FAST).fit(case.X, case.soft_label, rule_columns=case.rule_columns)
    other = np.where(case.is_labeled, 1.0, case.rule_score[::-1])

    assert set(model.model_.stack_weights) == {
        "label trees",
        "label linear",
        "label forest",
        "rule trees",
        "rule linear",
    }
    changed = clone(model).fit(case.X, other, is_labeled=case.is_labeled, rule_columns=case.rule_columns)
    assert not np.array_equal(changed.predict_proba(case.X), model.predict_proba(case.X))
    state = model_from_state(model.model_.to_state())
    features = model.encoder_.transform(case.X)
    assert np.array_equal(state.score_rows(features), model.model_.score_rows(features))


@pytest.mark.parametrize("unlabelled", [1, 2, 3])
def test_the_fused_method_learns_from_tables_in_which_nearly_all_rows_are_confirmed(unlabelled):
    soft = np.r_[np.ones(12), np.linspace(0.1, 0.5, unlabelled)]

    score = SoftLabelClassifier("fused", **FAST).fit(np.arange(soft.size)[:, None], soft).predict_proba([[0.0]])

    assert np.isfinite(score).all()


def test_a_new_learner_drops_the_settings_that_it_does_not_know(case):
    model = clone(SoftLabelClassifier("labeled_vs_rest", **FAST)).set_params(learner="logistic")

    assert "rounds" not in model.get_params()
    assert np.isfinite(model.fit(case.X, case.truth).predict_proba(case.X)).all()


def test_searches_and_scorers_judge_by_soft_labels(case, model):
    X, soft = case.X, case.soft_label

    by_score = cross_val_score(model, X, soft, cv=2)
    found = cross_validate(
        make_pipeline(model),
        X,
        soft,
        cv=2,
        scoring={"auc_spu": auc_spu_scorer, "known": known_positive_auc_scorer},
        return_estimator=True,
        return_indices=True,
    )
    rows = found["indices"]["test"][0]
    score = found["estimator"][0].predict_proba(X.iloc[rows])[:, 1]

    assert by_score == pytest.approx(found["test_auc_spu"])
    assert found["test_auc_spu"][0] == auc_spu_score(soft[rows], score)
    assert found["test_known"][0] == known_positive_auc_score(soft[rows] == 1, score)
    assert GridSearchCV(model, {"rounds": [2, 4]}, cv=2).fit(X, soft).best_score_ > 0.5


def test_labels_can_be_routed_to_the_fit_and_the_scorer(case, model):
    with sklearn.config_context(enable_metadata_routing=True):
        assert "soft_label" not in model.get_metadata_routing().fit.requests
        result = cross_validate(
            model.set_fit_request(is_labeled=True),
            case.X,
            np.where(case.truth, 1.0, case.soft_label),
            cv=2,
            scoring=known_positive_auc_scorer.set_score_request(is_labeled=True),
            params={"is_labeled": case.is_labeled},
            return_estimator=True,
            return_indices=True,
        )
    rows = result["indices"]["test"][1]
    score = result["estimator"][1].predict_proba(case.X.iloc[rows])[:, 1]

    assert result["test_score"][1] == known_positive_auc_score(case.is_labeled[rows], score)
