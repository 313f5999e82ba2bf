"""The Soft labels page: a brush becomes a rule, its effect is seen before it is saved, and nothing saved is lost."""

from __future__ import annotations

import json
from datetime import date
from types import SimpleNamespace
from urllib.parse import quote

import numpy as np
import pandas as pd
import pytest

from pages.ui.soft_label_analysis import row_with
from pages.ui.soft_label_draft import (
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
from pages.ui.soft_label_editor import bands_of, take_brush, take_click
from pages.ui.soft_label_files import added
from pages.ui.soft_label_preview import changed_rules
from pages.ui.soft_label_rows import editable
from spu_core.errors import TableError
from spu_core.rules import AllOf, AnyOf, Compare, Ramp, ReadyMade, Rule, RuleSet, column_choices
from spu_core.tables import Role, Table
from spu_core.tables.samples import SAMPLES, load_sample
from spu_core.workspace import Workspace

PAGE = "pages/2_soft_labels.py"
HOSTILE = "<script>alert(1)</script>"
ODD = "$\\frac{1}{2}$ :red[x] **b**"


def some_table(rows: int = 600, extra: str = "city") -> Table:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, rows)
    frame = pd.DataFrame(
        {
            "age": age,
            "gain": rng.exponential(100, rows).round(2),
            extra: pd.Categorical(rng.choice(["Bern", HOSTILE, ODD], rows)),
            "joined": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365, rows), "D"),
            "label": ((age > 60) & (rng.random(rows) < 0.3)).astype(int),
        }
    )
    return Table.from_frame(frame, roles={"label": Role.LABEL})


SAVED = RuleSet((Rule("Older", 0.4, Compare("age", ">=", 60)), Rule("Rich", 0.3, Compare("gain", ">", 200))))


@pytest.fixture
def kept():
    """A dataset and a rule set in the workspace, as an address names them."""

    def keep(rules: RuleSet | None = SAVED, table: Table | None = None, folder=None) -> dict[str, str]:
        with Workspace.open(folder) as workspace:
            dataset = workspace.datasets.save(some_table() if table is None else table, "people")
            query = {"dataset": dataset.id}
            if rules is not None:
                query["rules"] = workspace.rule_sets.create("my rules", rules.to_json()).id
        return query

    return keep


def saved_rules(query: dict[str, str], folder=None) -> RuleSet:
    with Workspace.open(folder) as workspace:
        return RuleSet.from_json(workspace.rule_sets.get(query["rules"]).text)


def figures(page) -> dict[str, str]:
    return {metric.label: metric.value for metric in page.metric}


def widget(page, kind: str, end: str):
    """The widget whose key ends so: keys of the draft begin with its generation."""
    return next(each for each in getattr(page, kind) if (each.key or "").endswith(end))


# --- the draft, without a page -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "condition",
    [
        Compare("age", "between", [20, 40]),
        Compare("age", ">=", 20),
        Compare("age", ">", 20),
        ~Compare("city", "in", ["Bern", "Basel"]),
        Compare("age", "is_missing"),
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


def test_a_belief_that_the_editor_cannot_show_is_kept():
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
        "pages.ui.soft_label_rows.cached.column_choices",
        lambda _, dataset, column: column_choices(some_table(), column),
    )
    book = SimpleNamespace(page=SimpleNamespace(workspace=None), dataset=None)

    draft = editable(book, Rule("rule", 0.5, condition), ["gain", "age"])

    assert (draft.kept_when == condition) is is_kept
    assert is_kept or draft.conditions[0].column in ("gain", "age")


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


# --- the page, without a browser ---------------------------------------------------------------------------------


def test_without_data_the_page_says_what_to_do(open_app):
    page = open_app(PAGE)

    assert not page.exception
    assert "No data yet" in page.subheader[0].value


def test_the_page_shows_saved_rules_and_the_way_on(open_app, kept):
    page = open_app(PAGE, **kept())

    assert not page.exception
    assert figures(page)["Rules in use"] == "2 of 2"
    assert any("Older" in each.value for each in page.markdown)


def test_a_typed_range_is_previewed_before_it_is_saved(open_app, kept):
    query = kept()
    page = open_app(PAGE, **query)
    before = figures(page)["Ceiling"]

    widget(page, "number_input", "_low").set_value(20)
    widget(page, "number_input", "_high").set_value(30)
    page.run()

    rows = int(some_table().frame["age"].between(20, 30).sum())
    assert figures(page)["Rows touched"] == str(rows)
    assert figures(page)["Ceiling"] != before
    assert saved_rules(query) == SAVED

    page.button(key="soft_save").click().run()

    assert not page.exception
    assert saved_rules(query).rules[2].when == Compare("age", "between", [20, 30])
    assert figures(page)["Rows touched"] == "–"


