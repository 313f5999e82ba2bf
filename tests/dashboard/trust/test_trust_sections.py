"""The Trust page: what-ifs, priors, audits, sensitivity, echo and bias, empty, filled and with faults; and a whole
audit in a real browser."""

from __future__ import annotations

import json
from shutil import copytree

import numpy as np
import pytest
from scipy.stats import rankdata
from streamlit.testing.v1 import AppTest

from spu_core.engines import cancel, start_worker, wait_for
from spu_core.engines.audit_results import save_audit
from spu_core.engines.jobs.retraining_checks import echo_job, echo_result
from spu_core.engines.stored_runs import compare_on, displayed_names, soft_labels_by, stored_runs
from spu_core.tables.samples import load_sample, load_sample_rules, sample_truth
from spu_core.training import Candidate, compare_runs, recommend
from spu_core.trust import AuditPlan, Population, draw_audit
from spu_core.workspace import Workspace
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
    """120 rows of the breast-cancer sample, drawn at random, without verdicts."""
    workspace, address = trained
    record = workspace.runs.get(address["run"])
    rules = workspace.rule_sets.get(address["rules"], 1)
    table = workspace.datasets.load(address["dataset"])
    run = compare_on(stored_runs(workspace, [record.id]), soft_labels_by(table, rules)).runs[0]
    plan = draw_audit(Population.of_run(run), 120, table_rows=len(table))
    return workspace, address, save_audit(workspace, record, plan, rules)


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
    assert after["Share of true positives"] == pytest.approx(0.9, abs=0.01)
    assert after["Mean soft label of true positives"] <= before["Mean soft label of true positives"]


def test_the_prior_names_its_sources(trained):
    _, address = trained
    labels = [metric.label for metric in open_section("prior", **address).metric]
    assert [label.replace("\\", "") for label in labels] == [
        "From confirmed cases",
        "The same, Elkan–Noto",
        "Your rules",
        "Truth",
    ]


def test_the_page_opens_with_checking_rows_by_hand(trained):
    _, address = trained
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=600)
    for key, value in address.items():
        app.query_params[key] = value
    app.switch_page(PAGE).run()
    assert "Check some rows by hand" in [box.value for box in app.subheader]
    assert "refuted" not in words_of(app)
    assert "checks tell the true AUC within" in words_of(app).replace("\\", "")


def test_rows_are_drawn_for_a_question_and_the_review_begins(trained):
    workspace, address = trained
    app = open_section("audit", **address)
    app.number_input(key="trust_checks").set_value(60).run()
    app.radio(key="trust_question").set_value("which_better").run()
    assert "power if their true AUC differs by" in words_of(app).replace("\\", "")
    app.button(key="trust_draw").click().run()

    assert not app.exception
    (audit,) = workspace.audits.of_dataset(address["dataset"])
    plan = AuditPlan.from_json(audit.plan)
    assert (plan.checks, plan.question, plan.is_random) == (30, "which_better", True)
    assert "Enter your name to start the review" in [field.label for field in app.text_input]


def review(reviewer: str, **address) -> AppTest:
    return open_section("audit", reviewer=reviewer, step="review", **address)


def test_a_card_takes_a_verdict_with_a_note_and_undo_takes_it_back(drawn):
    workspace, address, audit = drawn
    first, second = AuditPlan.from_json(audit.plan).rows[:2]
    app = review("ann", **address)
    assert f"Row {first + 1} of the table" in words_of(app)
    assert "What the rules say" not in str(app.get("popover"))
    assert sample_label_words(app) == []
    app.text_input(key=f"review_note_{audit.id}_{first}").set_value("clear case").run()
    app.button(key="review_positive").click().run()

    [stored] = workspace.audits.verdicts(audit.id)
    assert (stored.row, stored.reviewer, stored.verdict, stored.note) == (first, "ann", "positive", "clear case")
    assert f"Row {second + 1} of the table" in words_of(app)
    app.button(key="review_undo").click().run()
    assert workspace.audits.verdicts(audit.id) == ()
    assert f"Row {first + 1} of the table" in words_of(app)


def sample_label_words(app) -> list[str]:
    """Captions of a card that name a column which a reviewer must not see."""
    hidden = {"confirmed", "truth", "label", "soft_label"}
    return [str(each.value) for each in app.caption if str(each.value).replace("\\", "") in hidden]


def test_two_reviewers_get_different_rows_and_a_refresh_the_same_one(drawn):
    _, address, audit = drawn
    rows = AuditPlan.from_json(audit.plan).rows
    assert f"Row {rows[0] + 1} of the table" in words_of(review("ann", **address))
    assert f"Row {rows[1] + 1} of the table" in words_of(review("<b>bob</b>", **address))
    assert f"Row {rows[0] + 1} of the table" in words_of(review("ann", **address))


