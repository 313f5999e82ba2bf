"""Trust from the command line: what-ifs, audit plans and estimates, in words and as JSON, with refusals."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from spu_core import cli
from spu_core.export import Bundle, save_bundle
from spu_core.labels import SoftLabels
from spu_core.tables import Table
from spu_core.tables.samples import load_sample, load_sample_rules
from spu_core.training import Candidate, TrainConfig, cross_fit
from spu_core.workspace import Workspace
from tests.dashboard.trained import bring_sample, train_quickly

SIZE = 400


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A bundle of a small run with its table; `truth` is what a reviewer would find."""
    folder = tmp_path_factory.mktemp("trust")
    rng = np.random.default_rng(0)
    x, other = rng.normal(size=SIZE), rng.normal(size=SIZE)
    truth = rng.random(SIZE) < 1 / (1 + np.exp(-2 * x))
    labels = truth & (rng.random(SIZE) < 0.1)
    frame = pd.DataFrame({"x": x, "other": other, "name": "=1+1", "label": labels.astype(int)})
    frame.to_csv(folder / "data.csv", index=False)
    table = Table.from_frame(frame, roles={"label": "label", "name": "ignore"})
    soft_labels = SoftLabels.from_values(np.clip(0.5 + 0.2 * x, 0, 1), labels)
    run = cross_fit(table, soft_labels, ["logistic"], TrainConfig(folds=2, threads=1))[0]
    save_bundle(Bundle.of(run), folder / "run.spu")
    return folder, truth


@pytest.fixture
def spu(made, no_trial, monkeypatch):
    monkeypatch.chdir(made[0])
    return lambda line: CliRunner().invoke(cli.app, line.split())


@pytest.fixture(scope="module")
def drawn(made):
    """The list of an audit beside its plan, both in files."""
    folder, _ = made
    run, data, listed, plan = (str(folder / name) for name in ("run.spu", "data.csv", "list.csv", "plan.json"))
    words = ["audit", "plan", run, "--data", data, "-o", listed, "--plan", plan, "--checks", "120"]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 0
    return pd.read_csv(listed)


def test_a_what_if_in_words_and_as_json(spu):
    assert "A what-if" in spu("trust run.spu").stdout
    found = json.loads(spu("trust run.spu --prior 0.6 --positive-mean 0.6 --json").stdout)
    assert found["prior"] == 0.6
    assert set(found["implied"]) == {"true_auc", "tpr", "fpr"}


def test_what_the_mean_does_not_allow_is_refused(spu):
    answer = spu("trust run.spu --prior 0.99 --positive-mean 0.9")
    assert answer.exit_code == 1
    assert "positive_mean must be above" in str(answer.exception)


def test_the_outlook_is_a_table(spu):
    found = json.loads(spu("audit outlook run.spu --target prior --json").stdout)
    assert [line["checks"] for line in found] == [25, 50, 100, 200, 300]


def test_plan_fill_in_estimate(spu, made, drawn):
    _, truth = made
    listed = drawn
    assert len(listed) == 120
    assert (listed["name"] == "'=1+1").all()
    listed.assign(verdict=["yes" if truth[row] else "no" for row in listed["row"]]).to_csv("done.csv", index=False)
    answer = spu("audit estimate run.spu done.csv --plan plan.json --data data.csv --json")
    found = json.loads(answer.stdout)

    prior = next(line for line in found["figures"] if line["key"] == "prior")
    assert prior["low"] <= truth.mean() <= prior["high"]
    assert len(found["assumptions"]) == 3
    words = spu("audit estimate run.spu done.csv --plan plan.json --treatment worst_case").stdout
    assert "True AUC" in words
    assert "Assumption 1" in words


def test_a_list_of_another_audit_is_refused(spu, drawn):
    drawn.assign(verdict="yes", audit="12345678").to_csv("other.csv", index=False)
    answer = spu("audit estimate run.spu other.csv --plan plan.json")
    assert answer.exit_code == 1
    assert "belongs to audit 12345678" in str(answer.exception)


def test_hidden_columns_stay_hidden_and_unknown_ones_are_named(spu):
    start = "audit plan run.spu --data data.csv -o short.csv --plan p.json --checks 50"
    assert spu(f"{start} --hide other").exit_code == 0
    assert "other" not in pd.read_csv("short.csv").columns
    assert "no column 'othr' to hide. Did you mean 'other'" in str(spu(f"{start} --hide othr").exception)


def test_another_table_is_told_by_its_rows(spu):
    pd.DataFrame({"x": [1, 2]}).to_csv("tiny.csv", index=False)
    answer = spu("audit plan run.spu --data tiny.csv -o a.csv --plan p.json")
    assert "has 2 rows, but the run was trained on 400" in str(answer.exception)


