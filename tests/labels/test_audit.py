import re

import numpy as np
import pytest

from spu_core.errors import SoftLabelError
from spu_core.labels import SoftLabels, assign_soft_labels, audit_soft_labels
from spu_core.metrics.auc import auc_spu_ceiling
from spu_core.rules import RuleMatrix


def audit_of(rule_score, labeled=0, **options):
    """An audit of rows whose first `labeled` ones are confirmed cases."""
    is_labeled = np.arange(len(rule_score)) < labeled
    return audit_soft_labels(SoftLabels.from_values(rule_score, is_labeled), **options)


def codes_of(audit):
    return {finding.code for finding in audit.findings}


def message_of(audit, code):
    return next(finding.message for finding in audit.findings if finding.code == code)


def test_figures_are_those_of_the_definitions():
    score = np.array([0.0, 0.5, 0.0, 0.25, 0.75, 0.0])
    audit = audit_of(score, labeled=2)
    value = np.array([1.0, 1.0, 0.0, 0.25, 0.75, 0.0])

    assert (audit.n_rows, audit.n_labeled) == (6, 2)
    assert audit.mean == pytest.approx(value.mean())
    assert audit.unlabeled_mean == pytest.approx(0.25)
    assert audit.ceiling == auc_spu_ceiling(value)
    assert audit.share_between == pytest.approx(2 / 6)
    shares = (audit.share_confirmed, audit.share_suspected, audit.share_at_floor)
    assert shares == pytest.approx((2 / 6, 2 / 6, 2 / 6))
    assert audit.unsuspected_labeled == 0.5
    assert audit.labeled_rule_mean == 0.25


