"""The Compare page: the recommended model, curves against the ceiling, one S for all runs, an operating point."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from spu_core.engines.stored_runs import stored_bundle
from spu_core.training import Candidate, NextStep, recommend
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


def flagged(page):
    """The number of rows of the operating point on the page."""
    return page.number_input(key="compare_rows").value


def test_without_runs_the_page_leads_to_training(open_app):
    with Workspace.open() as workspace:
        address = bring_sample(workspace)
    page = open_app(PAGE, **address)

    assert not page.exception
    assert page.subheader[0].value == "No models yet."


def stored_points():
    """All stored operating points, by the name of the run."""
    with Workspace.open() as workspace:
        return {run.name: workspace.thresholds.list(run.id) for run in workspace.runs.list()}


def test_one_card_says_which_model_how_sure_why_and_what_next(open_app, address):
    page = open_app(PAGE, **address)

    assert not page.exception
    assert page.header[0].value.replace("\\", "") in (HOSTILE, "linear")
    assert [button.label for button in page.button if button.proto.type == "primary"] == ["Use this model"]
    assert "No model in use yet." in text_of(page)
    assert "No confidence band" not in text_of(page)
    board = page.dataframe[0].value
    assert set(board["name"]) == {"linear", HOSTILE, "rule_score (reference)"}
    assert board["name"].iloc[-1] == "rule_score (reference)"
    assert len(board.columns) <= 6


def test_where_no_confidence_band_holds_the_page_says_why(open_app, address, monkeypatch):
    monkeypatch.setattr("spu_core.metrics.band.ENOUGH", 1e6)
    page = open_app(PAGE, **address)

    assert not page.exception
    assert "No confidence band: it needs an effective number of at least 1e+06 positives" in text_of(page)


def test_exploring_never_changes_what_is_stored(open_app, address):
    page = open_app(PAGE, **address)
    page.button(key="compare_use").click().run()
    before = stored_points()
    assert sum(map(len, before.values())) == 1

    page.number_input(key="compare_rows").set_value(57).run()
    assert "Reviewing the top 57 rows (10%) finds" in text_of(page).replace("\\", "")
    page.slider(key="compare_threshold").set_value(0.9).run()
    assert flagged(page) not in (57, 11)
    page.session_state["compare_tabs"] = "Costs"
    page.run()
    page.button(key="compare_cheapest").click().run()

    assert not page.exception
    assert stored_points() == before


def test_use_this_threshold_stores_it_and_shows_old_and_new(open_app, address):
    page = open_app(PAGE, **address)
    page.button(key="compare_use").click().run()
    assert page.button(key="compare_choose").disabled
    page.number_input(key="compare_rows").set_value(57).run()
    assert page.button(key="compare_choose").label == "Use this threshold"
    assert "In use: flags 1.9% of rows" in text_of(page)
    assert "New: flags 10.0% of rows" in text_of(page)

    page.button(key="compare_choose").click().run()
    [points] = [points for points in stored_points().values() if points]
    assert points[0].flagged_share == pytest.approx(57 / 569)
    assert "Flags 10.0% of rows" in text_of(page)
    assert "Before: 1.9% of rows" in text_of(page)
    assert flagged(open_app(PAGE, **address)) == 57


def test_a_draft_can_be_discarded(open_app, address):
    page = open_app(PAGE, **address)
    first = flagged(page)
    page.number_input(key="compare_rows").set_value(57).run()
    page.button(key="compare_discard").click().run()

    assert flagged(page) == first != 57


@pytest.mark.parametrize("rows", [0, 569], ids=["nothing", "everything"])
def test_flagging_nothing_or_everything_can_be_used(open_app, address, rows):
    page = open_app(PAGE, **address)
    page.number_input(key="compare_rows").set_value(rows).run()
    page.button(key="compare_choose").click().run()

    assert not page.exception
    assert not page.error
    assert flagged(page) == rows


def test_another_model_can_be_used_with_its_operating_point(open_app, address):
    page = open_app(PAGE, **address)
    other = page.selectbox(key="compare_run").options[1]
    page.selectbox(key="compare_run").select(other).run()
    page.button(key="compare_choose").click().run()

    assert not page.exception
    with Workspace.open() as workspace:
        champion = workspace.thresholds.champion(address["dataset"])
        assert workspace.runs.get(champion.run).name == other
    assert f"In use: {other}, flags" in text_of(page).replace("\\", "")
    assert open_app(PAGE, **address).selectbox(key="compare_run").value == other


def test_the_rules_alone_are_a_reference_that_cannot_be_used(open_app, address):
    page = open_app(PAGE, **address)
    page.selectbox(key="compare_run").select("rule_score").run()

    assert "compare_choose" not in [button.key for button in page.button]
    assert "not a model to use" in text_of(page)


def test_the_next_step_opens_its_page_with_the_number_of_rows(open_app, address, monkeypatch):
    step = NextStep("check rows", 60, "Check 60 random rows.")
    asked = lambda *_, **__: replace(recommend(*_, **__), next_step=step)  # noqa: E731
    monkeypatch.setattr("pages.ui.compare.compared_runs.recommend", asked)
    page = open_app(PAGE, **address)
    assert page.button(key="compare_check_rows").label == "Check 60 rows"
    page.button(key="compare_check_rows").click().run()

    assert not page.exception
    assert page.title[0].value == "Trust"
    assert page.number_input(key="trust_checks").value == 60


def test_deleting_a_run_says_first_what_goes(open_app, address):
    with Workspace.open() as workspace:
        gone = next(run for run in workspace.runs.list() if run.name == "linear")
        workspace.thresholds.save(gone.id, Threshold("5 %", 0.5, 0.05))
    page = open_app(PAGE, **address)
    next(each for each in page.selectbox if each.key.startswith("compare_change")).select(gone.id).run()
    page.button(key="compare_delete").click().run()
    assert any("1 threshold" in each.value for each in page.markdown)

    page.button(key="delete_for_good").click().run()
    assert not page.exception
    assert not page.error
    assert "linear" not in set(page.dataframe[0].value["name"])
    with Workspace.open() as workspace:
        assert gone.id not in {run.id for run in workspace.runs.list()}


def test_a_run_can_be_renamed(open_app, address):
    with Workspace.open() as workspace:
        token = next(run.id for run in workspace.runs.list() if run.name == "linear")
    page = open_app(PAGE, **address)
    next(each for each in page.selectbox if each.key.startswith("compare_change")).select(token).run()
    page.text_input(key=f"compare_name_{token}").set_value("Baseline of May").run()
    page.button(key="compare_rename").click().run()

    assert not page.exception
    assert "Baseline of May" in set(page.dataframe[0].value["name"])
    assert "Baseline of May" in page.selectbox(key="compare_run").options


def test_the_history_names_old_and_new_and_the_last_change_can_be_undone(open_app, address):
    page = open_app(PAGE, **address)
    assert "compare_undo" not in [button.key for button in page.button]
    page.button(key="compare_use").click().run()
    first = flagged(page)
    page.number_input(key="compare_rows").set_value(200).run()
    page.button(key="compare_choose").click().run()
    shown = text_of(page).replace("\\", "")
    assert "by you" in shown
    assert "Before: no model" in shown
    assert shown.count("Before:") >= 2

    page.button(key="compare_undo").click().run()

    assert not page.exception
    assert flagged(page) == first
    assert "undone" in text_of(page)
    page.button(key="compare_undo").click().run()
    assert "No model in use yet." in text_of(page)


def test_a_draft_of_the_operating_point_survives_a_refresh_and_nonsense_in_the_address_is_no_failure(open_app, address):
    page = open_app(PAGE, **address)
    page.number_input(key="compare_rows").set_value(200).run()
    rows, point = flagged(page), "".join(page.query_params["point"])

    again = open_app(PAGE, **address, point=point)
    assert flagged(again) == rows
    assert stored_points() == dict.fromkeys(stored_points(), ())
    again.button(key="compare_discard").click().run()
    assert flagged(again) != rows
    assert "point" not in again.query_params
    for nonsense in ("x", "x~nan", f"{point.split('~')[0]}~inf", "~", "a~b~c"):
        assert not open_app(PAGE, **address, point=nonsense).exception


# What only this tab shows.
DETAILS = {
    "All figures": lambda page: page.dataframe[-1].value["soft_log_loss"],
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


def test_features_show_how_much_a_fused_run_relies_on_each_ingredient(open_app, address):
    with Workspace.open() as workspace:
        token = train_quickly(workspace, address, [Candidate("fused", {"rounds": 5}, name="both")])[0]
        weights = stored_bundle(workspace, token).fitted.model.stack_weights
    page = open_app(PAGE, **address)
    page.session_state["compare_tabs"] = "Features"
    heading = "**Weights in the fused score**"

    page.selectbox(key="compare_run").select("both").run()
    shown = [each.value for each in page.markdown]
    chart = json.loads(page.get("plotly_chart")[-1].proto.spec)
    page.selectbox(key="compare_run").select("linear").run()

    assert not page.exception
    assert heading in shown
    assert heading not in [each.value for each in page.markdown]
    assert set(chart["layout"]["yaxis"]["ticktext"]) == set(weights)


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
    versions = {name.removesuffix(" (reference)").split(", rules ")[-1] for name in page.dataframe[0].value["name"]}
    assert versions == {"v1", "v2"}
    assert "trained on rules v1, rules v2" in text_of(page)
    assert "trained with other rules" in text_of(page)


def test_a_run_that_was_trained_again_takes_the_place_of_the_older_one(open_app, address):
    with Workspace.open() as workspace:
        older = next(run for run in workspace.runs.list() if run.name == "linear")
        train_quickly(workspace, address, [Candidate("logistic", name="linear")])
        both = ",".join(run.id for run in workspace.runs.list())
    page = open_app(PAGE, **address)
    assert set(page.dataframe[0].value["name"]) == {"linear", HOSTILE, "rule_score (reference)"}
    assert older.id not in page.multiselect(key=f"compare_runs_{address['dataset']}").value

    page = open_app(PAGE, **address, runs=both)
    assert set(page.dataframe[0].value["name"]) == {"linear", "linear 2", HOSTILE, "rule_score (reference)"}


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


def click_a_curve(tab):
    """Click in the middle of a curve of the ROC chart."""
    tab.page.wait_for_selector(".st-key-compare_roc .nsewdrag")
    # The last trace is the operating point, before it come the rules alone, and before these a model.
    traces = tab.page.locator(".st-key-compare_roc .scatterlayer .trace")
    points = traces.nth(traces.count() - 3).locator(".point")
    box = points.nth(points.count() // 3).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.page.mouse.move(x - 3, y)
    tab.page.mouse.move(x, y, steps=4)  # Plotly clicks only what it hovers over
    tab.page.locator(".st-key-compare_roc .hoverlayer .hovertext").first.wait_for()
    tab.page.mouse.click(x, y)
    tab.settle()


@pytest.mark.browser
def test_a_click_on_the_curve_is_a_draft_until_a_button_uses_it(shared_server, open_tab, served):
    def stored():
        with Workspace.open(shared_server.home) as workspace:
            runs = workspace.runs.list(served["dataset"])
            return [point for run in runs for point in workspace.thresholds.list(run.id)]

    tab = open_tab(shared_server, height=1400).open(f"compare?dataset={served['dataset']}&rules={served['rules']}")
    tab.page.on("dialog", lambda dialog: tab.errors.append("a script ran"))
    tab.page.wait_for_selector(".st-key-compare_roc .nsewdrag")
    flagged = tab.page.locator(".st-key-compare_rows input").input_value()
    click_a_curve(tab)

    assert tab.page.locator(".st-key-compare_rows input").input_value() != flagged
    assert stored() == []
    tab.page.locator(".st-key-compare_choose button").click()
    tab.page.get_by_text("In use:").first.wait_for()
    tab.settle()
    assert [point.detail["is_champion"] for point in stored()] == [True]
    assert HOSTILE[:20] in tab.text
    assert tab.page.locator(".katex").count() == 0
    assert tab.page.locator("[data-testid=stApp] a[href^=javascript]").count() == 0


@pytest.mark.browser
def test_the_answer_lies_above_the_fold(shared_server, open_tab, served):
    tab = open_tab(shared_server, height=720).open(f"compare?dataset={served['dataset']}&rules={served['rules']}")
    card = tab.page.locator(".st-key-compare_card")
    parts = {
        "name": card.locator("h2"),
        "confidence": card.locator(".stMarkdownBadge").first,
        "reason": card.locator("[data-testid=stMarkdownContainer] p").nth(2),
        "button": card.locator("button[kind=primary]"),
    }
    for name, part in parts.items():
        box = part.bounding_box()
        assert box["height"] > 0, name
        assert box["y"] + box["height"] <= 720, name
    roc, page = (tab.page.locator(what).bounding_box() for what in (".st-key-compare_roc", ".stMainBlockContainer"))
    assert roc["width"] >= 0.5 * (page["width"] - 2 * 80)


@pytest.mark.browser
def test_the_page_fits_a_phone_in_the_dark(shared_server, open_tab, served):
    tab = open_tab(shared_server, width=390, dark=True)
    tab.open(f"compare?dataset={served['dataset']}&rules={served['rules']}")
    tab.page.wait_for_selector(".st-key-compare_roc .nsewdrag")

    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert "Recommended model" in tab.text


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
