"""AUC_SPU and its ceiling against their definitions and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from spu_core import SpuError
from spu_core.metrics import (
    auc_spu_ceiling,
    auc_spu_influence,
    auc_spu_score,
    auc_spu_share_score,
    known_positive_auc_score,
    roc_spu,
)
from spu_core.metrics.ranking import BLOCK
from tests.metrics.oracles import auc_by_counting_pairs, ceiling_by_theorem_1
from tests.metrics.strategies import rows

exactly = lambda value: pytest.approx(value, abs=1e-12)  # noqa: E731


@given(rows())
def test_auc_spu_equals_the_pair_count(data):
    soft_label, score = data

    assert auc_spu_score(soft_label, score) == exactly(auc_by_counting_pairs(soft_label, score))


@given(rows(weighted=True))
def test_weighted_auc_spu_equals_the_weighted_pair_count(data):
    soft_label, score, weight = data

    measured = auc_spu_score(soft_label, score, sample_weight=weight)

    assert measured == exactly(auc_by_counting_pairs(soft_label, score, weight))


@given(rows())
def test_the_area_under_the_curve_is_auc_spu(data):
    assert roc_spu(*data).auc == exactly(auc_spu_score(*data))


@given(rows())
def test_the_ceiling_is_theorem_1_and_the_auc_of_the_soft_label_itself(data):
    soft_label, _ = data

    assert auc_spu_ceiling(soft_label) == exactly(ceiling_by_theorem_1(soft_label))
    assert auc_spu_ceiling(soft_label) == exactly(auc_by_counting_pairs(soft_label, soft_label))


@given(rows(weighted=True))
def test_the_weighted_ceiling_is_theorem_1_with_a_weighted_distribution(data):
    soft_label, _, weight = data

    ceiling = auc_spu_ceiling(soft_label, sample_weight=weight)

    # Theorem 1 pairs each row with itself too, which a weighted pair count does with the weights squared.
    assert ceiling == exactly(auc_by_counting_pairs(soft_label, soft_label, weight))
    assert ceiling == exactly(ceiling_by_theorem_1(soft_label, weight))


@given(rows())
def test_no_score_exceeds_the_ceiling(data):
    soft_label, score = data

    assert auc_spu_score(soft_label, score) <= auc_spu_ceiling(soft_label) + 1e-12


@given(rows(), st.randoms(use_true_random=False))
def test_auc_spu_does_not_depend_on_the_order_of_rows(data, random):
    soft_label, score = data
    order = list(range(score.size))
    random.shuffle(order)

    assert auc_spu_score(soft_label[order], score[order]) == exactly(auc_spu_score(soft_label, score))


@given(rows())
def test_auc_spu_depends_on_the_ranks_of_the_scores_only(data):
    soft_label, score = data
    ranks = np.unique(score, return_inverse=True)[1]

    assert auc_spu_score(soft_label, ranks) == exactly(auc_spu_score(soft_label, score))


@given(rows())
def test_reversing_scores_or_swapping_classes_gives_the_complement(data):
    soft_label, score = data
    auc = auc_spu_score(soft_label, score)

    assert auc_spu_score(soft_label, -score) == exactly(1 - auc)
    assert auc_spu_score(1 - soft_label, -score) == pytest.approx(auc, abs=1e-6)


@pytest.mark.parametrize("decimals", [8, 1], ids=["no ties", "many ties"])
@pytest.mark.parametrize("weighted", [False, True])
def test_hard_labels_give_scikit_learns_auc(decimals, weighted):
    rng = np.random.default_rng(0)
    truth, score = rng.integers(0, 2, 3000), rng.random(3000).round(decimals)
    weight = rng.random(3000) if weighted else None

    expected = roc_auc_score(truth, score, sample_weight=weight)

    assert auc_spu_score(truth, score, sample_weight=weight) == exactly(expected)
    assert known_positive_auc_score(truth, score, sample_weight=weight) == exactly(expected)


def test_soft_labels_equal_scikit_learn_on_duplicated_weighted_rows():
    rng = np.random.default_rng(1)
    soft_label, score = rng.random(2000), rng.normal(size=2000).round(2)
    classes = np.repeat([1, 0], 2000)
    weight = np.concatenate([soft_label, 1 - soft_label])

    expected = roc_auc_score(classes, np.tile(score, 2), sample_weight=weight)

    assert auc_spu_score(soft_label, score) == exactly(expected)


@pytest.mark.parametrize("size", [70_000, 140_001])
@pytest.mark.parametrize("decimals", [16, 3, 0], ids=["no ties", "some ties", "huge ties"])
def test_ties_that_span_blocks_are_counted_once(size, decimals):
    rng = np.random.default_rng(2)
    soft_label, score = rng.random(size), rng.normal(size=size).round(decimals)
    ranks = np.unique(score, return_inverse=True)[1]
    positive, negative = np.bincount(ranks, soft_label), np.bincount(ranks, 1 - soft_label)
    expected = (positive * (negative.cumsum() - negative / 2)).sum() / positive.sum() / negative.sum()

    assert auc_spu_score(soft_label, score) == exactly(expected)
    assert roc_spu(soft_label, score).auc == exactly(expected)
    assert auc_spu_influence(soft_label, score).auc == exactly(expected)


def test_scores_one_float_apart_are_ranked_even_where_packed_keys_have_no_room():
    rng = np.random.default_rng(3)
    score = 1.0 + rng.integers(0, 50, 2000) * 2.0**-52
    score[0], score[1] = 1e300, -1e300  # stretches the keys, so that the low bits find no room
    soft_label = rng.random(2000)

    assert auc_spu_score(soft_label, score) == exactly(auc_by_counting_pairs(soft_label, score))


def test_nearly_certain_positives_keep_their_digits():
    rng = np.random.default_rng(4)
    soft_label, score = 1 - 1e-12 * rng.random(300), rng.random(300)

    assert auc_spu_score(soft_label, score) == exactly(auc_by_counting_pairs(soft_label, score))


def test_the_ceiling_is_one_exactly_for_hard_labels_and_half_for_constant_ones():
    assert auc_spu_ceiling([0, 1, 1, 0, 0]) == 1.0
    assert auc_spu_ceiling([0.3, 0.3, 0.3]) == pytest.approx(0.5)
    assert auc_spu_ceiling([0, 1, 0.5]) < 1.0


def test_a_tie_that_ends_with_the_first_row_of_a_block_is_counted_once():
    score = np.arange(BLOCK + 5.0)
    score[BLOCK] = score[BLOCK - 1]
    soft_label = np.random.default_rng(6).random(score.size)
    positive, negative = np.bincount(score.astype(int), soft_label), np.bincount(score.astype(int), 1 - soft_label)
    expected = (positive * (negative.cumsum() - negative / 2)).sum() / positive.sum() / negative.sum()

    assert auc_spu_score(soft_label, score) == pytest.approx(expected, abs=1e-14)


def test_the_share_of_the_ceiling_counts_weights_in_both_of_its_parts():
    soft_label, score, weight = np.array([0.9, 0.2, 0.6, 0.1]), np.array([1.0, 2, 3, 4]), np.array([5.0, 1, 2, 3])

    expected = (auc_by_counting_pairs(soft_label, score, weight) - 0.5) / (
        auc_by_counting_pairs(soft_label, soft_label, weight) - 0.5
    )

    assert auc_spu_share_score(soft_label, score, sample_weight=weight) == exactly(expected)


def test_share_of_the_ceiling_is_one_for_the_soft_label_and_undefined_for_constant_ones():
    assert auc_spu_share_score([0.1, 0.4, 0.9], [1, 2, 3]) == pytest.approx(1.0)
    assert auc_spu_share_score([0.1, 0.4, 0.9], [3, 2, 1]) == pytest.approx(-1.0)
    assert np.isnan(auc_spu_share_score([0.4, 0.4, 0.4], [3, 2, 1]))


@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_without_positives_or_negatives_there_is_no_auc(constant):
    for metric in (auc_spu_score, roc_spu):
        with pytest.raises(SpuError, match=f"soft_label is {constant:g} in every row"):
            metric([constant] * 3, [1.0, 2.0, 3.0])
