"""Scores beyond memory: the external sort gives the AUC_SPU and interval of the same rows in memory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spu_core.errors import ScoreError, SoftLabelError
from spu_core.metrics import ScoreHistogram, auc_spu_interval, auc_spu_score
from spu_core.metrics.external import ExternalScores


@settings(max_examples=25)
@given(
    rows=st.integers(4, 300),
    decimals=st.sampled_from([1, 3, 12]),
    bucket=st.integers(3, 80),
    weighted=st.booleans(),
    seed=st.integers(0, 99),
)
def test_the_external_sort_equals_the_sort_in_memory(rows, decimals, bucket, weighted, seed):
    rng = np.random.default_rng(seed)
    score = rng.normal(size=rows).round(decimals)
    # Halves of halves add up to the same bits in any order, and so does the figure in the warning.
    soft_label = rng.integers(0, 129, rows) / 128
    soft_label[:2] = 0.25, 0.75
    weight = rng.integers(1, 9, rows) / 8 if weighted else None

    with ExternalScores(bucket_rows=bucket) as external:
        for part in np.array_split(np.arange(rows), 4):
            external.add(soft_label[part], score[part], sample_weight=None if weight is None else weight[part])
        found = external.interval()

    expected = auc_spu_interval(soft_label, score, sample_weight=weight)
    assert found.estimate == pytest.approx(expected.estimate, abs=1e-12)
    assert found.standard_error == pytest.approx(expected.standard_error, rel=1e-8, abs=1e-12)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert found.warning == expected.warning


def test_one_huge_tie_and_a_perfect_order_are_answered():
    with ExternalScores(bucket_rows=10) as tied:
        tied.add(np.linspace(0, 1, 100), np.zeros(100))
        assert tied.auc() == pytest.approx(0.5)
    with ExternalScores() as signed:
        signed.add([0.0, 1.0, 0.0, 1.0], [0.0, -0.0, -0.0, 0.0])
        assert signed.auc() == 0.5
    with ExternalScores(bucket_rows=10) as perfect:
        perfect.add(np.repeat([0.0, 1.0], 50), np.arange(100.0))
        expected = auc_spu_interval(np.repeat([0.0, 1.0], 50), np.arange(100.0))
        found = perfect.interval()
        assert (found.estimate, found.low, found.high) == pytest.approx((1.0, expected.low, expected.high))


@pytest.mark.parametrize("rows", [1001, 1999, 5000])
def test_no_bucket_of_different_scores_is_larger_than_what_fits_into_memory(rows):
    score = 100 + np.random.default_rng(0).normal(size=rows)
    with ExternalScores(bucket_rows=1000) as external:
        external.add(np.full(rows, 0.5), score)
        buckets = list(external._buckets())

    assert max(len(bucket) for bucket in buckets) <= 1000
    assert np.concatenate([np.sort(bucket[:, 0]) for bucket in buckets]).tolist() == np.sort(score).tolist()


def test_asking_twice_gives_the_same_answer_and_leaves_no_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rng = np.random.default_rng(1)
    soft_label, score = rng.random(150_000), rng.random(150_000)  # more rows than are read at once
    with ExternalScores(bucket_rows=40_000) as external:
        external.add(soft_label, score)
        first, second = external.auc(), external.auc()
        assert list(tmp_path.iterdir())

    assert first == second == pytest.approx(auc_spu_score(soft_label, score), abs=1e-12)
    assert not list(tmp_path.iterdir())


def test_the_histogram_stays_within_its_bound_of_the_exact_value():
    rng = np.random.default_rng(0)
    soft_label = rng.random(5_000)
    score = np.clip(0.5 * soft_label + 0.5 * rng.random(5_000), 0, 1) ** 3
    histogram = ScoreHistogram.logit(bins=256)
    with ExternalScores(bucket_rows=700) as external:
        for part in np.array_split(np.arange(5_000), 7):
            external.add(soft_label[part], score[part])
            histogram = histogram.add(soft_label[part], score[part])

        bounded = histogram.auc()
        assert abs(bounded.value - external.auc()) <= bounded.error_bound + 1e-12


def test_bad_rows_and_no_mass_are_refused_in_words():
    with ExternalScores() as external:
        with pytest.raises(SoftLabelError, match="all rows so far are 0"):
            external.auc()
        with pytest.raises(ScoreError, match="score must be finite"):
            external.add([0.5], [np.nan])
        with pytest.raises(SoftLabelError, match=r"must lie in \[0, 1\]"):
            external.add([1.5], [0.2])
        with pytest.raises(ScoreError, match="level"):
            external.interval(level=1.5)
