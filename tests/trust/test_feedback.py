"""Feedback: who admitted is labelled, records grow, random positives stay unlabelled, and nothing old is changed."""

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import TableError
from spu_core.rules import CheckRatio, CheckRecord, Compare, Rule, RuleSet
from spu_core.tables import Role, Table
from spu_core.trust import FeedbackPlan, RowChecks, belief_bounds, feed_back, history_leaks, label_delay
from spu_core.trust.outcomes.feedback import raised

PASSED, FAILED, ADMITTED = 0, 1, 2
RATIO = CheckRatio(rule_column="last_rule", outcome_column="last_outcome", random_rule="dice", failed=("flop",))
RECORD = CheckRecord(checks_column="n", passes_column="k")


def table_of(size=40, **more):
    frame = pd.DataFrame(
        {"user": [f"u{i}" for i in range(size)], "x": np.arange(size) * 1.0, "label": [1] + [0] * (size - 1)}
    )
    return Table.from_frame(
        frame.assign(**more), roles={"user": "id", "label": "label", **dict.fromkeys(more, "ignore")}
    )


def checks(rows, arms, outcomes, days=None):
    days = np.full(len(rows), np.datetime64("NaT", "D")) if days is None else np.array(days, dtype="datetime64[D]")
    return RowChecks(np.array(rows), np.array(arms, dtype=object), np.array(outcomes), days)


def test_who_admitted_is_labelled_and_everybody_else_is_as_before():
    table = table_of()
    found = feed_back(table, None, checks([3, 4], ["model", "model"], [ADMITTED, PASSED]))

    assert found.confirmed == 1
    assert np.flatnonzero(found.table.is_labeled).tolist() == [0, 3]
    assert table.is_labeled.sum() == 1
    assert "checks" not in table.frame.columns
    assert found.summary["changed_rows"] == 1
    assert feed_back(table, None, checks([4], ["model"], [PASSED])).confirmed == 0


def test_positives_of_the_holdout_are_kept_for_measuring_unless_it_is_given_up():
    made = checks([3, 4], ["random", "model"], [ADMITTED, ADMITTED])

    kept = feed_back(table_of(), None, made)
    given_up = feed_back(table_of(), None, made, FeedbackPlan(use_holdout=True))
    assert (kept.confirmed, kept.withheld) == (1, 1)
    assert (given_up.confirmed, given_up.withheld) == (2, 0)


def test_records_grow_by_every_check_that_was_no_admission():
    before = table_of(n=[2] * 40, k=[1] * 40)
    found = feed_back(
        before,
        RuleSet((Rule("record", RECORD),)),
        checks([5, 5, 6, 7], ["model"] * 4, [PASSED, FAILED, ADMITTED, PASSED]),
    )

    assert found.table.frame["n"].iloc[[5, 6, 7, 8]].tolist() == [4, 2, 3, 2]
    assert found.table.frame["k"].iloc[[5, 6, 7, 8]].tolist() == [2, 1, 2, 1]


def test_the_columns_and_words_are_those_that_the_rules_read():
    texts = pd.Series([None] * 40, dtype="str")
    before = table_of(last_rule=texts, last_outcome=texts)
    made = checks([5, 6, 7, 5], ["model", "random", "random", "model"], [PASSED, FAILED, PASSED, FAILED])
    found = feed_back(before, RuleSet((Rule("ratio", RATIO),)), made)

    assert found.table.frame["last_rule"].iloc[[5, 6]].tolist() == ["model", "dice"]
    assert found.table.frame["last_outcome"].iloc[[5, 6, 7]].tolist() == ["flop", "flop", "pass"]
    assert not found.rules_changed


