"""Details that the other tests of theory pass over; each was found by breaking the code at random."""

import numpy as np
import pytest

from spu_core.theory import AdmissibleRegion, ScarLink, estimate_monotone_link, estimate_prior


def best_bin_estimate(is_labeled, score):
    """BBE as published: of all heights, the one whose ratio plus its sampling error is lowest (δ = 0.1, γ = 0.01)."""
    labeled, unlabeled = score[is_labeled], score[~is_labeled]
    noise = sum(np.sqrt(np.log(4 / 0.1) / (2 * part.size)) for part in (labeled, unlabeled))
    found = []
    for height in np.unique(score)[::-1]:
        share = np.mean(labeled >= height)
        if share > 0:
            ratio = np.mean(unlabeled >= height) / share
            found.append((ratio + 1.01 * noise / share, -share, ratio))
    return min(1.0, min(found, key=lambda entry: entry[0])[2])


@pytest.mark.parametrize("start", range(0, 300, 100))
def test_the_share_of_hidden_positives_is_that_of_the_best_bin(start):
    for seed in range(start, start + 100):
        rng = np.random.default_rng(seed)
        truth = rng.random(200) < 0.4
        is_labeled = truth & (rng.random(200) < 0.4)
        score = np.round(rng.normal(size=200) + truth, 1)
        assert estimate_prior(is_labeled, score, replicates=2).unlabeled_prior == pytest.approx(
            best_bin_estimate(is_labeled, score)
        )


def test_scores_of_0_for_all_labelled_rows_say_nothing_about_the_labelling_rate():
    assert estimate_prior([True, True, False, False], [0.0, 0.0, 0.4, 0.9]).elkan_noto is None


def test_the_noise_of_a_link_is_half_of_the_largest_fall_that_its_slope_leaves():
    """With a slope of 0.1, S − 0.1 η is 0, 0.35, 0.1: it falls by 0.25."""
    link = estimate_monotone_link([0.0, 0.4, 0.2], [0.0, 0.5, 1.0], slopes=[0.1])

    assert link.noise == pytest.approx(0.125)


def test_the_density_of_a_link_is_the_largest_share_of_rows_in_a_window_over_its_width():
    truth = np.repeat([0.2, 0.7], [50, 51])

    assert estimate_monotone_link(truth, truth).density == pytest.approx(51 / 101 / 0.02)


@pytest.mark.parametrize(("positive_mean", "is_inside"), [(0.2, False), (0.21, True), (0.5, True), (0.51, False)])
def test_positives_are_believed_more_than_the_mean_and_at_most_as_much_as_it_allows(positive_mean, is_inside):
    assert AdmissibleRegion(mean=0.2).contains(0.4, positive_mean) is is_inside


def test_negatives_may_have_no_belief_and_positives_full_belief():
    link = ScarLink(prior=0.2, positive_mean=1.0, negative_mean=0.0)

    assert link.true_auc(0.9) == pytest.approx(0.9)
