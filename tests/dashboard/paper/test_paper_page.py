"""The Paper page: verdicts first, stored figures and tables, and a small rerun beside them."""

from __future__ import annotations

import pytest

from pages.ui.paper import results
from spu_core.engines import Job, run_in_process
from spu_core.experiments import EXPERIMENTS, ExperimentSettings
from spu_core.experiments.catalog import KIND
from spu_core.experiments.runners.theorems import run
from spu_core.workspace import JobStatus, Workspace
from tests.live import WORKER_PATIENCE

PAGE = "pages/7_paper.py"
THEOREM_4 = {"experiment": "theorems", "scale": "smoke", "part": "theorem4"}


@pytest.fixture(scope="module")
def theorems():
    return run(ExperimentSettings(scale="smoke"), parts=["theorem3", "theorem4", "figure2"])


@pytest.fixture
def only_theorems(monkeypatch, theorems):
    """A version that ships the theorems only, so that both cases are on the page."""
    stored = {name: theorems if name == "theorems" else None for name in EXPERIMENTS}
    monkeypatch.setattr(results, "stored_results", lambda: stored)


def text_of(page):
    """What is read on the page: the marks that keep text from becoming Markdown are invisible there."""
    shown = (*page.markdown, *page.caption, *page.header, *page.info)
    return "\n".join(element.value for element in shown).replace("\\", "")


def test_verdicts_come_first_in_words_and_marks(open_app, only_theorems):
    page = open_app(PAGE, experiment="theorems")

    assert not page.exception
    assert [(metric.label, metric.value) for metric in page.metric] == [
        ("Holds", "1 of 2"),
        ("Holds partly", "1 of 2"),
        ("Does not hold", "0 of 2"),
        ("Not shown", "0 of 2"),
    ]
    assert "holds partly] **Theorem 4" in text_of(page)
    assert "violated at" in text_of(page)


def test_one_screen_shows_the_printed_tables_beside_ours_and_details_are_folded(open_app):
    page = open_app(PAGE)

    assert not page.exception
    assert not page.header
    assert [list(table.value.columns) for table in page.dataframe] == [["what", "printed", "ours"]] * 3
    first = page.dataframe[0].value
    assert first.iloc[0].tolist()[:2] == ["Diabetes, XGB, soft", 0.721]  # the first cell of the paper's Table 1
    assert len(page.get("plotly_chart")) == len(results.PICTURES)
    page.segmented_control(key="paper_experiment").set_value("table1").run()
    assert page.header[0].value == EXPERIMENTS["table1"].title


def test_figures_offer_their_views_and_tables_follow_the_figure(open_app, only_theorems):
    page = open_app(PAGE, experiment="theorems")
    assert "Theorem 3: the best order, and the order of others" in text_of(page)

    page.button_group(key="paper_figure").select("theorem4").run()
    page.select_slider(key="paper_theorems_theorem4_view").set_value("0.98").run()

    assert not page.exception
    assert "exceeds the printed bound" in text_of(page)
    assert len(page.dataframe) == 3, "the table of the figure, and the others one click away"


def test_an_experiment_without_stored_result_says_so_and_how_to_run_it(open_app, only_theorems):
    page = open_app(PAGE, experiment="table2")

    assert not page.exception
    assert "ships no stored result" in text_of(page)
    assert "`spu paper table2 --run`" in text_of(page)
    assert "vision" in text_of(page)
    assert not [button for button in page.button if button.key == "paper_run"]


def test_an_unknown_experiment_in_the_address_shows_the_first(open_app):
    page = open_app(PAGE, experiment="../../etc/passwd")

    assert not page.exception
    assert page.header[0].value == EXPERIMENTS["table1"].title


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_opens_by_its_address(open_app, name):
    page = open_app(PAGE, experiment=name)

    assert not page.exception
    assert not page.error
    assert page.header[0].value == EXPERIMENTS[name].title


def test_a_click_starts_the_chosen_part_in_the_background(open_app, only_theorems, monkeypatch):
    started: list[Job] = []
    monkeypatch.setattr(results, "start_worker", lambda workspace, job: started.append(job))
    page = open_app(PAGE, experiment="theorems")

    page.selectbox(key="paper_part").select("theorem4").run()
    page.button(key="paper_run").click().run()

    assert not page.exception
    assert [dict(job.parameters) for job in started] == [THEOREM_4]


def test_a_finished_rerun_stands_beside_the_stored_figures(open_app, only_theorems):
    with Workspace.open() as workspace:
        run_in_process(workspace, Job(kind=KIND, parameters=THEOREM_4, title="Theorem 4"))
    page = open_app(PAGE, experiment="theorems")

    page.selectbox(key="paper_part").select("theorem4").run()

    assert not page.exception
    shown = text_of(page)
    assert "**Run here**" in shown
    assert "stored :orange-badge[:material/adjust: holds partly] now :orange-badge" in shown
    compared = page.dataframe[-1].value
    assert list(compared.columns) == ["table", "row", "figure", "stored", "now", "now − stored"]
    assert set(compared["now − stored"]) == {0.0}


def test_a_failed_rerun_says_why(open_app, only_theorems):
    with Workspace.open() as workspace:
        job = Job(kind=KIND, parameters=THEOREM_4, title="Theorem 4")
        job.add_to(workspace, "a" * 24)
        attempt = workspace.jobs.begin("a" * 24)
        workspace.jobs.end(attempt, JobStatus.FAILED, "It needs <b>more</b> memory.")
    page = open_app(PAGE, experiment="theorems")

    page.selectbox(key="paper_part").select("theorem4").run()

    assert not page.exception
    assert page.error[0].value == r"It needs \<b\>more\<\/b\> memory\."


def test_results_that_are_not_there_are_no_failure(monkeypatch):
    def missing(name):
        raise results.WorkspaceError("No result.")

    monkeypatch.setattr(results, "stored_result", missing)
    assert results._stored("table1") is None


@pytest.mark.browser
def test_a_link_leads_to_the_theorems_and_one_is_run_again_live(shared_server, open_tab):
    tab = open_tab(shared_server).open("paper?experiment=theorems")
    assert "Theorems 1 to 5" in tab.text

    part = tab.page.locator(".st-key-paper_part input")
    part.click()
    part.fill("Theorem 4")
    part.press("Enter")
    tab.settle()
    tab.page.get_by_role("button", name="Run it here").click()
    tab.page.wait_for_selector(".st-key-paper_fresh", timeout=WORKER_PATIENCE)
    tab.settle()

    assert "Run here on" in tab.text
    assert tab.page.locator(".st-key-paper_fresh .js-plotly-plot").count() == 1
    assert "experiment=theorems" in tab.page.url
