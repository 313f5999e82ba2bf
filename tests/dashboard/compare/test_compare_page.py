"""The Compare page: curves against the ceiling, one S for all runs, an operating point that is kept, a champion."""

from __future__ import annotations

from pathlib import Path

import pytest

from spu_core.training import Candidate
from spu_core.workspace import Threshold, Workspace
from tests.dashboard.trained import HOSTILE, bring_sample, train_quickly

PAGE = "pages/4_compare.py"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A home with three runs, made once: every test gets its own copy."""
    home = tmp_path_factory.mktemp("trained") / "home"
    with Workspace.open(home) as workspace:
        address = bring_sample(workspace)
        train_quickly(workspace, address)
    return home, address


@pytest.fixture
def address(trained, tmp_path, monkeypatch):
    import shutil

    home, address = trained
    shutil.copytree(home, tmp_path / "copy")
    monkeypatch.setenv("SPU_HOME", str(tmp_path / "copy"))
    return address


def text_of(page):
    return "\n".join(element.value for element in (*page.markdown, *page.caption, *page.subheader, *page.error))


def metrics(page):
    return {metric.label: metric.value for metric in page.metric}


def test_without_runs_the_page_leads_to_training(open_app):
    with Workspace.open() as workspace:
        address = bring_sample(workspace)
    page = open_app(PAGE, **address)

    assert not page.exception
    assert page.subheader[0].value == "No models yet."


def test_runs_are_shown_against_the_ceiling_with_a_verdict(open_app, address):
    page = open_app(PAGE, **address)

    assert not page.exception
    assert 0.5 < float(metrics(page)["AUC_SPU, best model"]) <= float(metrics(page)["Ceiling"]) <= 1.0
    assert "Do my soft labels help?" in [element.value for element in page.subheader]
    assert "No confidence band" not in text_of(page)
    assert set(page.dataframe[0].value["name"]) == {"linear", HOSTILE, "rule_score"}


def test_where_no_confidence_band_holds_the_page_says_why(open_app, address, monkeypatch):
    monkeypatch.setattr("spu_core.metrics.band.ENOUGH", 1e6)
    page = open_app(PAGE, **address)

    assert not page.exception
    assert "No confidence band: it needs an effective number of at least 1e+06 positives" in text_of(page)


def test_slider_and_budget_move_together_and_are_kept(open_app, address):
    page = open_app(PAGE, **address)
    page.number_input(key="compare_rows").set_value(57).run()

    assert not page.exception
    with Workspace.open() as workspace:
        run = next(run for run in workspace.runs.list() if run.name == page.selectbox(key="compare_run").value)
        [point] = workspace.thresholds.list(run.id)
    assert point.flagged_share == pytest.approx(57 / 569)
    assert page.slider(key="compare_threshold").value == pytest.approx(point.threshold, abs=0.002)
    assert metrics(page)["Flagged"] == "10.0%"

    page.slider(key="compare_threshold").set_value(0.99).run()
    with Workspace.open() as workspace:
        assert len(workspace.thresholds.list(run.id)) == 2
    again = open_app(PAGE, **address)
    assert metrics(again)["Flagged"] == metrics(page)["Flagged"] != "10.0%"


@pytest.mark.parametrize("rows", [0, 569], ids=["nothing", "everything"])
def test_flagging_nothing_or_everything_can_be_kept(open_app, address, rows):
    page = open_app(PAGE, **address)
    page.number_input(key="compare_rows").set_value(rows).run()

    assert not page.exception
    assert not page.error
    assert metrics(page)["Flagged"] == ("0.0%" if rows == 0 else "100.0%")


def test_the_champion_is_stored_with_its_operating_point(open_app, address):
    page = open_app(PAGE, **address)
    page.selectbox(key="compare_run").select("linear").run()
    page.button(key="compare_choose").click().run()

    assert not page.exception
    with Workspace.open() as workspace:
        champion = workspace.thresholds.champion(address["dataset"])
        assert workspace.runs.get(champion.run).name == "linear"
    assert "linear, which flags" in text_of(page).replace("\\", "")


def test_deleting_a_run_says_first_what_goes(open_app, address):
    with Workspace.open() as workspace:
        gone = next(run for run in workspace.runs.list() if run.name == "linear")
        workspace.thresholds.save(gone.id, Threshold("5 %", 0.5, 0.05))
    page = open_app(PAGE, **address)
    next(each for each in page.selectbox if each.key.startswith("compare_delete_run")).select(gone.id).run()
    page.button(key="compare_delete").click().run()
    assert any("1 threshold" in each.value for each in page.markdown)

    page.button(key="delete_for_good").click().run()
    assert not page.exception
    assert not page.error
    assert "linear" not in set(page.dataframe[0].value["name"])
    with Workspace.open() as workspace:
        assert gone.id not in {run.id for run in workspace.runs.list()}


# What only this tab shows.
DETAILS = {
    "All figures": lambda page: page.dataframe[-1].value["among_best"],
    "Differences": lambda page: page.dataframe[-1].value["p_holm"],
    "Costs": lambda page: page.number_input(key="compare_cost"),
    "Calibration": lambda page: page.multiselect(key="compare_calibrated"),
    "Gains and lift": lambda page: next(each for each in page.markdown if each.value == "**Lift**"),
    "Scores": lambda page: page.toggle(key="compare_log"),
    "Features": lambda page: page.toggle(key="compare_shuffle"),
    "Segments": lambda page: page.dataframe[-1].value["segment"],
}


@pytest.mark.parametrize("tab", DETAILS)
def test_a_detail_is_computed_when_its_tab_is_open(open_app, address, tab):
    page = open_app(PAGE, **address)
    page.session_state["compare_tabs"] = tab
    page.run()

    assert not page.exception
    assert not page.error
    assert DETAILS[tab](page) is not None


def test_shuffled_columns_train_one_fold_again(open_app, address):
    page = open_app(PAGE, **address)
    page.session_state["compare_tabs"] = "Features"
    page.selectbox(key="compare_run").select("linear").run()
    page.toggle(key="compare_shuffle").set_value(True).run()

    assert not page.exception
    assert not page.error


def test_the_cheapest_point_is_one_click_away(open_app, address):
    page = open_app(PAGE, **address)
    page.session_state["compare_tabs"] = "Costs"
    page.run()
    page.number_input(key="compare_loss").set_value(1000.0).run()
    page.button(key="compare_cheapest").click().run()

    assert not page.exception
    with Workspace.open() as workspace:
        points = [point for run in workspace.runs.list() for point in workspace.thresholds.list(run.id)]
    assert [point.detail["by"] for point in points] == ["the lowest expected cost"]


def test_a_perfect_classifier_is_drawn_from_the_truth_or_from_what_is_assumed(open_app, address):
    page = open_app(PAGE, **address)
    page.toggle(key="compare_perfect").set_value(True).run()
    assert not page.exception
    assert "compare_prior" not in [each.key for each in page.number_input]

    with Workspace.open() as workspace:
        table = workspace.datasets.load(address["dataset"]).with_roles({"malignant": "ignore"})
        blind = {**address, "dataset": workspace.datasets.save(table, "no truth").id}
        train_quickly(workspace, blind, [Candidate("rule_score")])
    page = open_app(PAGE, **blind)
    page.toggle(key="compare_perfect").set_value(True).run()
    page.number_input(key="compare_prior").set_value(0.9).run()
    assert not page.exception
    assert not page.error


def test_changed_rules_are_told(open_app, address):
    with Workspace.open() as workspace:
        first = workspace.rule_sets.get(address["rules"])
        workspace.rule_sets.save(first, first.text.replace('"at_end": 0.8', '"at_end": 0.6'))
    page = open_app(PAGE, **address)

    assert not page.exception
    assert "Your rules have changed since these runs were trained" in text_of(page)


def test_runs_under_other_rules_are_judged_by_one_s(open_app, address):
    with Workspace.open() as workspace:
        first = workspace.rule_sets.get(address["rules"])
        workspace.rule_sets.save(first, first.text.replace('"at_end": 0.8', '"at_end": 0.6'))
        train_quickly(workspace, address, [Candidate("logistic", name="later")], version=2)
        runs = ",".join(run.id for run in workspace.runs.list())
    page = open_app(PAGE, **address, runs=runs)

    assert not page.exception
    assert not page.error
    assert set(page.dataframe[0].value["name"]) == {"linear", HOSTILE, "rule_score", "later"}
    assert "trained with other rules" in text_of(page)


def test_a_run_that_was_trained_again_takes_the_place_of_the_older_one(open_app, address):
    with Workspace.open() as workspace:
        older = next(run for run in workspace.runs.list() if run.name == "linear")
        train_quickly(workspace, address, [Candidate("logistic", name="linear")])
        both = ",".join(run.id for run in workspace.runs.list())
    page = open_app(PAGE, **address)
    assert set(page.dataframe[0].value["name"]) == {"linear", HOSTILE, "rule_score"}
    assert older.id not in page.multiselect(key=f"compare_runs_{address['dataset']}").value

    page = open_app(PAGE, **address, runs=both)
    assert set(page.dataframe[0].value["name"]) == {"linear", "linear 2", HOSTILE, "rule_score"}


def test_a_damaged_run_is_told_in_words(open_app, address):
    with Workspace.open() as workspace:
        path = workspace.runs.path(workspace.runs.list()[0].id)
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    page = open_app(PAGE, **address)

    assert not page.exception
    assert len(page.error) == 1


@pytest.fixture(scope="module")
def served(shared_server):
    """The same runs in the home of the running dashboard."""
    with Workspace.open(shared_server.home) as workspace:
        address = bring_sample(workspace, "Compared")
        train_quickly(workspace, address)
    return address


@pytest.mark.browser
def test_a_click_on_the_curve_stores_the_threshold(shared_server, open_tab, served):
    tab = open_tab(shared_server).open(f"compare?dataset={served['dataset']}&rules={served['rules']}")
    tab.page.on("dialog", lambda dialog: tab.errors.append("a script ran"))
    tab.page.wait_for_selector(".st-key-compare_roc .nsewdrag")
    # The last trace is the operating point, the one before it a curve.
    traces = tab.page.locator(".st-key-compare_roc .scatterlayer .trace")
    points = traces.nth(traces.count() - 2).locator(".point")
    box = points.nth(points.count() // 3).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    tab.page.mouse.move(x - 3, y)
    tab.page.mouse.move(x, y, steps=4)  # Plotly clicks only what it hovers over
    tab.page.locator(".st-key-compare_roc .hoverlayer .hovertext").first.wait_for()
    tab.page.mouse.click(x, y)
    tab.settle()

    with Workspace.open(shared_server.home) as workspace:
        runs = workspace.runs.list(served["dataset"])
        points = [point for run in runs for point in workspace.thresholds.list(run.id)]
    assert [point.detail["by"] for point in points] == ["a click on the curve"]
    assert HOSTILE[:20] in tab.text
    assert tab.page.locator(".katex").count() == 0
    assert tab.page.locator("[data-testid=stApp] a[href^=javascript]").count() == 0


@pytest.mark.browser
def test_the_page_fits_a_phone_in_the_dark(shared_server, open_tab, served):
    tab = open_tab(shared_server, width=390, dark=True)
    tab.open(f"compare?dataset={served['dataset']}&rules={served['rules']}")
    tab.page.wait_for_selector(".st-key-compare_roc .nsewdrag")

    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert "Do my soft labels help?" in tab.text


@pytest.mark.browser
def test_a_chart_leaves_as_a_picture_and_a_table_offers_its_csv(shared_server, open_tab, served):
    tab = open_tab(shared_server).open(f"compare?dataset={served['dataset']}&rules={served['rules']}")
    tab.page.locator(".st-key-compare_roc .nsewdrag").first.hover()
    with tab.page.expect_download() as picture:
        tab.page.locator(".st-key-compare_roc .modebar-btn[data-title^=Download]").click()
    tab.page.locator("[data-testid=stDataFrame]").first.hover()
    tab.page.get_by_role("button", name="Download as CSV").first.wait_for()

    assert picture.value.suggested_filename == "spu-studio.svg"
    assert "<svg" in Path(picture.value.path()).read_text()[:200]
