"""`SoftLabelClassifier` among scikit-learn's tools."""

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
