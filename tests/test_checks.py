"""Bad input gets one clear sentence that names the argument, the law, the value and the row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from spu_core import SpuError, auc_spu_score, compare_auc_spu, tpr_spu_score
from spu_core.metrics import auc_spu_interval

GOOD = [0.2, 0.8, 0.5]


@pytest.mark.parametrize(
    ("soft_label", "score", "sentence"),
    [
        (GOOD, [1, 2], "score has 2 rows, but soft_label has 3; both must describe the same rows."),
        (GOOD, [1, np.nan, 3], "score must be finite, but row 1 holds nan."),
        (GOOD, [1, 2, -np.inf], "score must be finite, but row 2 holds -inf."),
        ([0.2, 1.2, -0.5, 7, 9], [1, 2, 3, 4, 5], "but row 1 holds 1.2, row 2 holds -0.5, row 3 holds 7 (and 1 more)."),
        ([0.2, np.nan, 0.1], [1, 2, 3], "soft_label must lie in [0, 1], but row 1 holds nan."),
        ([0, 0, 0], [1, 2, 3], "soft_label is 0 in every row, so there are no positives"),
        ([1, 1, 1], [1, 2, 3], "soft_label is 1 in every row, so there are no negatives"),
        ([], [], "soft_label is empty; at least one row is needed."),
        (
            GOOD,
            np.ones((3, 2)),
            "got shape (3, 2). For predict_proba output take column 1.",
        ),
        (["a", "b", "c"], [1, 2, 3], "soft_label must hold numbers, but its first row is 'a' (str)."),
        (GOOD, pd.Series(["x", "y", "z"]), "score must hold numbers, but its first row is 'x' (str)."),
        (GOOD, pd.Series([1, None, 3], dtype="Int64"), "score must be finite, but row 1 holds nan."),
        (GOOD, [2**60, 2**60 + 1, 3], "score holds integers beyond 2**53, which floats cannot represent exactly"),
        (GOOD, [None, 1.0, 2.0], "score must hold numbers, but its first row is None (NoneType)."),
        (0.5, 0.5, "soft_label must be one-dimensional, got shape ()."),
    ],
)
def test_bad_rows_are_named(soft_label, score, sentence):
    with pytest.raises(SpuError) as error:
        auc_spu_score(soft_label, score)

    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        ([1, -1, 1], "sample_weight must not be negative, but row 1 holds -1."),
        ([0, 0, 0], "sample_weight is zero in every row; at least one row needs a positive weight."),
        ([1, 2], "sample_weight has 2 rows, but soft_label has 3"),
        ([0, 1, 0], "is 1 in every row with a positive weight"),
    ],
)
def test_bad_weights_are_named(weight, sentence):
    with pytest.raises(SpuError) as error:
        auc_spu_score([0.2, 1.0, 0.5], [1, 2, 3], sample_weight=weight)

    assert sentence in str(error.value)


def test_the_second_score_of_a_comparison_is_named():
    with pytest.raises(SpuError, match="score_b has 2 rows"):
        compare_auc_spu(GOOD, [1, 2, 3], [1, 2])


def test_flags_must_be_true_or_false():
    with pytest.raises(SpuError, match=r"flagged must be true or false \(1 or 0\), but row 1 holds 0.5."):
        tpr_spu_score(GOOD, [1, 0.5, 0])


def test_groups_must_not_be_missing():
    with pytest.raises(SpuError, match="groups is missing in row 2"):
        auc_spu_interval(GOOD, [1, 2, 3], groups=["a", "b", None])


@pytest.mark.parametrize("level", [0, 1, 95, "high", True])
def test_a_level_is_a_share(level):
    with pytest.raises(SpuError, match="level must"):
        auc_spu_interval(GOOD, [1, 2, 3], level=level)


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series, lambda v: pd.Series(v, dtype="Float64")])
def test_rows_may_come_as_any_sequence(kind):
    assert auc_spu_score(kind(GOOD), kind([0.1, 0.9, 0.3])) == auc_spu_score(GOOD, [0.1, 0.9, 0.3])


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint64, bool])
def test_scores_may_have_any_number_type(dtype):
    assert auc_spu_score(GOOD, np.array([0, 1, 1], dtype=dtype)) == auc_spu_score(GOOD, [0, 1, 1])
