"""Theorem 4: the printed bound fails for large priors, the sharp one holds and cannot be smaller."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spu_core import SpuError, noisy_monotone_bound
from spu_core.theory import estimate_monotone_link


def auc_of_rows(probability, score):
    """True AUC of a score when row i is positive with probability[i], counting in expectation."""
    order = np.argsort(score, kind="stable")
    positive, negative = probability[order], 1 - probability[order]
    # Rows are independent, so a row's own pair does not exist; at this size it does not matter.
    return (positive * (np.cumsum(negative) - negative / 2)).sum() / positive.sum() / negative.sum()


def hardest_noise(prior, noise, size=200_001, width=0.02):
    """η uniform on a narrow window around the prior; E[S|X] = η ± ε, with the sign that swaps neighbours."""
    probability = np.linspace(prior - width, prior + width, size)
    shift = np.where(np.arange(size) % 2 == 0, noise, -noise)
    density = 1 / (2 * width)
    return probability, probability + shift, density


@pytest.mark.parametrize("prior", [0.05, 0.25, 0.5, 0.75, 0.95])
@pytest.mark.parametrize("noise", [0.002, 0.01, 0.05])
def test_the_sharp_bound_holds_where_neighbours_swap(prior, noise):
    probability, soft, density = hardest_noise(prior, noise)
    loss = auc_of_rows(probability, probability) - auc_of_rows(probability, soft)

    bound = noisy_monotone_bound(noise=noise, slope=1.0, density=density, prior=prior)

    assert 0 < loss <= bound.auc_loss


def test_the_printed_bound_is_violated_at_a_prior_of_95_percent():
    worst = 0.0
    for noise in (0.005, 0.01, 0.015):
        probability, soft, density = hardest_noise(0.95, noise)
        loss = auc_of_rows(probability, probability) - auc_of_rows(probability, soft)
        printed = noisy_monotone_bound(noise=noise, slope=1.0, density=density, prior=0.95, version="printed")
        sharp = noisy_monotone_bound(noise=noise, slope=1.0, density=density, prior=0.95)
        worst = max(worst, loss / printed.auc_loss)
        assert loss <= sharp.auc_loss

    assert worst > 1.0


@pytest.mark.parametrize("prior", [0.05, 0.5, 0.95])
def test_part_1_bounds_the_rates_at_the_same_number_of_flagged_rows(prior):
    probability, soft, density = hardest_noise(prior, 0.01)
    bound = noisy_monotone_bound(noise=0.01, slope=1.0, density=density, prior=prior)
    for share in (0.2, 0.5, 0.8):
        count = int(share * probability.size)
        best, ours = np.argsort(-probability)[:count], np.argsort(-soft, kind="stable")[:count]
        tpr_loss = (probability[best].sum() - probability[ours].sum()) / probability.sum()
        fpr_loss = ((1 - probability[ours]).sum() - (1 - probability[best]).sum()) / (1 - probability).sum()
        assert tpr_loss <= bound.tpr_loss
        assert fpr_loss <= bound.fpr_loss


@given(st.integers(0, 10_000), st.floats(0.2, 3.0), st.floats(0.0, 1.0))
def test_the_sharp_bound_holds_for_random_densities_links_and_noise(seed, slope, reach):
    """η spread unevenly, h a line plus a random rise, noise as large as allowed in a random part of the cells."""
    rng, cells = np.random.default_rng(seed), 300
    mass = rng.random(6).repeat(cells // 6)
    mass = mass / mass.sum()
    low, high = np.sort(rng.random(2))
    width = (high - low) / cells
    probability = low + width * (np.arange(cells) + 0.5)
    prior, density = float(mass @ probability), float(mass.max() / width)
    link = slope * probability + np.cumsum(rng.random(cells) * (rng.random(cells) < 0.05))
    noise = 0.3 * reach * slope * (high - low)
    soft = link + noise * rng.choice([-1.0, 0.0, 1.0], cells) * rng.choice([1.0, rng.random()], cells)
    # Each cell is a stretch of η with one value of E[S|X], so the noise reaches half a cell further.
    bound = noisy_monotone_bound(noise=noise + slope * width / 2, slope=slope, density=density, prior=prior)

    best, ours = np.arange(cells)[::-1], np.argsort(-soft)
    flagged, positive = np.cumsum(mass[ours]), np.cumsum((mass * probability)[ours])
    most = np.interp(flagged, np.cumsum(mass[best]), np.cumsum((mass * probability)[best]))
    assert ((most - positive) / prior).max() <= bound.tpr_loss * (1 + 1e-9)
    assert ((most - positive) / (1 - prior)).max() <= bound.fpr_loss * (1 + 1e-9)


def test_the_corrected_bound_of_earlier_versions_is_twice_the_sharp_one():
    numbers = {"noise": 0.1, "slope": 0.5, "density": 3.0, "prior": 0.2}
    sharp, corrected = noisy_monotone_bound(**numbers), noisy_monotone_bound(**numbers, version="corrected")

    assert sharp.tpr_loss == pytest.approx(3 * 0.01 / (0.2 * 0.25))
    assert sharp.fpr_loss == pytest.approx(3 * 0.01 / (0.8 * 0.25))
    assert sharp.auc_loss == pytest.approx(3 * 0.01 / (0.2 * 0.8 * 0.25))
    assert (corrected.tpr_loss, corrected.fpr_loss, corrected.auc_loss) == pytest.approx(
        (2 * sharp.tpr_loss, 2 * sharp.fpr_loss, 2 * sharp.auc_loss)
    )


def test_the_printed_formulas_are_those_of_the_paper():
    bound = noisy_monotone_bound(noise=0.1, slope=0.5, density=3.0, prior=0.2, version="printed")

    assert bound.tpr_loss == bound.fpr_loss == pytest.approx(4 * 3 * 0.01 / (0.2 * 0.25))
    assert bound.auc_loss == pytest.approx(8 * 3 * 0.01 / (0.2 * 0.25))


def test_the_corrected_formulas_have_one_minus_the_prior_under_the_false_positives():
    bound = noisy_monotone_bound(noise=0.1, slope=0.5, density=3.0, prior=0.2, version="corrected")

    unit = 3 * 0.01 / 0.25
    assert bound.tpr_loss == pytest.approx(2 * unit / 0.2)
    assert bound.fpr_loss == pytest.approx(2 * unit / 0.8)
    assert bound.auc_loss == pytest.approx(2 * unit / (0.2 * 0.8))


def test_a_link_measures_prior_and_density_and_gives_either_bound():
    truth = np.array([0.0, 0.02, 0.5, 1.0])  # two of four rows within a window of .02
    link = estimate_monotone_link(0.5 * truth, truth, slopes=[0.5])

    assert (link.prior, link.density) == pytest.approx((truth.mean(), 0.5 / 0.02))
    assert [link.bound(version).version for version in ("corrected", "printed")] == ["corrected", "printed"]


@given(st.integers(5, 40), st.integers(0, 10_000))
def test_the_link_passes_every_row_within_its_noise_and_rises_at_least_by_its_slope(size, seed):
    rng = np.random.default_rng(seed)
    truth = rng.random(size).round(2)
    truth[:2] = 0.1, 0.9
    soft = np.clip(0.6 * truth + 0.2 * rng.random(size), 0, 1)
    link = estimate_monotone_link(soft, truth)
    order = np.argsort(truth, kind="stable")

    assert np.abs(soft[order] - link.link).max() <= link.noise + 1e-9
    assert (np.diff(link.link) >= link.slope * np.diff(truth[order]) - 1e-9).all()


def test_no_other_slope_gives_a_better_bound():
    rng = np.random.default_rng(0)
    truth = rng.random(300)
    soft = 0.5 * truth + 0.05 * rng.normal(size=300)
    best = estimate_monotone_link(soft, truth).bound().auc_loss

    for slope in (0.05, 0.2, 0.4, 0.6, 1.0):
        assert best <= estimate_monotone_link(soft, truth, slopes=[slope]).bound().auc_loss * 1.02


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"noise": -0.1}, "noise must not be negative"),
        ({"slope": 0.0}, "slope must be positive"),
        ({"density": -1.0}, "density must be positive"),
        ({"prior": 1.0}, "prior must lie strictly between 0 and 1"),
        ({"version": "better"}, "version must be one of"),
    ],
)
def test_numbers_outside_the_theorem_are_refused(arguments, sentence):
    with pytest.raises(SpuError, match=sentence):
        noisy_monotone_bound(**{"noise": 0.1, "slope": 1.0, "density": 1.0, "prior": 0.5} | arguments)


@pytest.mark.parametrize("truth", [[0.5, 0.5], [-0.1, 0.5], [0.5, 1.1]], ids=["constant", "below 0", "above 1"])
def test_a_truth_score_that_is_constant_or_no_probability_has_no_link(truth):
    with pytest.raises(SpuError, match=r"probabilities in \[0, 1\] that are not all the same"):
        estimate_monotone_link([0.1, 0.2], truth)
