"""Mergeable histograms: the exact AUC_SPU lies within their bound, however the rows are split."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student_t

from spu_core import SpuError
from spu_core.metrics import ScoreHistogram, auc_spu_interval, auc_spu_score
from tests.metrics.strategies import rows


@given(rows(weighted=True), st.integers(2, 40))
def test_the_exact_value_lies_within_the_bound(data, bins):
    soft_label, score, weight = data
    score = 1 / (1 + np.exp(-score.clip(-30, 30)))
    bounded = ScoreHistogram.logit(bins).add(soft_label, score, sample_weight=weight).auc()

    exact = auc_spu_score(soft_label, score, sample_weight=weight)

    assert abs(bounded.value - exact) <= bounded.error_bound + 1e-12
    assert bounded.low - 1e-12 <= exact <= bounded.high + 1e-12


@pytest.mark.parametrize("power", [1, 6], ids=["even scores", "skewed scores"])
def test_merged_parts_equal_the_whole_and_the_bound_is_small(power):
    rng = np.random.default_rng(0)
    soft_label = rng.random(50_000)
    score = rng.random(50_000) ** power
    whole = ScoreHistogram.logit().add(soft_label, score)
    parts = [ScoreHistogram.logit().add(soft_label[k::3], score[k::3]) for k in range(3)]

    merged = parts[2] + parts[0] + parts[1]

    assert merged.auc().value == pytest.approx(whole.auc().value, abs=1e-12)
    assert merged.auc().error_bound < 1e-3
    assert abs(merged.auc().value - auc_spu_score(soft_label, score)) <= merged.auc().error_bound


def test_the_interval_from_counts_is_that_from_rows():
    rng = np.random.default_rng(1)
    soft_label = rng.random(20_000) ** 2
    score = 1 / (1 + np.exp(-(soft_label + rng.normal(size=20_000))))

    from_counts = ScoreHistogram.logit().add(soft_label, score).interval()
    from_rows = auc_spu_interval(soft_label, score)

    assert from_counts.standard_error == pytest.approx(from_rows.standard_error, rel=1e-3)
    assert from_counts.low == pytest.approx(from_rows.low, abs=1e-3)


def test_parts_with_few_bins_merge_to_the_bound_and_the_interval_of_the_whole():
    rng = np.random.default_rng(3)
    soft_label, score = rng.random(60), rng.random(60)
    whole = ScoreHistogram.logit(8).add(soft_label, score)
    merged = ScoreHistogram.logit(8).add(soft_label[:30], score[:30])
    merged += ScoreHistogram.logit(8).add(soft_label[30:], score[30:])

    assert merged.auc().error_bound == pytest.approx(whole.auc().error_bound)
    assert merged.interval().standard_error == pytest.approx(whole.interval().standard_error)


def test_a_bin_in_which_parts_hold_different_scores_is_in_doubt():
    low, high = (ScoreHistogram.with_edges([0.0]).add([soft], [score]) for soft, score in ((0.1, 1.0), (0.9, 2.0)))

    for merged in (low + high, high + low):
        # Two pairs of different rows: .9 positive against .9 negative, and .1 against .1; each could count 0 or 1.
        assert (merged.auc().value, merged.auc().error_bound) == pytest.approx((0.5, 0.5 * (0.81 + 0.01)))


def test_bins_of_one_score_each_give_the_standard_error_of_few_rows_exactly():
    rng = np.random.default_rng(4)
    soft_label, score, weight = rng.random(12), np.arange(12.0), rng.random(12)

    counted = ScoreHistogram.with_edges(score).add(soft_label, score, sample_weight=weight).interval()

    expected = auc_spu_interval(soft_label, score, sample_weight=weight)
    assert counted.standard_error == pytest.approx(expected.standard_error)


def test_an_interval_from_counts_stays_within_0_and_1():
    soft_label, score = [0.0, 0.6, 0.1, 1.0, 0.4, 1.0], np.arange(6.0)
    rising = ScoreHistogram.with_edges(score).add(soft_label, score).interval(0.999)
    falling = ScoreHistogram.with_edges(score).add(soft_label, 5.0 - score).interval(0.999)

    assert (rising.high, falling.low) == (1.0, 0.0)


def test_few_positives_widen_the_interval_from_counts_as_students_t_does():
    rng = np.random.default_rng(3)
    truth = np.arange(200) < 8
    score = np.round(truth + rng.normal(size=200), 1)

    found = ScoreHistogram.with_edges(np.unique(score)).add(truth, score).interval()

    assert found.standard_error == pytest.approx(auc_spu_interval(truth, score).standard_error)
    assert found.estimate - found.low == pytest.approx(student_t.ppf(0.975, 7) * found.standard_error)
    assert found.warning.startswith("The effective number of positives is 8.0")


def test_scores_of_any_range_can_be_covered():
    rng = np.random.default_rng(2)
    soft_label, score = rng.random(5000), 100 * rng.normal(size=5000)

    bounded = ScoreHistogram.covering(score[:1000], bins=512).add(soft_label, score).auc()

    assert abs(bounded.value - auc_spu_score(soft_label, score)) <= bounded.error_bound < 0.01


def test_a_bin_of_one_score_costs_nothing():
    assert ScoreHistogram.logit(2).add([1, 0.5, 0], [0.2, 0.2, 0.2]).auc().error_bound == 0.0


def test_lists_of_numbers_will_do_and_senseless_arguments_are_refused():
    histogram = ScoreHistogram.with_edges([0.5]).add([1.0, 0.0], [0.9, 0.1])

    assert histogram.auc().value == 1.0
    assert histogram.add([0.5], [0.7]).rows.tolist() == [1, 2]
    with pytest.raises(SpuError, match="bins must be at least 2, got 1"):
        ScoreHistogram.logit(1)
    with pytest.raises(SpuError, match="edges must be finite"):
        ScoreHistogram.with_edges([0.5, np.nan])
    with pytest.raises(SpuError, match="score must be finite"):
        histogram.add([0.5], [np.nan])
    with pytest.raises(SpuError, match="level"):
        histogram.interval(level=1.5)


def test_histograms_with_different_edges_are_not_merged():
    with pytest.raises(SpuError, match="same edges"):
        ScoreHistogram.logit(10) + ScoreHistogram.logit(20)


def test_an_empty_histogram_has_no_auc():
    with pytest.raises(SpuError, match="all rows so far are 0"):
        ScoreHistogram.logit().auc()
