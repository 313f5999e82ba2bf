"""Single commands: JSON for programs, sentences for people, exit codes as documented."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from spu_core import cli
from spu_core.workspace import Workspace

FILE = "id,amount,fraud\n" + "".join(f"{row},{row % 13},{int(row % 11 == 0)}\n" for row in range(120))
RULES = json.dumps(
    {
        "schema_version": 1,
        "rules": [
            {
                "name": "large",
                "when": {"column": "amount", "operator": ">", "value": 9},
                "belief": {"kind": "constant", "value": 0.4},
            }
        ],
    }
)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sales.csv").write_text(FILE)
    (tmp_path / "rules.json").write_text(RULES)
    runner = CliRunner()
    return lambda *words, **more: runner.invoke(cli.app, list(words), **more)


def test_samples_are_listed_as_words_and_as_json(run):
    assert "breast_cancer" in run("sample").stdout
    assert "breast_cancer" in json.loads(run("sample", "--json").stdout)


def test_a_profile_reads_standard_input(run):
    found = json.loads(run("profile", "-", "--json", input=FILE).stdout)

    assert found["labeled"] == 11
    assert [column["column"] for column in found["columns"]] == ["id", "amount", "fraud"]


def test_soft_labels_go_to_standard_output(run):
    printed = run("label", "sales.csv", "--rules", "rules.json", "-o", "-").stdout

    assert printed.splitlines()[0] == "id,amount,fraud,soft_label,rule_score"
    assert printed.splitlines()[1].endswith(",1.0,0.0")


def test_soft_labels_go_to_parquet_with_a_summary(run, tmp_path):
    found = json.loads(run("label", "sales.csv", "--rules", "rules.json", "-o", "out.parquet", "--json").stdout)

    assert found["rows"] == 120
    assert 0.5 < found["ceiling"] < 1.0
    assert (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["profile", "nothing.csv"], "nothing.csv"),
        (["label", "sales.csv", "--rules", "sales.csv", "-o", "-"], "not valid JSON"),
        (["label", "sales.csv", "--rules", "rules.json", "-o", "out.doc"], "must end in .csv or .parquet"),
        (["train", "rules.json", "--data", "sales.csv", "-o", "runs"], "schema"),
        (["score", "sales.csv", "sales.csv", "-o", "out.csv"], "not a bundle"),
        (["sample", "brest_cancer"], "Did you mean 'breast_cancer'?"),
        (["plan", "sales.csv", "-o", "s.json", "--role", "fraud"], "--role wants column=role"),
    ],
)
def test_what_the_engine_refuses_is_one_sentence_and_exit_code_1(run, monkeypatch, capsys, words, sentence):
    monkeypatch.setattr("sys.argv", ["spu", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == 1
    printed = capsys.readouterr().err
    assert sentence in printed
    assert "Traceback" not in printed


def test_a_wrong_call_is_exit_code_2(run):
    assert run("label", "sales.csv").exit_code == 2
    assert run("nonsense").exit_code == 2


def test_a_workspace_is_listed_checked_tidied_and_backed_up(run, tmp_path):
    with Workspace.open(tmp_path / "here") as workspace:
        workspace.rule_sets.create("fraud", RULES)
    place = ["--workspace", str(tmp_path / "here")]

    assert "fraud" in run("workspace", "list", *place).stdout
    assert run("workspace", "check", *place).exit_code == 0
    assert json.loads(run("workspace", "gc", *place, "--json").stdout)["freed"] >= 0
    assert json.loads(run("workspace", "backup", *place, "--json").stdout)["backup"]


def test_a_damaged_catalogue_is_found_and_restored(run, tmp_path):
    with Workspace.open(tmp_path / "here") as workspace:
        workspace.rule_sets.create("fraud", RULES)
    with Workspace.open(tmp_path / "here"):
        pass
    (tmp_path / "here" / "catalogue.sqlite").write_bytes(b"no longer a database" * 100)
    place = ["--workspace", str(tmp_path / "here")]

    assert run("workspace", "check", *place).exit_code == 1
    assert run("workspace", "check", "--restore", *place).exit_code == 0
    assert "fraud" in run("workspace", "list", *place).stdout


def test_every_command_has_help_that_says_what_it_does(run):
    for name in ("app", "sample", "profile", "label", "plan", "train", "compare", "export", "score", "report"):
        found = run(name, "--help")
        assert found.exit_code == 0
        assert len(found.stdout) > 200
