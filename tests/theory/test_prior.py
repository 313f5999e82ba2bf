"""The class prior from scores: BBE by brute force, its upward bias, and Elkan–Noto beside it; Assumption 1."""

from __future__ import annotations

import numpy as np
import pytest

from spu_core import SpuError, estimate_prior


def world(size=6000, prior=0.3, labeling=0.3, distance=3.0, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.random(size) < prior
    return truth & (rng.random(size) < labeling), truth * distance + rng.normal(size=size)


def best_bin_by_trying_every_threshold(is_labeled, score):
    labeled, unlabeled = score[is_labeled], score[~is_labeled]
    noise = np.sqrt(np.log(40) / 2 / unlabeled.size) + np.sqrt(np.log(40) / 2 / labeled.size)
    best, estimate = np.inf, None
    for threshold in np.unique(score):
        q_labeled, q_unlabeled = (labeled >= threshold).mean(), (unlabeled >= threshold).mean()
        if q_labeled > 0 and (bound := q_unlabeled / q_labeled + 1.01 * noise / q_labeled) < best:
            best, estimate = bound, q_unlabeled / q_labeled
    return estimate


@pytest.mark.parametrize("decimals", [8, 1], ids=["no ties", "ties"])
def test_the_estimate_is_the_best_bin_over_all_thresholds(decimals):
    is_labeled, score = world(1500)
    score = score.round(decimals)

    estimate = estimate_prior(is_labeled, score)

    assert estimate.unlabeled_prior == pytest.approx(best_bin_by_trying_every_threshold(is_labeled, score))
    assert estimate.prior == pytest.approx(is_labeled.mean() + (1 - is_labeled.mean()) * estimate.unlabeled_prior)


def test_the_range_goes_from_the_labelled_share_to_the_upper_estimate():
    is_labeled, score = world(20_000, prior=0.1, distance=1.0)
    estimate = estimate_prior(is_labeled, score)

    assert estimate.range == (is_labeled.mean(), estimate.high)
    assert estimate.low > 0.2  # the band for sampling noise misses the true 10 % by far; the range holds it
    assert estimate.range[0] < 0.1 < estimate.range[1]
    assert estimate.sentence.startswith(f"Between {is_labeled.mean():.1%} (confirmed cases alone) and")


def test_labels_of_easy_positives_first_make_the_upper_estimate_too_low():
    rng = np.random.default_rng(0)
    truth = rng.random(20_000) < 0.2
    score = 1.5 * truth + rng.normal(size=20_000)
    is_labeled = truth & (rng.random(20_000) < 0.3) & (score > 2.5)

    assert estimate_prior(is_labeled, score).high < 0.2


def test_easy_scores_give_the_prior_and_hard_ones_err_high():
    easy, hard = estimate_prior(*world(40_000, distance=5.0)), estimate_prior(*world(40_000, distance=1.0))

    assert easy.prior == pytest.approx(0.3, abs=0.02)
    assert hard.prior > 0.35
    assert easy.low <= easy.prior <= easy.high


def test_elkan_noto_divides_the_labelled_share_by_the_mean_score_of_labelled_rows():
    is_labeled, margin = world(20_000, distance=6.0)
    probability = np.where(margin > 3.0, 0.3, 0.0)  # P(labelled|x) in this world

    assert estimate_prior(is_labeled, probability).elkan_noto == pytest.approx(0.3, abs=0.02)
    assert estimate_prior(is_labeled, margin).elkan_noto is None


def test_few_labels_are_said_to_be_noise():
    is_labeled, score = world(300, labeling=0.05)

    assert "below 20 the estimate is mostly noise" in estimate_prior(is_labeled, score).warning
    assert estimate_prior(np.arange(100) < 20, np.arange(100.0)).warning is None
    assert estimate_prior(np.arange(100) < 19, np.arange(100.0)).warning is not None


def test_one_kind_of_row_is_refused():
    for is_labeled in ([False, False], [True, True]):
        with pytest.raises(SpuError, match="both labelled and unlabelled rows"):
            estimate_prior(is_labeled, [0.1, 0.2])
