"""The Trust page: what-ifs, priors, audits, sensitivity, echo and bias, empty, filled and with faults; and a whole
audit in a real browser."""

from __future__ import annotations

import io
from shutil import copytree

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from spu_core.engines import cancel, start_worker, wait_for
from spu_core.engines.audit_results import save_audit
from spu_core.engines.jobs.echo import echo_job, echo_result
from spu_core.engines.stored_runs import compare_on, soft_labels_by, stored_runs
from spu_core.tables.samples import sample_truth
from spu_core.trust import AuditPlan, Population, plan_audit
from spu_core.workspace import Workspace
from tests.dashboard.grid import type_into
from tests.dashboard.trained import HOSTILE, bring_sample, train_quickly
from tests.live import ROOT

PAGE = "pages/5_trust.py"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home with three small runs, made once; each test gets a copy."""
    folder = tmp_path_factory.mktemp("trust") / "home"
    with Workspace.open(folder) as workspace:
        address = bring_sample(workspace)
        runs = train_quickly(workspace, address)
    return folder, {**address, "run": runs[1]}


@pytest.fixture
def trained(home, tmp_path):
    folder, address = home
    copytree(folder, tmp_path / "spu_home")
    with Workspace.open(tmp_path / "spu_home") as workspace:
        yield workspace, address


@pytest.fixture
def drawn(trained):
    """An audit of the breast-cancer sample without verdicts."""
    workspace, address = trained
    record = workspace.runs.get(address["run"])
    rules = workspace.rule_sets.get(address["rules"], 1)
    table = workspace.datasets.load(address["dataset"])
    run = compare_on(stored_runs(workspace, [record.id]), soft_labels_by(table, rules)).runs[0]
    audit = save_audit(workspace, record, plan_audit(Population.of_run(run), 120, "prior"), rules)
    return workspace, address, audit


def open_section(section, **address):
    """The page without a browser, with one of its sections chosen."""
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=600)
    for key, value in {**address, "section": section}.items():
        app.query_params[key] = value
    return app.switch_page(PAGE).run()


def verdicts_by_truth(plan: AuditPlan, reviewer: str = "ann") -> list[tuple[int, str, str, str]]:
    truth = sample_truth("breast_cancer")
    return [(row, reviewer, "positive" if truth[row] else "negative", "") for row in plan.rows]


def words_of(app) -> str:
    parts = [*app.markdown, *app.caption, *app.info, *app.warning, *app.error, *app.success]
    return "\n".join(str(part.value) for part in parts)


def test_without_a_model_the_page_says_what_to_do(open_app, tmp_path):
    with Workspace.open(tmp_path / "spu_home") as workspace:
        address = bring_sample(workspace)
    app = open_app(PAGE, **address)
    assert not app.exception
    assert [box.value for box in app.subheader] == ["No models yet."]


@pytest.mark.parametrize("section", ["what-if", "prior", "audit", "sensitivity", "echo"])
def test_every_section_opens_without_a_fault(trained, section):
    _, address = trained
    app = open_section(section, **address)
    assert not app.exception
    assert "unexpected error" not in words_of(app)


def test_a_what_if_says_what_must_be_believed_and_sliders_stay_tied(trained):
    _, address = trained
    app = open_section("what-if", **address)
    assert "A what-if, not an estimate" in words_of(app)
    before = {slider.label: slider.value for slider in app.slider}
    app.slider(key="trust_prior_value").set_value(0.9).run()
    after = {slider.label: slider.value for slider in app.slider}

    assert not app.exception
    assert after["π, share of true positives"] == pytest.approx(0.9, abs=0.01)
    assert after["S_P, mean soft label of true positives"] <= before["S_P, mean soft label of true positives"]


def test_the_prior_names_its_sources(trained):
    _, address = trained
    labels = [metric.label for metric in open_section("prior", **address).metric]
    assert [label.replace("\\", "") for label in labels] == [
        "From confirmed cases, BBE",
        "The same, Elkan–Noto",
        "Your rules",
        "Truth",
    ]


def test_an_audit_is_drawn_kept_and_found_again(trained):
    workspace, address = trained
    app = open_section("audit", **address)
    app.number_input(key="trust_checks").set_value(60).run()
    app.button(key="trust_draw").click().run()

    assert not app.exception
    (audit,) = workspace.audits.list(address["run"])
    assert AuditPlan.from_json(audit.plan).checks == 60
    assert (audit.rule_set, audit.rule_set_version) == (address["rules"], 1)
    assert "1 · Check these rows" in [box.value for box in app.subheader]
    assert "Estimates appear with the first verdicts" in words_of(app)


def test_verdicts_become_estimates_and_the_what_if_learns_of_them(drawn):
    workspace, address, audit = drawn
    plan = AuditPlan.from_json(audit.plan)
    workspace.audits.add_verdicts(audit.id, verdicts_by_truth(plan))
    app = open_section("audit", **address)

    assert not app.exception
    found = {metric.label: metric.value for metric in app.metric}
    assert "True AUC" in found
    assert "Assumption 1" in words_of(app)
    what_if = open_section("what-if", **address)
    assert "Do not believe this map" in words_of(what_if) or "Still a what-if" in words_of(what_if)
    assert "Audit" in [metric.label for metric in open_section("prior", **address).metric]


def test_a_half_done_audit_says_which_verdicts_are_missing(drawn):
    workspace, address, audit = drawn
    plan = AuditPlan.from_json(audit.plan)
    workspace.audits.add_verdicts(audit.id, verdicts_by_truth(plan)[:3])
    app = open_section("audit", **address)
    assert not app.exception
    assert "Too few verdicts in stratum" in words_of(app)


def test_two_reviewers_are_both_kept_and_the_page_says_how_they_count(drawn):
    workspace, address, audit = drawn
    plan = AuditPlan.from_json(audit.plan)
    workspace.audits.add_verdicts(audit.id, verdicts_by_truth(plan))
    workspace.audits.add_verdicts(audit.id, [(row, "<b>bob</b>", "unsure", "") for row in plan.rows[:5]])
    words = words_of(open_section("audit", **address))
    assert "5 of them by several reviewers, who agree on 0" in words
    assert "5 are split or unsure" in words.replace("\\", "")


def test_sensitivity_names_the_rule_that_matters_most_and_shows_text_as_text(trained):
    _, address = trained
    app = open_section("sensitivity", **address)
    assert "matters most" in words_of(app)
    assert HOSTILE not in words_of(app)


def test_the_echo_check_is_a_job_whose_report_the_page_shows(trained):
    workspace, address = trained
    app = open_section("echo", **address)
    app.button(key="trust_echo_go").click().run()
    assert not app.exception
    [job] = [each for each in workspace.jobs.list() if each.kind == "echo"]
    done = wait_for(workspace, job.id, 600)
    assert done.status == "finished", done.error

    words = words_of(open_section("echo", **address)).replace("\\", "")
    assert echo_result(done).sentence.split(" repeats ")[1] in words
    assert f"Out of fold on {echo_result(done).rows:,} rows" in words


def test_an_echo_check_that_cannot_be_is_explained_and_may_be_asked_again(trained):
    workspace, address = trained
    record, rules = workspace.runs.get(address["run"]), workspace.rule_sets.get(address["rules"], 1)
    job = echo_job(record, workspace.datasets.get(address["dataset"]), rules)
    cancel(workspace, start_worker(workspace, job).id)
    [stopped] = [each for each in workspace.jobs.list() if each.kind == "echo"]
    assert wait_for(workspace, stopped.id, 600).status == "cancelled"
    app = open_section("echo", **address)

    assert "The last check did not finish" in words_of(app)
    assert "trust_echo_go" in {button.key for button in app.button}


def test_an_audit_from_plan_to_estimates_in_the_browser(start_server, open_tab, trained, tmp_path):
    """Plan → enter one verdict by hand → download the list → fill it in → upload → estimates.

    A fault in the list is named by its line; what was entered by hand stays beside what was uploaded.
    """
    workspace, address = trained
    tab = open_tab(start_server(tmp_path / "spu_home"))
    tab.open(f"trust?dataset={address['dataset']}&rules={address['rules']}&run={address['run']}&section=audit")
    page = tab.page
    # A link into the dashboard is the first thing that this server was asked.
    assert "Page not found" not in tab.text
    page.get_by_role("button", name="Draw these rows").first.click()
    tab.settle()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the review list").first.click()
    listed = pd.read_csv(download.value.path())
    assert {"row", "stratum", "inclusion_probability", "verdict", "reviewer"} <= set(listed.columns)
    _enter_by_hand(tab)
    (audit,) = workspace.audits.list(address["run"])
    [entered] = workspace.audits.verdicts(audit.id)
    assert (entered.row, entered.reviewer, entered.verdict) == (listed["row"][2], "bob", "unsure")
    assert entered.note == "ask again"

    truth = sample_truth("breast_cancer")
    filled = listed.assign(verdict=["yes" if truth[row] else "no" for row in listed["row"]], reviewer="ann")
    _upload(page, filled.assign(verdict=["guilty", *filled["verdict"][1:]]))
    tab.settle()
    page.get_by_text("Line 2: unknown verdict 'guilty'").wait_for()
    _upload(page, filled)
    tab.settle()
    page.get_by_role("button", name="Save these verdicts").first.click()
    tab.settle()
    page.get_by_text("The paper's assumptions on these rows").wait_for()
    assert page.locator("[data-testid=stException]").count() == 0
    assert len(workspace.audits.verdicts(audit.id)) == len(listed) + 1
    assert "1 of them by several reviewers, who agree on 0" in tab.text


def _enter_by_hand(tab) -> None:
    """The third row of the list is unsure, says bob, with a note."""
    page = tab.page
    page.get_by_role("tab", name="Enter here").click()
    page.get_by_label("Your name").fill("bob")
    page.get_by_label("Your name").press("Enter")
    page.locator("[class*=st-key-trust_editor][class*=bob]").first.wait_for()  # the table of this reviewer
    tab.settle()
    type_into(page, "trust_editor", line=2, column=2, text="ask again")
    type_into(page, "trust_editor", line=2, column=1, text="unsure")
    page.get_by_role("button", name="Save 1 verdict").click()
    page.get_by_text("have a verdict by bob").wait_for()
    tab.settle()
    page.get_by_role("tab", name="Upload").click()


def _upload(page, frame: pd.DataFrame) -> None:
    text = io.StringIO()
    frame.to_csv(text, index=False)
    inputs = page.locator("[class*=st-key-trust_upload] input[type=file]").last
    inputs.set_input_files({"name": "list.csv", "mimeType": "text/csv", "buffer": text.getvalue().encode()})
