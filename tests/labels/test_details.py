"""Details that the other tests of soft labels pass over; each was found by breaking the code at random."""

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import SpuError
from spu_core.labels import (
    SoftLabels,
    assign_soft_labels,
    audit_soft_labels,
    check_ratio_labels,
    check_record_labels,
    leave_one_rule_out,
    preview_base,
    soft_labels_for,
    suggest_belief,
)
from spu_core.rules import Compare, Ramp, Rule, RuleMatrix, RuleSet
from spu_core.tables import Table, open_folder
from tests.tables.folders import write_folder

CHECKS = {
    "user": ["a", "b", "c", "d", "e", "f"],
    "rule": ["random", "random", "random", "aim", "aim", "aim"],
    "outcome": ["pass", "pass", "skip", "fail", "fail", "admit"],
}


@pytest.mark.parametrize(
    ("users", "severity", "message", "advice"),
    [
        (["a", "d"], "info", "4 of 6 checked users", "Their checks still count in the failure ratios."),
        (["A", "D"], "warning", "6 of 6 checked users", "Compare the user names in both tables."),
    ],
)
def test_checked_users_who_are_not_labelled_are_counted(users, severity, message, advice):
    findings = check_ratio_labels(CHECKS, random_rule="random", users=users).findings

    [finding] = [finding for finding in findings if finding.code == "unlisted_users"]
    assert (finding.severity, finding.advice) == (severity, advice)
    assert finding.message.startswith(message)


def test_labels_of_another_length_are_refused():
    with pytest.raises(SpuError, match=r"is_labeled has 2 rows"):
        suggest_belief([True, False, True], [True, False], prior=0.1)


@pytest.mark.parametrize(("sign", "follows"), [("=", True), ("!=", False)])
def test_labels_that_follow_several_rules_are_noticed_in_a_table_and_in_a_folder(tmp_path, sign, follows):
    """Each confirmed case is of kind a or b; rules that fire on other kinds too reach all rows."""
    row = np.arange(200)
    frame = pd.DataFrame({"row": row, "label": (row % 5 == 0).astype(int), "kind": np.where(row % 5, "c", "a")})
    frame.loc[row % 10 == 0, "kind"] = "b"
    rules = RuleSet(tuple(Rule(kind, 0.5, Compare("kind", sign, kind)) for kind in "ab"))
    folder = open_folder(write_folder(frame, tmp_path / "f", [70, 130]), roles={"label": "label"})

    for data in (Table.from_frame(frame, roles={"label": "label"}), folder):
        findings = audit_soft_labels(soft_labels_for(data, rules)).findings
        assert ("labels_follow_rules" in [finding.code for finding in findings]) is follows


@pytest.mark.parametrize(("hits", "is_warned"), [(4, True), (5, False)])
def test_a_rule_on_fewer_than_five_labelled_rows_has_a_wide_interval(hits, is_warned):
    row = np.arange(400)

    suggestion = suggest_belief(row < 100, (row >= 100 - hits) & (row < 150), prior=0.2)

    assert bool(suggestion.warnings) is is_warned


@pytest.mark.parametrize(("again", "severity"), [(1, "info"), (2, "warning")])
def test_more_than_a_tenth_of_failed_users_checked_again_is_a_warning(again, severity):
    users = [*range(20), *range(again)]
    checks = {
        "user": users,
        "rule": ["aim"] * 10 + ["random"] * 10 + ["aim"] * again,
        "outcome": ["fail"] * 10 + ["pass"] * (10 + again),
    }

    findings = check_ratio_labels(checks, random_rule="random").findings

    assert [finding.severity for finding in findings if finding.code == "repeated_checks"] == [severity]


def test_a_preview_with_very_many_different_values_is_what_saving_would_give():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((50_000, 2)), columns=["x", "y"])
    frame.loc[:15_000] = 0.9
    frame["label"] = (np.arange(50_000) % 50 == 0).astype(int)
    table = Table.from_frame(frame, roles={"label": "label"})
    saved = RuleSet((Rule("x", Ramp(column="x", start=0, end=1, at_end=0.6)),))
    draft = Rule("y", Ramp(column="y", start=0, end=1, at_end=0.6))

    preview = preview_base(table, saved).preview(draft)

    audit = audit_soft_labels(soft_labels_for(table, saved.add(draft)))
    assert preview.ceiling == pytest.approx(audit.ceiling, abs=1e-3)
    assert preview.mean == pytest.approx(audit.mean, abs=1e-3)


def test_what_a_rule_changes_does_not_depend_on_how_often_the_same_rows_occur():
    """More than 100,000 rows are counted on a grid, fewer exactly; here no row is confirmed or certain."""
    belief = np.array([[0.5, 0.0], [0.0, 0.3], [0.2, 0.2], [0.0, 0.0]])
    few, many = (RuleMatrix.from_arrays(["a", "b"], np.tile(belief, (times, 1))) for times in (25, 25_001))

    exact, counted = (leave_one_rule_out(matrix, np.zeros(len(matrix), dtype=bool)) for matrix in (few, many))

    np.testing.assert_allclose(counted, exact, atol=1e-4)


