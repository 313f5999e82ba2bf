"""Tables that break careless code: each method works on them or says in one sentence why it cannot."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import SpuError
from spu_core.models import SoftLabelClassifier

ROWS = 120


def base():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=ROWS), "z": rng.normal(size=ROWS)})
    labels = (X["x"] > 1).to_numpy()
    rule = np.where(X["z"] > 0, 0.4, 0.0)
    return X, labels, rule


def one_positive():
    X, labels, rule = base()
    only = np.zeros(ROWS, dtype=bool)
    only[np.argmax(labels)] = True
    return X, only, rule


def constant_columns():
    X, labels, rule = base()
    return X.assign(x=1.0, z=2.0), labels, rule


def all_missing():
    X, labels, rule = base()
    return X.assign(x=np.nan, z=None), labels, rule


def wide():
    X, labels, rule = base()
    rng = np.random.default_rng(1)
    more = pd.DataFrame(rng.normal(size=(ROWS, 2_000)), columns=[f"w{k}" for k in range(2_000)])
    return pd.concat([X, more], axis=1), labels, rule


def soft_labels_all_hard():
    X, labels, _ = base()
    return X, labels, np.zeros(ROWS)


def never_one():
    X, _, rule = base()
    return X, np.zeros(ROWS, dtype=bool), rule


def one_class():
    X, _, _ = base()
    return X, np.zeros(ROWS, dtype=bool), np.zeros(ROWS)


def all_labeled():
    X, _, rule = base()
    return X, np.ones(ROWS, dtype=bool), rule


def one_column():
    X, labels, rule = base()
    return X[["x"]], labels, rule


TABLES = {
    table.__name__: table
    for table in (
        one_positive,
        constant_columns,
        all_missing,
        soft_labels_all_hard,
        never_one,
        one_class,
        all_labeled,
        one_column,
    )
}


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:Degrees of freedom")
@pytest.mark.parametrize("table", sorted(TABLES))
def test_a_hostile_table_is_learnt_from_or_refused_in_a_sentence(table, any_method):
    key, settings = any_method
    X, labels, rule = TABLES[table]()
    soft = np.where(labels, 1.0, rule)
    model = SoftLabelClassifier(key, **settings)

    try:
        model.fit(X, soft, is_labeled=labels, rule_score=rule, truth=labels)
    except SpuError as error:
        sentence = str(error)
    else:
        sentence = "It works."
        score = model.predict_proba(X, rule_score=rule)[:, 1]
        assert np.isfinite(score).all()
        assert ((score >= 0) & (score <= 1)).all()
    assert sentence.endswith(".")


@pytest.mark.parametrize("key", ["xgboost", "extra_trees", "fused"])
def test_many_more_columns_than_rows_are_no_obstacle(key, fast_settings):
    """Fused fits LightGBM and logistic regression on them, so these need no turn of their own."""
    X, labels, rule = wide()
    settings = {**fast_settings[key], "rounds": 3} if "rounds" in fast_settings[key] else fast_settings[key]
    settings = {**settings, "folds": 2} if key == "fused" else settings

    model = SoftLabelClassifier(key, **settings)
    model.fit(X, np.where(labels, 1.0, rule), is_labeled=labels, rule_score=rule)

    assert np.isfinite(model.predict_proba(X, rule_score=rule)).all()


@pytest.mark.parametrize("key", ["fused", "logistic", "neural_net", "nearest_neighbors"])
def test_a_table_whose_linear_form_does_not_fit_gets_a_sentence(key, fast_settings, monkeypatch):
    """The encoded table needs 20 MB and fits; its linear form, in double precision, does not."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(10_000, 500)).astype(np.float32), columns=[f"w{k}" for k in range(500)])
    labels = rng.random(10_000) < 0.1
    free = SimpleNamespace(available=30 * 2**20)
    monkeypatch.setattr("psutil.virtual_memory", lambda: free)

    with pytest.raises(SpuError, match=r"The linear form of the table needs \d+ MB .* but the limit is 24 MB"):
        SoftLabelClassifier(key, **{**fast_settings[key], "rounds": 1} if key == "fused" else fast_settings[key]).fit(
            X, labels.astype(float), is_labeled=labels
        )


@pytest.mark.parametrize(
    ("table", "key", "words"),
    [
        ("one_class", "lightgbm", "The soft label is 0 in every row, so there is only one class"),
        ("never_one", "labeled_vs_rest", "learns from confirmed cases, but no row is labelled"),
        (
            "all_labeled",
            "fused",
            "needs unlabelled rows beside the labelled ones, but all 120 rows are labelled",
        ),
        ("one_positive", "elkan_noto", "at least 2 labelled rows are needed, got 1"),
        ("one_class", "oracle", "The truth is the same in every row"),
        ("one_class", "soft_as_positive", "The soft label is above 0 in no row"),
    ],
)
def test_refusals_say_what_is_wrong(table, key, words):
    X, labels, rule = TABLES[table]()

    with pytest.raises(SpuError, match=words):
        SoftLabelClassifier(key).fit(X, np.where(labels, 1.0, rule), is_labeled=labels, rule_score=rule, truth=labels)
