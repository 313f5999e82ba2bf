import pandas as pd
import pytest

from spu_core.errors import RuleError
from spu_core.rules import CheckRatio, CheckRecord, Compare, Ramp, ReadyMade, Rule, RuleSet
from spu_core.tables import Severity, Table

FRAME = pd.DataFrame(
    {
        "age": [20.0, 40.0, None],
        "married": ["Yes", "No", None],
        "vip": [True, False, True],
        "joined": pd.to_datetime(["2024-01-01", "2024-06-01", None]),
        "true_class": [0, 1, 0],
        "label": ["caught", "none", "none"],
    }
)
TABLE = Table.from_frame(FRAME, roles={"true_class": "truth", "label": "label"}, positive_values=["caught"])


def check(*comparison, belief=0.5):
    when = Compare(*comparison) if comparison else None
    return RuleSet((Rule("r", belief, when),)).check(TABLE)


def assert_error(comparison, code, message):
    """The finding says so, and so does the error of `fit`."""
    finding = check(*comparison)[0]
    assert (finding.code, finding.severity, finding.message) == (code, Severity.ERROR, message)
    with pytest.raises(RuleError) as raised:
        RuleSet((Rule("r", 0.5, Compare(*comparison)),)).fit(TABLE)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("comparison", "held", "problem"),
    [
        (("age", "=", "old"), "numbers", "it cannot be compared with 'old'."),
        (("age", "=", True), "numbers", "it cannot be compared with true."),
        (("age", "contains", "4"), "numbers", "contains works only with texts."),
        (("married", ">", 3), "texts", "they have no order; use =, ≠ or in."),
        (("married", "=", True), "texts", "it cannot be compared with true."),
        (("vip", ">", 0), "true and false", "they have no order; use =, ≠ or in."),
        (("vip", "=", "yes"), "true and false", "it cannot be compared with 'yes'."),
        (("vip", "=", 2), "true and false", "it cannot be compared with 2."),
        (("joined", ">", 2024), "dates", "it cannot be compared with 2024."),
        (("joined", ">", "soon"), "dates", "'soon' is not a date; write it like '2024-01-31'."),
        (("joined", ">", "2024-13-99"), "dates", "'2024-13-99' is not a date; write it like '2024-01-31'."),
        (("joined", "between", ["2024-02-01", "2024-01-01"]), "dates", "put the earlier date first."),
    ],
)
def test_a_comparison_that_the_values_cannot_answer_says_why(comparison, held, problem):
    asked, column = Compare(*comparison).text, comparison[0]

    assert_error(comparison, "wrong_type", f"Rule 'r' uses {asked}, but column {column!r} holds {held}: {problem}")


def test_a_missing_column_points_to_the_nearest():
    message = "Rule 'r' uses column 'aeg', which is not in the data. Did you mean 'age'?"

    assert_error(("aeg", ">", 3), "unknown_column", message)


@pytest.mark.parametrize(
    ("operator", "value", "named", "hint"),
    [
        ("=", "yes", "yes", "Did you mean 'Yes'?"),
        ("=", " No", " No", "Did you mean 'No'?"),
        ("!=", "Yess", "Yess", "Did you mean 'Yes'?"),
        ("in", ["X", "Z"], "X", "Available: 'No', 'Yes'."),
    ],
)
def test_a_level_that_does_not_exist_points_to_the_nearest(operator, value, named, hint):
    message = f"Rule 'r' compares column 'married' with {named!r}, which is not a category of this column. {hint}"

    assert_error(("married", operator, value), "unknown_level", message)


def test_a_rule_that_reads_the_truth_is_refused():
    message = (
        "Rule 'r' uses column 'true_class', which holds the truth. The truth is for evaluation only; "
        "rules that use it would make every figure too good."
    )

    assert_error(("true_class", "=", 1), "reads_truth", message)


@pytest.mark.parametrize(
    "belief",
    [
        Ramp(column="married", start=0, end=1),
        ReadyMade("vip"),
        CheckRecord(checks_column="joined", passes_column="age"),
    ],
)
def test_a_belief_needs_columns_of_numbers(belief):
    assert check(belief=belief)[0].message.endswith(
        ("but holds texts.", "but holds true and false.", "but holds dates.")
    )


def test_one_unknown_level_among_known_ones_is_only_a_warning():
    findings = check("married", "in", ["Yes", "Perhaps"])

    assert [(finding.code, finding.severity) for finding in findings] == [("unknown_level", Severity.WARNING)]
    RuleSet((Rule("r", 0.5, Compare("married", "in", ["Yes", "Perhaps"])),)).fit(TABLE)


def test_a_rule_on_the_label_column_is_a_warning():
    assert [finding.code for finding in check("label", "=", "caught")] == ["reads_label"]


@pytest.mark.parametrize(
    "comparison",
    [
        ("age", "between", [1, 50]),
        ("married", "contains", "zzz"),
        ("vip", "=", 1),
        ("vip", "in", [True, False]),
        ("joined", "<", "2024-05-05T10:00:00+02:00"),
        ("joined", "is_missing"),
    ],
)
def test_rules_that_fit_have_no_findings(comparison):
    assert check(*comparison) == ()


def test_rules_that_are_off_are_not_checked():
    rules = RuleSet((Rule("r", 0.5, Compare("gone", ">", 3), on=False),))

    assert rules.check(TABLE) == ()
    assert rules.fit(TABLE).apply(FRAME).n_rules == 0


def test_fit_says_how_many_more_errors_there_are():
    rules = RuleSet((Rule("r", 0.5, Compare("gone", ">", 3)), Rule("q", 0.5, Compare("age", "=", "x"))))

    with pytest.raises(RuleError, match=r"\(1 more rule errors\.\)$"):
        rules.fit(TABLE)


@pytest.mark.parametrize(("label", "codes"), [(["admit"], []), (["pass"], ["admitted_not_labeled"])])
def test_admissions_that_are_not_labelled_are_mentioned(label, codes):
    frame = pd.DataFrame({"by": ["R0", "R0", "aim"], "how": ["fail", "pass", "admit"]})
    table = Table.from_frame(frame, roles={"how": "label"}, positive_values=label)
    belief = CheckRatio(rule_column="by", outcome_column="how", random_rule="R0")

    assert [finding.code for finding in RuleSet((Rule("r", belief),)).check(table)] == codes