def test_only_runs_of_a_workspace_can_be_kept(spu):
    answer = spu("audit plan run.spu --data data.csv -o a.csv --plan p.json --checks 50 --keep")
    assert "--keep needs a run of the workspace" in str(answer.exception)


def test_a_bundle_is_enough_for_a_forecast_and_for_wrong_rules_but_not_to_draw(spu):
    assert "checks tell the true AUC within" in spu("audit forecast run.spu").stdout
    assert (
        "checks tell the two models apart"
        in spu("audit forecast run.spu --question which_better --rival run.spu").stdout
    )
    assert "is the only model" in spu("audit wrong-rules run.spu").stdout
    assert "'run.spu' is a file name; this command needs the id of a run" in str(
        spu("audit draw run.spu -o list.csv").exception
    )


def test_an_echo_check_of_a_stored_run_in_words_and_as_json(tmp_path, spu):
    with Workspace.open(tmp_path / "home") as workspace:
        address = bring_sample(workspace)
        [run] = train_quickly(workspace, address, (Candidate("logistic", name="soft"),))
    answer = spu(f"echo {run} --workspace {tmp_path / 'home'} --json")
    assert answer.exit_code == 0, answer.exception
    found = json.loads(answer.stdout)

    assert found["rows"] == 569
    assert found["reproduced"]["estimate"] >= found["reproduced_without"]["estimate"]
    assert found["sentence"] in spu(f"echo {run} --workspace {tmp_path / 'home'}").stdout


def test_from_forecast_to_recommendation_with_verdicts_that_judge_every_run(tmp_path, spu):
    """Forecast, draw, fill the list, store the verdicts, judge two runs, and compare them by the checked rows."""
    home, listed = tmp_path / "home", tmp_path / "list.csv"
    with Workspace.open(home) as workspace:
        dataset = workspace.datasets.save(load_sample("breast_cancer"), "Cells")
        rules = workspace.rule_sets.create("Cells", load_sample_rules("breast_cancer"))
        address = {"dataset": dataset.id, "rules": rules.id}
        candidates = (Candidate("logistic", name="soft"), Candidate("labeled_vs_rest", name="hard"))
        runs = train_quickly(workspace, address, candidates)
    whole = load_sample("breast_cancer", truth=True)
    truth = whole.truth

    def says(line):
        answer = spu(f"{line} --workspace {home} --json")
        assert answer.exit_code == 0, answer.exception or answer.output
        return json.loads(answer.stdout)

    assert "checks tell the true AUC within" in says(f"audit forecast {runs[0]}")["sentence"]
    drawn = says(f"audit draw {runs[0]} -o {listed} --checks 120")
    filled = pd.read_csv(listed)
    filled["verdict"] = ["positive" if truth[row] else "negative" for row in filled["row"]]
    filled.to_csv(listed, index=False)
    assert says(f"audit verdicts {drawn['audit']} {listed}") == {"stored": 120, "checked": 120, "checks": 120}
    found = says(f"audit result {' '.join(runs)}")
    compared = says(f"compare {' '.join(runs)}")
    wrong = says(f"audit wrong-rules {' '.join(runs)}")
    tasks = tmp_path / "tasks.json"
    again = says(
        f"audit draw {runs[0]} -o {listed} --checks 60 --seed 1 --question which_better --rival {runs[1]} "
        f"--label-studio {tasks}"
    )
    region = {"from_name": "verdict", "to_name": "row", "type": "choices", "value": {"choices": ["unsure"]}}
    done = [
        {**task, "annotations": [{"result": [region], "completed_by": 1}]} for task in json.loads(tasks.read_text())
    ]
    tasks.write_text(json.dumps(done))
    assert "<Choices" in tasks.with_suffix(".xml").read_text()
    assert says(f"audit verdicts {again['audit']} {tasks}")["stored"] == again["checks"]

    assert drawn["random"] is True
    assert {line["name"] for line in found["figures"]} == {"soft", "hard"}
    assert len(found["pairs"]) == 1
    assert "120 checked rows" in found["sentence"]
    assert compared["recommendation"]["yardstick"] == "audit"
    assert again["random"] is False
    assert again["checks"] == pytest.approx(60, abs=10)  # about 60 rows that were not checked before
    assert wrong["leader"] == compared["recommendation"]["model"]
    assert "factor of" in wrong["sentence"] or "even if" in wrong["sentence"]


def test_which_better_without_a_rival_is_refused_in_words(tmp_path, spu):
    with Workspace.open(tmp_path / "home") as workspace:
        [run] = train_quickly(workspace, bring_sample(workspace), (Candidate("logistic", name="soft"),))

    answer = spu(f"audit forecast {run} --question which_better --workspace {tmp_path / 'home'}")
    assert answer.exit_code != 0
