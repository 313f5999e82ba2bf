"""The Export page: a chosen model leaves the dashboard and works; files are prepared on a click and kept."""

from __future__ import annotations

import io
import json
import shutil
import time

import pandas as pd
import pytest

from pages.ui.shared.shell import DONE, STALE, marks_of
from spu_core.engines import refresh
from spu_core.engines.export_files import EXPORT_FORMS, StoredModel, prepare
from spu_core.engines.stored_runs import recommended_run_and_why
from spu_core.engines.study import Study
from spu_core.export import Bundle
from spu_core.rules import RuleSet
from spu_core.tables.samples import load_sample, load_sample_rules
from spu_core.training import Candidate
from spu_core.workspace import Threshold, Workspace
from tests.dashboard.trained import HOSTILE, bring_sample, train_quickly
from tests.export.examples import known

PAGE = "pages/6_export.py"
CANDIDATES = (
    Candidate("logistic", name="linear"),
    Candidate("nearest_neighbors", name=HOSTILE),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A home with two runs, the first of them the champion; every test gets its own copy."""
    home = tmp_path_factory.mktemp("trained") / "home"
    return home, train_champion(home)


@pytest.fixture(scope="module")
def served(shared_server):
    """The same in the home of the running dashboard."""
    return train_champion(shared_server.home, "Exported")


def train_champion(home, *name):
    with Workspace.open(home) as workspace:
        address = bring_sample(workspace, *name)
        champion = train_quickly(workspace, address, CANDIDATES)[0]
        workspace.thresholds.save_champion(champion, Threshold("10 % flagged", 0.5, 0.1), {"by": "the analyst"})
    return address


@pytest.fixture(scope="module")
def bundle_file(trained):
    """The champion as the page would hand it out."""
    home, address = trained
    with Workspace.open(home) as workspace:
        champion = workspace.runs.get(workspace.thresholds.champion(address["dataset"]).run)
        model = StoredModel(workspace, champion, workspace.datasets.load(champion.dataset))
        return EXPORT_FORMS["bundle"].make(model).data


@pytest.fixture
def address(trained, tmp_path, monkeypatch):
    home, address = trained
    shutil.copytree(home, tmp_path / "copy")
    monkeypatch.setenv("SPU_HOME", str(tmp_path / "copy"))
    return address


def run_named(name, home=None, dataset=None):
    with Workspace.open(home) as workspace:
        return next(run.id for run in workspace.runs.list(dataset) if run.name == name)


def new_rows(rows=60, **changes):
    frame = load_sample("breast_cancer", truth=True).frame.head(rows).assign(**changes)
    return frame.to_csv(index=False).encode()


def text_of(page):
    shown = (*page.markdown, *page.caption, *page.subheader, *page.error, *page.warning)
    return "\n".join(element.value for element in shown).replace("\\", "")


def exported(form):
    """The bytes of the only export of this form."""
    with Workspace.open() as workspace:
        [record] = [
            each for run in workspace.runs.list() for each in workspace.exports.list(run.id) if each.format == form
        ]
        return workspace.exports.path(record.id).read_bytes()


def test_without_runs_the_page_leads_to_training_and_still_takes_bundles(open_app):
    with Workspace.open() as workspace:
        address = bring_sample(workspace)
    page = open_app(PAGE, **address)

    assert not page.exception
    assert "No models yet." in [element.value for element in page.subheader]
    assert [each.key for each in page.file_uploader] == ["export_foreign"]


def test_without_data_the_page_leads_to_data(open_app):
    page = open_app(PAGE)

    assert not page.exception
    assert "No data yet." in [element.value for element in page.subheader]


def test_the_champion_comes_first_with_its_figures_and_lineage(open_app, address):
    page = open_app(PAGE, **address)

    assert not page.exception
    assert not page.error
    metrics = {metric.label: metric for metric in page.metric}
    assert 0.5 < float(metrics["AUC_SPU"].value) <= 1.0
    assert metrics["Flags"].value == "10.0%"
    assert metrics["Flags"].delta == "above 0.5"
    assert "linear on 'Breast cancer'" in text_of(page)
    assert "other rules" not in text_of(page)
    assert "rule set 'Breast cancer' version 1" in text_of(page)


def test_without_a_chosen_model_the_page_says_which_one_it_uses_and_why(open_app, address):
    assert "You have not chosen a model" not in text_of(open_app(PAGE, **address))
    with Workspace.open() as workspace, workspace.catalogue.transaction() as rows:
        rows.execute("DELETE FROM thresholds")
    page = open_app(PAGE, **address)

    assert not page.exception
    used = next(each.value for each in page.selectbox if each.key.startswith("export_run_"))
    with Workspace.open() as workspace:
        name = workspace.runs.get(used).name
    assert f"so this page uses {name}, the recommended model of your latest training" in text_of(page)
    with Workspace.open() as workspace:
        origin = workspace.datasets.get(address["dataset"]).origin
        why = recommended_run_and_why(workspace, workspace.runs.list(address["dataset"]), origin)[1].sentence
    assert why in text_of(page)


def test_a_model_of_other_rules_is_marked_and_can_be_trained_again(open_app, address):
    with Workspace.open() as workspace:
        rules = workspace.rule_sets.get(address["rules"])
        workspace.rule_sets.save(rules, rules.text.replace("0.", "0.1", 1))
    page = open_app(PAGE, **address)

    assert not page.exception
    assert "trained with Breast cancer, version 1. Breast cancer, version 2, is open now." in text_of(page)
    chooser = next(each for each in page.selectbox if each.key.startswith("export_run_"))
    assert all(name.endswith(" · other rules") for name in chooser.options)


def test_opening_the_page_prepares_nothing(open_app, address):
    page = open_app(PAGE, **address)

    assert not page.get("download_button")
    with Workspace.open() as workspace:
        assert not any(workspace.exports.list(run.id) for run in workspace.runs.list())


def prepared(page, form, variant=None):
    if variant is not None:
        control, value = variant
        page.segmented_control(key=control).set_value(value).run()
    page.button(key=f"export_prepare_{form}").click().run()
    assert not page.exception
    assert not page.error, [each.value for each in page.error]
    assert f"export_download_{form}" in [each.key for each in page.get("download_button")]
    return exported(form)


def test_each_form_is_prepared_on_a_click_and_is_what_it_says(open_app, address):
    page = open_app(PAGE, **address)

    bundle = known(prepared(page, "bundle"))
    assert bundle.name == "linear"
    assert bundle.point.threshold == 0.5
    assert bundle.details.data_name == "Breast cancer"
    assert RuleSet.from_json(prepared(page, "rules")) == RuleSet.from_json(load_sample_rules("breast_cancer"))
    study = Study.from_json(prepared(page, "study"))
    assert [candidate.name for candidate in study.plan.candidates] == ["linear"]
    assert study.refine is False
    assert b"Model card: linear" in prepared(page, "card_html")
    assert prepared(page, "card_md", ("export_form_card_html", "Markdown")).startswith(b"# Model card: linear")
    assert prepared(page, "report").lstrip().lower().startswith(b"<!doctype html>")
    assert "Export :material/check_circle:" in [link.proto.label for link in page.get("page_link")]


def test_training_rows_leave_with_out_of_fold_scores(open_app, address):
    page = open_app(PAGE, **address)
    scored = pd.read_csv(io.BytesIO(prepared(page, "scores_csv")))
    bundle = known(prepared(page, "bundle"))
    again = pd.read_parquet(io.BytesIO(prepared(page, "scores_parquet", ("export_form_scores_csv", "Parquet"))))

    assert scored["out_of_fold_score"].tolist() == pytest.approx(bundle.run.score.tolist())
    assert again["out_of_fold_score"].tolist() == bundle.run.score.tolist()
    assert (scored["flagged"] == (scored["out_of_fold_score"] > 0.5)).all()
    assert "differ from those of the bundle" in text_of(page)


def test_onnx_is_proven_and_a_model_that_cannot_says_why(open_app, address):
    pytest.importorskip("onnxruntime")
    page = open_app(PAGE, **address)
    assert prepared(page, "onnx")
    assert "on 569 rows they differ by" in text_of(page)

    other = open_app(PAGE, **address, run=run_named(HOSTILE))
    assert not other.exception
    assert "cannot become ONNX" in text_of(other)
    assert "export_prepare_onnx" not in [button.key for button in other.button]


def test_a_nearest_neighbour_model_warns_that_it_holds_rows(open_app, address):
    page = open_app(PAGE, **address, run=run_named(HOSTILE))

    assert not page.exception
    assert "contain training rows" in page.warning[0].value
    assert "contain training rows" not in text_of(open_app(PAGE, **address))


def test_words_go_into_the_bundle_and_come_back(open_app, address):
    page = open_app(PAGE, **address)
    token = page.selectbox[0].value
    page.text_area(key=f"export_purpose_{token}").set_value("Find *early* cases.").run()
    page.toggle(key=f"export_keep_{token}").set_value(False).run()
    bundle = known(prepared(page, "bundle"))

    assert bundle.details.purpose == "Find *early* cases."
    assert not bundle.rows
    again = open_app(PAGE, **address)
    assert again.text_area(key=f"export_purpose_{token}").value == "Find *early* cases."
    assert "export_download_bundle" in [each.key for each in again.get("download_button")]


def test_the_card_tells_what_happened_to_the_run_and_what_the_analyst_says_is_new(open_app, address):
    page = open_app(PAGE, **address)
    token = page.selectbox[0].value
    page.text_area(key=f"export_changes_{token}").set_value("New scanner since May.\n\nFewer columns.").run()
    assert known(prepared(page, "bundle")).details.history == ("New scanner since May.", "Fewer columns.")
    card = prepared(page, "card_md", ("export_form_card_html", "Markdown")).decode()
    history = [line for line in card.rpartition("## Changes")[2].splitlines() if line.startswith("- ")]

    assert "linear on 'Breast cancer'" in history[0]
    assert "flags scores above 0.5 (10.00% of the training rows out of fold), chosen as '10 % flagged'" in history[1]
    assert history[2:] == ["- New scanner since May.", "- Fewer columns."]


def test_another_operating_point_makes_another_bundle(open_app, address):
    page = open_app(PAGE, **address)
    prepared(page, "bundle")
    with Workspace.open() as workspace:
        run = workspace.thresholds.champion(address["dataset"]).run
        workspace.thresholds.save(run, Threshold("5 % flagged", 0.7, 0.05))
    page = open_app(PAGE, **address)

    assert "export_prepare_bundle" in [button.key for button in page.button]
    assert known(prepared(page, "bundle")).point.threshold == 0.7


def test_the_mark_grows_old_when_another_run_becomes_champion(address):
    with Workspace.open() as workspace:
        dataset, rules = workspace.datasets.get(address["dataset"]), workspace.rule_sets.get(address["rules"])
        assert "Export" not in marks_of(workspace, dataset, rules)
        run = workspace.runs.get(workspace.thresholds.champion(dataset.id).run)
        prepare(StoredModel(workspace, run, workspace.datasets.load(dataset.id)), "rules")
        assert marks_of(workspace, dataset, rules)["Export"] == DONE

        workspace.thresholds.save_champion(run_named(HOSTILE), Threshold("5 %", 0.5, 0.05))
        assert marks_of(workspace, dataset, rules)["Export"] == STALE


def at_part(open_app, part, **address):
    page = open_app(PAGE, **address)
    page.session_state["export_part"] = part
    return page.run()


def test_a_new_file_is_scored_with_hints_and_a_preview(open_app, address):
    page = at_part(open_app, "Score a new file", **address)
    page.file_uploader(key="export_rows").upload("new.csv", new_rows(mean_radius=99.0)).run()

    assert not page.exception
    assert not page.error, page.error[0].value
    assert {metric.label: metric.value for metric in page.metric}["Rows scored"] == "60"
    assert "'mean_radius' has moved strongly" in text_of(page)
    shown, history = (
        next(table.value for table in page.dataframe if column in table.value) for column in ("rank", "moved_most")
    )
    assert shown["rank"].is_monotonic_increasing
    assert len(shown) == 60
    assert "It is not a probability" in text_of(page)
    page.selectbox(key="export_explained").select_index(0).run()
    assert not page.exception
    charts = [each.key for each in page.get("plotly_chart")]
    assert charts == ["export_waterfall"]  # one scored file is no course over time
    assert "has its usual value" in text_of(page)
    assert any(each.value.startswith("These rows differ from the training rows") for each in page.warning)
    assert "Scored files over time" in text_of(page)
    assert history["file"].tolist() == ["new.csv"]
    assert history["level"].tolist() == ["warning"]
    page.file_uploader(key="export_rows").upload("later.csv", new_rows()).run()
    assert "export_history_chart" in [each.key for each in page.get("plotly_chart")]


def finished_scoring(page):
    """The page once the job of its address is over."""
    for _ in range(3000):
        with Workspace.open() as workspace:
            job = refresh(workspace, page.query_params["scoring"])
        if job.status.is_over:
            return page.run()
        time.sleep(0.2)
    raise AssertionError("the job did not end")


def test_a_large_file_is_scored_by_a_job_and_its_result_survives_a_refresh(open_app, address, monkeypatch):
    monkeypatch.setattr("spu_core.engines.jobs.read.SMALL", 0)
    page = at_part(open_app, "Score a new file", **address)
    page.file_uploader(key="export_rows").upload("new.csv", new_rows(mean_radius=99.0)).run()
    assert not page.exception
    assert not page.error, page.error[0].value
    page = finished_scoring(page)

    assert {metric.label: metric.value for metric in page.metric}["Rows scored"] == "60"
    assert "'mean_radius' has moved strongly" in text_of(page)
    with Workspace.open() as workspace:
        assert len([job for job in workspace.jobs.list() if job.kind == "score"]) == 1
    job = page.query_params["scoring"]
    again = open_app(PAGE, **address, scoring=job, export_part="Score a new file")
    again.session_state["export_part"] = "Score a new file"
    again.run()
    assert "'mean_radius' has moved strongly" in text_of(again)
    again.button(key="export_scoring_close").click().run()
    assert "scoring" not in again.query_params
    earlier = next(box for box in again.selectbox if box.label == "Or a file that was scored before")
    earlier.select_index(0).run()
    assert not again.exception
    assert "'mean_radius' has moved strongly" in text_of(again)


def test_a_large_file_that_does_not_fit_is_refused_in_the_words_of_its_job(open_app, address, monkeypatch):
    monkeypatch.setattr("spu_core.engines.jobs.read.SMALL", 0)
    page = at_part(open_app, "Score a new file", **address)
    page.file_uploader(key="export_rows").upload("new.csv", b"a,b\n1,2\n3,4\n").run()
    page = finished_scoring(page)

    assert not page.exception
    assert "The table lacks" in text_of(page)


def test_a_scoring_of_somebody_elses_address_shows_nothing(open_app, address):
    page = at_part(open_app, "Score a new file", **address, scoring="0" * 24)

    assert not page.exception
    assert not page.error


def test_a_file_that_does_not_fit_is_refused_in_words(open_app, address):
    page = at_part(open_app, "Score a new file", **address)
    page.file_uploader(key="export_rows").upload("new.csv", b"a,b\n1,2\n3,4\n").run()

    assert not page.exception
    assert "The table lacks" in text_of(page)
    assert page.metric


def test_a_bundle_from_elsewhere_becomes_a_run(open_app, address, bundle_file):
    page = at_part(open_app, "Import", **address)
    page.file_uploader(key="export_foreign").upload("colleague.spu", bundle_file).run()
    assert not page.exception
    page.button(key="export_keep_run").click().run()

    assert not page.exception
    assert not page.error, page.error[0].value
    with Workspace.open() as workspace:
        kept = workspace.runs.list(address["dataset"])[0]
        assert (kept.name, kept.job, kept.rule_set) == ("linear", None, address["rules"])
        assert workspace.thresholds.list(kept.id)[0].threshold == 0.5


def test_a_model_from_elsewhere_never_scores_in_the_process_of_the_page(open_app, address, bundle_file, monkeypatch):
    """Its trial proves nothing about other rows: a child scores, and a job once the bundle is kept as a run."""
    monkeypatch.setattr(Bundle, "score_features", lambda *_: pytest.fail("the model scored in the process of the page"))
    page = at_part(open_app, "Import", **address)
    page.file_uploader(key="export_foreign").upload("colleague.spu", bundle_file).run()
    page.file_uploader(key="foreign_rows").upload("new.csv", new_rows()).run()
    assert not page.exception
    assert not page.error, page.error[0].value
    assert {metric.label: metric.value for metric in page.metric}["Rows scored"] == "60"

    page.button(key="export_keep_run").click().run()
    with Workspace.open() as workspace:
        kept = workspace.runs.list(address["dataset"])[0].id
    page = at_part(open_app, "Score a new file", **address, run=kept)
    page.file_uploader(key="export_rows").upload("new.csv", new_rows()).run()
    assert not page.error, page.error[0].value
    with Workspace.open() as workspace:
        [job] = [job for job in workspace.jobs.list() if job.kind == "score"]
    assert job.parameters["run"] == kept
    page = finished_scoring(page)
    assert {metric.label: metric.value for metric in page.metric}["Rows scored"] == "60"


@pytest.mark.parametrize("cut", [0, 10, 5000])
def test_a_damaged_bundle_is_refused_and_the_page_lives(open_app, address, bundle_file, cut):
    page = at_part(open_app, "Import", **address)
    page.file_uploader(key="export_foreign").upload("damaged.spu", bundle_file[:cut]).run()

    assert not page.exception
    assert len(page.error) == 1
    assert page.metric


def test_rules_from_elsewhere_are_kept_and_chosen(open_app, address):
    page = at_part(open_app, "Import", **address)
    text = load_sample_rules("breast_cancer")
    page.file_uploader(key="export_foreign").upload(f"{HOSTILE[:20]}.json", text.encode()).run()
    page.button(key="export_keep_rules").click().run()

    assert not page.exception
    with Workspace.open() as workspace:
        assert RuleSet.from_json(workspace.rule_sets.list()[0].text) == RuleSet.from_json(text)
        assert page.query_params["rules"] == workspace.rule_sets.list()[0].id


def test_rules_that_are_no_rules_are_refused_in_words(open_app, address):
    page = at_part(open_app, "Import", **address)
    page.file_uploader(key="export_foreign").upload("rules.json", json.dumps({"a": 1}).encode()).run()

    assert not page.exception
    assert len(page.error) == 1


def test_a_damaged_run_is_told_in_words(open_app, address):
    with Workspace.open() as workspace:
        path = workspace.runs.path(run_named("linear"))
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    page = open_app(PAGE, **address)

    assert not page.exception
    assert len(page.error) == 1


@pytest.fixture
def open_export(shared_server, open_tab, served):
    """The page in a tab of this size."""

    def open_one(**window):
        tab = open_tab(shared_server, **window).open(f"export?dataset={served['dataset']}&rules={served['rules']}")
        tab.page.on("dialog", lambda dialog: tab.errors.append("a script ran"))
        return tab

    return open_one


def click(tab, key):
    tab.page.locator(f".st-key-{key} button").click()
    return tab.settle()


def download(tab, key):
    with tab.page.expect_download() as waiting:
        tab.page.locator(f".st-key-{key} button").click()
    tab.settle()
    return waiting.value


@pytest.mark.browser
def test_a_downloaded_bundle_loads_and_hostile_names_stay_text(shared_server, open_export, served):
    tab = open_export()
    click(tab, "export_prepare_bundle")
    tab.page.wait_for_selector(".st-key-export_download_bundle button")
    tab.reload()
    file = download(tab, "export_download_bundle")

    assert file.suggested_filename == "linear.spu"
    assert known(file.path()).name == "linear"

    hostile = run_named(HOSTILE, shared_server.home, served["dataset"])
    tab.open(f"export?dataset={served['dataset']}&rules={served['rules']}&run={hostile}")
    assert "contain training rows" in tab.text
    assert tab.page.locator(".katex").count() == 0
    assert tab.page.locator("[data-testid=stApp] a[href^=javascript]").count() == 0
    click(tab, "export_prepare_card_html")
    tab.page.wait_for_selector(".st-key-export_download_card_html button")
    assert "/" not in download(tab, "export_download_card_html").suggested_filename


@pytest.mark.browser
def test_a_new_file_is_scored_and_leaves_safe_for_spreadsheets(open_export, tmp_path):
    tab = open_export()
    tab.page.get_by_role("tab", name="Score a new file").click()
    tab.settle()
    rows = tmp_path / "new rows.csv"
    rows.write_bytes(new_rows(mean_radius=99.0, **{"=cmd *x* <b>": "y"}))
    tab.page.set_input_files(".st-key-export_rows input[type=file]", rows)
    tab.page.get_by_text("Rows scored").wait_for()
    tab.settle()
    assert "'=cmd *x* <b>'" in tab.text
    assert "has moved strongly" in tab.text
    file = download(tab, "export_result")

    assert file.suggested_filename == "new-rows-scored.csv"
    scored = pd.read_csv(file.path())
    assert len(scored) == 60
    assert {"id", "score", "flagged", "rank", "percentile"} <= set(scored.columns)


@pytest.mark.browser
def test_a_damaged_bundle_is_refused_on_a_phone_and_the_page_goes_on(open_export, bundle_file, tmp_path):
    tab = open_export(width=390, dark=True)
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
    data = bytearray(bundle_file)
    data[len(data) // 2] ^= 1
    (tmp_path / "damaged.spu").write_bytes(data)
    tab.page.get_by_role("tab", name="Import", exact=True).click()
    tab.settle()
    tab.page.set_input_files(".st-key-export_foreign input[type=file]", tmp_path / "damaged.spu")
    tab.page.locator("[data-testid=stAlert]").wait_for()
    tab.settle()

    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
    tab.page.get_by_role("tab", name="Export files").click()
    tab.settle()
    assert tab.page.locator(".st-key-export_prepare_rules button").count() == 1
