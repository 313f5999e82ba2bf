"""Audit estimators against slow, obvious oracles: every possible sample of a tiny population, loops, exact chances."""

from itertools import combinations, product
from math import comb

import numpy as np
import pytest

from spu_core.trust import TARGETS, Population
from spu_core.trust.audit.estimate import figure_of
from spu_core.trust.audit.totals import Audited, count_limits, expectation, stratum_totals

SCORE = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.8, 0.9, 0.95])
SOFT = np.array([0.0, 0.1, 0.3, 0.0, 0.4, 0.6, 0.5, 0.8, 1.0])
TRUTH = np.array([0, 0, 1, 0, 1, 0, 1, 1, 1.0])
KNOWN = np.arange(9) == 8
STRATUM = np.array([0, 0, 0, 0, 0, 1, 1, 1, -1])
DRAWN = {0: 3, 1: 2}


def rows():
    return Population.of(SCORE, SOFT, threshold=0.6, is_known=KNOWN)


def all_samples():
    """Every sample of three rows of the first stratum and two of the second, all equally likely."""
    parts = [combinations(np.flatnonzero(h == STRATUM), count) for h, count in DRAWN.items()]
    return [np.array([*first, *second]) for first, second in product(*parts)]


@pytest.mark.parametrize("key", ["prior", "precision"])
def test_horvitz_thompson_and_its_variance_are_unbiased_over_every_possible_sample(key):
    """Both figures are linear in the classes, so not only the estimate but also its variance is unbiased, exactly."""
    population, samples = rows(), all_samples()
    audits = [Audited(population, STRATUM, place, TRUTH[place]) for place in samples]
    figures = [figure_of(audited, key, method="horvitz_thompson") for audited in audits]
    estimates = np.array([figure.estimate for figure in figures])

    assert len(samples) == comb(5, 3) * comb(3, 2)
    assert estimates.mean() == pytest.approx(TARGETS[key].of_truth(population, TRUTH))
    assert np.mean([figure.standard_error**2 for figure in figures]) == pytest.approx(estimates.var())


@pytest.mark.parametrize("method", ["assisted", "horvitz_thompson"])
def test_totals_are_the_sums_of_their_definition(method):
    """Σ z m over all open rows plus Σ z (y − m) / chance over the checked ones, row by row."""
    population, column = rows(), SOFT
    chance = {h: count / (h == STRATUM).sum() for h, count in DRAWN.items()}
    for place in all_samples():
        audited = Audited(population, STRATUM, place, TRUTH[place])
        expected = expectation(audited, method)
        total = positives = 0.0
        for row in range(9):
            if KNOWN[row]:
                total, positives = total + column[row], positives + 1
                continue
            total, positives = total + column[row] * expected[row], positives + expected[row]
            if row in place:
                rest = (TRUTH[row] - expected[row]) / chance[int(STRATUM[row])]
                total, positives = total + column[row] * rest, positives + rest
        assert stratum_totals(audited, column, expected).whole == pytest.approx((total, positives))
    assert method == "assisted" or not expected.any()


def test_the_line_of_the_assisted_estimate_is_the_weighted_least_squares_line():
    population = rows()
    for place in all_samples():
        audited = Audited(population, STRATUM, place, TRUTH[place])
        design = np.stack([np.ones(place.size), population.belief[place]], axis=1)
        root = np.sqrt(audited.weight)[:, None]
        (level, slope), *_ = np.linalg.lstsq(design * root, TRUTH[place] * root[:, 0], rcond=None)
        line = np.clip(level + slope * population.belief, 0, 1)
        assert expectation(audited) == pytest.approx(line, abs=1e-9)


@pytest.mark.parametrize(("size", "checked"), [(12, 5), (40, 10), (60, 30), (200, 20)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_exact_limits_hold_their_level_for_every_number_of_positives(size, checked, level):
    """Draws without replacement are hypergeometric; the chance that the limits hold K is summed up for each K."""
    limits = [count_limits(found, checked, size, level) for found in range(checked + 1)]
    for positives in range(size + 1):
        held = sum(
            comb(positives, found) * comb(size - positives, checked - found)
            for found, (low, high) in enumerate(limits)
            if low <= positives <= high
        )
        assert held / comb(size, checked) >= level, positives
