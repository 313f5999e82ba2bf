"""The draft of a rule: conditions as rows, ramps along a range, names, and that no part of a rule gets lost."""

from __future__ import annotations

from datetime import date

import pytest

from spu_core.rules import AllOf, AnyOf, Compare, Ramp, Rule, RuleSet
from spu_core.rules.draft import (
    AS_IT_IS,
    RAMP_DOWN,
    RAMP_UP,
    DraftCondition,
    RuleDraft,
    add_rules,
    draft_of,
    joined_rows,
    rounded_range,
    rows_of,
    save_draft,
)

SAVED = RuleSet((Rule("Older", 0.4, Compare("age", ">=", 60)), Rule("Rich", 0.3, Compare("gain", ">", 200))))


@pytest.mark.parametrize(
    "condition",
    [
        Compare("age", "between", [20, 40]),
        Compare("age", ">=", 20),
        Compare("age", ">", 20),
        ~Compare("city", "in", ["Bern", "Basel"]),
        Compare("age", "is_missing"),
        Compare("city", "in", ["", "Bern"]),
        AllOf((Compare("age", "<=", 40), Compare("gain", "=", 3), ~Compare("city", "contains", "x"))),
        AnyOf((AllOf((Compare("age", "<", 40), Compare("gain", ">", 3))), Compare("city", "in", ["Bern"]))),
        Compare("joined", "between", ["2024-01-01", "2024-02-01T23:59:59.999999"]),
    ],
    ids=lambda condition: condition.text,
)
def test_a_condition_survives_its_rows(condition):
    assert joined_rows(rows_of(condition)) == condition


@pytest.mark.parametrize(
    "condition",
    [
        AllOf((AnyOf((Compare("a", ">", 1), Compare("b", ">", 1))), Compare("c", ">", 1))),
        ~AllOf((Compare("a", ">", 1), Compare("b", ">", 1))),
        Compare("joined", "<=", "2024-01-01T12:00:00"),
        Compare("joined", ">", "2024-01-01"),
    ],
    ids=lambda condition: condition.text,
)
def test_what_rows_cannot_say_is_kept_as_it_is(condition):
    rule = Rule("nested", 0.5, condition, note="mine")
    draft = draft_of(rule)

    assert (draft.kept_when, draft.conditions) == (condition, ())
    assert draft.rule() == rule


def test_and_binds_before_or():
    rows = [
        DraftCondition("a", ">", 1),
        DraftCondition("b", ">", 2, joined="and"),
        DraftCondition("c", ">", 3, joined="or"),
        DraftCondition("d", ">", None),
    ]

    assert joined_rows(rows).text == "(a > 1 and b > 2) or c > 3"


@pytest.mark.parametrize("shape", [RAMP_UP, RAMP_DOWN])
def test_a_ramp_runs_along_the_range_of_the_first_row(shape):
    draft = RuleDraft((DraftCondition("age", value=(20, None)),), belief=0.8, shape=shape, ends=(18.0, 79.0))

    rule = draft.rule()

    ends = (0.0, 0.8) if shape == RAMP_UP else (0.8, 0.0)
    assert rule.belief == Ramp(column="age", start=20, end=79, at_start=ends[0], at_end=ends[1])
    assert (draft_of(rule).shape, draft_of(rule).belief) == (shape, 0.8)


def test_a_belief_that_the_editor_cannot_show_is_kept():
    rule = Rule("by rank", Ramp(column="age", start=0.4, end=1, scale="quantile"))

    assert draft_of(rule).shape == AS_IT_IS
    assert draft_of(rule).rule() == rule


def test_a_range_of_days_includes_its_last_day():
    row = DraftCondition("joined", value=(date(2024, 1, 1), date(2024, 2, 1)))

    assert row.compare == Compare("joined", "between", ["2024-01-01", "2024-02-01T23:59:59.999999"])


def test_names_are_made_distinct():
    draft = RuleDraft((DraftCondition("age", value=(20, 30)),), name="Older")

    assert save_draft(SAVED, draft).names == ("Older", "Rich", "Older (2)")
    assert save_draft(SAVED, draft_of(SAVED["rich"])).names == SAVED.names
    assert add_rules(SAVED, SAVED).names == ("Older", "Rich", "Older (2)", "Rich (2)")


@pytest.mark.parametrize(
    ("brush", "is_whole", "expected"),
    [((28.9, 46.1), True, (29, 46)), ((0.0, 50.0), False, (None, 50.0)), ((20.2, 20.4), True, (20, 20))],
)
def test_a_brush_is_rounded_to_what_was_meant(brush, is_whole, expected):
    assert rounded_range(*brush, (0.0, 100.0), is_whole) == expected
