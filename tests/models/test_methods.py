"""What holds for every method: it ranks better than chance, repeats itself, survives being written down."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_info, threadpool_limits

from spu_core.errors import ScoreError, TrainingError
from spu_core.models import METHODS, Encoder, Features, SoftLabelClassifier, TrainingRows, method, model_from_state
from spu_core.models.learners.classic import fit_logistic
from spu_core.models.learners.network import SoftNetwork
from spu_core.models.model import FitMonitor


def fitted(any_method, case):
    key, settings = any_method
    return SoftLabelClassifier(key, **settings).fit(case.X, case.soft_label, **case.beliefs)


def scores(model, case, rows=slice(None)):
    return model.predict_proba(case.X[rows], rule_score=case.rule_score[rows])[:, 1]


def test_the_registry_holds_the_promised_methods(fast_settings):
    """The fast settings name every promised method but the convolutional network."""
    assert sorted(METHODS) == sorted([*fast_settings, "cnn"])


def test_every_method_ranks_better_than_chance_with_probabilities(any_method, case):
    score = scores(fitted(any_method, case), case)

    assert roc_auc_score(case.truth, score) > 0.6
    assert score.min() >= 0.0
    assert score.max() <= 1.0


def test_every_method_gives_equal_scores_when_fitted_again(any_method, case):
    assert np.array_equal(scores(fitted(any_method, case), case), scores(fitted(any_method, case), case))


def test_scores_of_a_row_do_not_depend_on_the_rows_that_come_with_it(any_method, case):
    model = fitted(any_method, case)

    alone = np.concatenate([scores(model, case, slice(row, row + 1)) for row in range(5)])

    assert alone == pytest.approx(scores(model, case)[:5], abs=1e-12)


def test_the_order_of_columns_does_not_matter(any_method, case):
    model = fitted(any_method, case)

    turned = model.predict_proba(case.X[case.X.columns[::-1]], rule_score=case.rule_score)[:, 1]

    assert np.array_equal(turned, scores(model, case))


def test_labels_of_rows_left_out_change_nothing(any_method, case):
    """The leakage law: encoder and bins see all rows, labels, S and truth only the training rows."""
    key, settings = any_method
    features = Encoder().fit(case.X).transform(case.X)
    train = np.arange(len(case.X)) % 3 != 0

    def score_with(flip):
        changed = np.where(train, case.is_labeled, case.is_labeled ^ flip)
        soft = np.where(train, case.soft_label, 1 - case.soft_label if flip else case.soft_label)
        truth = np.where(train, case.truth, case.truth ^ flip)
        rows = TrainingRows(features, soft, changed, case.rule_score, truth, rule_columns=case.rule_columns)
        model = METHODS[key].fit(rows.take(train), settings)
        return model.score_rows(features.take(~train), case.rule_score[~train])

    assert np.array_equal(score_with(False), score_with(True))


def test_groups_and_weights_are_accepted(any_method, case):
    key, settings = any_method
    groups, weight = np.arange(len(case.X)) // 4, np.linspace(0.5, 1.5, len(case.X))

    model = SoftLabelClassifier(key, **settings)
    model.fit(case.X, case.soft_label, groups=groups, sample_weight=weight, **case.beliefs)

    assert np.isfinite(scores(model, case)).all()


FRESH_PROCESS = """
import json, sys
import numpy as np, pandas as pd
from spu_core.models import FittedEncoder, model_from_state
folder = sys.argv[1]
X = pd.read_parquet(folder + "/X.parquet")
rule_score = np.load(folder + "/rule_score.npy")
for key in json.load(open(folder + "/keys.json")):
    saved = json.load(open(f"{folder}/{key}.json"))
    blobs = {}
    for name, place in saved["blobs"].items():
        raw = open(f"{folder}/{place}", "rb").read()
        blobs[name] = np.load(f"{folder}/{place}", allow_pickle=False) if place.endswith(".npy") else raw
    model = model_from_state((saved["description"], blobs))
    features = FittedEncoder.from_dict(saved["encoder"]).transform(X)
    np.save(f"{folder}/{key}.again.npy", model.score_rows(features, rule_score))
