"""The loop of checks on the Trust page: flag, record, measure, learn, train again; in AppTest and in a browser."""

from __future__ import annotations

import shutil

import pandas as pd
import pytest

from spu_core.engines import run_in_process
from spu_core.engines.outcome_learning import (
    learn_from_outcomes,
    retraining_job,
    sample_players,
    simulated_csv,
    simulated_outcomes,
)
from spu_core.engines.outcome_loop import QueueRequest, make_queue, queue_table, read_outcome_file, record_outcomes
from spu_core.tables import Table
from spu_core.tables.samples import load_sample, load_sample_rules
from spu_core.tables.simulators import AntiCheatWorld
from spu_core.training import Candidate
from spu_core.trust import QueuePlan
from spu_core.workspace import Workspace
from tests.dashboard.grid import type_into
from tests.dashboard.trained import HOSTILE, train_quickly
from tests.engines.loop import QUICK, chances_of_the_flagged
from tests.live import WORKER_PATIENCE

PAGE = "pages/5_trust.py"


def bring_game(workspace: Workspace, candidates=QUICK) -> dict[str, str]:
    """The anti-cheat sample with its rules and quick models, as an address names them."""
    dataset = workspace.datasets.save(load_sample("anti_cheat"), "Anti-cheat game")
    rules = workspace.rule_sets.create("Game rules", load_sample_rules("anti_cheat"))
    address = {"dataset": dataset.id, "rules": rules.id}
    runs = train_quickly(workspace, address, candidates)
    return {**address, "run": runs[0], "section": "outcomes"}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A home with trained models, to be copied: each test changes its own."""
    home = tmp_path_factory.mktemp("prepared") / "home"
    with Workspace.open(home) as workspace:
        return home, bring_game(workspace)


@pytest.fixture
def address(prepared):
    return dict(prepared[1])


@pytest.fixture
def workspace(prepared, tmp_path, monkeypatch):
    shutil.copytree(prepared[0], tmp_path / "home")
    monkeypatch.setenv("SPU_HOME", str(tmp_path / "home"))
    with Workspace.open(tmp_path / "home") as opened:
        yield opened


def play_a_round(workspace: Workspace, address: dict[str, str], budget: int = 200) -> str:
    """A queue of both models, answered by the game."""
    runs = tuple(run.id for run in reversed(workspace.runs.list(address["dataset"])))[:2]
    plan = QueuePlan(budget=budget, random_share=0.3)
    queue = make_queue(workspace, QueueRequest(dataset=address["dataset"], runs=runs, plan=plan, name=f"Q {HOSTILE}"))
    lines = simulated_outcomes(workspace, queue.id, sample_players(load_sample("anti_cheat")))
    record_outcomes(workspace, queue.id, lines)
    return queue.id


def words_of(page) -> str:
    shown = [*page.caption, *page.markdown, *page.info, *page.subheader]
    return "\n".join(str(each.value) for each in shown)


def test_before_the_first_queue_every_step_says_what_to_do(workspace, address, open_app):
    for step, words in (
        ("record", "There is no queue yet"),
        ("ratios", "No outcome was recorded"),
        ("learn", "Record outcomes in step 2 first"),
    ):
        page = open_app(PAGE, **address, loop=step)
        assert not page.exception
        assert not page.error
        assert words in words_of(page)


def test_the_step_of_the_address_is_opened_and_kept(workspace, address, open_app):
    page = open_app(PAGE, **address, loop="ratios")

    assert page.segmented_control(key="trust_loop").value == "ratios"
    page.segmented_control(key="trust_loop").set_value("learn").run()
    assert page.query_params["loop"] in ("learn", ["learn"])


def test_a_queue_is_made_with_a_share_for_chance_by_default(workspace, address, open_app):
    page = open_app(PAGE, **address, loop="flag")
    assert "is never chosen by a model" in words_of(page)

    page.button(key="queue_make").click().run()

    [queue] = workspace.queues.list(address["dataset"])
    assert queue.plan["random_share"] == 0.1
    assert not page.exception
    assert queue.name in words_of(page)


def test_without_chance_the_page_warns(workspace, address, open_app):
    page = open_app(PAGE, **address, loop="flag")

    page.slider(key="queue_random").set_value(0).run()
    assert "Without random checks, it is not known" in words_of(page)


def test_outcomes_from_a_file_are_read_strictly_and_recorded_once(workspace, address, open_app):
    page = open_app(PAGE, **address, loop="flag")
    page.button(key="queue_make").click().run()
    [queue] = workspace.queues.list(address["dataset"])
    table = queue_table(workspace, queue.id)
    file = table.assign(outcome="passed")[["user", "outcome"]].to_csv(index=False) + "stranger,failed\n"

    page = open_app(PAGE, **address, loop="record", queue=queue.id)
    page.file_uploader[0].upload("outcomes.csv", file.encode()).run()
    assert "stranger" in page.warning[0].value
    page.button(key="record_save_file").click().run()

    assert len(workspace.queues.outcomes(queue.id)) == len(table)
    assert not page.exception


def test_a_file_that_cannot_be_trusted_is_refused_in_words(workspace, address, open_app):
    page = open_app(PAGE, **address, loop="flag")
    page.button(key="queue_make").click().run()
    [queue] = workspace.queues.list(address["dataset"])
    user = queue_table(workspace, queue.id)["user"].iloc[0]

    page = open_app(PAGE, **address, loop="record", queue=queue.id)
    page.file_uploader[0].upload("outcomes.csv", f"user,outcome\n{user},guilty\n".encode()).run()

    assert "guilty" in page.error[0].value
    assert workspace.queues.outcomes(queue.id) == ()


def test_ratios_are_shown_with_limits_a_test_and_where_they_come_from(workspace, address, open_app):
    play_a_round(workspace, address)
    page = open_app(PAGE, **address, loop="ratios")

    assert not page.exception
    assert not page.error
    assert "random sample of the rows" in words_of(page)
    assert "Stopping as soon as p is small" in words_of(page)
    assert {"Confirmed share, difference", "Cleared share, difference"} <= {metric.label for metric in page.metric}


def test_learning_makes_new_data_and_the_next_training_is_compared(workspace, address, open_app):
    play_a_round(workspace, address)
    page = open_app(PAGE, **address, loop="learn")
    page.button(key="learn_save").click().run()
    [record] = workspace.feedbacks.list()
    assert not page.exception
    assert f"retrain_{record.id}" in {button.key for button in page.button}

    run_in_process(workspace, retraining_job(workspace, address["run"], record))
    page = open_app(PAGE, **address, loop="learn")
    assert "AUC_SPU gain by the new soft labels" in {metric.label for metric in page.metric}
    assert "which favour neither model" in words_of(page)


def test_a_dataset_that_came_from_outcomes_is_shown_with_the_models_before_it(workspace, address, open_app):
    play_a_round(workspace, address)
    learnt = learn_from_outcomes(workspace, address["dataset"], workspace.rule_sets.get(address["rules"]))
    page = open_app(PAGE, **{**address, "dataset": learnt.dataset.id}, loop="ratios")

    assert not page.exception
    assert not page.error
    assert "trained before the latest check outcomes" in words_of(page)


def test_rules_that_read_no_feature_need_no_echo_check(workspace, address, open_app):
    page = open_app(PAGE, **{**address, "section": "echo"})

    assert "no model can repeat them" in words_of(page)
    assert "trust_echo_go" not in {button.key for button in page.button}


def test_hostile_names_stay_text(workspace, address, open_app):
    runs = train_quickly(workspace, address, (Candidate("rule_score", name=HOSTILE),))
    play_a_round(workspace, {**address, "run": runs[0]})

    for step in ("flag", "record", "ratios", "learn"):
        page = open_app(PAGE, **address, loop=step)
        assert not page.exception
        assert "<img src=x" not in "".join(str(each.value) for each in (*page.markdown, *page.caption)).replace(
            "\\<", ""
        )


def test_a_new_population_is_flagged_counted_and_learnt_from(workspace, address, open_app):
    fresh = AntiCheatWorld().draw(600, seed=7).features.assign(player=[f"new{row}" for row in range(600)])
    rows = workspace.datasets.save(Table.from_frame(fresh, roles={"player": "id"}), f"Next week {HOSTILE}")
    play_a_round(workspace, address)
    page = open_app(PAGE, **address, loop="flag")
    page.selectbox(key=f"queue_rows_{address['run']}").set_value(rows.id).run()
    page.number_input(key=f"queue_budget_{rows.id}").set_value(40).run()
    page.button(key="queue_make").click().run()
    assert not page.exception

    [queue] = workspace.queues.list(rows.id)
    assert len(workspace.queues.entries(queue.id)) == 40
    lines = read_outcome_file(workspace, queue.id, queue_table(workspace, queue.id).assign(outcome="admitted")).lines
    record_outcomes(workspace, queue.id, lines)
    page = open_app(PAGE, **address, loop="ratios")
    assert not page.exception
    assert page.metric[0].value == "240"
    assert "are counted together" in words_of(page)

    page = open_app(PAGE, **address, loop="learn")
    page.selectbox(key=f"learn_rows_{address['dataset']}").set_value(rows.id).run()
    assert not page.exception
    [positives] = [metric for metric in page.metric if metric.label == "Confirmed cases"]
    assert (positives.value, positives.delta) == ("36", "0 before")
    page.button(key="learn_save").click().run()
    [record] = workspace.feedbacks.list()
    assert (record.source, record.detail["confirmed"]) == (rows.id, 36)


@pytest.mark.browser
def test_the_loop_from_the_queue_to_the_next_model_in_a_browser(prepared, address, start_server, open_tab, tmp_path):
    """Flag → one outcome by hand, the others from a file → learn → train again → a better confirmed share."""
    shutil.copytree(prepared[0], tmp_path / "copied")
    server = start_server(tmp_path / "copied")
    query = "&".join(f"{key}={value}" for key, value in address.items())
    tab = open_tab(server).open(f"trust?{query}&loop=flag")
    page = tab.page

    budget = page.locator("[class*=st-key-queue_budget] input")
    budget.fill("400")
    budget.press("Enter")
    tab.settle()
    page.locator(".st-key-queue_make button").click()
    page.get_by_text("Queue 1").first.wait_for()
    tab.settle()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).first.click()
    queue = pd.read_csv(download.value.path())
    assert list(queue.columns[:3]) == ["user", "arm", "score"]

    with Workspace.open(server.home) as workspace:
        [made] = workspace.queues.list(address["dataset"])
        first, *_ = workspace.queues.entries(made.id)
        lines = simulated_outcomes(workspace, made.id, sample_players(load_sample("anti_cheat")))
    outcomes = tmp_path / "outcomes.csv"
    outcomes.write_text(simulated_csv(lines))
    page.get_by_text("2 Record outcomes").click()
    tab.settle()
    type_into(page, "record_table", line=0, column=1, text="confirmed")
    page.get_by_role("button", name="Record 1 change").click()
    page.get_by_text("All recorded outcomes (1)").wait_for()
    tab.settle()
    with Workspace.open(server.home) as workspace:
        [by_hand] = workspace.queues.history(made.id)
    assert (by_hand.row, by_hand.detail["outcome"], by_hand.detail["source"]) == (first.row, "admitted", "table")

    page.locator("input[type=file]").set_input_files(str(outcomes))
    page.locator(".st-key-record_save_file button").click()
    page.get_by_text("All recorded outcomes (4").wait_for()
    tab.settle()

    tab.reload()
    assert "All recorded outcomes" in tab.text  # the address brings the step and the queue back
    page.get_by_text("4 Update the data").click()
    page.locator(".st-key-learn_save button").click()
    page.get_by_text("Earlier updates").wait_for()
    tab.settle()
    page.get_by_role("button", name="Train soft again on it").click()
    page.get_by_text("AUC_SPU gain by the new soft labels").wait_for(timeout=WORKER_PATIENCE)
    tab.settle()
    with Workspace.open(server.home) as workspace:
        [record] = workspace.feedbacks.list()
        [new] = workspace.runs.list(record.target)
        assert {each.row: each.detail["outcome"] for each in workspace.queues.outcomes(made.id)} == {
            line.row: line.outcome for line in lines
        }
        before, after = (chances_of_the_flagged(workspace, run) for run in (address["run"], new.id))
    assert after.surrender > before.surrender
    assert after.passing < before.passing
