"""A draft of a rule, without a page: what its rows say, what a brush means, and that nothing gets lost."""

from __future__ import annotations

from datetime import date
from types import SimpleNamespace

import pandas as pd
import pytest

from pages.ui.soft_labels.analysis import row_with
from pages.ui.soft_labels.draft import (
    AS_IT_IS,
    RAMP_DOWN,
    RAMP_UP,
    Draft,
    DraftCondition,
    draft_of,
    joined_rows,
    rounded_range,
    rows_of,
)
from pages.ui.soft_labels.editor import bands_of, take_brush, take_click
from pages.ui.soft_labels.files import added
from pages.ui.soft_labels.preview import changed_rules
from pages.ui.soft_labels.rows import editable, operators_of
from spu_core.errors import TableError
from spu_core.rules import AllOf, AnyOf, Compare, Ramp, Rule, column_choices
from spu_core.tables import Table
from tests.dashboard.soft_labels import SAVED, some_table


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
    ids=lambda condition: condition.words,
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
    ids=lambda condition: condition.words,
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

    assert joined_rows(rows).words == "(a > 1 and b > 2) or c > 3"


@pytest.mark.parametrize("shape", [RAMP_UP, RAMP_DOWN])
def test_a_ramp_runs_along_the_range_of_the_first_row(shape):
    draft = Draft((DraftCondition("age", value=(20, None)),), belief=0.8, shape=shape, ends=(18.0, 79.0))

    rule = draft.rule()

    ends = (0.0, 0.8) if shape == RAMP_UP else (0.8, 0.0)
    assert rule.belief == Ramp(column="age", start=20, end=79, at_start=ends[0], at_end=ends[1])
    assert (draft_of(rule).shape, draft_of(rule).belief) == (shape, 0.8)


def test_a_belief_that_the_editor_cannot_show_is_keep():
    rule = Rule("by rank", Ramp(column="age", start=0.4, end=1, scale="quantile"))

    assert draft_of(rule).shape == AS_IT_IS
    assert draft_of(rule).rule() == rule


@pytest.mark.parametrize(
    ("condition", "is_kept"),
    [(Compare("age", "in", [20, 30]), True), (Compare("age", ">", 20), False), (Compare("agee", ">", 20), False)],
    ids=["a list of numbers", "a comparison", "a column that is not there"],
)
def test_editing_a_rule_never_loses_what_it_says(condition, is_kept, monkeypatch):
    monkeypatch.setattr(
        "pages.ui.soft_labels.rows.cached.column_choices",
        lambda _, dataset, column: column_choices(some_table(), column),
    )
    book = SimpleNamespace(page=SimpleNamespace(workspace=None), dataset=None)

    draft = editable(book, Rule("rule", 0.5, condition), ["gain", "age"])

    assert (draft.kept_when == condition) is is_kept
    assert is_kept or draft.conditions[0].column in ("gain", "age")


@pytest.mark.parametrize(
    ("values", "offered"),
    [
        ([1.5, 2.5], ("between", "<", ">", "=", "!=", "is_missing")),
        (pd.to_datetime(["2024-01-01", "2024-06-01"]), ("between", "is_missing")),
        ([True, False], ("in", "is_missing")),
        (["Bern", "Basel"], ("in", "contains", "is_missing")),
        (pd.Categorical([1, 2]), ("in", "is_missing")),
    ],
    ids=["numbers", "dates", "flags", "texts", "numbers as categories"],
)
def test_a_row_offers_what_a_column_of_its_kind_can_answer(values, offered):
    choices = column_choices(Table.from_frame(pd.DataFrame({"x": values})), "x")

    assert operators_of(choices) == offered


def test_a_range_of_days_includes_its_last_day():
    row = DraftCondition("joined", value=(date(2024, 1, 1), date(2024, 2, 1)))

    assert row.compare == Compare("joined", "between", ["2024-01-01", "2024-02-01T23:59:59.999999"])


def test_names_are_made_distinct():
    draft = Draft((DraftCondition("age", value=(20, 30)),), name="Older")

    assert changed_rules(SAVED, draft).names == ("Older", "Rich", "Older (2)")
    assert changed_rules(SAVED, draft_of(SAVED["rich"])).names == SAVED.names
    assert added(SAVED, SAVED).names == ("Older", "Rich", "Older (2)", "Rich (2)")


@pytest.mark.parametrize(
    ("brush", "is_whole", "expected"),
    [((28.9, 46.1), True, (29, 46)), ((0.0, 50.0), False, (None, 50.0)), ((20.2, 20.4), True, (20, 20))],
)
def test_a_brush_is_rounded_to_what_was_meant(brush, is_whole, expected):
    assert rounded_range(*brush, (0.0, 100.0), is_whole) == expected


def test_dragging_fills_the_range_and_clearing_empties_it():
    choices, state = column_choices(some_table(), "age"), {}
    state["chart"] = {"selection": {"box": [{"x": [46.2, 28.9]}]}}

    take_brush(state, "chart", str, choices)
    assert (state["operator"], state["low"], state["high"]) == ("between", 29, 46)

    state["chart"] = {"selection": {"box": []}}
    take_brush(state, "chart", str, choices)
    assert (state["low"], state["high"]) == (None, None)


def test_dragging_to_the_edge_means_everything_beyond():
    choices, state = column_choices(some_table(), "gain"), {}
    edge = choices.histogram.edge
    state["chart"] = {"selection": {"box": [{"x": [edge[20], edge[-2] + 0.95 * (edge[2] - edge[1])]}]}}

    take_brush(state, "chart", str, choices)

    assert state["low"] == pytest.approx(edge[20], abs=1)
    assert state["high"] is None


def test_dragging_over_dates_gives_days():
    choices, state = column_choices(some_table(), "joined"), {}
    state["chart"] = {"selection": {"box": [{"x": ["2024-03-01 10:00:00", "2024-04-01"]}]}}

    take_brush(state, "chart", str, choices)

    assert (state["low"], state["high"]) == (date(2024, 3, 1), date(2024, 4, 1))


def test_clicking_bars_chooses_their_levels():
    choices, state = column_choices(some_table(), "city"), {}
    state["chart"] = {"selection": {"points": [{"customdata": 1}, {"customdata": [1]}, {"customdata": 0}]}}

    take_click(state, "chart", str, choices)

    assert state["levels"] == list(choices.levels[:2])


def test_saved_rules_are_bands_on_their_column():
    rules = SAVED.add(Rule("Day", 0.2, Compare("joined", "<=", "1970-01-02")))

    assert [(band.name, band.low, band.high) for band in bands_of(rules, "age")] == [("Older", 60.0, None)]
    assert bands_of(rules, "joined")[0].high == 86_400e9


def test_a_row_is_found_by_its_id_or_missed_in_words():
    table = SimpleNamespace(frame=pd.DataFrame({"id": ["a", "b"]}))

    assert row_with(table, "id", "b") == 1
    with pytest.raises(TableError, match="No row has 'c' in column 'id'"):
        row_with(table, "id", "c")
