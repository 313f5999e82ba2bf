"""Scores that arrive in parts have the AUC_SPU and interval of the same rows at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spu_core.errors import ScoreError, SoftLabelError
from spu_core.metrics import ScoreHistogram, auc_spu_interval
from spu_core.metrics.scores_in_parts import ExternalScores


@settings(max_examples=25)
@given(
    rows=st.integers(4, 300),
    decimals=st.sampled_from([1, 3, 12]),
    weighted=st.booleans(),
    seed=st.integers(0, 99),
)
def test_parts_give_what_all_rows_give(rows, decimals, weighted, seed):
    rng = np.random.default_rng(seed)
    score = rng.normal(size=rows).round(decimals)
    # Halves of halves add up to the same bits in any order, and so does the figure in the warning.
    soft_label = rng.integers(0, 129, rows) / 128
    soft_label[:2] = 0.25, 0.75
    weight = rng.integers(1, 9, rows) / 8 if weighted else None

    with ExternalScores() as external:
        for part in np.array_split(np.arange(rows), 4):
            external.add(soft_label[part], score[part], sample_weight=None if weight is None else weight[part])
        found = external.interval()

    expected = auc_spu_interval(soft_label, score, sample_weight=weight)
    assert found.estimate == pytest.approx(expected.estimate, abs=1e-12)
    assert found.standard_error == pytest.approx(expected.standard_error, rel=1e-8, abs=1e-12)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert found.warning == expected.warning


def test_one_huge_tie_and_a_perfect_order_are_answered():
    with ExternalScores() as tied:
        tied.add(np.linspace(0, 1, 100), np.zeros(100))
        assert tied.auc() == pytest.approx(0.5)
    with ExternalScores() as signed:
        signed.add([0.0, 1.0, 0.0, 1.0], [0.0, -0.0, -0.0, 0.0])
        assert signed.auc() == 0.5
    with ExternalScores() as perfect:
        perfect.add(np.repeat([0.0, 1.0], 50), np.arange(100.0))
        expected = auc_spu_interval(np.repeat([0.0, 1.0], 50), np.arange(100.0))
        found = perfect.interval()
        assert (found.estimate, found.low, found.high) == pytest.approx((1.0, expected.low, expected.high))


def test_the_histogram_stays_within_its_bound_of_the_exact_value():
    rng = np.random.default_rng(0)
    soft_label = rng.random(5_000)
    score = np.clip(0.5 * soft_label + 0.5 * rng.random(5_000), 0, 1) ** 3
    histogram = ScoreHistogram.logit(bins=256)
    with ExternalScores() as external:
        for part in np.array_split(np.arange(5_000), 7):
            external.add(soft_label[part], score[part])
            histogram = histogram.add(soft_label[part], score[part])

        bounded = histogram.auc()
        assert abs(bounded.value - external.auc()) <= bounded.error_bound + 1e-12


def test_bad_rows_and_no_mass_are_refused_in_words():
    with ExternalScores() as external:
        with pytest.raises(SoftLabelError, match="There are no rows yet"):
            external.auc()
        with pytest.raises(ScoreError, match="score must be finite"):
            external.add([0.5], [np.nan])
        with pytest.raises(SoftLabelError, match=r"must lie in \[0, 1\]"):
            external.add([1.5], [0.2])
        external.add([0.5, 0.2], [0.1, 0.2])
        with pytest.raises(ScoreError, match="level"):
            external.interval(level=1.5)
