"""Tables that cannot be trained on get a clear sentence; those that can are trained."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import SoftLabelError, SpuError, TrainingError
from spu_core.labels import SoftLabels
from spu_core.tables import Table
from spu_core.training import Candidate, TrainConfig, compare_runs, cross_fit

CONFIG = TrainConfig(folds=3, threads=1)
CANDIDATES = [
    Candidate("lightgbm", {"rounds": 5}),
    Candidate("labeled_vs_rest", {"rounds": 5}),
    Candidate("fused", {"rounds": 5}),
    Candidate("rule_score"),
]


def hostile(features, labels, rule, **more):
    frame = pd.DataFrame(features)
    table = Table.from_frame(frame.assign(label=np.asarray(labels, dtype=int)), roles={"label": "label"})
    return table, SoftLabels.from_values(rule, labels, **more)


def noise(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=rows), "z": rng.normal(size=rows)}, rng.random(rows)


def some_labels(rows, count):
    return np.arange(rows) < count


def test_one_positive_gives_scores_or_sentences():
    features, rule = noise()
    runs = cross_fit(*hostile(features, some_labels(60, 1), rule), CANDIDATES, CONFIG)

    by_name = {run.name: run for run in runs}
    assert by_name["lightgbm"].error is None
    assert by_name["rule_score"].error is None
    for name in ("labeled_vs_rest", "fused"):
        assert "no row is labelled" in by_name[name].error
    assert compare_runs(runs).notes


def test_soft_labels_of_one_kind_are_refused_at_the_door():
    features, _ = noise()
    with pytest.raises(SoftLabelError, match="there are no positives"):
        cross_fit(*hostile(features, some_labels(60, 0), np.zeros(60)), CANDIDATES, CONFIG)
    with pytest.raises(SoftLabelError, match="there are no negatives"):
        cross_fit(*hostile(features, some_labels(60, 0), np.ones(60)), CANDIDATES, CONFIG)


def test_hard_soft_labels_have_a_ceiling_of_one():
    features, _ = noise()
    runs = cross_fit(*hostile(features, some_labels(60, 12), np.zeros(60)), CANDIDATES, CONFIG)

    assert all(run.metrics.ceiling == 1.0 for run in runs if run.metrics)
    assert runs[0].error is None


def test_soft_labels_that_never_reach_one_are_trained():
    features, rule = noise()
    runs = cross_fit(*hostile(features, some_labels(60, 0), 0.5 * rule), CANDIDATES, CONFIG)

    assert runs[0].error is None
    assert runs[0].metrics.known_positive_auc is None


def test_a_constant_soft_label_is_named():
    features, _ = noise()
    run = cross_fit(*hostile(features, some_labels(60, 0), np.full(60, 0.3)), CANDIDATES[:1], CONFIG)[0]

    assert "The soft label is 0.3 in every row" in run.error


@pytest.mark.parametrize("values", [np.full(60, 7.0), np.full(60, np.nan)], ids=["constant", "all missing"])
def test_columns_without_information_give_constant_scores(values):
    _, rule = noise()
    table, soft_labels = hostile({"x": values}, some_labels(60, 9), rule)
    table = table.with_roles({"x": "feature"})
    run = cross_fit(table, soft_labels, CANDIDATES[:1], CONFIG)[0]

    assert run.error is None
    assert run.metrics.auc_spu.estimate == pytest.approx(0.5)


def test_no_feature_left_is_said_plainly():
    features, rule = noise()
    table, soft_labels = hostile(features, some_labels(60, 9), rule, rule_columns=("x", "z"))
    by_name = {run.name: run for run in cross_fit(table, soft_labels, CANDIDATES, CONFIG)}

    assert "No column is left to learn from" in by_name["lightgbm"].error
    assert by_name["labeled_vs_rest"].error is None
    none = table.with_roles({"x": "ignore", "z": "ignore"})
    with pytest.raises(TrainingError, match="no feature column"):
        cross_fit(none, soft_labels, CANDIDATES, CONFIG)


def test_thousands_of_columns_are_trained():
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(40, 2_000)).astype(np.float32), columns=[f"c{k}" for k in range(2_000)])
    roles = {"label": "label", **dict.fromkeys(wide.columns, "feature")}
    labels = some_labels(40, 8)
    table = Table.from_frame(wide.assign(label=labels.astype(int)), roles=roles)
    run = cross_fit(
        table,
        SoftLabels.from_values(rng.random(40), labels),
        [Candidate("lightgbm", {"rounds": 2})],
        TrainConfig(folds=2, threads=1),
    )[0]

    assert run.error is None


def test_soft_labels_of_another_table_are_refused():
    features, rule = noise()
    table, _ = hostile(features, some_labels(60, 9), rule)
    with pytest.raises(TrainingError, match="There are 50 soft labels, but the table has 60 rows"):
        cross_fit(table, SoftLabels.from_values(rule[:50], some_labels(50, 9)), CANDIDATES, CONFIG)


def test_candidates_must_be_candidates():
    features, rule = noise()
    table, soft_labels = hostile(features, some_labels(60, 9), rule)
    with pytest.raises(TrainingError, match="must be a Candidate or the key of a method"):
        cross_fit(table, soft_labels, [3], CONFIG)
    with pytest.raises(TrainingError, match="There is no candidate to train"):
        cross_fit(table, soft_labels, [], CONFIG)


def test_every_sentence_is_one_of_ours():
    features, rule = noise(20)
    runs = cross_fit(*hostile(features, some_labels(20, 2), rule), CANDIDATES, CONFIG)

    for run in runs:
        assert run.error is None or not run.error.startswith(("ValueError", "IndexError", "LightGBMError"))
    assert issubclass(TrainingError, SpuError)
