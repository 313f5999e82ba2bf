"""Folders of the server on the Data page: offered where the operator allows it, registered, explored, trained on."""

from __future__ import annotations

import os

import pytest

from spu_core.engines import Job, run_in_process
from spu_core.errors import WorkspaceError
from spu_core.rules import Compare, Rule, RuleSet
from spu_core.training import Candidate, TrainConfig, TrainPlan
from spu_core.workspace import Workspace
from spu_core.workspace.home import VARIABLE
from tests.live import WORKER_PATIENCE
from tests.tables.folders import mixed_frame, write_folder, write_whole

ROWS, SAMPLE = 400, 100


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A root with one folder; jobs run in this process, and samples are small."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "tables"))
    monkeypatch.setattr("spu_core.engines.jobs.read.SAMPLE_ROWS", SAMPLE)
    monkeypatch.setattr("spu_core.engines.jobs.read.start_worker", run_in_process)
    write_folder(mixed_frame(ROWS), tmp_path / "tables" / "rows", [150])
    return tmp_path / "tables"


@pytest.fixture
def registered(root):
    with Workspace.open() as workspace:
        job = run_in_process(workspace, Job(kind="register", parameters={"folder": str(root / "rows")}))
        return workspace.datasets.get(job.result["dataset"])


@pytest.fixture
def trained(registered):
    """A registered folder with a rule and two runs."""
    with Workspace.open() as workspace:
        rules = workspace.rule_sets.create("busy", RuleSet((Rule("busy", 0.6, Compare("visits", ">", 40)),)).to_json())
        plan = TrainPlan(
            TrainConfig(folds=2, threads=1), tuple(Candidate(each, {"rounds": 3}) for each in ("lightgbm", "xgboost"))
        )
        parameters = {"dataset": registered.id, "rule_set": rules.id, "plan": plan.to_json(), "refine": False}
        job = run_in_process(workspace, Job(kind="train", parameters=parameters))
        assert job.result["errors"] == []
        return {"dataset": registered.id, "rules": rules.id}, tuple(job.result["runs"])


def words_of(page) -> str:
    kinds = (page.caption, page.markdown, page.warning, page.error, page.info, page.subheader)
    return " ".join(str(each.value) for kind in kinds for each in kind)


