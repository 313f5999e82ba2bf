"""The leakage law: what is changed in fold k has no say in the scores of fold k."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from spu_core.labels import SoftLabels
from spu_core.models import METHODS
from spu_core.tables import Table
from spu_core.training import Candidate, EarlyStopping, FoldAssignment, TrainConfig, Tuning, cross_fit, make_split
from tests.training.worlds import make_world

PIXEL_ROLES = {"label": "label", "truth": "truth", **{f"p{place}": "feature" for place in range(64)}}
FEW = {"rounds": 5, "bags": 3, "max_iterations": 20, "iterations": 2}
CONFIG = TrainConfig(folds=2, threads=1)


def small_candidate(key, **more):
    """The method with settings that keep the test quick."""
    known = {setting.name for setting in METHODS[key].settings()}
    return Candidate(key, {name: value for name, value in FEW.items() if name in known}, **more)


def with_other_fold(table, soft_labels, rows, seed=1):
    """The same X and rule scores; labels, soft labels and truth of these rows are drawn anew."""
    rng = np.random.default_rng(seed)
    labels = np.where(rows, rng.random(len(table)) < 0.3, soft_labels.is_labeled)
    fresh = rng.random(len(table)) * (rng.random(len(table)) < 0.5)
    value = np.where(rows, fresh, soft_labels.value)
    value[labels] = 1.0
    frame = table.frame.copy()
    frame["label"] = labels.astype(int)
    frame["truth"] = np.where(rows, rng.integers(0, 2, len(table)), frame["truth"])
    changed = SoftLabels(value, soft_labels.rule_score, labels, soft_labels.rule_columns)
    return replace(table, frame=frame), changed


def scores(table, soft_labels, candidate, split, config=CONFIG):
    run = cross_fit(table, soft_labels, [candidate], config, split=split)[0]
    return run.need_score()


def with_pixels(table):
    """The same rows as small images: column a, which the rules read, and 8 × 8 pixels."""
    rng = np.random.default_rng(2)
    pixels = pd.DataFrame(rng.normal(size=(len(table), 64)), columns=[f"p{place}" for place in range(64)])
    pixels["p0"] = table.frame["b"]
    return Table.from_frame(pd.concat([table.frame[["a", "label", "truth"]], pixels], axis=1), roles=PIXEL_ROLES)


@pytest.mark.parametrize("key", [pytest.param(key, marks=[pytest.mark.vision] * (key == "cnn")) for key in METHODS])
def test_labels_soft_labels_and_truth_of_a_fold_do_not_touch_its_own_scores(key):
    table, soft_labels = make_world(160)
    if key == "cnn":
        pytest.importorskip("torch")
        table = with_pixels(table)
    split = make_split(table, soft_labels, CONFIG)
    rows = split.fold == 1
    changed = with_other_fold(table, soft_labels, rows)

    before = scores(table, soft_labels, small_candidate(key), split)
    after = scores(*changed, small_candidate(key), split)

    np.testing.assert_array_equal(before[rows], after[rows])
    if key != "rule_score":
        # The change is real: it does reach the models that learn from these rows.
        assert not np.array_equal(before[~rows], after[~rows])


@pytest.mark.parametrize(
    ("more", "config"),
    [
        ({"tuning": Tuning(trials=3, folds=2)}, CONFIG),
        ({}, replace(CONFIG, early_stopping=EarlyStopping(patience=2))),
        ({}, replace(CONFIG, early_stopping=EarlyStopping(on="auc_spu", patience=2))),
        ({"without_rules": True}, CONFIG),
    ],
    ids=["tuned", "stopped on log-loss", "stopped on AUC_SPU", "without rules"],
)
def test_tuning_and_early_stopping_do_not_see_the_fold_either(more, config):
    table, soft_labels = make_world(160)
    split = make_split(table, soft_labels, config)
    rows = split.fold == 0
    changed = with_other_fold(table, soft_labels, rows)
    candidate = small_candidate("lightgbm", **more)

    before = scores(table, soft_labels, candidate, split, config)
    after = scores(*changed, candidate, split, config)

    np.testing.assert_array_equal(before[rows], after[rows])


def test_held_out_rows_are_scored_without_their_labels():
    table, soft_labels = make_world(200)
    fold = make_split(table, soft_labels, CONFIG).fold.copy()
    fold[::5] = -1
    rows = fold == -1
    changed = with_other_fold(table, soft_labels, rows)

    before = scores(table, soft_labels, small_candidate("lightgbm"), FoldAssignment(fold))
    after = scores(*changed, small_candidate("lightgbm"), FoldAssignment(fold))

    np.testing.assert_array_equal(before, after)
