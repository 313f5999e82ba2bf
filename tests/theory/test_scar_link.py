"""Theorem 2: the linear map between true and SPU metrics, both ways, and what E[S] allows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spu_core import ScarLink, SpuError
from spu_core.metrics import Interval, auc_spu_ceiling, auc_spu_score, fpr_spu_score, tpr_spu_score
from spu_core.theory import AdmissibleRegion

shares = st.floats(0.01, 0.99)


@given(shares, shares, shares, st.floats(0, 1), st.floats(0, 1))
def test_both_directions_undo_each_other(prior, first, second, tpr, fpr):
    assume(abs(first - second) > 0.01)
    link = ScarLink(prior, max(first, second), min(first, second))

    assert link.true_auc(link.auc_spu(tpr)) == pytest.approx(tpr, abs=1e-9)
    assert link.true_rates(*link.spu_rates(tpr, fpr)) == pytest.approx((tpr, fpr), abs=1e-9)


@given(shares, shares, shares)
def test_the_coefficients_are_shares_and_their_determinant_is_positive(prior, first, second):
    assume(abs(first - second) > 0.01)
    link = ScarLink(prior, max(first, second), min(first, second))

    assert link.a + link.b == pytest.approx(1)
    assert link.c + link.d == pytest.approx(1)
    assert link.slope == pytest.approx(link.a * link.d - link.b * link.c)
    assert link.slope > 0
    assert link.perfect_level == pytest.approx(0.5 * (1 + link.a - link.c))


def test_theorem_2_holds_within_monte_carlo_error_under_generalized_scar():
    rng = np.random.default_rng(0)
    truth = rng.random(400_000) < 0.3
    soft_label = np.where(truth, rng.beta(2, 2, truth.size), rng.beta(1, 4, truth.size))
    score = truth * 1.2 + rng.normal(size=truth.size)
    link = ScarLink(0.3, 0.5, 0.2)

    # Standard errors at this size are below .001.
    assert auc_spu_score(soft_label, score) == pytest.approx(link.auc_spu(auc_spu_score(truth, score)), abs=0.004)
    flagged = score > 1.0
    tpr, fpr = flagged[truth].mean(), flagged[~truth].mean()
    expected = link.spu_rates(tpr, fpr)
    measured = tpr_spu_score(soft_label, flagged), fpr_spu_score(soft_label, flagged)
    assert measured == pytest.approx(expected, abs=0.004)


def test_the_papers_image_setting_has_a_perfect_level_far_below_its_ceiling():
    """S in {0, ¼, ½, ¾, 1}: each with probability 1/5 for positives; π(4−k)/(5k(1−π)) for negatives, k = 1, 2, 3."""
    prior, k = 0.1, np.arange(1, 4)
    negatives = np.zeros(5)
    negatives[1:4] = prior * (4 - k) / (5 * k * (1 - prior))
    negatives[0] = 1 - negatives.sum()
    values = np.arange(5) / 4
    weight = prior * 0.2 + (1 - prior) * negatives

    assert auc_spu_ceiling(values, sample_weight=weight) == pytest.approx(0.979, abs=5e-4)
    link = ScarLink(prior, 0.5, float(negatives @ values))
    assert link.perfect_level == pytest.approx(0.785, abs=5e-4)


def test_from_truth_measures_the_three_numbers():
    link = ScarLink.from_truth([0.9, 0.7, 0.1, 0.3], [1, 1, 0, 0])

    assert (link.prior, link.positive_mean, link.negative_mean) == pytest.approx((0.5, 0.8, 0.2))


def test_an_implied_auc_above_one_reads_assumption_refuted():
    link = ScarLink(0.1, 0.5, 0.2)
    implied = link.true_auc_interval(Interval(0.9, 0.88, 0.92, 0.01))

    assert implied.warning.startswith("Assumption refuted: the implied true AUC would be")
    assert implied.low < implied.estimate < implied.high
    assert implied.standard_error == pytest.approx(0.01 / link.slope)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((0.1, 0.2, 0.3), "positive_mean must exceed negative_mean"),
        ((0.0, 0.5, 0.1), "prior must lie strictly between 0 and 1, got 0"),
        ((0.1, 1.5, 0.1), r"positive_mean must lie in \[0, 1\], got 1.5"),
        ((0.1, 0.5, float("nan")), "negative_mean must be one finite number"),
    ],
)
def test_contradictions_are_refused_in_words(arguments, sentence):
    with pytest.raises(SpuError, match=sentence):
        ScarLink(*arguments)


def test_truth_of_one_class_is_refused():
    with pytest.raises(SpuError, match="one class only"):
        ScarLink.from_truth([0.1, 0.2], [1, 1])


@given(shares, shares, shares)
def test_the_admissible_region_holds_exactly_the_links_with_that_mean(mean, prior, positive_mean):
    region = AdmissibleRegion(mean)
    negative_mean = (mean - prior * positive_mean) / (1 - prior)
    assume(abs(negative_mean) > 1e-9)
    assume(abs(positive_mean - mean) > 1e-9)

    assert region.contains(prior, positive_mean) == (0 <= negative_mean < positive_mean)
    if region.contains(prior, positive_mean):
        assert ScarLink.from_mean(mean, prior, positive_mean).mean == pytest.approx(mean)


def test_what_the_mean_does_not_allow_is_refused_with_the_range():
    with pytest.raises(SpuError, match=r"positive_mean must be above 0\.2 and at most 0\.5, got 0\.9"):
        ScarLink.from_mean(0.2, 0.4, 0.9)