"""


def write_state(folder, key, model):
    description, blobs = model.model_.to_state()
    places = {}
    for number, (name, blob) in enumerate(blobs.items()):
        places[name] = f"{key}.{number}.{'npy' if isinstance(blob, np.ndarray) else 'bin'}"
        if isinstance(blob, np.ndarray):
            np.save(folder / places[name], blob, allow_pickle=False)
        else:
            (folder / places[name]).write_bytes(blob)
    saved = {"description": description, "blobs": places, "encoder": model.encoder_.to_dict()}
    (folder / f"{key}.json").write_text(json.dumps(saved, allow_nan=False))


def test_states_bring_back_every_model_to_the_bit_in_a_fresh_process(case, fast_settings, tmp_path):
    case.X.to_parquet(tmp_path / "X.parquet")
    np.save(tmp_path / "rule_score.npy", case.rule_score)
    (tmp_path / "keys.json").write_text(json.dumps(sorted(fast_settings)))
    expected = {}
    for key, settings in fast_settings.items():
        model = fitted((key, settings), case)
        write_state(tmp_path, key, model)
        expected[key] = scores(model, case)

    subprocess.run([sys.executable, "-c", FRESH_PROCESS, str(tmp_path)], check=True)

    differing = [
        key for key in fast_settings if not np.array_equal(np.load(tmp_path / f"{key}.again.npy"), expected[key])
    ]
    assert differing == []


def test_an_unknown_kind_of_state_is_named():
    with pytest.raises(ValueError, match="A model of kind 'magic' is not known; known are average"):
        model_from_state(({"kind": "magic"}, {}))


def test_rule_columns_are_dropped_for_soft_labels_and_kept_for_baselines(case):
    soft = SoftLabelClassifier("lightgbm", rounds=5, threads=1).fit(case.X, case.soft_label, **case.beliefs)
    labels = SoftLabelClassifier("labeled_vs_rest", rounds=5, threads=1).fit(case.X, case.soft_label, **case.beliefs)

    sign = list(case.X).index("sign")
    assert sign not in soft.model_.active_
    assert sign in labels.model_.active_


def test_a_model_without_rule_columns_scores_rows_that_lack_them(case):
    model = SoftLabelClassifier("lightgbm", rounds=5, threads=1).fit(case.X, case.soft_label, **case.beliefs)
    needed = [model.encoder_.names[place] for place in model.model_.active_]

    features = model.encoder_.transform(case.X.drop(columns="sign"), needed)

    assert np.array_equal(model.model_.score_rows(features), scores(model, case))


@pytest.mark.parametrize("key", ["fused", "labeled_vs_rest", "elkan_noto", "bagging_pu", "nnpu", "sar_em"])
def test_methods_of_labels_take_a_soft_label_of_1_as_confirmed_and_refuse_tables_without_one(key, case, fast_settings):
    model = SoftLabelClassifier(key, **fast_settings[key])
    told = clone(model).fit(case.X, case.soft_label, is_labeled=case.is_labeled).predict_proba(case.X)

    assert np.array_equal(model.fit(case.X, case.soft_label).predict_proba(case.X), told)
    with pytest.raises(TrainingError, match="learns from confirmed cases, but no row is labelled"):
        model.fit(case.X, case.rule_score)


@pytest.mark.parametrize("key", ["rule_score", "soft_as_feature", "fused"])
def test_methods_that_read_the_rules_ask_for_the_rule_score_of_new_rows(key, case, fast_settings):
    model = fitted((key, fast_settings[key]), case)

    with pytest.raises(ScoreError, match="reads the rule score of each row"):
        model.predict_proba(case.X)


def test_an_unknown_method_or_setting_gets_the_nearest_name():
    with pytest.raises(TrainingError, match=r"There is no method 'lightgmb'\. Did you mean 'lightgbm'"):
        method("lightgmb")
    with pytest.raises(TrainingError, match=r"Method 'fused' has no setting 'trust_rule'\. Did you mean 'trust_rules'"):
        METHODS["fused"].complete({"trust_rule": True})


def test_settings_say_their_law():
    with pytest.raises(TrainingError, match=r"learning_rate must be a number from 0.0001 to 1.0, got 7."):
        METHODS["lightgbm"].complete({"learning_rate": 7.0})
    with pytest.raises(TrainingError, match=r"labeled_vs_rest can use the learners 'lightgbm', .* got 'svm'"):
        METHODS["labeled_vs_rest"].complete({"learner": "svm"})


@pytest.mark.parametrize("key", sorted(METHODS))
def test_every_default_obeys_its_own_law_and_every_setting_has_help(key):
    for setting in METHODS[key].settings():
        assert setting.check(setting.default) == setting.default
        assert setting.help.endswith(".")


def test_the_classifier_clones_and_changes_its_settings():
    model = SoftLabelClassifier("bagging_pu", bags=3, learner="xgboost", max_depth=2)

    twin = clone(model).set_params(bags=4)

    assert twin.get_params()["max_depth"] == 2
    assert (model.get_params()["bags"], twin.get_params()["bags"]) == (3, 4)
    assert repr(twin.set_params(method="logistic")) == "SoftLabelClassifier('logistic')"


def test_classes_of_other_dtypes_keep_their_names(case):
    y = np.where(case.truth, "yes", "no")

    model = SoftLabelClassifier("labeled_vs_rest", rounds=10, threads=1).fit(case.X, y)

    assert set(model.predict(case.X)) <= {"no", "yes"}
    assert model.predict(case.X)[np.argmax(model.predict_proba(case.X)[:, 1])] == "yes"


def test_baselines_take_any_learner(case):
    for learner in ("xgboost", "logistic", "nearest_neighbors"):
        model = SoftLabelClassifier("labeled_vs_rest", learner=learner).fit(case.X, case.soft_label, **case.beliefs)
        assert roc_auc_score(case.truth, scores(model, case)) > 0.6


def test_the_table_given_is_left_as_it_was(any_method, case):
    before = case.X.copy()

    fitted(any_method, case)

    pd.testing.assert_frame_equal(case.X, before)


def test_linear_algebra_of_a_fit_keeps_to_one_thread():
    """Two threads of BLAS wait for each other in small products, ten times as long as one needs on a busy machine."""
    X, seen = np.random.default_rng(0).normal(size=(300, 3)), []
    target = 1 / (1 + np.exp(-X[:, 0]))

    def look(_):
        seen.extend(each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas")

    with threadpool_limits(limits=2, user_api="blas"):
        before = threadpool_info()
        fit_logistic(X, target, np.ones(300), 1.0, 5, look)
        SoftNetwork(rounds=2).fit_rows(Features.of(X), target, monitor=FitMonitor(on_progress=look))
        assert threadpool_info() == before
    assert set(seen) == {1}