def test_the_first_rule_makes_a_rule_set_and_names_it_in_the_address(open_app, kept):
    page = open_app(PAGE, **kept(rules=None))
    widget(page, "number_input", "_low").set_value(60)
    page.run()
    page.button(key="soft_save").click().run()

    assert not page.exception
    assert saved_rules({"rules": page.query_params["rules"]}).rules[0].when == Compare("age", ">=", 60)


def test_conditions_over_several_columns_are_joined(open_app, kept):
    query = kept()
    page = open_app(PAGE, **query)
    widget(page, "number_input", "_low").set_value(60)
    page.run()
    widget(page, "button", "_more").click().run()
    widget(page, "selectbox", "_1_column").select("city").run()
    widget(page, "multiselect", "_levels").select("Bern").run()
    page.selectbox(key=widget(page, "selectbox", "_joined").key).select("or").run()
    page.button(key="soft_save").click().run()

    assert not page.exception
    expected = AnyOf((Compare("age", ">=", 60), Compare("city", "in", ["Bern"])))
    assert saved_rules(query).rules[2].when == expected


def test_an_impossible_range_is_said_and_can_be_mended(open_app, kept):
    page = open_app(PAGE, **kept())
    widget(page, "number_input", "_low").set_value(50)
    widget(page, "number_input", "_high").set_value(20)
    page.run()

    assert not page.exception
    assert "put the smaller value first" in page.error[0].value.replace("\\", "")
    assert page.button(key="soft_save").disabled
    widget(page, "number_input", "_high").set_value(70)
    page.run()
    assert not page.error


def test_undo_and_redo_walk_between_versions(open_app, kept):
    query = kept()
    page = open_app(PAGE, **query)
    next(each for each in page.toggle if each.key == "soft_1_0_on").set_value(False).run()
    assert not saved_rules(query)["older"].on

    page.button(key="soft_undo").click().run()
    assert saved_rules(query) == SAVED
    page.button(key="soft_redo").click().run()
    assert not saved_rules(query)["older"].on
    assert figures(page)["Rules in use"] == "1 of 2"


def test_the_way_of_combining_is_kept_with_the_rules(open_app, kept):
    query = kept()
    page = open_app(PAGE, **query)
    page.selectbox(key="soft_1_combine").select("strongest").run()

    assert saved_rules(query).combine == "strongest"


def test_an_edit_of_a_version_that_is_no_longer_current_is_refused(open_app, kept):
    query = kept()
    page = open_app(PAGE, **query)
    widget(page, "number_input", "_low").set_value(30)
    page.run()
    with Workspace.open() as workspace:
        other = workspace.rule_sets.get(query["rules"])
        workspace.rule_sets.save(other, SAVED.remove("rich").to_json())

    page.button(key="soft_save").click().run()

    assert not page.exception
    assert "version" in page.error[0].value
    assert saved_rules(query) == SAVED.remove("rich")


def test_rules_that_do_not_fit_the_table_are_left_out_and_said(open_app, kept):
    query = kept(rules=SAVED.add(Rule("typo", 0.5, Compare("agee", ">", 3))))
    page = open_app(PAGE, **query)

    assert not page.exception
    assert "cannot be applied" in page.warning[0].value
    assert figures(page)["Rules in use"] == "2 of 3"
    page.button(key="soft_off").click().run()
    assert not saved_rules(query)["typo"].on


@pytest.mark.parametrize("part", ["Analysis", "Why this S", "Audit", "From checks", "Versions and files"])
def test_every_part_opens_from_its_address(open_app, kept, part):
    page = open_app(PAGE, **kept(), part=part)

    assert not page.exception
    assert not page.error


def test_a_mangled_draft_in_the_address_costs_nothing(open_app, kept):
    page = open_app(PAGE, **kept(), draft='{"schema_version": 1, "rules": [{"name": 7}]}')

    assert not page.exception
    assert not page.error
    assert figures(page)["Rows touched"] == "–"


def test_a_draft_in_the_address_comes_back(open_app, kept):
    draft = RuleSet((Rule("Young", 0.7, Compare("age", "<=", 25)),)).to_json()
    page = open_app(PAGE, **kept(), draft=draft)

    assert widget(page, "number_input", "_high").value == 25
    assert widget(page, "slider", "_belief").value == 0.7
    assert figures(page)["Rows touched"] != "–"


def test_a_hostile_file_of_rules_is_refused_in_words(open_app, kept):
    page = open_app(PAGE, **kept(), part="Versions and files")
    hostile = json.dumps({"schema_version": 1, "rules": [{"name": HOSTILE, "belief": {"kind": "__import__('os')"}}]})
    page.file_uploader(key="soft_upload").upload("rules.json", hostile.encode()).run()

    assert not page.exception
    assert "not known" in page.error[0].value or "kind" in page.error[0].value


