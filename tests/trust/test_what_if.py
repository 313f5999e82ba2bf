"""What-ifs: Theorem 2 turned round, with E[S] tying the three numbers together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spu_core.errors import AssumptionError
from spu_core.metrics import Interval, auc_spu_interval, fpr_spu_score, roc_spu, tpr_spu_score
from spu_core.theory import ScarLink
from spu_core.training import TrainConfig, cross_fit
from spu_core.trust import Marker, WhatIf
from spu_core.trust.what_if import _rate_covariance
from tests.training.worlds import make_world

WHAT_IF = WhatIf(0.2, Interval(0.7, 0.68, 0.72, 0.01), 0.5, 0.3, 0.05, ((4e-4, 1e-5), (1e-5, 1e-5)))


@pytest.mark.parametrize("quantity", ["true_auc", "tpr", "fpr"])
def test_the_map_is_the_link_of_theory_at_every_point(quantity):
    priors, means = np.array([0.1, 0.3, 0.9]), np.array([0.21, 0.5, 1.0])
    found = WHAT_IF.map(priors, means, quantity)
    for i, prior in enumerate(priors):
        for j, mean in enumerate(means):
            if not WHAT_IF.region.contains(prior, mean):
                assert np.isnan(found[i, j])
                continue
            link = ScarLink.from_mean(0.2, prior, mean)
            rates = link.true_rates(0.3, 0.05)
            expected = {"true_auc": link.true_auc(0.7), "tpr": rates[0], "fpr": rates[1]}[quantity]
            assert found[i, j] == pytest.approx(expected)


def test_where_the_assumption_holds_the_truth_comes_back():
    rng = np.random.default_rng(0)
    truth = rng.random(60_000) < 0.2
    score = truth + rng.normal(size=truth.size)
    soft_label = np.clip(np.where(truth, 0.7, 0.1) + rng.normal(0, 0.05, truth.size), 0, 1)
    link, curve = ScarLink.from_truth(soft_label, truth), roc_spu(soft_label, score)
    point = curve.at_threshold(1.0)
    covariance = _rate_covariance(soft_label, score > 1.0, (point.tpr, point.fpr))
    interval = auc_spu_interval(soft_label, score)
    what_if = WhatIf(soft_label.mean(), interval, 1.0, point.tpr, point.fpr, covariance)
    implied = what_if.at(link.prior, link.positive_mean)

    assert implied.true_auc.estimate == pytest.approx(roc_spu(truth.astype(float), score).auc, abs=0.01)
    assert (score[truth] > 1.0).mean() in implied.tpr
    assert (score[~truth] > 1.0).mean() in implied.fpr
    assert not implied.is_refuted
    assert "then the true AUC is" in implied.sentence


def test_rates_have_the_error_that_resampling_shows():
    rng = np.random.default_rng(1)
    soft_label, score = rng.random(500), rng.random(500)
    flagged = score > 0.6

    def rates(rows):
        s, f = soft_label[rows], flagged[rows]
        return (s * f).sum() / s.sum(), ((1 - s) * f).sum() / (1 - s).sum()

    draws = np.array([rates(rng.integers(0, 500, 500)) for _ in range(2000)])
    found = np.array(_rate_covariance(soft_label, flagged, rates(np.arange(500))))
    assert found == pytest.approx(np.cov(draws.T), rel=0.15, abs=2e-5)


def test_rates_of_rows_that_belong_together_have_the_error_of_resampled_groups():
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(100), 5)
    soft_label, flagged = np.repeat(rng.random(100), 5), np.repeat(rng.random(100) > 0.6, 5)

    def rates(drawn):
        s, f = soft_label[::5][drawn], flagged[::5][drawn]
        return (s * f).sum() / s.sum(), ((1 - s) * f).sum() / (1 - s).sum()

    draws = np.array([rates(rng.integers(0, 100, 100)) for _ in range(2000)])
    found = np.array(_rate_covariance(soft_label, flagged, rates(np.arange(100)), None, groups))
    assert found == pytest.approx(np.cov(draws.T), rel=0.15, abs=1e-4)


def test_impossible_values_read_assumption_refuted():
    implied = WHAT_IF.at(0.3, 0.3)
    assert implied.is_refuted
    assert implied.is_surely_refuted
    assert implied.sentence.endswith("which is impossible: assumption refuted.")
    assert "true AUC would be" in implied.sentence


def test_what_the_mean_does_not_allow_is_refused_with_the_range():
    with pytest.raises(AssumptionError, match=r"positive_mean must be above 0.2 and at most 0.4"):
        WHAT_IF.at(0.5, 0.9)


@given(
    prior=st.floats(0.01, 0.99),
    part=st.floats(0.01, 1.0),
    name=st.sampled_from(["prior", "positive_mean", "negative_mean"]),
    value=st.floats(0.01, 0.99),
)
def test_moving_one_number_always_ends_where_the_mean_allows(prior, part, name, value):
    low, high = WHAT_IF.region.positive_means(prior)
    start = prior, low + part * (high - low)
    moved = WHAT_IF.moved(start, name, value)
    implied = WHAT_IF.at(*moved)
    assert implied.link.mean == pytest.approx(0.2, abs=1e-9)
    if name == "prior":
        assert moved[0] == value


def test_it_starts_at_the_best_marker_that_the_mean_allows():
    assert WHAT_IF.default((Marker("audit", 0.25, 0.6),)) == (0.25, 0.6)
    assert WHAT_IF.default((Marker("impossible", 0.9, 0.9), Marker("BBE", 0.3)))[0] == 0.9
    assert WHAT_IF.default() == pytest.approx((0.2, (0.2 + 1.0) / 2))
    assert WHAT_IF.default((Marker("BBE", 0.4),)) == pytest.approx((0.4, (0.2 + 0.5) / 2))


def test_what_moving_one_number_does_to_the_others():
    assert WHAT_IF.moved((0.3, 0.2), "prior", 0.5) == pytest.approx((0.5, 0.2 + 1e-3 * (0.4 - 0.2)))
    assert WHAT_IF.moved((0.3, 0.5), "positive_mean", 0.1) == pytest.approx((0.3, 0.2 + 1e-3 * 0.8))
    # S_P would have to be 1.55: more rows must be positive.
    assert WHAT_IF.moved((0.1, 0.9), "negative_mean", 0.05) == pytest.approx((0.15 / 0.95, 1.0))


def test_the_what_if_of_a_run_counts_its_weights():
    table, soft_labels = make_world(200)
    frame = table.frame.assign(weight=np.random.default_rng(0).random(200) + 0.1)
    weighted = type(table).from_frame(frame, roles={**table.roles, "weight": "weight"})
    [run] = cross_fit(weighted, soft_labels, ["rule_score"], TrainConfig(folds=3, threads=1))
    soft_label, weight = run.evaluation.judged_soft_label, run.evaluation.judged_weight

    found = WhatIf.of_run(run, threshold=0.3)

    flagged = run.need_score()[run.evaluation.judged] > 0.3
    assert found.mean == pytest.approx((soft_label * weight).sum() / weight.sum())
    assert found.tpr_spu == pytest.approx(tpr_spu_score(soft_label, flagged, sample_weight=weight))
    assert found.fpr_spu == pytest.approx(fpr_spu_score(soft_label, flagged, sample_weight=weight))
