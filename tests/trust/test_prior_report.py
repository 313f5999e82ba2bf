"""Sources of the prior beside each other: agreement, or a warning with the likely cause."""

import pytest

from spu_core.theory import PriorEstimate
from spu_core.trust import compare_priors
from spu_core.trust.audit_estimate import AuditFigure


def bbe(**changes):
    return PriorEstimate(
        **{"prior": 0.2, "low": 0.18, "high": 0.22, "unlabeled_prior": 0.15, "labeled_share": 0.05, "elkan_noto": 0.2}
        | changes
    )


@pytest.mark.parametrize(
    ("estimate", "mean", "words"),
    [
        (bbe(), 0.21, "agree as far as they can be told apart"),
        (bbe(), 0.4, "beliefs that are too strong"),
        (bbe(), 0.05, "positives that no rule covers"),
        (bbe(elkan_noto=0.5), 0.2, "lies above BBE"),
        (bbe(elkan_noto=0.05), 0.2, "not a random part of all positives"),
        (bbe(warning="Only 3 labelled rows."), 0.2, "Only 3 labelled rows."),
    ],
)
def test_the_likely_cause_is_named(estimate, mean, words):
    report = compare_priors(estimate, mean)
    assert any(words in sentence for sentence in report.sentences)
    assert report.agrees == words.startswith(("agree", "Only"))


def test_an_audit_stands_above_the_others():
    figure = AuditFigure("prior", "π", 0.1, 0.08, 0.12, 0.01, 0.95, False)
    report = compare_priors(bbe(), 0.11, audit=figure, truth=0.1)
    assert "outside of that: BBE (20.0%), Elkan–Noto (20.0%). Believe the audit." in report.sentences[-1]
    assert not report.agrees
    assert report.of("Truth").prior == 0.1
    assert report.table["name"].tolist() == ["BBE", "Elkan–Noto", "E[S]", "Audit", "Truth"]


def test_an_audit_that_holds_all_others_agrees():
    figure = AuditFigure("prior", "π", 0.2, 0.17, 0.23, 0.01, 0.95, False)
    assert compare_priors(bbe(), 0.21, audit=figure).agrees


@pytest.mark.parametrize(("truth", "words"), [(0.3, "above the BBE band"), (0.1, "below the BBE band"), (0.2, "")])
def test_the_truth_is_held_against_the_band(truth, words):
    report = compare_priors(bbe(), 0.2, truth=truth)
    assert report.agrees == (not words)
    assert words in report.sentences[-1]


def test_without_probabilities_elkan_and_noto_are_left_out():
    assert compare_priors(bbe(elkan_noto=None), 0.2).of("Elkan–Noto") is None
