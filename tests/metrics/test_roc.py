"""ROC_SPU: its points, its questions, and the thin line that draws it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from sklearn.metrics import roc_curve

from spu_core import SpuError
from spu_core.metrics import fpr_spu_score, gains_spu, roc_spu, roc_spu_ceiling, tpr_spu_score
from tests.metrics.oracles import largest_vertical_gap, rates_by_threshold
from tests.metrics.strategies import rows

exactly = lambda value: pytest.approx(value, abs=1e-12)  # noqa: E731


@given(rows(weighted=True))
def test_each_point_has_the_rates_of_flagging_above_its_threshold(data):
    soft_label, score, weight = data
    curve = roc_spu(soft_label, score, sample_weight=weight)

    for tpr, fpr, threshold in zip(curve.tpr, curve.fpr, curve.threshold, strict=True):
        assert (tpr, fpr) == exactly(rates_by_threshold(soft_label, score, threshold, weight))
        flagged = score > threshold
        assert tpr_spu_score(soft_label, flagged, sample_weight=weight) == exactly(tpr)
        assert fpr_spu_score(soft_label, flagged, sample_weight=weight) == exactly(fpr)


@given(rows())
def test_at_threshold_answers_for_the_scores_themselves_and_between_them(data):
    soft_label, score = data
    curve = roc_spu(soft_label, score)

    for threshold in [*score, *(score + 0.5), -np.inf, np.inf]:
        point = curve.at_threshold(threshold)
        assert (point.tpr, point.fpr) == exactly(rates_by_threshold(soft_label, score, threshold))
        assert point.flagged == (score > threshold).sum()


@pytest.mark.parametrize("weighted", [False, True])
def test_hard_labels_give_scikit_learns_curve(weighted):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 500)
    score = (truth + rng.normal(size=500)).round(1)
    weight = rng.random(500) if weighted else None

    curve = roc_spu(truth, score, sample_weight=weight)
    fpr, tpr, lowest_flagged = roc_curve(truth, score, sample_weight=weight, drop_intermediate=False)

    np.testing.assert_allclose(curve.fpr, fpr, atol=1e-12)
    np.testing.assert_allclose(curve.tpr, tpr, atol=1e-12)
    np.testing.assert_array_equal(curve.score, lowest_flagged[1:])


def test_at_fpr_takes_the_best_rate_within_the_limit():
    curve = roc_spu([1, 0, 1, 0], [4, 3, 2, 1])

    assert curve.at_fpr(0.0).tpr == 0.5
    assert curve.at_fpr(0.5).tpr == 1.0
    tpr, threshold = curve.at_fpr(0.5)
    assert (tpr, threshold) == (1.0, 1.5)
    assert curve.at_fpr(1.0).flagged == 4


def test_a_budget_is_rows_as_a_whole_number_and_a_share_as_a_fraction():
    curve = roc_spu([1, 0, 1, 0], [4, 3, 3, 1])

    assert curve.at_budget(1).flagged == 1
    assert curve.at_budget(2).flagged == 1  # the tie of two rows does not fit any more
    assert curve.at_budget(0.75).flagged == 3
    assert curve.at_budget(0).threshold == np.inf
    assert curve.at_budget(100).flagged == 4


def test_a_share_budget_is_not_lost_to_rounding_of_weights():
    curve = roc_spu([1, 0.5, 0, 0.2], [4, 3, 2, 1], sample_weight=[0.1, 0.2, 0.3, 0.4])

    assert curve.at_budget(0.6).flagged == pytest.approx(0.6)


def test_the_ceiling_curve_lies_above_every_other():
    rng = np.random.default_rng(1)
    soft_label = rng.random(400).round(2)
    ceiling = roc_spu_ceiling(soft_label)
    curve = roc_spu(soft_label, soft_label + rng.normal(size=400))

    assert (np.interp(curve.fpr, ceiling.fpr, ceiling.tpr) >= curve.tpr - 1e-12).all()


@pytest.mark.parametrize("bad", [-0.1, 1.5, "many"])
def test_questions_outside_their_range_are_refused(bad):
    curve = roc_spu([1, 0], [1, 0])

    with pytest.raises(SpuError):
        curve.at_fpr(bad)
    with pytest.raises(SpuError):
        curve.at_budget(bad)


@pytest.mark.parametrize("size", [2, 50, 5000])
@pytest.mark.parametrize("positives", [0.5, 0.01])
@pytest.mark.parametrize("kind", ["hard", "soft", "tied"])
@pytest.mark.parametrize("max_error", [1e-3, 1e-2])
def test_the_thin_line_stays_within_its_error(size, positives, kind, max_error):
    rng = np.random.default_rng(2)
    soft_label = (rng.random(size) < positives).astype(float)
    soft_label[:2] = 1, 0
    score = soft_label * 1.5 + rng.normal(size=size)
    if kind != "hard":
        soft_label = np.clip(0.6 * soft_label + 0.4 * rng.random(size) * (rng.random(size) < 0.3), 0, 1)
    curve = roc_spu(soft_label, score.round(1) if kind == "tied" else score)

    thin = curve.thin(max_error)

    assert largest_vertical_gap(curve, thin) <= max_error
    assert (thin.fpr[0], thin.tpr[0], thin.fpr[-1], thin.tpr[-1]) == (0, 0, 1, 1)
    assert not hasattr(thin, "auc")


def test_a_coarse_thin_line_stays_within_its_error_on_a_steep_curve():
    soft_label = np.repeat([1.0, 0.0, 1.0, 0.0], [1900, 1, 100, 999])
    score = -np.concatenate([np.arange(1901), 1901 + np.linspace(0, 1, 100), 1901 + np.linspace(0, 1, 999)])
    curve = roc_spu(soft_label, score)

    assert largest_vertical_gap(curve, curve.thin(0.9)) <= 0.9
    assert curve.thin().max_error == 1e-3


def test_a_million_points_become_a_few_hundred():
    rng = np.random.default_rng(3)
    soft_label = rng.random(300_000)

    thin = roc_spu(soft_label, soft_label + rng.normal(size=soft_label.size)).thin(1e-3)

    assert thin.fpr.size < 300


def test_gains_start_at_the_best_rows():
    gains = gains_spu([1, 0, 0, 0], [4, 3, 2, 1])

    assert gains.at_budget(0.25) == (1.0, 4.0)
    assert gains.lift.tolist() == [1.0, 4.0, 2.0, pytest.approx(4 / 3), 1.0]  # no review: neither gain nor loss
