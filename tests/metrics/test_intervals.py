"""Intervals and paired tests against full-matrix formulas, DeLong and the bootstrap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from spu_core import SpuError
from spu_core.metrics import (
    auc_spu_ceiling,
    auc_spu_ceiling_interval,
    auc_spu_influence,
    auc_spu_interval,
    bootstrap_auc_spu,
    ceiling_gap_interval,
    ceiling_share_interval,
    compare_auc_spu,
    known_positive_auc_interval,
    roc_spu_band,
    standard_error,
)
from tests.metrics.oracles import auc_by_counting_pairs, influence_by_counting_pairs
from tests.metrics.strategies import rows


@pytest.fixture
def scored():
    rng = np.random.default_rng(0)
    soft_label = rng.beta(0.5, 2, 600)
    return soft_label, soft_label + 0.3 * rng.normal(size=600), soft_label + 0.4 * rng.normal(size=600)


@given(rows())
def test_influence_values_equal_the_full_matrix_and_sum_to_zero(data):
    soft_label, score = data
    influence = auc_spu_influence(soft_label, score)

    np.testing.assert_allclose(influence.value, influence_by_counting_pairs(soft_label, score), atol=1e-9)
    assert influence.value.sum() == pytest.approx(0.0, abs=1e-9)


def test_hard_labels_give_delongs_standard_error():
    """DeLong (1988): Var = S10/m + S01/n with sample variances of the placement values."""
    rng = np.random.default_rng(1)
    truth = rng.random(500) < 0.4
    score = truth + rng.normal(size=500)
    wins = score[truth][:, None] > score[~truth]
    delong = np.sqrt(wins.mean(1).var(ddof=1) / truth.sum() + wins.mean(0).var(ddof=1) / (~truth).sum())

    # The two differ by m against m−1 in the variances.
    assert known_positive_auc_interval(truth, score).standard_error == pytest.approx(delong, rel=5e-3)


def test_the_bootstrap_agrees_with_the_influence_method(scored):
    soft_label, score, _ = scored
    exact, resampled = auc_spu_interval(soft_label, score), bootstrap_auc_spu(soft_label, score, replicates=2000)

    # The standard error of a standard error from 2,000 replicates is 1/√4000 = 1.6 %.
    assert resampled.standard_error == pytest.approx(exact.standard_error, rel=0.06)
    assert resampled.low == pytest.approx(exact.low, abs=0.005)


@pytest.mark.parametrize("grouped", [False, True])
def test_a_bootstrap_replicate_is_the_auc_of_the_rows_that_were_drawn(grouped):
    """The definition, with the same draws: each unit counts as often as it was drawn."""
    rng = np.random.default_rng(7)
    soft_label, score = rng.random(30).round(2), rng.normal(size=30).round(1)
    units = np.arange(30) // 3 if grouped else np.arange(30)
    draws, chance = [], np.random.default_rng(5)
    for _ in range(40):
        picked = chance.integers(0, units.max() + 1, units.max() + 1)
        rows = np.concatenate([np.flatnonzero(units == unit) for unit in picked])
        draws.append(auc_by_counting_pairs(soft_label[rows], score[rows]))

    found = bootstrap_auc_spu(soft_label, score, replicates=40, level=0.9, groups=units if grouped else None, seed=5)

    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(draws, [0.05, 0.95])))
    assert found.standard_error == pytest.approx(np.std(draws, ddof=1))
    assert found.estimate == pytest.approx(auc_by_counting_pairs(soft_label, score))


def test_clusters_of_copies_carry_no_more_information_than_one_of_each(scored):
    soft_label, score, _ = scored
    copies = np.tile(np.arange(600), 3)

    once = auc_spu_interval(soft_label, score)
    clustered = auc_spu_interval(np.tile(soft_label, 3), np.tile(score, 3), groups=copies)
    naive = auc_spu_interval(np.tile(soft_label, 3), np.tile(score, 3))

    assert clustered.standard_error == pytest.approx(once.standard_error)
    assert naive.standard_error < 0.6 * once.standard_error


def test_the_clustered_bootstrap_agrees(scored):
    soft_label, score, _ = scored
    groups = np.repeat(np.arange(150), 4)
    soft_label = np.sort(soft_label)

    exact = auc_spu_interval(soft_label, score, groups=groups)
    resampled = bootstrap_auc_spu(soft_label, score, groups=groups, replicates=2000)

    assert resampled.standard_error == pytest.approx(exact.standard_error, rel=0.08)


def test_scale_of_weights_does_not_matter_and_unit_weights_change_nothing(scored):
    soft_label, score, _ = scored
    weight = np.random.default_rng(2).random(600) + 0.5

    plain = auc_spu_interval(soft_label, score)
    unit = auc_spu_interval(soft_label, score, sample_weight=np.ones(600))
    small = auc_spu_interval(soft_label, score, sample_weight=weight)
    large = auc_spu_interval(soft_label, score, sample_weight=1e6 * weight)

    assert (unit.estimate, unit.low) == pytest.approx((plain.estimate, plain.low))
    assert (small.low, small.high) == pytest.approx((large.low, large.high))


def test_the_paired_difference_is_narrower_than_two_separate_intervals(scored):
    soft_label, score, other = scored
    difference = compare_auc_spu(soft_label, score, other)
    apart = np.hypot(
        auc_spu_interval(soft_label, score).standard_error, auc_spu_interval(soft_label, other).standard_error
    )

    assert difference.standard_error < apart
    assert difference.low < difference.estimate < difference.high
    assert difference.can_be_told_apart == (difference.p_value < 0.05)


def test_swapping_the_two_scores_flips_the_difference(scored):
    soft_label, score, other = scored
    there, back = compare_auc_spu(soft_label, score, other), compare_auc_spu(soft_label, other, score)

    assert there.estimate == pytest.approx(-back.estimate)
    assert there.p_value == pytest.approx(back.p_value)


def test_gap_and_share_fit_together_with_the_ceiling(scored):
    soft_label, score, _ = scored
    auc, ceiling = auc_spu_interval(soft_label, score).estimate, auc_spu_ceiling(soft_label)

    assert ceiling_gap_interval(soft_label, score).estimate == pytest.approx(ceiling - auc)
    assert ceiling_share_interval(soft_label, score).estimate == pytest.approx((auc - 0.5) / (ceiling - 0.5))
    assert ceiling_share_interval(soft_label, soft_label).standard_error == pytest.approx(0.0, abs=1e-12)


def test_the_ceiling_of_hard_labels_has_no_uncertainty():
    interval = auc_spu_ceiling_interval([1, 0, 0, 1] * 30)

    assert (interval.low, interval.estimate, interval.high) == (1.0, 1.0, 1.0)


def test_perfect_order_still_admits_doubt():
    interval = auc_spu_interval([1] * 50 + [0] * 50, np.r_[np.ones(50), np.zeros(50)])

    assert interval.estimate == interval.high == 1.0
    assert interval.low == pytest.approx(0.025 ** (1 / 50))


def test_few_expected_positives_carry_a_warning_in_words(scored):
    soft_label, score, _ = scored

    assert auc_spu_interval(soft_label, score).warning is None
    assert auc_spu_interval(soft_label * 0.1, score).warning.startswith("Only 11.")
    assert "negatives" in auc_spu_interval(1 - soft_label * 0.1, score).warning
    assert "3 groups" in auc_spu_interval(soft_label, score, groups=np.arange(600) % 3).warning


def test_a_share_of_a_ceiling_of_one_half_is_refused():
    with pytest.raises(SpuError, match="the ceiling is ½"):
        ceiling_share_interval([0.4] * 5, [1, 2, 3, 4, 5])


def test_a_single_group_has_no_standard_error():
    assert np.isnan(standard_error(np.array([1.0, -1.0]), groups=np.array([0, 0])))


def test_bands_hold_the_curve_and_open_where_it_is_0_or_1(scored):
    soft_label, score, _ = scored
    band = roc_spu_band(soft_label, score)

    assert (band.low <= band.tpr).all()
    assert (band.tpr <= band.high).all()
    assert (band.simultaneous_low <= band.low).all()
    assert (band.simultaneous_high >= band.high).all()

    perfect = roc_spu_band([1.0] * 60 + [0.0] * 60, np.r_[np.ones(60), np.zeros(60)])
    assert (perfect.high == 1.0).all()
    assert (perfect.low < 1.0).all()


def test_bands_do_not_fall_to_zero_where_the_curve_is_almost_one():
    """A score with one large tie at its end, as rules give: the logit scale alone would open the band to 0 there."""
    rng = np.random.default_rng(0)
    soft_label = np.r_[rng.uniform(0.2, 0.9, 200), np.full(370, 0.001)]
    band = roc_spu_band(soft_label, np.where(soft_label > 0.1, soft_label, 0.0))

    near_one = band.tpr > 0.99
    assert near_one.any()
    assert band.simultaneous_low[near_one].min() > 0.8


def test_band_and_bootstrap_agree_on_the_spread_at_one_false_positive_rate(scored):
    from spu_core.metrics import roc_spu

    soft_label, score, _ = scored
    rng = np.random.default_rng(3)
    draws = []
    for _ in range(800):
        take = rng.integers(0, 600, 600)
        curve = roc_spu(soft_label[take], score[take])
        draws.append(np.interp(0.2, curve.fpr, curve.tpr))
    band = roc_spu_band(soft_label, score, grid=[0.2])
    spread = (band.high - band.low)[0] / (2 * 1.96)

    assert spread == pytest.approx(np.std(draws), rel=0.12)
