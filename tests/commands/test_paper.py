"""`spu paper` shows what is stored at once, runs on demand, and speaks text, JSON and Markdown."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from spu_core import cli
from spu_core.commands import paper_command
from spu_core.errors import SpuError, WorkspaceError
from spu_core.experiments import EXPERIMENTS, Claim, ExperimentResult, Provenance, ResultTable


def stored(name: str) -> ExperimentResult:
    """A small result in place of the shipped one; Table 2 is missing."""
    if name == "table2":
        raise WorkspaceError("No result of 'table2' is stored with this version.")
    table = ResultTable("auc", "True AUC", ("data", "printed", "ours", "SE"), (("Adult", 0.863, 0.862, 0.001),))
    claim = Claim("It is so.", "holds", "By 0.1.")
    made = Provenance("b" * 40, {}, {"scale": "full"}, 60.0, "2026-01-02")
    return ExperimentResult(name, EXPERIMENTS[name].title, (table,), (claim,), ("None.",), made)


@pytest.fixture(autouse=True)
def small_results(monkeypatch):
    monkeypatch.setattr(paper_command, "stored_result", stored)


def run(*words: str):
    return CliRunner().invoke(cli.app, ["paper", *words])


def test_without_a_name_the_experiments_are_listed():
    result = run()

    assert result.exit_code == 0
    assert all(name in result.stdout for name in EXPERIMENTS)


def test_the_stored_result_is_the_default_and_says_so():
    result = run("table3")

    assert "Adult    0.863  0.862  0.0010" in result.stdout
    assert "[holds] It is so. By 0.1." in result.stdout
    assert "table3: the stored result of 2026-01-02; --run computes it again." in result.stderr


def test_json_is_the_result_itself_and_markdown_has_tables():
    assert ExperimentResult.from_json(run("table1", "--json").stdout) == stored("table1")
    assert "| data | printed | ours | SE |" in run("table1", "--markdown").stdout


def test_all_gives_every_stored_experiment_and_names_the_missing():
    result = run("all", "--json")

    assert set(json.loads(result.stdout)) == set(EXPERIMENTS) - {"table2"}
    assert "No result of 'table2' is stored" in result.stderr


def test_a_run_is_computed_now_and_may_go_to_a_file(tmp_path):
    target = tmp_path / "made.json"
    result = run("table3", "--run", "--scale", "smoke", "--seeds", "1", "--json", "-o", str(target))

    assert result.exit_code == 0
    made = ExperimentResult.from_json(target.read_bytes())
    assert made.provenance.settings["worlds"] == 1
    assert {claim.verdict for claim in made.claims} == {"not shown"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("table9",), "There is no experiment 'table9'"),
        (("table1", "--json", "--markdown"), "exclude each other"),
        (("table1", "--run", "--scale", "huge"), "scale must be one of 'smoke', 'full', got 'huge'"),
        (("table1", "--run", "--data", "nowhere"), "The data folder 'nowhere', given by --data, does not exist"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(words, message):
    result = run(*words)

    assert isinstance(result.exception, SpuError)
    assert message in str(result.exception)
