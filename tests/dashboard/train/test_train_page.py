"""The Train page: cards from the registry, one click to train, progress that survives a refresh, errors as rows."""

from __future__ import annotations

import json

import pytest
from streamlit.elements.lib import policies

from pages.ui.train import options, training
from spu_core.engines import Job, run_in_process
from spu_core.engines.jobs.train import TrainingView
from spu_core.models import METHODS
from spu_core.tables import read_table
from spu_core.tables.samples import load_sample
from spu_core.training import Candidate, TrainConfig, TrainPlan
from spu_core.workspace import Attempt, JobStatus, Workspace
from tests.dashboard.trained import HOSTILE, bring_sample, train_quickly
from tests.live import WORKER_PATIENCE, running_server

PAGE = "pages/3_train.py"


@pytest.fixture
def sample():
    with Workspace.open() as workspace:
        yield bring_sample(workspace)


@pytest.fixture
def started(monkeypatch):
    """Jobs that the page started, without a worker."""
    jobs: list[Job] = []
    monkeypatch.setattr(training, "start_worker", lambda workspace, job: jobs.append(job))
    return jobs


def labels(elements):
    return [element.label for element in elements]


def text_of(page):
    return "\n".join(element.value for element in (*page.markdown, *page.caption, *page.subheader, *page.error))


def test_without_data_the_page_says_where_to_begin(open_app):
    page = open_app(PAGE)

    assert not page.exception
    assert page.subheader[0].value == "No data yet."


def test_one_click_trains_the_recommended_set(open_app, sample, started):
    page = open_app(PAGE, **sample)
    assert not page.exception
    assert page.button(key="train_start").label == "Train 6 candidates"
    assert "estimated; longer on a busy machine" in text_of(page)
    assert any("are trained in memory: about" in each.help for each in page.markdown if each.help)
    assert "Also trained without rules" in text_of(page)
    page.checkbox(key="train_pick_fused").uncheck().run()
    assert "Also trained without rules" not in text_of(page)
    page.checkbox(key="train_pick_fused").check().run()

    page.button(key="train_start").click().run()

    assert not page.exception
    [job] = started
    plan = TrainPlan.from_json(job.parameters["plan"])
    assert [candidate.name for candidate in plan.candidates] == [
        "Fused",
        "Fused without rules",
        "Soft labels, LightGBM",
        "Labelled against the rest",
        "Elkan–Noto",
        "The rules alone",
    ]
    assert job.parameters["rule_set_version"] == 1


def test_presets_choose_candidates_and_settings_until_a_card_is_changed(open_app, sample, started):
    page = open_app(PAGE, **sample)
    assert page.segmented_control(key="train_preset").value == "Standard"
    page.segmented_control(key="train_preset").set_value("Quick look").run()
    assert page.button(key="train_start").label == "Train 2 candidates"
    page.button(key="train_start").click().run()

    [job] = started
    quick = TrainPlan.from_json(job.parameters["plan"]).candidates
    assert [each.name for each in quick] == ["Fused, quick look", "Fused, quick look without rules"]
    assert all(
        each.settings["rounds"] == options.QUICK_ROUNDS < METHODS["fused"].complete({})["rounds"] for each in quick
    )
    page.segmented_control(key="train_preset").set_value("Thorough").run()
    assert page.button(key="train_start").label == "Train 12 candidates"
    page.segmented_control(key="train_preset").set_value("Standard").run()
    assert page.button(key="train_start").label == "Train 6 candidates"
    page.checkbox(key="train_pick_elkan_noto").uncheck().run()
    assert page.segmented_control(key="train_preset").value is None
    assert options.OWN in text_of(page)
    assert not page.exception


def test_a_card_has_no_default_that_a_preset_would_contradict(open_app, sample, monkeypatch, caplog):
    monkeypatch.setattr(policies, "_shown_default_value_warning", False)
    page = open_app(PAGE, **sample)
    for preset in ("Quick look", "Thorough", "Standard"):
        page.segmented_control(key="train_preset").set_value(preset).run()

    assert "had its value set via the Session State API" not in caplog.text


def test_the_page_says_which_method_the_benchmark_favours(open_app, sample):
    page = open_app(PAGE, **sample)

    assert any("Begin with Fused" in caption.value for caption in page.caption)


def test_every_method_says_in_one_sentence_what_it_is_good_for():
    assert set(options.GOOD_FOR) == set(METHODS)
    assert {name for preset in options.PRESETS.values() for name in preset.methods} <= set(METHODS)