def test_a_skipped_row_goes_to_the_other_reviewer(drawn):
    _, address, audit = drawn
    rows = AuditPlan.from_json(audit.plan).rows
    app = review("ann", **address)
    app.button(key="review_skip").click().run()
    assert f"Row {rows[1] + 1} of the table" in words_of(app)
    assert f"Row {rows[0] + 1} of the table" in words_of(review("bob", **address))


def test_double_review_shows_kappa(drawn):
    workspace, address, audit = drawn
    plan = AuditPlan.from_json(audit.plan)
    workspace.audits.add_verdicts(audit.id, verdicts_by_truth(plan))
    workspace.audits.add_verdicts(audit.id, [(*each[:1], "bob", *each[2:]) for each in verdicts_by_truth(plan)[:40]])
    words = words_of(review("ann", **address)).replace("\\", "")
    assert "ann and bob agree on 40 of 40 rows (Cohen's κ 1.00" in words
    assert "All rows are checked" in words


def test_verdicts_judge_every_model_and_the_what_if_learns_of_them(drawn):
    workspace, address, audit = drawn
    workspace.audits.add_verdicts(audit.id, verdicts_by_truth(AuditPlan.from_json(audit.plan)))
    app = open_section("audit", **address)

    assert not app.exception
    assert "Which model is better?" in [box.value for box in app.subheader]
    assert "true AUC" in words_of(app)
    assert "Assumption 1" in words_of(app)
    what_if = words_of(open_section("what-if", **address))
    assert "This map does not hold here" in what_if or "Still a what-if" in what_if
    assert "Audit" in [metric.label for metric in open_section("prior", **address).metric]


def test_the_rules_alone_come_last_in_the_result_because_they_are_a_reference(drawn):
    workspace, address, audit = drawn
    workspace.audits.add_verdicts(audit.id, verdicts_by_truth(AuditPlan.from_json(audit.plan)))
    app = open_section("audit", **address)

    figures = next(each.value for each in app.dataframe if "model" in each.value and "compared with" not in each.value)
    assert figures["model"].tolist()[-1] == "rule_score"
    assert figures["True AUC"].tolist() != sorted(figures["True AUC"], reverse=True)


def test_a_run_that_was_trained_again_has_one_name_on_trust_and_compare(trained):
    workspace, address = trained
    [newest] = train_quickly(workspace, address, [Candidate("labeled_vs_rest", {"learner": "logistic"}, name="linear")])
    app = open_section("what-if", **{**address, "run": newest})
    chosen = next(box for box in app.selectbox if box.label == "Model")

    assert chosen.value == newest
    assert sorted(chosen.options) == sorted(["linear", "linear 2", HOSTILE, "rule_score"])
    assert displayed_names(workspace.runs.list(address["dataset"]))[newest] == "linear"


def test_a_half_done_review_says_how_many_checks_are_missing(drawn):
    workspace, address, audit = drawn
    plan = AuditPlan.from_json(audit.plan)
    workspace.audits.add_verdicts(audit.id, verdicts_by_truth(plan)[:3])
    app = open_section("audit", step="result", **address)
    assert not app.exception
    assert "Too few cases to judge the models" in words_of(app)


def test_two_reviewers_are_both_kept_and_the_page_says_how_they_count(drawn):
    workspace, address, audit = drawn
    plan = AuditPlan.from_json(audit.plan)
    workspace.audits.add_verdicts(audit.id, verdicts_by_truth(plan))
    workspace.audits.add_verdicts(audit.id, [(row, "<b>bob</b>", "unsure", "") for row in plan.rows[:5]])
    words = words_of(open_section("audit", step="result", **address))
    assert "5 of them by several reviewers, who agree on 0" in words
    assert "5 are split or unsure" in words.replace("\\", "")


def test_further_rows_are_added_to_those_that_are_checked(drawn):
    workspace, address, audit = drawn
    plan = AuditPlan.from_json(audit.plan)
    workspace.audits.add_verdicts(audit.id, verdicts_by_truth(plan))
    app = open_section("audit", step="plan", **address)
    assert "120 rows checked so far" in words_of(app)
    app.number_input(key="trust_checks").set_value(40).run()
    app.button(key="trust_draw").click().run()
    second = AuditPlan.from_json(workspace.audits.of_dataset(address["dataset"])[0].plan)
    new = len(set(second.rows) - set(plan.rows))
    assert 30 <= new <= 50
    [progress] = review("ann", **address).get("progress")
    assert f"0 of {new} rows checked" in progress.proto.text