def test_without_roots_the_page_does_not_speak_of_folders(open_app, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    page = open_app("pages/1_data.py")

    assert not page.exception
    assert "folder" not in words_of(page)
    assert "data_register" not in {button.key for button in page.button}


def test_a_folder_says_where_its_types_come_from(open_app, registered):
    page = open_app("pages/1_data.py", dataset=registered.id)

    assert not page.exception
    assert "Types and missing values come from the files of this folder" in words_of(page)


def test_a_root_that_would_show_workspaces_is_refused_and_the_rest_of_the_page_works(open_app, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    page = open_app("pages/1_data.py")

    assert not page.exception
    assert "would show the workspaces" in page.error[0].value
    assert "Breast cancer" in {button.label for button in page.button}


def test_a_folder_is_registered_with_a_click_and_shown(open_app, root):
    page = open_app("pages/1_data.py")
    page.selectbox(key="data_folder").select_index(0).run()
    page.button(key="data_register").click().run()

    assert not page.exception
    figures = {metric.label: metric.value for metric in page.metric}
    assert (figures["Rows"], figures["Columns"]) == ("400", "10")
    assert figures["Confirmed cases"] == str(int(mixed_frame(ROWS)["label"].sum()))
    assert figures["Files"].startswith("2 ·")
    assert "random sample of 100 of 400 rows" in words_of(page)
    assert str(root) not in words_of(page)


def test_of_two_roots_of_one_name_the_chosen_one_is_registered(open_app, root, tmp_path, monkeypatch):
    write_folder(mixed_frame(50), tmp_path / "more" / "tables" / "rows", [])
    monkeypatch.setenv(VARIABLE, f"{root}{os.pathsep}{tmp_path / 'more' / 'tables'}")
    page = open_app("pages/1_data.py")
    options = page.selectbox(key="data_folder").options
    page.selectbox(key="data_folder").select_index(options.index("tables (2)/rows")).run()
    page.button(key="data_register").click().run()

    assert sorted(options) == ["tables (2)/rows", "tables/rows"]
    assert {metric.label: metric.value for metric in page.metric}["Rows"] == "50"


def test_a_change_of_roles_concerns_all_rows_and_offers_a_new_look(open_app, registered):
    page = open_app("pages/1_data.py", dataset=registered.id)
    assert "this profile is of the sample" not in words_of(page)
    page.session_state[f"data_roles_{registered.id}_0"] = {
        "edited_rows": {1: {"role": "ignore"}},
        "added_rows": [],
        "deleted_rows": [],
    }
    page.run()

    assert not page.exception
    with Workspace.open() as workspace:
        assert workspace.datasets.open(registered.id).columns_with("ignore") == ("x",)
    assert "this profile is of the sample" in words_of(page)
    page.button(key="data_look_again").click().run()
    assert not page.exception
    assert "this profile is of the sample" not in words_of(page)


def test_a_folder_that_changed_is_said_and_registered_again(open_app, registered, root):
    write_folder(mixed_frame(ROWS, seed=1), root / "rows", [150])
    page = open_app("pages/1_data.py", dataset=registered.id)
    assert "has changed on disk" in page.warning[0].value

    page.button(key="data_register_again").click().run()

    assert not page.exception
    assert page.query_params["dataset"] != registered.id
    assert not page.warning


def test_a_damaged_folder_of_the_workspace_is_said_with_the_way_out(open_app, root):
    (root / "sales.csv").write_text(mixed_frame(ROWS).to_csv(index=False))
    with Workspace.open() as workspace:
        job = run_in_process(workspace, Job(kind="register", parameters={"folder": str(root / "sales.csv")}))
        [file] = workspace.datasets.folder(job.result["dataset"]).store.files
    file.path.write_bytes(b"cut")
    page = open_app("pages/1_data.py", dataset=job.result["dataset"])

    assert not page.exception
    assert "register the file that it was made from" in page.warning[0].value
    assert "data_register_again" not in {button.key for button in page.button}


def test_new_files_in_a_folder_are_said_and_training_goes_on(open_app, trained, root):
    write_whole(mixed_frame(20, seed=1), root / "rows" / "part-100.parquet")
    page = open_app("pages/1_data.py", **trained[0])
    train = open_app("pages/3_train.py", **trained[0])

    assert "1 new file" in page.info[0].value
    assert not page.warning
    assert not train.error
    page.button(key="data_register_again").click().run()
    assert not page.exception
    assert {metric.label: metric.value for metric in page.metric}["Rows"] == "420"


def test_rules_are_explored_on_the_sample_and_training_says_that_it_takes_all_rows(open_app, trained):
    query, _ = trained
    soft = open_app("pages/2_soft_labels.py", **query)
    assert not soft.exception
    assert "random sample of 100 of 400 rows" in words_of(soft)
    assert "Bars: all 400 rows." in words_of(soft)  # the registration has counted them
    assert "Soft labels of the sample" in words_of(soft)

    train = open_app("pages/3_train.py", **query)
    assert not train.exception
    assert "400 rows × 6 columns stay in files and are read in parts" in words_of(train)
    train.selectbox(key="train_engine").select("dask").run()
    assert "400 rows × 6 columns are spread over the workers, which keep them in memory" in words_of(train)
    assert "only one booster with one target can be fitted" in words_of(train)  # fused is among the chosen


def test_after_a_change_of_roles_the_bars_of_the_editor_are_said_to_be_those_of_the_sample(open_app, trained):
    query, _ = trained
    with Workspace.open() as workspace:
        folder = workspace.datasets.folder(query["dataset"])
        workspace.datasets.save_roles(folder.with_roles({"x": "ignore"}), workspace.datasets.get(query["dataset"]))
    soft = open_app("pages/2_soft_labels.py", **query)

    assert not soft.exception
    assert "Bars: the sample's 100 rows." in words_of(soft)


def test_training_waits_while_the_folder_differs_from_what_was_registered(open_app, trained, root):
    write_folder(mixed_frame(ROWS, seed=1), root / "rows", [150])
    page = open_app("pages/3_train.py", **trained[0])

    assert not page.exception
    assert "has changed on disk" in page.error[0].value


def test_runs_on_a_folder_are_compared_and_exported(open_app, trained):
    query, runs = trained
    compare = open_app("pages/4_compare.py", **query, runs=",".join(runs))
    assert not compare.exception
    assert not compare.error
    assert "400 rows, out of fold" in words_of(compare)

    export = open_app("pages/6_export.py", **query)
    assert not export.exception
    assert not export.error


def test_a_registered_folder_is_scored_part_by_part(open_app, trained, root, monkeypatch):
    monkeypatch.setattr("spu_core.engines.jobs.score.start_worker", run_in_process)
    query, runs = trained
    page = open_app("pages/6_export.py", **query, export_part="Score a new file")
    page.selectbox(key="export_folder").select(query["dataset"]).run()
    page.button(key="export_folder_score").click().run()

    assert not page.exception
    assert "400" in words_of(page) + " ".join(metric.value for metric in page.metric)
    with Workspace.open() as workspace:
        scored = [record for run in runs for record in workspace.exports.list(run)]
        assert [record.detail["report"]["rows"] for record in scored] == [400]


def test_the_trust_page_says_that_it_needs_rows_in_memory(open_app, trained):
    page = open_app("pages/5_trust.py", **trained[0])

    assert not page.exception
    assert "stay in a folder" in words_of(page)


def test_a_folder_chosen_by_hand_is_looked_for_below_the_roots(root, tmp_path):
    write_folder(mixed_frame(20), tmp_path / "outside", [])

    with Workspace.open() as workspace, pytest.raises(WorkspaceError, match="this server allows"):
        run_in_process(workspace, Job(kind="register", parameters={"folder": str(tmp_path / "outside")}))


@pytest.mark.browser
def test_a_folder_is_registered_by_a_worker_while_the_tab_is_reloaded(start_server, open_tab, tmp_path):
    (tmp_path / "tables" / "large_rows").mkdir(parents=True)
    write_whole(mixed_frame(20_000), tmp_path / "tables" / "large_rows" / "rows.parquet")
    server = start_server(**{VARIABLE: str(tmp_path / "tables")})
    tab = open_tab(server).open("data")

    tab.page.locator(".st-key-data_folder input").click()
    tab.page.get_by_role("option", name="tables/large_rows").click()
    tab.settle()
    tab.page.locator(".st-key-data_register button").click()
    tab.page.wait_for_url(lambda address: "reading=" in address)
    tab.page.reload()

    tab.page.wait_for_url(lambda address: "dataset=" in address and "reading=" not in address, timeout=WORKER_PATIENCE)
    tab.page.get_by_text("What was registered").wait_for()
    tab.settle()
    assert "20,000" in tab.text
