"""Folds by a hash of the row id: stable under any partition, seeded, even."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spu_core.errors import TrainingError
from spu_core.training import TrainConfig
from spu_core.training.folds import hash_folds, hash_rows

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