def test_rows_that_no_check_had_reached_need_no_history_before():
    """The rules read columns that only the outcomes bring."""
    made = checks(range(5, 15), ["model"] * 5 + ["random"] * 5, [FAILED] * 4 + [PASSED] + [FAILED] + [PASSED] * 4)
    found = feed_back(table_of(), RuleSet((Rule("ratio", RATIO),)), made)

    assert found.summary["mean_before"] == pytest.approx(1 / 40)
    assert found.summary["mean_after"] == pytest.approx((1 + 4 * 0.75) / 40)


def test_new_columns_are_hidden_from_models_and_a_rule_reads_them():
    made = checks(range(5, 15), ["model"] * 5 + ["random"] * 5, [FAILED] * 4 + [PASSED] + [FAILED] + [PASSED] * 4)
    found = feed_back(table_of(), None, made)

    assert found.table.roles["last_check_outcome"] is Role.IGNORE
    assert found.table.features == table_of().features
    assert [type(rule.belief) for rule in found.rules] == [CheckRatio]
    assert found.ratios.set_index("rule")["soft_label"].to_dict() == {"model": pytest.approx(0.75), "random": 0.0}


def test_without_random_checks_the_record_of_each_user_speaks():
    found = feed_back(table_of(), None, checks(range(5, 15), ["model"] * 10, [FAILED, PASSED] * 5))

    assert [type(rule.belief) for rule in found.rules] == [CheckRecord]


def test_a_table_without_labels_gets_a_column_for_them():
    table = Table.from_frame(pd.DataFrame({"user": list("abc"), "x": [1.0, 2.0, 4.0]}), roles={"user": "id"})
    found = feed_back(table, None, checks([1], ["model"], [ADMITTED]))

    assert found.table.column_with("label") == "confirmed"
    assert found.table.is_labeled.tolist() == [False, True, False]


def test_outcomes_after_the_day_are_left_out():
    made = checks([3, 4], ["model", "model"], [ADMITTED, ADMITTED], ["2026-03-01", "2026-03-09"])

    assert feed_back(table_of(), None, made, FeedbackPlan(until="2026-03-05")).confirmed == 1
    with pytest.raises(TableError, match="No outcome was recorded up to this day"):
        feed_back(table_of(), None, made, FeedbackPlan(until="2026-02-01"))


def test_the_same_outcomes_give_the_same_table():
    made = checks([3, 4, 5], ["model", "random", "model"], [ADMITTED, FAILED, PASSED])

    assert feed_back(table_of(), None, made).table.fingerprint == feed_back(table_of(), None, made).table.fingerprint


def test_a_belief_below_what_random_checks_prove_is_raised_and_only_then():
    table = table_of(200)
    rules = RuleSet((Rule("high", 0.1, Compare("x", ">=", 100)), Rule("sure", 0.95, Compare("x", ">=", 100))))
    outcome = np.r_[np.repeat([PASSED, FAILED], [90, 10]), np.repeat([PASSED, FAILED], [20, 80])]
    bounds = belief_bounds(rules, table, np.arange(200), outcome, np.ones(200, dtype=bool))

    assert [bound.is_too_low for bound in bounds] == [True, False]
    assert bounds[0].low < bounds[0].bound
    assert raised(rules, bounds)["high"].belief.value == pytest.approx(0.35)
    assert "so the belief is too low" in bounds[0].sentence
    assert "does not contradict" in bounds[1].sentence
    assert raised(rules, bounds)["sure"].belief.value == 0.95


def test_few_random_checks_prove_nothing():
    rules = RuleSet((Rule("high", 0.1, Compare("x", ">=", 30)),))
    [bound] = belief_bounds(rules, table_of(), np.arange(40), np.repeat([PASSED, FAILED], 20), np.ones(40, dtype=bool))

    assert "too few for an estimate" in bound.sentence
    assert belief_bounds(rules, table_of(), [1], [FAILED], np.array([False])) == ()


def dated(role="ignore"):
    frame = pd.DataFrame(
        {"x": [1.0, 2.0, 3.0], "checks": [1, 2, 0], "day": pd.to_datetime(["2026-03-01"] * 3), "label": [0, 1, 0]}
    )
    return Table.from_frame(frame, roles={"checks": role, "day": "time", "label": "label", "x": "feature"})