def test_trained_candidates_stand_in_the_order_of_the_recommendation(open_app, sample):
    """By AUC_SPU the rules come first on their own soft labels, whatever they are worth."""
    with Workspace.open() as workspace:
        train_quickly(workspace, sample)
    page = open_app(PAGE, **sample)
    shown = page.dataframe[0].value["name"].tolist()
    compared = open_app("pages/4_compare.py", **sample)

    assert not page.exception
    assert shown[-1] == "rule_score"
    assert shown == [name.removesuffix(" (reference)") for name in compared.dataframe[0].value["name"]]
    assert "estimated from your earlier trainings" in text_of(page)


def test_while_soft_labels_are_refined_the_page_says_so(open_app, sample):
    with Workspace.open() as workspace:
        plan = TrainPlan(TrainConfig(), (Candidate("lightgbm"),)).to_json()
        token = "e" * 24
        workspace.jobs.add(token, "train", "1 candidate", {"dataset": sample["dataset"], "plan": plan}, {})
        workspace.jobs.begin(token)
        workspace.jobs.report(Attempt(token, 1), 0.05, "refined soft labels", {"candidate": "refined soft labels"})
        view = TrainingView.of(workspace.jobs.get(token))

    assert view.is_refining
    assert "soft labels are refined" in training._overall(view)


def test_the_needed_columns_are_searched_in_the_background_and_shown(open_app, sample, monkeypatch):
    jobs: list[Job] = []
    monkeypatch.setattr(options, "start_worker", lambda workspace, job: jobs.append(job))
    page = open_app(PAGE, **sample)
    page.selectbox(key="features_candidate").set_value("Soft labels, LightGBM").run()
    page.selectbox(key="features_metric").set_value("known_positive_auc").run()
    page.button(key="features_start").click().run()
    assert not page.exception

    [job] = jobs
    assert job.parameters["metric"] == "known_positive_auc"
    assert job.parameters["candidate"]["method"] == "lightgbm"
    with Workspace.open() as workspace:
        quick = {**job.parameters["candidate"], "settings": {"rounds": 2}}
        config = {**job.parameters["config"], "folds": 2}
        table = workspace.datasets.load(sample["dataset"])
        rest = [name for name in table.features if name not in ("worst_area", "mean_texture")]
        parameters = {**job.parameters, "candidate": quick, "config": config, "left_out": rest}
        done = run_in_process(workspace, Job(kind="features", parameters=parameters))
    monkeypatch.setattr(options, "latest_job", lambda workspace, job: done)
    page.run()
    assert not page.exception
    assert "columns" in text_of(page)
    assert "chosen on the rows that it is measured on" in text_of(page)


def test_candidates_without_what_they_need_say_why(open_app):
    with Workspace.open() as workspace:
        dataset = workspace.datasets.save(load_sample("breast_cancer", truth=True))
    page = open_app(PAGE, dataset=dataset.id)

    assert not page.exception
    assert page.checkbox(key="train_pick_rule_score").disabled
    assert "there are no rules yet" in text_of(page)
    assert page.button(key="train_start").label == "Train 3 candidates"


def test_settings_names_and_options_reach_the_job(open_app, sample, started):
    page = open_app(PAGE, **sample)
    page.session_state["train_drafts"] = {"lightgbm": {"name": HOSTILE, "settings": {"rounds": 7}}}
    for key in ("fused", "labeled_vs_rest", "elkan_noto", "rule_score"):
        page.checkbox(key=f"train_pick_{key}").uncheck()
    page.slider(key="train_folds").set_value(3)
    page.multiselect(key="train_left_out").set_value(["label_chance"])
    page.toggle(key="train_early").set_value(True)
    page.run()
    page.multiselect(key="train_tuned").set_value([HOSTILE]).run()
    page.button(key="train_start").click().run()

    assert not page.exception
    [job] = started
    plan = TrainPlan.from_json(job.parameters["plan"])
    [candidate] = plan.candidates
    assert (candidate.name, dict(candidate.settings), candidate.tuning.trials) == (HOSTILE, {"rounds": 7}, 20)
    assert (plan.config.folds, plan.config.early_stopping.on) == (3, "soft_log_loss")
    assert job.parameters["left_out"] == ["label_chance"]


def test_finished_runs_fill_the_leaderboard_and_failures_are_rows(open_app, sample):
    with Workspace.open() as workspace:
        plain = workspace.datasets.load(sample["dataset"]).with_roles({"malignant": "ignore"})
        address = {**sample, "dataset": workspace.datasets.save(plain, "no truth").id}
        train_quickly(workspace, address, [Candidate("oracle"), Candidate("rule_score")])
    page = open_app(PAGE, **address)

    assert not page.exception
    assert "Trained" in [element.value for element in page.subheader]
    assert page.dataframe[0].value["name"].tolist() == ["rule_score"]
    assert page.error[0].value.startswith("**oracle**")


