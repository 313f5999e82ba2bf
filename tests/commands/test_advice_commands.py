"""`spu advise`, `segments`, `doctor`, tables of text, queries and addresses on the command line."""

from __future__ import annotations

import json
import sqlite3

import pandas as pd
import pytest
from typer.testing import CliRunner

from spu_core import cli
from spu_core.commands import command_io
from spu_core.commands.command_io import table_text
from spu_core.commands.model_commands import segments_text
from spu_core.commands.studio_commands import extras
from spu_core.errors import SpuError

RULES = {
    "schema_version": 1,
    "rules": [{"name": "large", "when": {"column": "amount", "operator": ">", "value": 9}, "belief": 0.4}],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("shop")
    rows = range(240)
    frame = pd.DataFrame({"amount": [(7 * n) % 13 for n in rows], "region": ["north", "south", "west"] * 80})
    frame["age"] = [20 + (n * n) % 57 for n in rows]
    frame["day"] = pd.date_range("2024-01-01", periods=240).strftime("%Y-%m-%d")
    frame["fraud"] = [int((7 * n) % 13 > 8 and n % 3 > 0) for n in rows]
    frame.to_csv(place / "sales.csv", index=False)
    with sqlite3.connect(place / "shop.db") as connection:
        frame.to_sql("sales", connection, index=False)
    connection.close()
    (place / "rules.json").write_text(json.dumps(RULES))
    return place


@pytest.fixture
def run(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return lambda *words: CliRunner().invoke(cli.app, list(words))


def test_advice_names_what_it_saw_what_to_train_and_what_it_cannot_know(run):
    printed = run("advise", "sales.csv", "--rules", "rules.json", "--role", "day=time").stdout

    for words in ("240 rows", "confirmed cases (", "in column 'fraud'", "Rules raise the soft label of", "is a time"):
        assert words in printed
    assert "Begin with 'fused'" in printed
    assert "No figure of this table decides between models: check rows by hand" in printed
    assert "How the confirmed cases were found" in printed

    told = json.loads(run("advise", "sales.csv", "--origin", "chance", "--json").stdout)
    assert told["method"] == "fused"
    assert told["yardstick"].startswith("Compare models by AUC on confirmed cases")


def test_advice_without_labels_and_rules_says_what_is_missing(run):
    told = json.loads(run("advise", "sales.csv", "--role", "fraud=ignore", "--json").stdout)

    assert told["method"] is None
    assert "Nothing can be trained yet" in told["reasons"][0]
    with_rules = run("advise", "sales.csv", "--role", "fraud=ignore", "--rules", "rules.json", "--json").stdout
    assert json.loads(with_rules)["method"] == "lightgbm"


def test_a_table_of_a_database_is_planned_trained_and_compared_by_segments(run):
    """The same scores as from the CSV; each segment has its rows."""
    query = ("--query", "SELECT * FROM sales")
    assert "240 rows read" in run("profile", "shop.db", *query).stdout
    assert run("plan", "shop.db", *query, "-o", "study.json", "--method", "logistic", "--folds", "2").exit_code == 0
    assert run("train", "study.json", "--data", "shop.db", *query, "-o", "runs").exit_code == 0
    words = ("segments", "runs/01-logistic.spu", "sales.csv", "--by", "region", "--by", "age")
    told = json.loads(run(*words, "--json").stdout)

    assert [(each["segment"], each["rows"]) for each in told["region"]] == [("north", 80), ("south", 80), ("west", 80)]
    assert sum(each["rows"] for each in told["age"]) == 240
    assert "By region:\nsegment" in run(*words).stdout
    assert "Did you mean 'region'?" in str(run(*words[:4], "regoin").exception)
    (line, *_) = (refused := run("segments", "runs/01-logistic.spu", "-", "--by", "age")).output.splitlines() or [""]
    assert refused.exit_code == 1, line


def test_warnings_of_segments_stand_below_their_table():
    frame = pd.DataFrame({"segment": ["north", "west"], "rows": [80, 3], "warning": [None, "Too few positives."]})

    head, *table, note = segments_text("region", frame).splitlines()
    assert (head, note) == ("By region:", "west: Too few positives.")
    assert [line.split() for line in table] == [["segment", "rows"], ["north", "80"], ["west", "3"]]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("label", "sales.csv", "--rules", "study.json", "-o", "-"), "'study.json' is a study, not a rule set"),
        (("advise", "sales.csv", "--rules", "study.json"), "'study.json' is a study, not a rule set"),
        (("train", "rules.json", "--data", "sales.csv", "-o", "x"), "'rules.json' is a rule set, not a study"),
        (("profile", "shop.db"), "is an SQLite database, not a table that can be read; use a query"),
        (("profile", "s3:/bucket/x.csv"), "'s3:/bucket/x.csv' cannot be opened"),
        (("profile", "ftp://bucket/x.csv"), "'ftp://bucket/x.csv' cannot be read: only https:// and s3://"),
    ],
)
def test_a_file_of_another_kind_is_named_as_such(run, words, sentence):
    run("plan", "sales.csv", "-o", "study.json", "--method", "logistic")
    found = run(*words).exception

    assert isinstance(found, SpuError)
    assert sentence in str(found)


def test_doctor_names_versions_extras_workspace_and_disk_and_makes_nothing(run, tmp_path, monkeypatch):
    monkeypatch.setenv("SPU_HOME", str(tmp_path / "home"))
    told = json.loads(run("doctor", "--json").stdout)

    assert {"spu-studio", "python", "numpy", "streamlit"} <= set(told["versions"])
    assert set(told["extras"]) >= {"dask", "onnx", "remote", "serve"}
    assert told["workspace"]["exists"] is False
    assert told["workspace"]["free_bytes"] > 0
    assert not (tmp_path / "home").exists()
    assert "does not exist yet, can be written" in run("doctor").stdout


def test_doctor_names_the_libraries_that_an_extra_lacks(monkeypatch):
    known = __import__("importlib.metadata", fromlist=["version"]).version

    def without_duckdb(name):
        if name == "duckdb":
            raise __import__("importlib.metadata", fromlist=["PackageNotFoundError"]).PackageNotFoundError
        return known(name)

    monkeypatch.setattr("spu_core.commands.studio_commands.version", without_duckdb)

    assert extras()["remote"] == ["duckdb"]


def test_tables_are_aligned_and_rounded_and_plain_in_a_pipe():
    frame = pd.DataFrame({"name": ["[b]a", "long name\nhere"], "auc": [0.123456, None], "rows": [3, 12_000]})

    assert (
        table_text(frame) == "name              auc   rows\n[b]a            0.123      3\nlong name here         12000"
    )


def test_tables_have_colour_on_a_terminal(monkeypatch):
    monkeypatch.setattr(command_io.sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)

    assert "\x1b[1m" in table_text(pd.DataFrame({"name": ["a"]}))