def test_history_that_models_see_and_that_is_later_than_the_features_is_a_leak():
    [leak] = history_leaks(dated("feature"), [0, 1], ["2026-03-02", "2026-03-01"], history=("checks",))

    assert (leak.code, leak.severity.value, leak.column) == ("history_after_features", "error", "checks")
    assert "1 of 2 checks happened after the date of the features" in leak.message


def test_history_that_only_rules_read_is_told_and_no_leak():
    [told] = history_leaks(dated(), [0], ["2026-03-02"], history=("checks",))

    assert told.severity.value == "info"


def test_features_from_after_the_check_may_show_what_it_did():
    found = history_leaks(dated(), [0, 1], ["2026-02-01", "2026-02-28"], days_after=7)

    assert [each.code for each in found] == ["features_after_check"]
    assert "1 of 2 checked rows are from more than 7 days after" in found[0].message
    assert history_leaks(dated(), [0], ["2026-02-22"], days_after=7) == ()  # seven days are not more than seven
    with pytest.raises(TableError, match="row has 2 entries, but day has 1"):
        history_leaks(dated(), [0, 1], ["2026-02-01"])


def test_without_dates_nothing_can_be_said():
    assert history_leaks(table_of(), [0], ["2026-03-02"])[0].code == "no_dates"
    frame = pd.DataFrame({"turn": [1, 2, 3], "label": [0, 1, 0]})
    numbered = Table.from_frame(frame, roles={"turn": "time", "label": "label"})
    [told] = history_leaks(numbered, [0], ["2026-03-02"])
    assert "turn" in told.message


def test_checks_without_a_day_are_not_counted_and_five_lines_are_named():
    frame = pd.DataFrame({"checks": range(8), "day": pd.to_datetime(["2026-03-01"] * 8), "label": [1] + [0] * 7})
    table = Table.from_frame(frame, roles={"checks": "feature", "day": "time", "label": "label"})
    [leak] = history_leaks(table, range(8), ["2026-03-02"] * 7 + ["NaT"], history=("checks",))

    assert "7 of 7 checks happened after" in leak.message
    assert leak.lines == (1, 2, 3, 4, 5)


def test_a_record_that_is_missing_begins_at_nothing():
    before = table_of(n=[np.nan] * 39 + [2.0], k=[np.nan] * 39 + [1.0])
    found = feed_back(before, RuleSet((Rule("record", RECORD),)), checks([5], ["model"], [PASSED])).table.frame

    assert found["n"].iloc[[5, 6, 39]].tolist() == [1, 0, 2]
    assert found["k"].iloc[[5, 6, 39]].tolist() == [1, 0, 1]
    assert pd.api.types.is_integer_dtype(found["n"])


def test_young_rows_are_those_that_could_not_have_been_confirmed_yet():
    start = np.array(["2026-01-01"] * 5 + ["2026-02-27"], dtype="datetime64[D]")
    done = start + np.array([3, 5, 7, 9, 11, 2])
    found = label_delay(start, done, "2026-03-01")

    assert found.horizon == 11
    assert found.cut_off == 11
    assert found.is_recent.tolist() == [False] * 5 + [True]
    assert found.known_share([1, 2, 3, 11]).tolist() == [0, *found.share[:2], 1]
    assert "90% of the confirmations that arrive within 11 days have arrived after 11 days; 1 of 6" in found.sentence


@pytest.mark.parametrize(
    ("done", "message"), [("NaT", "No row with a date was confirmed"), ("2025-12-31", "confirmed before its own date")]
)
def test_delays_that_cannot_be_are_refused(done, message):
    with pytest.raises(TableError, match=message):
        label_delay(
            np.array(["2026-01-01"], dtype="datetime64[D]"), np.array([done], dtype="datetime64[D]"), "2026-02-01"
        )
