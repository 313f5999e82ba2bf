"""The loop of checks from the command line: queue, outcomes, ratios, comparison, feedback, training again."""

from __future__ import annotations

import io
import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from spu_core.cli import app
from spu_core.errors import SpuError
from spu_core.workspace import Workspace
from tests.engines.loop import QUICK, small_world


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A workspace with a small game and two quick models."""
    folder = tmp_path_factory.mktemp("loop")
    with Workspace.open(folder) as workspace:
        return folder, small_world(workspace, QUICK)


@pytest.fixture
def spu(stored):
    def call(*words, refuses=False):
        result = CliRunner().invoke(app, [*words, "--workspace", str(stored[0])])
        if refuses:
            assert isinstance(result.exception, SpuError), result.output
            return str(result.exception)
        assert result.exit_code == 0, result.output + str(result.exception)
        return result.stdout

    return call


def test_the_whole_loop_without_a_browser(spu, stored, tmp_path):
    _, game = stored
    made = json.loads(
        spu(
            "queue",
            "make",
            game.dataset.id[:8],
            "--run",
            game.runs[0],
            "--run",
            game.runs[1],
            "--budget",
            "200",
            "--json",
        )
    )
    assert made["checks"] == 200

    queue = spu("queue", "export", made["id"], "-o", "-")
    frame = pd.read_csv(io.StringIO(queue))
    assert list(frame.columns) == ["user", "arm", "score", "soft_label", "reasons", "outcome", "day"]
    assert list(pd.read_csv(io.StringIO(spu("queue", "export", made["id"], "-o", "-", "--blind"))).columns) == [
        "user",
        "outcome",
        "day",
    ]

    answers = tmp_path / "outcomes.csv"
    frame.assign(outcome=game.answers(frame["user"]), day="2026-03-02").to_csv(answers, index=False)
    assert json.loads(spu("outcomes", "record", made["id"], str(answers), "--json"))["recorded"] == 200
    assert json.loads(spu("outcomes", "record", made["id"], str(answers), "--json"))["recorded"] == 0

    found = json.loads(spu("outcomes", "ratios", game.dataset.id, "--json"))
    assert {line["arm"] for line in found["ratios"]} == {"soft", "plain", "random"}
    assert "hold for all" in found["comes_from"]["random"]
    assert "2026" in spu("outcomes", "ratios", game.dataset.id, "--over-time", "week")
    assert "confirmed share" in spu("outcomes", "compare", game.dataset.id, "soft", "plain")

    assert "new positives" in spu("feedback", game.dataset.id, "--rules", game.rules.id, "--preview")
    learnt = json.loads(spu("feedback", game.dataset.id, "--rules", game.rules.id, "--retrain", game.runs[0], "--json"))
    assert learnt["summary"]["checks"] == 200
    assert learnt["retrained"]["run"]
    assert json.loads(spu("queue", "list", learnt["dataset"], "--json"))[0]["outcomes"] == 200


def test_a_queue_of_disagreements_says_who_suspects(spu, stored):
    _, game = stored
    text = spu("queue", "disagreement", game.dataset.id, "--run", game.runs[0], "--budget", "4", "-o", "-")

    assert "the rules suspect, the model does not" in text


def test_strangers_in_a_file_of_outcomes_stop_it_unless_told_otherwise(spu, stored, tmp_path):
    _, game = stored
    made = json.loads(spu("queue", "make", game.dataset.id, "--run", game.runs[0], "--budget", "10", "--json"))
    user = pd.read_csv(io.StringIO(spu("queue", "export", made["id"], "-o", "-")))["user"].iloc[0]
    file = tmp_path / "strangers.csv"
    file.write_text(f"user,outcome\n{user},passed\nnobody,failed\n")

    assert "1 names are not in this queue: 'nobody'. Nothing was recorded" in spu(
        "outcomes", "record", made["id"], str(file), refuses=True
    )
    told = json.loads(spu("outcomes", "record", made["id"], str(file), "--ignore-unknown", "--json"))
    assert (told["recorded"], told["unknown"]) == (1, ["nobody"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("outcomes", "ratios", "nothing"), "No dataset is called 'nothing'"),
        (("queue", "export", "nothing", "-o", "-"), "'nothing' is the id of no queue"),
        (("feedback", "nothing"), "No dataset is called 'nothing'"),
    ],
)
def test_what_is_not_there_is_said(spu, words, message):
    assert message in spu(*words, refuses=True)
