"""Figures that need no negatives, against hand counts and published identities."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss

from spu_core import SpuError
from spu_core.metrics import (
    calibration_gap,
    calibration_to_soft_label,
    soft_log_loss,
)


def test_soft_log_loss_of_hard_labels_is_scikit_learns():
    rng = np.random.default_rng(1)
    truth, score, weight = rng.integers(0, 2, 300), rng.random(300), rng.random(300)

    assert soft_log_loss(truth, score) == pytest.approx(log_loss(truth, score))
    assert soft_log_loss(truth, score, sample_weight=weight) == pytest.approx(
        log_loss(truth, score, sample_weight=weight)
    )


def test_soft_log_loss_is_smallest_at_the_soft_label_itself():
    soft_label = np.array([0.1, 0.7, 0.4])

    assert soft_log_loss(soft_label, soft_label) < soft_log_loss(soft_label, soft_label + 0.05)
    assert np.isfinite(soft_log_loss([1.0, 0.0], [0.0, 1.0]))


def test_scores_that_are_not_probabilities_have_no_log_loss():
    with pytest.raises(SpuError, match=r"score must lie in \[0, 1\], but row 1 holds 3"):
        soft_log_loss([0.1, 0.2], [0.3, 3.0])


def test_calibration_compares_mean_score_and_mean_soft_label_in_groups_of_equal_size():
    score = np.linspace(0, 1, 1000)
    table = calibration_to_soft_label(score**2, score, bins=5)

    assert table["rows"].tolist() == [200] * 5
    assert (table["soft_label"] < table["score"]).all()
    assert calibration_gap(score, score) == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(SpuError, match=r"score must lie in \[0, 1\], but row 0 holds 1.5"):
        calibration_to_soft_label([0.1, 0.2], [1.5, 0.3])


def test_the_gap_of_calibration_counts_rows_and_takes_the_groups_that_were_asked_for():
    soft_label, score = [0.0, 1.0, 1.0, 1.0], [0.2, 0.3, 0.3, 0.9]

    # The lower group is one row that is off by .2, the upper one three rows that are off by .5 on average.
    assert calibration_gap(soft_label, score, bins=2) == pytest.approx((0.2 + 3 * 0.5) / 4)
    assert calibration_gap(soft_label, score, bins=1) == pytest.approx(0.75 - 0.425)


def test_one_group_of_calibration_holds_all_rows_and_none_is_refused():
    table = calibration_to_soft_label([0.0, 0.5, 1.0], [0.1, 0.3, 0.8], bins=1)

    assert table[["rows", "score", "soft_label"]].to_numpy().tolist() == [[3.0, pytest.approx(0.4), 0.5]]
    assert table["standard_error"][0] == pytest.approx(0.5 / np.sqrt(3))
    with pytest.raises(SpuError, match="bins must be at least 1, got 0"):
        calibration_to_soft_label([0.0, 1.0], [0.1, 0.3], bins=0)
