"""The rule editor without a page: what a brush or a click means, which conditions are offered, and row ids."""

from __future__ import annotations

from datetime import date
from types import SimpleNamespace

import pandas as pd
import pytest

from pages.ui.soft_labels.analysis import row_with
from pages.ui.soft_labels.editor import apply_brush, apply_click, bands_of, editable, operators_of
from spu_core.errors import TableError
from spu_core.rules import Compare, Rule, column_choices
from spu_core.tables import Table
from tests.dashboard.rule_drafts import SAVED, some_table


@pytest.mark.parametrize(
    ("condition", "is_kept"),
    [(Compare("age", "in", [20, 30]), True), (Compare("age", ">", 20), False), (Compare("agee", ">", 20), False)],
    ids=["a list of numbers", "a comparison", "a column that is not there"],
)
def test_editing_a_rule_never_loses_what_it_says(condition, is_kept, monkeypatch):
    monkeypatch.setattr(
        "pages.ui.soft_labels.editor.column_choices",
        lambda _, dataset, column: column_choices(some_table(), column),
    )
    opened = SimpleNamespace(workspace=None, dataset=None)

    draft = editable(opened, Rule("rule", 0.5, condition), ["gain", "age"])

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


def test_dragging_fills_the_range_and_clearing_empties_it():
    choices, state = column_choices(some_table(), "age"), {}
    state["chart"] = {"selection": {"box": [{"x": [46.2, 28.9]}]}}

    apply_brush(state, "chart", str, choices)
    assert (state["operator"], state["low"], state["high"]) == ("between", 29, 46)

    state["chart"] = {"selection": {"box": []}}
    apply_brush(state, "chart", str, choices)
    assert (state["low"], state["high"]) == (None, None)


def test_dragging_to_the_edge_means_everything_beyond():
    choices, state = column_choices(some_table(), "gain"), {}
    edge = choices.histogram.edge
    state["chart"] = {"selection": {"box": [{"x": [edge[20], edge[-2] + 0.95 * (edge[2] - edge[1])]}]}}

    apply_brush(state, "chart", str, choices)

    assert state["low"] == pytest.approx(edge[20], abs=1)
    assert state["high"] is None


def test_dragging_over_dates_gives_days():
    choices, state = column_choices(some_table(), "joined"), {}
    state["chart"] = {"selection": {"box": [{"x": ["2024-03-01 10:00:00", "2024-04-01"]}]}}

    apply_brush(state, "chart", str, choices)

    assert (state["low"], state["high"]) == (date(2024, 3, 1), date(2024, 4, 1))


def test_clicking_bars_chooses_their_levels():
    choices, state = column_choices(some_table(), "city"), {}
    state["chart"] = {"selection": {"points": [{"customdata": 1}, {"customdata": [1]}, {"customdata": 0}]}}

    apply_click(state, "chart", str, choices)

    assert sorted(state["levels"]) == sorted(choices.levels[:2])

    state["chart"] = {"selection": {"points": [{"customdata": 1}]}}
    apply_click(state, "chart", str, choices)
    assert state["levels"] == [choices.levels[0]], "a second click removes it"


def test_saved_rules_are_bands_on_their_column():
    rules = SAVED.add(Rule("Day", 0.2, Compare("joined", "<=", "1970-01-02")))

    assert [(band.name, band.low, band.high) for band in bands_of(rules, "age")] == [("Older", 60.0, None)]
    assert bands_of(rules, "joined")[0].high == 86_400e9


def test_a_row_is_found_by_its_id_or_missed_in_words():
    table = SimpleNamespace(frame=pd.DataFrame({"id": ["a", "b"]}))

    assert row_with(table, "id", "b") == 1
    with pytest.raises(TableError, match="No row has 'c' in column 'id'"):
        row_with(table, "id", "c")