def test_soft_labels_name_the_combiner_and_the_floor_they_were_made_with():
    labels = assign_soft_labels(RuleMatrix.from_arrays(["a"], [[0.5], [0.0]]), [False, False], "strongest", 0.1)

    assert (labels.combine, labels.floor, labels.value.tolist()) == ("strongest", 0.1, [0.5, 0.1])


def test_the_first_confirmed_positive_that_is_not_1_is_named():
    with pytest.raises(SpuError, match=r"Row 2 is a confirmed case, so its soft label must be 1, got 0\.4"):
        SoftLabels([1.0, 0.3, 0.4], [0.1, 0.3, 0.4], [True, False, True])


@pytest.mark.parametrize(("mean", "is_far"), [(0.24, True), (0.25, False), (1.0, False)])
def test_a_mean_within_a_factor_of_two_of_the_prior_is_near_enough(mean, is_far):
    audit = audit_soft_labels(SoftLabels.from_values([mean] * 4, [False] * 4), prior=0.5)

    assert ("mean_far_from_prior" in [finding.code for finding in audit.findings]) is is_far


def test_few_confirmed_positives_are_never_said_to_follow_the_rules():
    row = np.arange(400)
    matrix = RuleMatrix.from_arrays(["a"], np.where(row < 40, 0.5, 0.0)[:, None])

    for count, follows in ((19, False), (20, True)):
        findings = audit_soft_labels(assign_soft_labels(matrix, row < count)).findings
        assert ("labels_follow_rules" in [finding.code for finding in findings]) is follows


def test_a_preview_counts_rows_between_0_and_1_and_unlabelled_rows_above_the_floor():
    frame = pd.DataFrame({"x": [1, 2, 3, 4, 5], "label": [0, 0, 0, 0, 1]})
    saved = RuleSet((Rule("sure", 1.0, Compare("x", "=", 4)),), floor=0.1)

    preview = preview_base(Table.from_frame(frame), saved).preview(Rule("draft", 0.5, Compare("x", "=", 3)))

    assert (preview.share_between, preview.share_suspected) == (0.6, 0.4)


def test_soft_labels_from_records_know_their_floor():
    labels = check_record_labels([4, 4, 0], [4, 1, 0], penalty=0.1, floor=0.2).labels

    assert (labels.floor, labels.value[0], labels.value[2]) == (0.2, 0.2, 0.2)


@pytest.mark.filterwarnings("error")
def test_the_order_of_rows_that_are_all_alike_is_undefined_without_a_warning():
    table = leave_one_rule_out(RuleMatrix.from_arrays(["a"], [[0.5], [0.0]]), [0, 0])

    assert np.isnan(table.loc["a", "rank_correlation"])


@pytest.mark.parametrize(("unsuspected", "is_found"), [(9, False), (10, True)])
def test_half_of_the_confirmed_positives_without_a_rule_are_a_finding(unsuspected, is_found):
    row = np.arange(100)
    matrix = RuleMatrix.from_arrays(["a"], np.where((row >= unsuspected) & (row < 60), 0.5, 0.0)[:, None])

    audit = audit_soft_labels(assign_soft_labels(matrix, row < 20))

    assert ("unsuspected_labeled" in [finding.code for finding in audit.findings]) is is_found


def test_confirmed_positives_follow_the_rules_if_they_surely_carry_them_twice_as_often():
    """96 of 100 confirmed cases carry the rule; the lift is above 2, its lower limit only with fewer other rows."""
    row = np.arange(1_000)
    for carry, follows in ((450, False), (400, True)):
        matrix = RuleMatrix.from_arrays(["a"], np.where((row >= 4) & (row < carry + 4), 0.5, 0.0)[:, None])
        findings = audit_soft_labels(assign_soft_labels(matrix, row < 100)).findings
        assert ("labels_follow_rules" in [finding.code for finding in findings]) is follows


def test_some_rows_of_soft_labels_keep_their_explanations():
    labels = assign_soft_labels(RuleMatrix.from_arrays(["a", "b"], [[0.5, 0.0], [0.0, 0.3]]), [False, False])
    ready_made = SoftLabels.from_values([0.2, 0.7], [False, False])

    assert labels.take([1]).explain(0).fired == labels.explain(1).fired
    assert ready_made.take([1]).explain(0).ready_made == 0.7


def test_a_rule_without_which_two_rows_change_places_has_a_correlation_of_minus_1():
    matrix = RuleMatrix.from_arrays(["a", "b"], [[0.5, 0.0], [0.0, 0.2]])

    assert leave_one_rule_out(matrix, [False, False]).loc["a", "rank_correlation"] == pytest.approx(-1)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_preview_of_an_empty_table_counts_nothing():
    empty = Table.from_frame(
        pd.DataFrame({"x": np.zeros(0), "label": np.zeros(0, dtype=int)}), roles={"label": "label"}
    )

    preview = preview_base(empty, RuleSet((Rule("saved", 0.5),))).preview(Rule("draft", 0.5))

    assert (preview.n_rows, preview.rows, preview.bin_rows.sum()) == (0, 0, 0)
