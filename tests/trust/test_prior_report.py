"""Sources of the prior beside each other: agreement, or a warning with the likely cause."""

import pytest

from spu_core.theory import PriorEstimate
from spu_core.trust import compare_priors
from spu_core.trust.audit.estimate import AuditFigure


def bbe(**changes):
    return PriorEstimate(
        **{"prior": 0.2, "low": 0.18, "high": 0.22, "unlabeled_prior": 0.15, "labeled_share": 0.05, "elkan_noto": 0.2}
        | changes
    )


@pytest.mark.parametrize(
    ("estimate", "mean", "words", "agrees"),
    [
        (bbe(), 0.21, "Your rules expect 21.0% positives, which does not clearly contradict this range.", True),
        (bbe(), 0.05, "Your rules expect 5.0% positives, which does not clearly contradict this range.", True),
        (bbe(), 0.4, "more than the upper estimate. Either the beliefs are too high", False),
        (bbe(warning="Only 3 labelled rows."), 0.2, "Only 3 labelled rows.", True),
    ],
)
def test_only_a_mean_above_the_upper_estimate_is_an_alarm(estimate, mean, words, agrees):
    """The upper estimate is often far too high, so a mean below it says nothing about the beliefs."""
    report = compare_priors(estimate, mean)
    assert any(words in sentence for sentence in report.sentences)
    assert report.agrees == agrees
    assert report.sentences[0] == estimate.sentence


def test_scores_give_ranges_and_never_one_number():
    report = compare_priors(bbe(elkan_noto=0.3), 0.2)
    assert (report.of("BBE").prior, report.of("BBE").text) == (None, "5.0% to 22.0%")
    assert (report.of("Elkan–Noto").prior, report.of("Elkan–Noto").text) == (None, "5.0% to 30.0%")
    assert report.of("E[S]").text == "20.0%"


def test_an_audit_stands_above_the_others():
    figure = AuditFigure("prior", "π", 0.3, 0.25, 0.35, 0.01, 0.95, False)
    report = compare_priors(bbe(), 0.11, audit=figure, truth=0.3)
    assert (
        "Outside this interval: BBE (5.0% to 22.0%), Elkan–Noto (5.0% to 20.0%), E[S] (11.0%). "
        "Use the result of the audit." in report.sentences[-1]
    )
    assert not report.agrees
    assert report.of("Truth").prior == 0.3
    assert report.table["name"].tolist() == ["BBE", "Elkan–Noto", "E[S]", "Audit", "Truth"]


def test_an_audit_within_the_ranges_agrees():
    figure = AuditFigure("prior", "π", 0.1, 0.08, 0.12, 0.01, 0.95, False)
    assert compare_priors(bbe(), 0.11, audit=figure).agrees


@pytest.mark.parametrize(("truth", "agrees"), [(0.3, False), (0.1, True), (0.2, True)])
def test_the_truth_contradicts_only_from_above(truth, agrees):
    report = compare_priors(bbe(), 0.2, truth=truth)
    assert report.agrees == agrees
    assert ("more than the upper estimate of 22.0%" in report.sentences[-1]) == (not agrees)


def test_without_probabilities_elkan_and_noto_are_left_out():
    assert compare_priors(bbe(elkan_noto=None), 0.2).of("Elkan–Noto") is None
