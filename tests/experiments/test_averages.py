"""Means over seeds: their standard errors and signs against SciPy's t-test."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from spu_core.experiments.runners import average, corrected, paired, verdict_of


@pytest.mark.parametrize("seed", range(6))
def test_a_sign_is_given_exactly_where_a_t_test_rejects(seed):
    values = np.random.default_rng(seed).normal(0.4, 0.5, size=7)
    found = average(values)

    assert found.error == pytest.approx(stats.sem(values))
    assert (found.sign != 0) == (stats.ttest_1samp(values, 0.0).pvalue < 0.05)


def test_a_paired_difference_forgets_what_both_share():
    shared = np.random.default_rng(0).normal(0, 10, size=20)

    assert paired(shared + 1.0, shared).mean == pytest.approx(1.0)
    assert paired(shared + 1.0, shared).error == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("train", "test"), [(200, 100), (20, 80)])
def test_the_correction_is_that_of_nadeau_and_bengio(train, test):
    """Variance of the mean of J differences: (1/J + n_test/n_train) times their variance."""
    values = np.random.default_rng(0).normal(0.4, 0.5, size=7)
    wanted = np.sqrt((1 / 7 + test / train) * values.var(ddof=1))

    assert corrected(average(values), test / train).error == pytest.approx(wanted)
    assert corrected(average(values), test / train).mean == average(values).mean
    assert corrected(average([0.5]), 2.0).error is None


def test_one_seed_proves_nothing():
    assert average([0.5]).error is None
    assert average([0.5]).sign == 0
    assert verdict_of([average([0.5]).sign]) == "not shown"
