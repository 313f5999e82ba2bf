"""Guards: data that would make models look better than they are, and what training does about them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from spu_core.labels import SoftLabels
from spu_core.tables import Table
from spu_core.training import Candidate, Split, TrainConfig, compare_runs, cross_fit, make_split

QUICK = TrainConfig(folds=3, threads=1)


def copied_noise(copies: int = 4, rows: int = 150, **more):
    """Rows of pure noise that come several times, labels and all; nothing can be learnt from them."""
    rng = np.random.default_rng(0)
    once = pd.DataFrame(rng.normal(size=(rows, 5))).add_prefix("x").assign(label=(rng.random(rows) < 0.3).astype(int))
    frame = pd.concat([once] * copies, ignore_index=True).assign(**more)
    table = Table.from_frame(frame, roles=dict.fromkeys(more, "group"))
    return table, SoftLabels.from_values(frame["label"].to_numpy(dtype=float), frame["label"].to_numpy() == 1)


def test_copies_of_noise_do_not_make_a_model_look_good():
    table, soft_labels = copied_noise()
    forest = Candidate("labeled_vs_rest", {"rounds": 60})
    [run] = cross_fit(table, soft_labels, [forest], QUICK)
    apart = Split(np.arange(len(table)) // 200)  # each copy of a row in another fold
    [fooled] = cross_fit(table, soft_labels, [forest], QUICK, split=apart)

    assert run.metrics.known_positive_auc.estimate < 0.65
    assert run.metrics.known_positive_auc.low < 0.5
    assert fooled.metrics.known_positive_auc.estimate > 0.95
    assert "450 of 600 rows repeat an earlier row. Rows that repeat each other are in one fold" in notes_of(run)
    assert "some of them are in another fold: figures are too good" in notes_of(fooled)


def notes_of(run):
    return "\n".join(compare_runs([run]).notes)


def test_copies_stay_in_one_fold_and_labelled_rows_are_spread_evenly():
    table, soft_labels = copied_noise()
    split = make_split(table, soft_labels, QUICK)

    fold = split.fold.reshape(4, 150)
    assert (fold == fold[0]).all()
    labeled = np.bincount(split.fold[table.is_labeled])
    assert labeled.max() - labeled.min() <= 4
    assert np.ptp(np.bincount(split.fold)) <= 8


def test_copies_count_once_in_an_interval():
    """The interval of four copies is as wide as that of one, not half as wide."""
    table, soft_labels = copied_noise()
    single, single_labels = copied_noise(copies=1)
    [four] = cross_fit(table, soft_labels, ["logistic"], QUICK)
    [one] = cross_fit(single, single_labels, ["logistic"], QUICK)

    ratio = four.metrics.auc_spu.standard_error / one.metrics.auc_spu.standard_error
    assert 0.8 < ratio < 1.25


def test_copies_join_the_groups_of_a_group_column():
    """Rows 0 … 149 have a house each; their copies stand in other houses, two rows each."""
    house = np.concatenate([np.arange(150), 1000 + np.arange(150), 2000 + np.arange(300) // 2])
    table, soft_labels = copied_noise(house=house)
    split = make_split(table, soft_labels, QUICK)

    fold = split.fold.reshape(4, 150)
    assert (fold == fold[0]).all()
    for name in np.unique(house):
        assert np.unique(split.fold[house == name]).size == 1


def test_copies_that_would_join_all_groups_leave_the_groups_as_they_are():
    table, soft_labels = copied_noise(house=np.arange(600) % 7)  # every house holds copies of rows of all others
    split = make_split(table, soft_labels, QUICK)

    for name in range(7):
        assert np.unique(split.fold[np.arange(600) % 7 == name]).size == 1


def test_the_latest_rows_are_not_judged_by_models_of_their_copies():
    table, soft_labels = copied_noise()
    frame = table.frame.assign(day=pd.date_range("2024-01-01", periods=600, freq="h"))
    dated = Table.from_frame(frame, roles={"day": "time"})
    split = make_split(dated, soft_labels, replace(QUICK, out_of_time=0.2))
    last = list(split.parts())[-1]

    late = set(np.arange(600)[last.score] % 150)
    assert late
    assert not late & set(np.arange(600)[last.train] % 150)


def test_few_distinct_values_can_still_be_split():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(0, 2, (300, 3))).add_prefix("x").assign(label=(rng.random(300) < 0.2).astype(int))
    table = Table.from_frame(frame)
    soft_labels = SoftLabels.from_values(frame["label"].to_numpy(dtype=float), frame["label"].to_numpy() == 1)
    split = make_split(table, soft_labels, QUICK)

    assert split.groups is None
    assert np.ptp(np.bincount(split.fold)) <= 1


def test_rows_without_copies_have_the_folds_they_always_had():
    """The folds of this table as they were before repeated rows were looked for."""
    table, soft_labels = copied_noise(copies=1, rows=30)

    assert table.repeats is None
    fold = "".join(map(str, make_split(table, soft_labels, QUICK).fold))
    assert fold == "001101202222220202211111100010"
