"""What people write in a notebook: frames of pandas and polars, rules with comparison signs, plots and tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import polars as pl
import pyarrow as pa
import pytest

import spu_core as spu
from spu_core.errors import BundleError, RuleError, TableError, TrainingError
from spu_core.export import label_rules_of
from spu_core.training import fitting
from spu_core.training.fitting import progress_shown

CONFIG = spu.TrainConfig(folds=2, threads=1)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    found = pd.DataFrame({"age": rng.integers(20, 80, 240), "delay": rng.normal(20, 10, 240), "site": "Bern"})
    found["checked"] = ((found["delay"] + 8 * rng.normal(size=240) > 32) & (rng.random(240) < 0.8)).astype(int)
    return found


@pytest.fixture(scope="module")
def rules():
    return spu.RuleSet((spu.Rule("Late claim", spu.column("delay") > 30, belief=0.6),))


@pytest.fixture(scope="module")
def runs(frame, rules):
    return spu.cross_fit(frame, rules, ["logistic", "rule_score"], CONFIG, label="checked")


def test_cross_fit_takes_a_pandas_or_polars_frame_or_a_table_and_scores_are_equal(frame, rules, runs):
    table = spu.Table.from_frame(frame, roles={"checked": "label"})
    soft_labels = spu.soft_labels_for(table, rules)
    for rows, belief in ((pl.from_pandas(frame), rules), (table, soft_labels), (table, soft_labels.rule_score)):
        [run] = spu.cross_fit(rows, belief, ["rule_score"], CONFIG, label="checked")
        assert np.array_equal(run.score, runs[1].score)


def test_a_table_comes_from_polars_and_arrow_as_from_pandas(frame):
    for given in (pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        table = spu.Table.from_frame(given, roles={"checked": "label"})
        assert dict(table.roles) == dict(spu.Table.from_frame(frame, roles={"checked": "label"}).roles)
        assert np.array_equal(table.frame["delay"], frame["delay"])


def test_fitted_rules_and_bundles_take_polars_frames(frame, rules):
    table, other = spu.Table.from_frame(frame, roles={"checked": "label"}), pl.from_pandas(frame)
    fitted = rules.fit(table)
    [run] = spu.cross_fit(table, rules, ["lightgbm"], CONFIG)
    bundle = spu.Bundle.of(run, label_rules=fitted)

    assert np.array_equal(fitted.apply(other).belief, fitted.apply(frame).belief)
    assert np.array_equal(bundle.predict(other), bundle.predict(frame))
    assert bundle.explain(other, 3) == bundle.explain(frame, 3)
    assert bundle.score(other).frame.equals(bundle.score(frame).frame)


def test_the_classifier_takes_polars_frames(frame):
    X, y = frame[["age", "delay", "site"]], np.where(frame["delay"] > 30, 0.7, 0.1)
    score = spu.SoftLabelClassifier("logistic").fit(X, y).predict_proba(X)

    assert np.allclose(
        spu.SoftLabelClassifier("logistic").fit(pl.from_pandas(X), y).predict_proba(pl.from_pandas(X)), score
    )


def test_metrics_and_the_classifier_take_soft_labels_as_they_are(frame):
    X, score = frame[["age", "delay"]], frame["delay"]
    labels = spu.SoftLabels.from_values(np.where(score > 30, 0.7, 0.1), frame["checked"] == 1)

    assert spu.auc_spu_score(labels, score) == spu.auc_spu_score(labels.value, score)
    found = [spu.SoftLabelClassifier("logistic").fit(X, y).predict_proba(X) for y in (labels, labels.value)]
    assert np.array_equal(*found)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (
            lambda frame: spu.cross_fit("people.csv", None, ["logistic"]),
            TrainingError,
            r"got str; use read_table\(path\)",
        ),
        (lambda frame: spu.cross_fit(3, None, ["logistic"]), TrainingError, r"got int; use Table.from_frame\(frame\)"),
        (
            lambda frame: spu.cross_fit(frame, "rules", ["logistic"]),
            TrainingError,
            r"soft labels must be SoftLabels, got str; for rules as text use RuleSet.from_json\(text\)",
        ),
        (lambda frame: spu.cross_fit(frame, [0.1, 0.2], ["logistic"]), ValueError, "240"),
        (lambda frame: spu.cross_fit(frame, None, ["logistic"], label="chekced"), TableError, "Did you mean 'checked'"),
        (lambda frame: spu.read_table(frame), TableError, r"got DataFrame; use Table.from_frame\(frame\)"),
        (lambda frame: spu.read_table(pl.from_pandas(frame)), TableError, r"use Table.from_frame\(frame\)"),
        (lambda frame: spu.Table.from_frame([1, 2]), TableError, "pandas or polars frame, got list"),
        (lambda frame: spu.cross_fit(frame, [0.1] * 240, 3), TrainingError, r'got int; use \["fused", "lightgbm"\]'),
        (lambda frame: spu.compare_runs(3), TrainingError, r"a list of runs, got int; use \[run\]"),
        (lambda frame: spu.compare_runs(["fused"]), TrainingError, "takes runs, got str"),
        (lambda frame: spu.recommend([]), TrainingError, r"got list; use compare_runs\(runs\)"),
        (lambda frame: spu.soft_labels_for(frame, 3), RuleError, r"got int; use RuleSet\(\(rule,\)\)"),
        (lambda frame: spu.soft_labels_for(frame, "{}"), RuleError, r"got str; use RuleSet.from_json\(text\)"),
        (
            lambda frame: spu.cross_fit(pl.from_pandas(frame).lazy(), None, ["logistic"]),
            TableError,
            r"got LazyFrame; collect it first: frame.collect\(\)",
        ),
        (
            lambda frame: spu.RuleMatrix.from_label_matrix([[1, 0]], [0.5, 0.2]),
            RuleError,
            "must be a dictionary, got list; name each column of L",
        ),
        (lambda frame: spu.soft_labels_for(frame, spu.RuleSet()), RuleError, r"Table.from_frame\(frame\)"),
        (lambda frame: spu.Rule("Late", "delay > 30", belief=0.6), RuleError, "needs a condition .*, got 'delay > 30'"),
        (lambda frame: spu.Bundle.of(3), BundleError, "made of a Run, got int"),
        (lambda frame: spu.load_bundle(3), BundleError, "takes a path or bytes, got int"),
    ],
)
def test_a_wrong_type_gets_a_sentence(frame, call, error, sentence):
    with pytest.raises(error, match=sentence):
        call(frame)


def test_every_sign_and_method_of_a_column_is_a_comparison():
    age = spu.column("age")
    found = [age < 1, age <= 1, age > 1, age >= 1, age == 1, age != 1]
    found += [age.between(1, 2), age.is_in([1, 2]), age.contains("x"), age.is_missing()]

    signs = ["<", "<=", ">", ">=", "=", "!=", "between", "in", "contains", "is_missing"]
    assert [each.operator for each in found] == signs
    assert (age > 1) == spu.Compare("age", ">", 1)


def test_conditions_that_python_would_join_wrongly_are_refused():
    age = spu.column("age")
    for wrong in (lambda: (age > 1) and (age < 5), lambda: 1 < age < 5, lambda: not (age > 1)):
        with pytest.raises(RuleError, match="write a & b"):
            wrong()


def test_belief_and_condition_come_in_either_order():
    late = spu.column("delay") > 30

    assert spu.Rule("a", late, belief=0.6) == spu.Rule("a", 0.6, late) == spu.Rule("a", 0.6, when=late)
    assert spu.Rule("a", late, 0.6) == spu.Rule("a", belief=0.6, when=late)
    with pytest.raises(RuleError, match="one belief and one condition"):
        spu.Rule("a", late, late, belief=0.6)
    with pytest.raises(RuleError, match="needs a belief"):
        spu.Rule("a", late)
    with pytest.raises(RuleError, match="needs a condition such as"):
        spu.Rule("a", 0.6, 0.7)


def test_votes_of_snorkel_become_beliefs_by_name():
    votes = np.array([[1, -1], [0, 1], [-1, -1], [1, 0]])
    matrix = spu.RuleMatrix.from_label_matrix(votes, {"late": 0.6, "large": (0.1, 0.8)})
    soft_labels = spu.assign_soft_labels(matrix, np.zeros(4, dtype=bool), combine="strongest")

    assert matrix.names == ("late", "large")
    assert soft_labels.value.tolist() == [0.6, 0.8, 0.0, 0.6]
    for wrong, beliefs, sentence in (
        (votes + 1, {"a": 0.5, "b": 0.5}, "holds 2"),
        (votes, {"a": 0.5}, "one column for each of 1"),
        (votes, {"a": 0.5, "b": 1.5}, "belief of 'b'"),
    ):
        with pytest.raises(RuleError, match=sentence):
            spu.RuleMatrix.from_label_matrix(wrong, beliefs)


def test_results_plot_themselves(runs, frame, rules):
    comparison = spu.compare_runs(runs)
    soft_labels = spu.soft_labels_for(spu.Table.from_frame(frame, roles={"checked": "label"}), rules)
    for result in (soft_labels, runs[0], comparison):
        figure = result.plot()
        assert isinstance(figure, go.Figure)
        assert len(figure.data) > 0
    assert "logistic" in str(comparison.plot().layout)


def test_results_are_tables_and_markdown(runs):
    comparison = spu.compare_runs(runs)

    assert list(comparison.to_frame()["name"]) == [run.name for run in comparison.runs]
    for result in (comparison, runs[0], spu.recommend(comparison)):
        lines = result.to_markdown().splitlines()
        assert "| --- |" in result.to_markdown()
        assert all(line.startswith("|") for line in lines[-3:])
    assert runs[0].to_frame()["figure"].tolist()[0] == "AUC_SPU"


def test_a_bundle_takes_fitted_rules_and_scores_as_with_label_rules(frame):
    rules = spu.RuleSet(
        (spu.Rule("Late claim", spu.column("delay") > 30, belief=0.6),), combine="strongest", floor=0.05
    )
    table = spu.Table.from_frame(frame, roles={"checked": "label"})
    fitted = rules.fit(table)
    [run] = spu.cross_fit(table, rules, ["rule_score"], CONFIG)
    bundle = spu.Bundle.of(run, label_rules=fitted)

    assert bundle.label_rules == label_rules_of(spu.soft_labels_for(table, rules), fitted)
    assert np.array_equal(bundle.score(frame).frame["score"], run.score)
    with pytest.raises(BundleError, match=r"got RuleSet; use rules.fit\(table\)"):
        spu.Bundle.of(run, label_rules=rules)


def test_a_progress_bar_is_shown_on_request_and_not_in_a_pipe(capsys, monkeypatch, frame, rules):
    monkeypatch.setattr(fitting, "SHOWN_AFTER", 0.0)
    with progress_shown(None) as show:
        assert show is None
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    spu.cross_fit(frame, rules, ["logistic"], CONFIG, label="checked")

    assert "logistic" in capsys.readouterr().err