def test_rules_from_a_file_are_added_as_a_version(open_app, kept):
    query = kept()
    page = open_app(PAGE, **query, part="Versions and files")
    page.file_uploader(key="soft_upload").upload("rules.json", SAVED.to_json().encode()).run()
    page.button(key="soft_beside").click().run()

    assert saved_rules(query).names == ("Older", "Rich", "Older (2)", "Rich (2)")


def test_the_share_of_positives_can_be_estimated_and_is_kept_in_the_address(open_app, kept):
    page = open_app(PAGE, **kept(), part="Audit")
    page.button(key="soft_estimate").click().run()

    assert not page.exception
    assert not page.error
    assert 0 < float(page.query_params["prior"]) < 1
    assert any("errs high" in each.value for each in page.caption)


def test_a_log_of_checks_becomes_a_column_and_a_rule(open_app):
    with Workspace.open() as workspace:
        sample = SAMPLES["anti_cheat"]
        dataset = workspace.datasets.save(load_sample("anti_cheat"), sample.title)
        rules = workspace.rule_sets.create("rules", RuleSet().to_json())
    page = open_app(PAGE, dataset=dataset.id, rules=rules.id, part="From checks")
    page.toggle(key="soft_log_sample").set_value(True).run()
    page.button(key="soft_log_add").click().run()

    assert not page.exception
    assert not page.error
    assert page.query_params["dataset"] != dataset.id
    assert saved_rules({"rules": rules.id}).rules[0].belief == ReadyMade("check_soft_label")
    with Workspace.open() as workspace:
        bigger = workspace.datasets.load(page.query_params["dataset"])
    assert bigger.roles["check_soft_label"] is Role.SOFT_LABEL
    assert 0 < bigger.soft_label.mean() < 0.2


# --- the page in a browser ---------------------------------------------------------------------------------------


def drag(tab, start: float, end: float) -> None:
    """Drag across the histogram, from one share of its width to another."""
    area = tab.page.locator("[class*=st-key-rule_][class*=_chart] .nsewdrag").first
    area.wait_for(timeout=30_000)
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    middle = box["y"] + box["height"] / 2
    tab.page.mouse.move(box["x"] + start * box["width"], middle)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + end * box["width"], middle, steps=12)
    tab.page.mouse.up()
    tab.settle()


def live(tab, place: int) -> str:
    return tab.page.locator(".st-key-soft_changes [data-testid=stMetricValue]").nth(place).inner_text()


@pytest.mark.browser
def test_a_brush_becomes_a_rule_and_survives_a_refresh(start_server, open_tab, kept, tmp_path):
    server = start_server()
    query = kept(folder=server.home)
    tab = open_tab(server).open(f"soft_labels?dataset={query['dataset']}&rules={query['rules']}")
    before = live(tab, 3)

    drag(tab, 0.05, 0.4)
    tab.page.wait_for_function("document.querySelector('.st-key-soft_changes').innerText.includes('%')")
    assert live(tab, 3) != before, "the ceiling moves before anything is saved"
    assert saved_rules(query, server.home) == SAVED
    touched = live(tab, 0)

    tab.page.reload()
    tab.settle()
    tab.page.wait_for_selector(".st-key-soft_changes [data-testid=stMetricValue]")
    assert live(tab, 0) == touched, "the draft is still there"

    tab.page.click(".st-key-soft_save button")
    tab.page.wait_for_selector("text=Rules (3)")
    tab.settle()
    rule = saved_rules(query, server.home).rules[2]
    assert rule.when.operator == "between"
    assert rule.when.column == "age"

    tab.page.click(".st-key-soft_undo button")
    tab.page.wait_for_selector("text=Rules (2)")
    assert saved_rules(query, server.home) == SAVED


@pytest.mark.browser
def test_clicked_bars_of_a_hostile_column_become_levels_and_stay_text(start_server, open_tab, kept):
    server = start_server()
    name = f"{HOSTILE} $x^2$ :red[col]"
    query = kept(folder=server.home, table=some_table(extra=name), rules=SAVED)
    draft = RuleSet((Rule("d", 0.5, Compare(name, "in", ["Bern"])),)).to_json()
    tab = open_tab(server, width=390, height=844)
    tab.page.on("dialog", lambda dialog: tab.errors.append("a script ran"))
    tab.open(f"soft_labels?dataset={query['dataset']}&rules={query['rules']}&draft={quote(draft)}")
    bars = tab.page.locator("[class*=st-key-rule_][class*=_chart] .barlayer .point path")
    bars.first.wait_for(timeout=30_000)
    bars.nth(1).scroll_into_view_if_needed()
    bars.nth(1).click(force=True)
    tab.settle()
    tab.page.click(".st-key-soft_save button")
    tab.page.wait_for_selector("text=Rules (3)")
    tab.settle()

    compare = saved_rules(query, server.home).rules[2].when
    assert compare.column == name
    assert compare.value[0] in ("Bern", HOSTILE, ODD)
    assert tab.page.locator("[data-testid=stApp] .katex").count() == 0
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
