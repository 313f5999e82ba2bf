"""Folds: even in every stratum, whole in every group, the same for the same seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spu_core.errors import ScoreError, TrainingError
from spu_core.training import FoldAssignment, TrainConfig, make_split
from spu_core.training.rows import assign_folds, hash_folds, hash_rows, latest_rows, strata_of
from tests.training.worlds import make_world


@settings(max_examples=50)
@given(st.integers(0, 1000), st.integers(2, 7), st.integers(20, 200))
def test_every_stratum_is_spread_within_one_row_per_fold(seed, folds, rows):
    strata = np.random.default_rng(seed).integers(0, 4, rows)

    fold = assign_folds(strata, None, folds, seed)

    sizes = np.bincount(fold, minlength=folds)
    assert sizes.max() - sizes.min() <= 1
    for stratum in range(4):
        counts = np.bincount(fold[strata == stratum], minlength=folds)
        assert counts.max() - counts.min() <= 1


@settings(max_examples=50)
@given(st.integers(0, 1000), st.integers(2, 5))
def test_a_group_is_in_one_fold_and_every_fold_has_rows(seed, folds):
    rng = np.random.default_rng(seed)
    strata, groups = rng.integers(0, 3, 120), rng.integers(0, 30, 120)

    fold = assign_folds(strata, groups, folds, seed)

    assert all(np.unique(fold[groups == group]).size == 1 for group in np.unique(groups))
    assert np.unique(fold).size == folds


def test_groups_share_labelled_rows_evenly_between_folds():
    groups = np.arange(200) // 2
    strata = np.where(groups % 10 == 0, 0, 1)

    fold = assign_folds(strata, groups, 5, 0)

    assert np.bincount(fold[strata == 0]).tolist() == [4, 4, 4, 4, 4]


def test_equal_seeds_give_equal_folds_and_others_do_not():
    strata = np.zeros(100, dtype=int)

    assert np.array_equal(assign_folds(strata, None, 5, 3), assign_folds(strata, None, 5, 3))
    assert not np.array_equal(assign_folds(strata, None, 5, 3), assign_folds(strata, None, 5, 4))


def test_labelled_rows_and_rows_without_belief_are_strata_of_their_own():
    soft_label = np.array([1.0, 1.0, 0.0, 0.5])
    strata = strata_of(soft_label, np.array([True, False, False, False]))

    assert strata[0] == 0
    assert strata[2] == 1
    assert strata[1] > strata[3] >= 2


def test_the_latest_rows_are_held_out_and_moments_are_not_cut():
    times = np.array([1, 2, 3, 4, 5, 5, 5, 6, 7, 8])

    assert latest_rows(times, 0.3).tolist() == [False] * 7 + [True] * 3
    assert latest_rows(times, 0.5).tolist() == [False] * 7 + [True] * 3


def test_dates_can_be_split_too():
    times = np.array(["2024-01-01", "2024-01-03", "2024-01-02", "2024-01-04"], dtype="datetime64[D]")

    assert latest_rows(times, 0.25).tolist() == [False, False, False, True]


def test_a_missing_time_and_a_single_moment_are_refused():
    with pytest.raises(TrainingError, match="The time column is missing in row 1"):
        latest_rows(np.array([1.0, np.nan]), 0.5)
    with pytest.raises(TrainingError, match="too many rows share one moment"):
        latest_rows(np.ones(10), 0.3)


def test_out_of_time_learns_from_the_past_only():
    table, soft_labels = make_world(300)
    config = TrainConfig(folds=3, out_of_time=0.2)

    split = make_split(table, soft_labels, config)
    last = list(split.folds())[-1]

    assert table.times[last.train].max() < table.times[last.score].min()
    assert np.array_equal(split.judged, last.score)


def test_no_part_has_a_group_on_both_sides_even_out_of_time():
    table, soft_labels = make_world(300, house="group")
    for config in (TrainConfig(folds=3, hold_out=0.2), TrainConfig(folds=3), TrainConfig(folds=3, out_of_time=0.05)):
        for part in make_split(table, soft_labels, config).folds():
            assert not set(table.groups[part.train]) & set(table.groups[part.score])
            assert not (part.train & part.score).any()


def test_every_row_is_scored_exactly_once():
    table, soft_labels = make_world(300)
    for config in (TrainConfig(), TrainConfig(hold_out=0.25), TrainConfig(out_of_time=0.25)):
        scored = sum(part.score.astype(int) for part in make_split(table, soft_labels, config).folds())
        assert (scored == 1).all()


def test_the_hold_out_is_about_as_large_as_asked_and_stratified():
    table, soft_labels = make_world(1000)
    split = make_split(table, soft_labels, TrainConfig(hold_out=0.3))

    assert split.held_out.mean() == pytest.approx(0.3, abs=0.01)
    assert soft_labels.is_labeled[split.held_out].mean() == pytest.approx(soft_labels.is_labeled.mean(), abs=0.01)
    assert np.array_equal(split.judged, ~split.held_out)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            TrainConfig(group_column="hous"),
            "group_column is 'hous', which the table does not have. Did you mean 'house'?",
        ),
        (TrainConfig(group_column="a"), "group_column is 'a', which is also a feature"),
        (TrainConfig(folds=50), "50 folds need at least 50 rows, but there are 40."),
        (TrainConfig(folds=10, group_column="house"), "10 folds need at least 10 groups"),
    ],
)
def test_a_split_that_cannot_be_made_says_why(config, sentence):
    table, soft_labels = make_world(40)
    with pytest.raises(TrainingError) as problem:
        make_split(table, soft_labels, config)

    assert sentence in str(problem.value)


def test_out_of_time_without_a_time_column_asks_for_one():
    table, soft_labels = make_world(60, day="ignore")
    with pytest.raises(TrainingError, match="give a column the role TIME, or set time_column"):
        make_split(table, soft_labels, TrainConfig(out_of_time=0.2))


def test_a_missing_group_is_refused():
    table, soft_labels = make_world(60)
    frame = table.frame.assign(house=table.frame["house"].astype("float").where(table.frame.index != 7))
    with pytest.raises(ScoreError, match="groups is missing in row 7"):
        make_split(replace(table, frame=frame), soft_labels, TrainConfig(group_column="house"))


def test_a_split_of_one_fold_is_refused():
    with pytest.raises(TrainingError, match="at least two folds"):
        FoldAssignment(np.zeros(5, dtype=int))


CONFIG = TrainConfig(folds=5, seed=3, hold_out=0.1)


@settings(max_examples=30)
@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=40), st.integers(0, 40))
def test_a_row_has_the_same_fold_in_any_part_of_the_table(ids, cut):
    whole = hash_folds(ids, CONFIG)
    parts = [hash_folds(part, CONFIG) for part in (ids[:cut], ids[cut:]) if part]

    assert np.array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize(
    "other",
    [
        pd.Series([3.0, 8.0, 11.0]),
        pd.Series([3, 8, 11], dtype="Int64"),
        pd.Series([3, 8, 11], dtype="int16"),
        pd.Series(pd.Categorical([3, 8, 11])),
    ],
    ids=["floats", "nullable", "short", "categories"],
)
def test_the_form_of_a_column_does_not_move_its_rows(other):
    assert np.array_equal(hash_rows(pd.Series([3, 8, 11])), hash_rows(other))


def test_texts_hash_alike_as_strings_and_as_categories():
    texts = pd.Series(["u1", "u2", "ü3"])

    assert np.array_equal(hash_rows(texts), hash_rows(texts.astype("category")))
    assert np.array_equal(hash_rows(texts), hash_rows(texts.astype(object)))


def test_folds_are_even_and_seeds_deal_anew():
    rows = np.arange(100_000)
    one, other = hash_folds(rows, TrainConfig(seed=1)), hash_folds(rows, TrainConfig(seed=2))

    # 5 standard deviations of a binomial count around 20,000.
    assert np.abs(np.bincount(one) - 20_000).max() < 5 * np.sqrt(100_000 * 0.2 * 0.8)
    assert abs(float((one == other).mean()) - 0.2) < 0.01


def test_the_held_out_share_is_kept_out_of_every_fold_and_does_not_depend_on_folds():
    rows = np.arange(50_000)
    fold = hash_folds(rows, TrainConfig(folds=5, hold_out=0.2))

    assert abs(float((fold == -1).mean()) - 0.2) < 0.01
    inside = np.bincount(fold[fold >= 0])
    assert inside.max() - inside.min() < 0.05 * inside.mean()


def test_a_missing_id_is_refused_in_words():
    with pytest.raises(TrainingError, match=r"The id of a row is missing \(first: row 1\)"):
        hash_rows(["a", None])