def test_an_interrupted_training_shows_its_sentence_and_log_and_starts_again(open_app, sample, monkeypatch):

    restarted: list[str] = []
    monkeypatch.setattr(training, "restart", lambda workspace, token: restarted.append(token))
    with Workspace.open() as workspace:
        plan = TrainPlan(TrainConfig(), (Candidate("rule_score"),)).to_json()
        workspace.jobs.add("f" * 24, "train", "1 candidate", {"dataset": sample["dataset"], "plan": plan}, {})
        workspace.jobs.begin("f" * 24)
        workspace.jobs.end(Attempt("f" * 24, 1), JobStatus.INTERRUPTED, "The worker process ended unexpectedly.")
        workspace.jobs.log_path("f" * 24).write_text("killed by the kernel")
    page = open_app(PAGE, **sample)

    assert not page.exception
    assert "The training was interrupted" in [element.value for element in page.subheader]
    assert "killed by the kernel" in [element.value for element in page.code]
    page.button(key=f"restart_{'f' * 24}").click().run()
    assert restarted == ["f" * 24]


@pytest.mark.browser
def test_training_shows_progress_survives_a_refresh_and_ends_in_a_leaderboard(shared_server, open_tab):
    with Workspace.open(shared_server.home) as workspace:
        address = bring_sample(workspace, "Trained")
    tab = open_tab(shared_server).open(f"train?dataset={address['dataset']}&rules={address['rules']}")
    for key in ("fused", "lightgbm", "elkan_noto"):
        tab.page.locator(f".st-key-train_pick_{key} label").first.click()
        tab.settle()

    tab.page.get_by_role("button", name="Train 2 candidates").click()
    tab.page.wait_for_selector("[data-testid=stProgress]")
    tab.page.reload()
    tab.page.wait_for_selector("text=/^(Training|Trained|Waiting for its turn)$/")

    tab.page.wait_for_selector("text=/^Trained$/", timeout=WORKER_PATIENCE)
    tab.settle()
    assert tab.page.locator("[data-testid=stDataFrame]").count() == 1
    assert tab.page.locator("[data-testid=stProgress]").count() == 0
    with Workspace.open(shared_server.home) as workspace:
        assert {run.name for run in workspace.runs.list(address["dataset"])} == {
            "Labelled against the rest",
            "The rules alone",
        }


@pytest.mark.browser
def test_a_training_can_be_cancelled_and_offers_to_start_again(shared_server, open_tab):
    with Workspace.open(shared_server.home) as workspace:
        address = bring_sample(workspace, "Cancelled")
    tab = open_tab(shared_server, width=390, dark=True)
    tab.open(f"train?dataset={address['dataset']}&rules={address['rules']}")

    tab.page.get_by_role("button", name="Train 6 candidates").click()
    tab.page.get_by_role("button", name="Cancel").click()

    tab.page.wait_for_selector("text=The training was cancelled")
    tab.settle()
    assert tab.page.get_by_role("button", name="Start again").count() == 1
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
    with Workspace.open(shared_server.home) as workspace:
        [job] = [job for job in workspace.jobs.list() if job.parameters.get("dataset") == address["dataset"]]
        assert job.status == "cancelled"
        assert json.loads(job.parameters["plan"])["config"]["folds"] == 5


def test_a_table_of_positives_alone_is_sent_back_to_its_label(open_app, started):
    with Workspace.open() as workspace:
        table = read_table(b"a,label\n" + b"".join(b"%d,1\n" % row for row in range(40)), name="all.csv")
        dataset = workspace.datasets.save(table.with_roles({"label": "label"}).with_positive_values(["1"]))

    page = open_app(PAGE, dataset=dataset.id)

    assert not page.exception
    assert page.subheader[0].value == "Every row is a confirmed case."
    assert not page.button


@pytest.mark.browser
def test_the_bar_at_the_bottom_of_a_phone_leaves_room_for_the_candidates(tmp_path, open_tab):
    days = [f"2024-{1 + row % 12:02d}-{1 + row % 28:02d},{row % 7},{int(row % 9 == 0)}" for row in range(200)]
    content = "\n".join(["day,amount,confirmed", *days]).encode()
    with Workspace.open(tmp_path / "home") as workspace:
        table = read_table(content, name="timed.csv").with_roles({"day": "time", "confirmed": "label"})
        dataset = workspace.datasets.save(table, "timed")
    with running_server(tmp_path / "home", tmp_path / "server.log") as server:
        tab = open_tab(server, width=390, height=844).open(f"train?dataset={dataset.id}")
        bar = tab.page.locator("[data-testid=stBottom]").bounding_box()

        assert tab.page.locator(".st-key-train_latest button").is_visible()
        assert bar["height"] < 844 / 4
