"""Appendix A.2 from records of n checks and k passes to soft labels of users."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spu_core.errors import AssumptionError, ScoreError, SoftLabelError
from spu_core.labels.check_record_labels import check_record_labels
from spu_core.theory.check_prior import fit_check_prior

CHECKS = np.array([10, 10, 10, 0, 3, 1, 20, 5])
PASSES = np.array([10, 2, 9, 0, 3, 0, 19, 0])


def test_users_who_failed_get_one_minus_the_expected_chance_to_pass():
    result = check_record_labels(CHECKS, PASSES, penalty=0.01)
    failed = PASSES < CHECKS
    chance = fit_check_prior(CHECKS, PASSES, penalty=0.01).posterior_mean(CHECKS, PASSES)

    assert result.labels.value[failed] == pytest.approx(1 - chance[failed])
    assert (result.labels.value[~failed] == 0.0).all()


def test_users_who_passed_all_or_were_never_checked_get_the_floor():
    value = check_record_labels(CHECKS, PASSES, penalty=0.01, floor=0.03).labels.value

    assert value[[0, 3, 4]].tolist() == [0.03, 0.03, 0.03]
    assert (value >= 0.03).all()


def test_more_failures_mean_a_higher_soft_label():
    value = check_record_labels(CHECKS, PASSES, penalty=0.01).labels.value

    assert value[7] > value[1] > value[2]


def test_admitted_users_get_one_and_their_admission_is_no_part_of_the_rule_score():
    admitted = np.array([0, 1, 1, 0, 0, 0, 0, 0])
    result = check_record_labels(CHECKS, PASSES, admitted=admitted, penalty=0.01)

    assert result.labels.value[[1, 2]].tolist() == [1.0, 1.0]
    # User 2 passed 9 of 10 and admitted in the tenth: apart from that nothing failed.
    assert result.labels.rule_score[2] == 0.0
    assert result.labels.rule_score[1] == pytest.approx(1 - result.prior.posterior_mean([9], [2])[0])


def test_who_failed_can_be_said_explicitly():
    failed = np.array([0, 1, 0, 0, 0, 0, 0, 0])
    value = check_record_labels(CHECKS, PASSES, failed=failed, penalty=0.01).labels.value

    assert np.flatnonzero(value).tolist() == [1]


def test_a_fitted_prior_can_be_used_again_on_other_users():
    prior = fit_check_prior(CHECKS, PASSES, penalty=0.01)
    result = check_record_labels([10], [2], check_prior=prior)

    assert result.prior is prior
    assert result.labels.value == pytest.approx(check_record_labels(CHECKS, PASSES, penalty=0.01).labels.value[1:2])


def test_the_reading_does_not_promise_a_probability_of_being_positive():
    assert "not a proven probability of being positive" in check_record_labels(CHECKS, PASSES, penalty=0.1).reading


@given(st.lists(st.integers(0, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), max_size=30))
@settings(max_examples=30)
def test_soft_labels_are_probabilities_for_any_records(records):
    checks, passes = zip(*[*records, (2, 1)], strict=True)
    labels = check_record_labels(checks, passes, penalty=0.01).labels

    assert ((labels.value >= 0) & (labels.value <= 1)).all()
    assert (labels.value[np.array(passes) == np.array(checks)] == 0).all()


@pytest.mark.parametrize(
    ("checks", "passes", "options", "error", "message"),
    [
        ([2], [3], {}, AssumptionError, "Row 0 passes 3 of 2 checks"),
        ([2, -1], [1, 0], {}, AssumptionError, "checks must not be negative, but row 1 holds -1"),
        ([2, np.nan], [1, 0], {}, ScoreError, "checks must be finite, but row 1 holds nan"),
        ([2, 3], [1, 0], {"admitted": [1]}, SoftLabelError, "admitted has 1 rows, but checks has 2"),
        ([2, 3], [2, 0], {"failed": [1, 0]}, SoftLabelError, "failed is true in row 0, but its record has no failed"),
        ([2, 3], [2, 0], {"floor": 2}, SoftLabelError, r"floor must lie in \[0, 1\], got 2"),
        ([0], [0], {}, AssumptionError, "No user was checked"),
    ],
)
def test_records_that_make_no_sense_get_a_clear_sentence(checks, passes, options, error, message):
    with pytest.raises(error, match=message):
        check_record_labels(checks, passes, **options)