def test_the_histogram_counts_every_row_once_and_labelled_rows_apart():
    audit = audit_of([0.0, 0.05, 0.5, 1.0], labeled=1, bins=10)

    assert audit.bin_rows.tolist() == [1, 0, 0, 0, 0, 1, 0, 0, 0, 2]
    assert audit.bin_labeled.tolist() == [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert audit.bin_edges == pytest.approx(np.linspace(0, 1, 11))


def test_healthy_soft_labels_have_no_findings():
    rng = np.random.default_rng(0)
    score = np.where(rng.random(1_000) < 0.3, rng.random(1_000), 0.0)
    score[:50] = rng.random(50)

    assert audit_of(score, labeled=50, prior=0.2).findings == ()


@pytest.mark.parametrize(
    ("score", "labeled", "options", "code", "message"),
    [
        (
            [0.5, 0.2],
            0,
            {},
            "no_labels",
            "No row is a confirmed case, so the rules cannot be compared",
        ),
        ([0.5, 0.2], 1, {}, "few_labels", r"too few confirmed cases \(1\);"),
        (
            [0.0] * 25 + [0.4, 0.9],
            25,
            {},
            "unsuspected_labeled",
            "For 100% of the confirmed cases no rule raises",
        ),
        (
            [0.1] * 25 + [0.4, 0.9],
            25,
            {},
            "labels_against_rules",
            r"mean rule score of confirmed cases \(0.100\) is lower",
        ),
        ([0.5, 0.501], 0, {}, "low_ceiling", "The ceiling of AUC_SPU is 0.501: even the best model"),
        ([0.0, 1.0], 0, {}, "never_between", "The soft label is 0 or 1 in every row, as a hard label is"),
        (
            [0.0, 0.0],
            0,
            {},
            "one_sided",
            "The soft label is 0 in every row, so no rows can be compared",
        ),
        ([1.0, 1.0], 0, {}, "one_sided", "The soft label is 1 in every row"),
        ([0.0, 0.3, 0.6], 0, {}, "few_levels", "The soft label has only 3 different values among unconfirmed rows"),
        ([0.0] * 99 + [0.5], 0, {}, "mostly_floor", "99% of the rows are not confirmed, and no rule raises"),
        (
            [0.5, 0.9],
            0,
            {"prior": 0.1},
            "mean_far_from_prior",
            r"mean soft label is 70.0%, far above the given share of positives \(10.0%\)",
        ),
        (
            [0.01, 0.03],
            0,
            {"prior": 0.5},
            "mean_far_from_prior",
            r"mean soft label is 2.0%, far below the given share of positives \(50.0%\)",
        ),
    ],
)
def test_what_deserves_a_second_look_is_found(score, labeled, options, code, message):
    audit = audit_of(score, labeled, **options)

    assert re.search(message, message_of(audit, code))
    assert all(finding.advice for finding in audit.findings)


def test_a_prior_near_the_mean_is_no_finding():
    audit = audit_of([0.1, 0.3], prior=0.15)

    assert "mean_far_from_prior" not in codes_of(audit)


@pytest.mark.parametrize(
    ("score", "labeled", "is_found"),
    [
        ([0.0, 0.3, 0.3, 0.0], 0, True),
        ([0.1, 0.0, 0.3, 0.6, 0.0], 1, True),  # the confirmed row, whose S is 1, does not count
        ([0.2, 0.2, 0.2, 0.2], 1, True),
        ([0.0, 0.3, 0.6, 0.8], 0, False),
        ([0.0, 1.0, 0.0, 1.0], 0, False),  # hard labels have a finding of their own
    ],
)
def test_few_levels_of_s_are_found_among_unconfirmed_rows(score, labeled, is_found):
    """Theorem 3 needs E[S|X] to rise strictly with P(Y=1|X); with two or three levels it is flat almost everywhere."""
    assert ("few_levels" in codes_of(audit_of(score, labeled))) == is_found


@pytest.mark.parametrize(("prior", "is_found"), [((0.01, 0.9), False), ((0.01, 0.2), True), ((0.5, 1.0), False)])
def test_a_mean_inside_the_range_of_the_prior_is_no_finding(prior, is_found):
    audit = audit_of([0.5, 0.9], prior=prior)

    assert ("mean_far_from_prior" in codes_of(audit)) == is_found


@pytest.mark.parametrize(("score", "prior"), [([0.01, 0.03], 0.5), ([0.5, 0.9], 0.1)])
def test_nobody_is_told_to_change_beliefs_because_of_a_prior(score, prior):
    (found,) = [each for each in audit_of(score, prior=prior).findings if each.code == "mean_far_from_prior"]

    assert "Check where that share comes from" in found.advice
    assert not re.search("[Rr]aise|[Ll]ower", found.advice)


@pytest.mark.parametrize(("escaped", "follow"), [(0, True), (5, True), (20, False)])
def test_labels_that_follow_the_rules_are_mentioned_although_a_few_escape_them(escaped, follow):
    belief = np.where(np.arange(1000) < 300, 0.5, 0.0)[:, None]
    is_labeled = (np.arange(1000) < 100 - escaped) | (np.arange(1000) >= 1000 - escaped)
    audit = audit_soft_labels(assign_soft_labels(RuleMatrix.from_arrays(["a"], belief), is_labeled))

    assert ("labels_follow_rules" in codes_of(audit)) is follow


def test_wide_rules_that_reach_most_labels_are_not_suspected():
    belief = np.where(np.arange(1000) < 700, 0.5, 0.0)[:, None]
    is_labeled = (np.arange(1000) < 95) | (np.arange(1000) >= 995)
    audit = audit_soft_labels(assign_soft_labels(RuleMatrix.from_arrays(["a"], belief), is_labeled))

    assert "labels_follow_rules" not in codes_of(audit)


def test_the_floor_counts_as_not_suspected():
    matrix = RuleMatrix.from_arrays(["a"], [[0.5], [0.0], [0.0], [0.0]])

    assert audit_soft_labels(assign_soft_labels(matrix, [0, 0, 0, 0], floor=0.1)).share_at_floor == 0.75


def test_an_impossible_prior_is_refused():
    with pytest.raises(SoftLabelError, match=r"prior must lie strictly between 0 and 1, got 1.5"):
        audit_of([0.1, 0.3], prior=1.5)
