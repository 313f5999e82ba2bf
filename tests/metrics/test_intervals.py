"""Intervals and paired tests against full-matrix formulas, DeLong and the bootstrap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import beta
from scipy.stats import t as student_t

from spu_core import SpuError
from spu_core.metrics import (
    auc_spu_ceiling,
    auc_spu_ceiling_interval,
    auc_spu_influence,
    auc_spu_interval,
    ceiling_gap_interval,
    ceiling_share_interval,
    compare_auc_spu,
    known_positive_auc_interval,
    roc_spu,
    roc_spu_band,
    spread_of,
)
from spu_core.metrics.intervals import p_value_text
from spu_core.metrics.ranking import Masses
from tests.metrics.bootstrap import bootstrap_auc_spu
from tests.metrics.oracles import auc_by_counting_pairs, influence_by_counting_pairs
from tests.metrics.strategies import rows


@pytest.fixture
def scored():
    rng = np.random.default_rng(0)
    soft_label = rng.beta(0.5, 2, 600)
    return soft_label, soft_label + 0.3 * rng.normal(size=600), soft_label + 0.4 * rng.normal(size=600)


@settings(deadline=None)
@given(rows())
def test_influence_values_equal_the_full_matrix_and_sum_to_zero(data):
    soft_label, score = data
    influence = auc_spu_influence(soft_label, score)

    np.testing.assert_allclose(influence.value, influence_by_counting_pairs(soft_label, score), atol=1e-9)
    assert influence.value.sum() == pytest.approx(0.0, abs=1e-9)


def delong(truth, *scores):
    """DeLong (1988): AUCs, and their covariance S10/m + S01/n from sample covariances of the placement values."""
    wins = [
        (score[truth][:, None] > score[~truth]) + 0.5 * (score[truth][:, None] == score[~truth]) for score in scores
    ]
    of_positives, of_negatives = np.array([w.mean(1) for w in wins]), np.array([w.mean(0) for w in wins])
    return of_positives.mean(1), np.cov(of_positives) / truth.sum() + np.cov(of_negatives) / (~truth).sum()


def test_hard_labels_give_delongs_standard_errors():
    rng = np.random.default_rng(1)
    truth = np.arange(300) < 9
    one, two = truth + rng.normal(size=300), np.round(truth + rng.normal(size=300), 1)
    aucs, covariance = delong(truth, one, two)

    single = known_positive_auc_interval(truth, one)
    assert (single.estimate, single.standard_error) == pytest.approx((aucs[0], np.sqrt(covariance[0, 0])), rel=1e-12)
    assert known_positive_auc_interval(truth, two).standard_error == pytest.approx(np.sqrt(covariance[1, 1]), rel=1e-12)
    paired = compare_auc_spu(truth.astype(float), one, two)
    assert paired.estimate == pytest.approx(aucs[0] - aucs[1])
    assert paired.standard_error == pytest.approx(np.sqrt([1, -1] @ covariance @ [1, -1]), rel=1e-12)


def test_standard_error_and_degrees_of_freedom_equal_sums_over_groups_one_by_one():
    rng = np.random.default_rng(2)
    group = np.repeat(np.arange(12), rng.integers(1, 9, 12))
    soft_label, weight = rng.random(group.size) ** 3, rng.random(group.size) + 0.2
    score = soft_label + rng.normal(size=group.size) + rng.normal(size=12)[group]
    positive, negative = weight * soft_label, weight * (1 - soft_label)
    wins = (score[:, None] > score) + 0.5 * (score[:, None] == score)
    auc = positive @ wins @ negative / (positive.sum() * negative.sum())

    moved, mass = np.zeros((2, 12)), np.zeros((2, 12))
    for row, g in enumerate(group):
        moved[0, g] += positive[row] / positive.sum() * (wins[row] @ negative / negative.sum() - auc)
        moved[1, g] += negative[row] / negative.sum() * (positive @ wins[:, row] / positive.sum() - auc)
        mass[:, g] += positive[row], negative[row]
    number = mass.sum(1) ** 2 / (mass**2).sum(1)
    whole = (np.sqrt(number / (number - 1))[:, None] * moved).sum(0)

    shuffled = np.array(["b", "a", *"cdefghijkl"])[group]
    found = auc_spu_interval(soft_label, score, sample_weight=weight, groups=shuffled)
    influence = auc_spu_influence(soft_label, score, sample_weight=weight)
    spread = spread_of(influence, Masses(soft_label, weight), group)
    error, degrees = np.sqrt((whole**2).sum()), min((whole**2).sum() ** 2 / (whole**4).sum(), number.min() - 1)
    assert (found.standard_error, spread.standard_error) == pytest.approx((error, error))
    assert spread.degrees == pytest.approx(degrees)
    reach = student_t.ppf(0.975, degrees) * error / (auc * (1 - auc))
    assert np.log(found.high / (1 - found.high)) == pytest.approx(np.log(auc / (1 - auc)) + reach)
    assert found.warning == (
        f"The effective number of groups with positives is {number[0]:.1f}; "
        "below 10 confidence intervals tend to be too narrow."
    )


def test_the_paired_test_uses_students_t():
    rng = np.random.default_rng(3)
    truth = np.arange(60) < 12
    one, two = truth + rng.normal(size=60), rng.normal(size=60)
    difference = compare_auc_spu(truth, one, two)
    influence = auc_spu_influence(truth, one) - auc_spu_influence(truth, two)
    degrees = spread_of(influence, Masses(truth.astype(float))).degrees

    assert degrees < 40
    assert difference.p_value == pytest.approx(
        2 * student_t.sf(abs(difference.estimate) / difference.standard_error, degrees)
    )


def test_groups_of_one_row_change_nothing(scored):
    soft_label, score, _ = scored

    assert auc_spu_interval(soft_label, score, groups=np.arange(600)) == auc_spu_interval(soft_label, score)


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
    assert difference.is_clear == (difference.p_value < 0.05)


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

    assert (interval.low, interval.estimate, interval.high, interval.level) == (1.0, 1.0, 1.0, 0.95)


def test_perfect_order_still_admits_doubt():
    interval = auc_spu_interval([1] * 50 + [0] * 50, np.r_[np.ones(50), np.zeros(50)])

    assert interval.estimate == interval.high == 1.0
    assert interval.low == pytest.approx(0.025 ** (1 / 50))
    fewer = auc_spu_interval([1] * 30 + [0] * 50, np.r_[np.ones(30), np.zeros(50)])
    assert fewer.low == pytest.approx(0.025 ** (1 / 30))


def test_the_interval_of_confirmed_cases_is_that_of_their_labels(scored):
    _, score, other = scored
    labels, groups = other > 0.0, np.arange(600) // 3

    for asked in ({}, {"level": 0.8}, {"groups": groups}, {"sample_weight": np.arange(1, 601)}):
        assert known_positive_auc_interval(labels, score, **asked) == auc_spu_interval(labels, score, **asked)


def test_a_p_value_below_one_in_a_thousand_is_not_spelled_out():
    assert [p_value_text(value) for value in (0.0007, 0.001, 0.0999, 0.1)] == [
        "p < 0.001",
        "p = 0.001",
        "p = 0.100",
        "p = 0.10",
    ]


def test_a_small_effective_number_carries_a_warning_in_words(scored):
    soft_label, score, _ = scored
    few = np.where(np.arange(600) < 9, 1.0, 0.0)

    assert auc_spu_interval(soft_label, score).warning is None
    assert auc_spu_interval(few, score).warning.startswith("The effective number of positives is 9.0; below 10")
    assert "number of negatives is 9.0" in auc_spu_interval(1 - few, score).warning
    assert "groups with positives is 3" in auc_spu_interval(soft_label, score, groups=np.arange(600) % 3).warning
    unequal = np.repeat(np.arange(31), [570] + [1] * 30)
    dominated = auc_spu_interval(soft_label, score, groups=unequal)
    assert "groups with positives is 1.1" in dominated.warning
    assert (dominated.low, dominated.high) == pytest.approx((0.0, 1.0))  # one group decides: nothing is known
    one_heavy = np.where(np.arange(600) == 0, 1e4, 1.0)
    assert "negatives is 1." in auc_spu_interval(soft_label, score, sample_weight=one_heavy).warning


def test_gap_and_share_of_hard_labels_are_the_interval_of_the_auc_on_other_scales():
    rng = np.random.default_rng(4)
    truth = np.arange(200) < 15
    score = truth + rng.normal(size=200)
    auc = auc_spu_interval(truth, score)
    gap, share = ceiling_gap_interval(truth, score), ceiling_share_interval(truth, score)

    assert (gap.low, gap.high) == pytest.approx((1 - auc.high, 1 - auc.low))
    assert (share.low, share.high) == pytest.approx((2 * auc.low - 1, 2 * auc.high - 1))


def test_a_share_of_a_ceiling_of_one_half_is_refused():
    with pytest.raises(SpuError, match="the ceiling is ½"):
        ceiling_share_interval([0.4] * 5, [1, 2, 3, 4, 5])


def test_a_single_group_or_positive_says_nothing_of_the_spread(scored):
    soft_label, score, other = scored
    alone = np.where(np.arange(600) == 7, 1.0, 0.0)

    for found in (auc_spu_interval(soft_label, score, groups=np.zeros(600)), auc_spu_interval(alone, score)):
        assert np.isnan(found.standard_error)
        assert (found.low, found.high) == (0.0, 1.0)
    difference = compare_auc_spu(soft_label, score, other, groups=np.zeros(600))
    assert np.isnan(difference.p_value)
    assert not difference.is_clear
    assert (difference.low, difference.high) == (-1.0, 1.0)


def test_bands_hold_the_curve_and_open_where_it_is_0_or_1(scored):
    soft_label, score, _ = scored
    band = roc_spu_band(soft_label, score)

    assert (band.low <= band.tpr).all()
    assert (band.tpr <= band.high).all()
    assert (band.simultaneous_low < band.low).all()
    assert (band.simultaneous_high > band.high).all()

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
    assert band.simultaneous_low[near_one].min() > 0.75


def curve_point_by_definition(soft_label, score, fpr):
    """TPR_SPU where the curve reaches an FPR_SPU; a tie that holds the point is flagged in part."""
    reached_fpr = reached_tpr = 0.0
    for value in np.unique(score)[::-1]:
        tie = score == value
        right = reached_fpr + (1 - soft_label[tie]).sum() / (1 - soft_label).sum()
        gained = soft_label[tie].sum() / soft_label.sum()
        if right > fpr + 1e-12:
            return reached_tpr + gained * (fpr - reached_fpr) / (right - reached_fpr)
        reached_fpr, reached_tpr = right, reached_tpr + gained
    return 1.0


@pytest.mark.parametrize("decimals", [0, 1, 9])
def test_the_band_lies_around_the_curve_of_the_definition(decimals):
    rng = np.random.default_rng(decimals)
    soft_label = np.round(rng.random(120) ** 2, 1)
    score = np.round(soft_label + 0.5 * rng.normal(size=120), decimals)
    grid = [0.05, 0.2, 0.21, 0.5, 0.9]
    band = roc_spu_band(soft_label, score, grid=grid)

    assert band.tpr == pytest.approx([curve_point_by_definition(soft_label, score, u) for u in grid])


def test_where_all_positives_are_flagged_the_band_opens_as_far_as_that_many_could_hide():
    truth, score = np.arange(400) < 25, np.r_[np.linspace(2, 3, 25), np.linspace(0, 1, 375)]
    band = roc_spu_band(truth, score, grid=[0.3, 0.6])

    assert band.high.tolist() == [1.0, 1.0]
    # As many as 25 of 25, but for a quarter: what Clopper and Pearson would give is 0.025 ** (1 / 25) = .863.
    assert band.low == pytest.approx(beta.ppf(0.025, 25.25, 0.75), abs=1e-9)
    assert 0.86 < band.low[0] < 0.89


def test_too_few_positives_or_groups_give_no_band_but_a_reason(scored):
    soft_label, score, _ = scored
    few = roc_spu_band(np.arange(600) < 9, score)
    grouped = roc_spu_band(soft_label, score, groups=np.repeat(np.arange(6), 100))

    assert few.fpr.size == few.low.size == few.simultaneous_high.size == 0
    assert few.missing_because == (
        "No confidence band: it needs an effective number of at least 10 positives, and there are 9.0."
    )
    assert "at least 10 groups with positives" in grouped.missing_because
    assert roc_spu_band(soft_label, score).missing_because is None
    few_negatives = roc_spu_band(np.arange(600) >= 12, score)
    assert few_negatives.missing_because == (
        "No confidence band: every threshold has too few negatives above or below it."
    )


def test_the_default_grid_has_eight_negatives_on_each_side():
    rng = np.random.default_rng(5)
    truth = np.arange(300) < 200
    band = roc_spu_band(truth, truth + rng.normal(size=300))

    assert band.fpr[0] >= 0.08
    assert band.fpr[-1] <= 0.92
    assert band.fpr[0] < 0.1
    assert band.fpr[-1] > 0.9


def test_the_default_grid_has_eight_groups_with_negatives_on_each_side():
    rng = np.random.default_rng(6)
    truth, groups = np.arange(300) % 3 > 0, np.repeat(np.arange(20), 15)
    band = roc_spu_band(truth, rng.normal(size=20)[groups] + 1e-3 * rng.normal(size=300), groups=groups)

    assert 0.35 < band.fpr[0] <= band.fpr[-1] < 0.65


def test_many_rows_are_dealt_to_units_without_changing_the_band_much(scored, monkeypatch):
    soft_label, score, _ = scored
    exact = roc_spu_band(soft_label, score)
    monkeypatch.setattr("spu_core.metrics.band.MOST_UNITS", 300)
    dealt = roc_spu_band(soft_label, score)

    # The standard error of a standard error from 300 units is 1/√600 = 4 %.
    np.testing.assert_allclose(dealt.high - dealt.low, exact.high - exact.low, rtol=0.2)
    assert (dealt.high - dealt.low != exact.high - exact.low).any()


@pytest.mark.parametrize(("rows_per_group", "decimals"), [(1, 9), (5, 9), (1, 0)])
def test_band_and_bootstrap_agree_on_the_spread_at_one_false_positive_rate(scored, rows_per_group, decimals):
    soft_label, score, _ = scored
    score = np.round(score, decimals)  # to whole numbers: the point lies inside a large tie
    if rows_per_group > 1:  # rows of a group share both
        soft_label, score = np.sort(soft_label), score[np.argsort(soft_label)]
    groups = np.arange(600) // rows_per_group
    rows_of = np.arange(600).reshape(-1, rows_per_group)
    rng = np.random.default_rng(3)
    draws = []
    for _ in range(800):
        take = rows_of[rng.integers(0, len(rows_of), len(rows_of))].ravel()
        curve = roc_spu(soft_label[take], score[take])
        draws.append(np.interp(0.1, curve.fpr, curve.tpr))
    band = roc_spu_band(soft_label, score, grid=[0.1], groups=groups)
    spread = (band.high - band.low)[0] / (2 * 1.96)

    assert spread == pytest.approx(np.std(draws), rel=0.1)