def test_files_of_reviewers_are_taken_and_faults_are_named(drawn):
    workspace, address, audit = drawn
    plan = AuditPlan.from_json(audit.plan)
    lines = [f"{row},{verdict},{name}" for row, name, verdict, _ in verdicts_by_truth(plan)]
    app = open_section("audit", step="files", **address)
    app.file_uploader(key="trust_upload_0").upload("list.csv", b"row,verdict,reviewer\n0,guilty,ann\n").run()
    assert "unknown verdict" in words_of(app)
    app.file_uploader(key="trust_upload_0").upload(
        "list.csv", "\n".join(["row,verdict,reviewer", *lines]).encode()
    ).run()
    app.button(key="trust_keep").click().run()
    assert len(workspace.audits.verdicts(audit.id)) == plan.checks

    region = {"from_name": "verdict", "to_name": "row", "type": "choices", "value": {"choices": ["unsure"]}}
    task = {"data": {"row": plan.rows[0]}, "annotations": [{"completed_by": 5, "result": [region]}]}
    app.file_uploader(key="trust_upload_1").upload("done.json", json.dumps([task]).encode()).run()
    app.button(key="trust_keep").click().run()
    assert "Label Studio user 5" in {item.reviewer for item in workspace.audits.verdicts(audit.id)}


def test_wrong_rules_are_answered_by_a_factor_and_text_is_shown_as_text(trained, open_app):
    _, address = trained
    app = open_section("sensitivity", **address)
    words = words_of(app)
    assert "stays ahead of" in words or "is not ahead of" in words
    assert HOSTILE not in words
    recommended = open_app("pages/4_compare.py", **address).header[0].value
    assert app.selectbox(key=f"trust_gamma_{address['run']}").label == f"{recommended} against"


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


@pytest.fixture
def untold(tmp_path):
    """Two models of a table without a truth column, and a truth by which not the recommended one is better."""
    with Workspace.open(tmp_path / "spu_home") as workspace:
        dataset = workspace.datasets.save(load_sample("breast_cancer"), "Breast cancer")
        rules = workspace.rule_sets.create("Breast cancer", load_sample_rules("breast_cancer"))
        address = {"dataset": dataset.id, "rules": rules.id}
        ids = train_quickly(
            workspace, address, (Candidate("logistic"), Candidate("labeled_vs_rest", {"learner": "logistic"}))
        )
        runs = {run.name: run for run in stored_runs(workspace, ids)}
        recommended = recommend(compare_runs(list(runs.values()))).model
        (rival,) = runs.keys() - {recommended}
        apart = rankdata(runs[rival].score) - 0.7 * rankdata(runs[recommended].score)
        yield workspace, address, (recommended, rival), apart > np.quantile(apart, 0.6)


def test_plan_review_by_keyboard_result_and_recommendation_in_the_browser(start_server, open_tab, untold, tmp_path):
    """Plan → verdicts by keys, with an undo and a refresh → result → the recommendation changes to the other model."""
    workspace, address, (recommended, rival), truth = untold
    tab = open_tab(start_server(tmp_path / "spu_home"))
    page = tab.page
    query = "&".join(f"{key}={value}" for key, value in address.items())
    tab.open(f"compare?{query}")
    # A link into the dashboard is the first thing that this server was asked.
    assert "Page not found" not in tab.text
    assert page.locator(".st-key-compare_card h2").inner_text() == recommended
    assert "rows checked by hand" not in tab.text
    tab.open(f"trust?{query}")
    page.get_by_role("spinbutton", name="Rows you can check").fill("40")
    page.get_by_role("spinbutton", name="Rows you can check").press("Enter")
    tab.settle()
    page.get_by_role("button", name="Draw 40 rows").click()
    tab.settle()
    page.get_by_role("textbox", name="Enter your name").fill("ann")
    page.get_by_role("textbox", name="Enter your name").press("Enter")
    tab.settle()
    (audit,) = workspace.audits.of_dataset(address["dataset"])
    rows = AuditPlan.from_json(audit.plan).rows
    page.get_by_text(f"Row {rows[0] + 1} of the table").wait_for()
    page.keyboard.press("u")
    tab.settle()
    page.get_by_text(f"Row {rows[1] + 1} of the table").wait_for()
    page.keyboard.press("z")
    tab.settle()
    tab.open(page.url.split("/", 3)[3])  # a refresh: a new session, the same card
    for place, row in enumerate(rows):
        page.get_by_text(f"Row {row + 1} of the table").wait_for()
        page.keyboard.press("p" if truth[row] else "n")
        tab.settle()
        assert len(workspace.audits.verdicts(audit.id)) == place + 1
    page.get_by_text("All rows are checked").wait_for()
    page.get_by_role("button", name="Show the result").click()
    page.get_by_text("Which model is better?").wait_for()
    tab.settle()
    assert "40 checked rows" in tab.text
    page.get_by_role("link", name="See the recommendation").click()
    tab.settle()
    page.get_by_text("rows checked by hand").first.wait_for()
    assert page.locator(".st-key-compare_card h2").inner_text() == rival
