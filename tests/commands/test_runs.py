"""Runs by file and by id: compared, exported, reported and scored from the command line."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from spu_core import cli
from spu_core.engines.stored_runs import stored_bundle
from spu_core.errors import SpuError
from spu_core.export import save_bundle
from spu_core.tables.samples import load_sample
from spu_core.training import Candidate
from spu_core.workspace import Workspace
from tests.dashboard.trained import bring_sample, train_quickly
from tests.export.examples import known

CANDIDATES = (Candidate("logistic", name="linear"), Candidate("labeled_vs_rest", {"learner": "logistic"}, name="plain"))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a workspace of two runs, one of them also as a file, and the rows they learnt from."""
    folder = tmp_path_factory.mktemp("place")
    with Workspace.open(folder / "home") as workspace:
        ids = train_quickly(workspace, bring_sample(workspace), CANDIDATES)
        save_bundle(stored_bundle(workspace, ids[0]), folder / "linear.spu")
    load_sample("breast_cancer", truth=True).frame.to_csv(folder / "rows.csv", index=False)
    return folder, ids


@pytest.fixture
def run(place, no_trial, monkeypatch):
    folder, _ = place
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SPU_HOME", str(folder / "home"))
    return lambda *words, **more: CliRunner().invoke(cli.app, list(words), catch_exceptions=False, **more)


@pytest.fixture
def ids(place):
    return place[1]


def test_stored_runs_are_compared_by_id_and_by_the_start_of_it(run, ids):
    found = json.loads(run("compare", *ids, "--json").stdout)

    assert {line["name"] for line in found["leaderboard"]} == {"linear", "plain"}
    assert run("compare", *(token[:8] for token in ids)).stdout == run("compare", *ids).stdout


def test_a_file_and_a_stored_run_stand_side_by_side(run, ids):
    found = json.loads(run("compare", "linear.spu", ids[1], "--workspace", "home", "--json").stdout)

    assert len(found["pairs"]) == 1


def test_an_id_that_is_not_there_says_where_ids_are_shown(run, ids, monkeypatch, capsys):
    for name in ("0" * 24, "x"):
        monkeypatch.setattr("sys.argv", ["spu", "compare", name])
        with pytest.raises(SystemExit):
            cli.main()
        printed = capsys.readouterr().err
        assert "is neither a file nor the id of a run" in printed
        assert "spu workspace list" in printed


def test_rows_are_scored_from_pipe_to_pipe_with_the_notes_beside_them(run, ids, place):
    rows = (place[0] / "rows.csv").read_bytes()
    found = run("score", "linear.spu", "-", "-o", "-", input=rows)

    expected = known("linear.spu").score(load_sample("breast_cancer", truth=True).frame)
    np.testing.assert_array_equal(pd.read_csv(io.StringIO(found.stdout))["score"], expected.frame["score"])
    assert found.stderr.splitlines() == list(expected.report.notes)
    assert run("score", ids[0], "rows.csv", "-o", "-").stdout == found.stdout


def test_scoring_into_a_file_prints_the_notes(run, ids, tmp_path):
    target = str(tmp_path / "scored.csv")
    words = run("score", ids[0], "rows.csv", "-o", target).stdout
    value = json.loads(run("score", "linear.spu", "rows.csv", "-o", target, "--json").stdout)

    assert value["rows"] == len(pd.read_csv(target)) == 569
    assert words.splitlines() == value["notes"]
    assert "rows are flagged" in words
    assert value["flag_rate"] == pytest.approx(value["flagged"] / 569)


@pytest.mark.parametrize(
    ("form", "start"),
    [
        ("bundle", b"PK"),
        ("card_md", b"# Model card: linear"),
        ("card_html", b"<!doctype html>"),
        ("rules", b"{"),
        ("study", b"{"),
        ("report", b"<!doctype html>"),
        ("scores_csv", b"row,out_of_fold_score"),
        ("folder", b"PK"),
    ],
)
def test_a_stored_run_leaves_in_every_form_by_standard_output(run, ids, form, start):
    found = run("export", ids[0], "--as", form, "-o", "-")

    assert found.exit_code == 0
    assert found.stdout_bytes.startswith(start)


def test_words_of_the_call_stand_in_the_card_and_changes_in_its_history(run, ids, tmp_path):
    words = [
        "--purpose",
        "Find early cases.",
        "--licence",
        "internal",
        "--contact",
        "the lab",
        "--change",
        "New scanner.",
    ]
    for name in (ids[0], "linear.spu"):
        target = str(tmp_path / f"{len(name)}.md")
        value = json.loads(run("export", name, "-o", target, *words, "--json").stdout)
        card = (tmp_path / f"{len(name)}.md").read_text(encoding="utf-8")
        assert value["form"] == "card_md"
        assert value["bytes"] == len(card.encode())
        for part in ("Find early cases.", "Licence: internal", "Contact: the lab", "- New scanner."):
            assert part in card


def test_a_bundle_may_leave_without_its_rows(run, tmp_path):
    run("export", "linear.spu", "-o", str(tmp_path / "lean.spu"), "--no-keep-rows")

    assert not known(tmp_path / "lean.spu").rows


def test_a_folder_is_written_as_a_folder_or_a_zip_and_never_over_something(run, ids, tmp_path, monkeypatch, capsys):
    run("export", ids[0], "-o", str(tmp_path / "folder"))
    run("export", "linear.spu", "-o", str(tmp_path / "other"))

    for name in ("folder", "other"):
        assert (tmp_path / name / "bundle.spu").is_file()
        assert (tmp_path / name / "README.txt").is_file()
    monkeypatch.setattr("sys.argv", ["spu", "export", ids[0], "-o", str(tmp_path / "folder")])
    with pytest.raises(SystemExit):
        cli.main()
    assert "'folder' is not an empty folder" in capsys.readouterr().err


def test_onnx_is_proven_on_the_table_of_a_stored_run_or_on_given_rows(run, ids, tmp_path, monkeypatch, capsys):
    pytest.importorskip("onnxruntime")
    value = json.loads(run("export", ids[0], "-o", str(tmp_path / "a.onnx"), "--json").stdout)
    run("export", "linear.spu", "-o", str(tmp_path / "b.onnx"), "--rows", "rows.csv")

    assert value["note"].startswith("The same scores as the bundle: on 569 rows")
    assert (tmp_path / "b.onnx").stat().st_size > 1000
    monkeypatch.setattr("sys.argv", ["spu", "export", "linear.spu", "-o", "c.onnx"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "name them with --rows FILE" in capsys.readouterr().err


def test_what_a_bundle_alone_cannot_become_is_said(run, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["spu", "export", "linear.spu", "--as", "study", "-o", "-"])
    with pytest.raises(SystemExit):
        cli.main()

    assert "A bundle alone cannot become 'study'" in capsys.readouterr().err


def test_a_report_of_stored_runs_says_which_is_best(run, ids, tmp_path):
    target = tmp_path / "report.html"
    value = json.loads(run("report", *ids, "-o", str(target), "--title", "Cells <b>", "--json").stdout)

    assert value["recommendation"]["model"] in ("linear", "plain")
    assert value["bytes"] == target.stat().st_size
    assert "Cells &lt;b&gt;" in target.read_text(encoding="utf-8")


def test_a_plan_and_a_training_meet_in_a_pipe(run, tmp_path):
    planned = run(
        "plan", "rows.csv", "-o", "-", "--role", "malignant=truth", "--role", "labeled=label", "--method", "logistic",
        "--folds", "2", "--json",
    )  # fmt: skip
    assert json.loads(planned.stderr)["candidates"] == ["logistic"]

    target = tmp_path / "runs"
    done = json.loads(run("train", "-", "--data", "rows.csv", "-o", str(target), "--json", input=planned.stdout).stdout)

    [path] = done["bundles"]
    assert not done["rows_differ"]
    # A workspace that has the same rows knows the bundle by this.
    assert known(path).details.fingerprint == json.loads(planned.stdout)["fingerprint"]


def test_files_to_pass_on_have_the_usual_permissions_and_are_not_overwritten_without_force(run, ids):
    before = os.umask(0o022)
    try:
        run("export", ids[0], "-o", "passed.spu", "--no-keep-rows")
        run("report", ids[0], "-o", "passed.html")
        run("score", ids[0], "rows.csv", "-o", "passed.csv")
    finally:
        os.umask(before)
    assert {name: oct(Path(name).stat().st_mode & 0o777) for name in ("passed.spu", "passed.html", "passed.csv")} == {
        "passed.spu": "0o644",
        "passed.html": "0o644",
        "passed.csv": "0o644",
    }
    size = Path("passed.spu").stat().st_size
    with pytest.raises(SpuError, match=r"'passed.spu' exists; choose another name, or overwrite it with --force"):
        run("export", ids[0], "-o", "passed.spu")
    assert Path("passed.spu").stat().st_size == size
    assert run("export", ids[0], "-o", "passed.spu", "--force").exit_code == 0
    assert Path("passed.spu").stat().st_size > size


def test_a_folder_with_bundles_is_not_trained_into_without_force(run, tmp_path):
    assert (
        run("plan", "rows.csv", "--method", "logistic", "--folds", "2", "-o", str(tmp_path / "study.json")).exit_code
        == 0
    )
    target = tmp_path / "runs"
    target.mkdir()
    (target / "01-logistic.spu").write_text("earlier")
    words = ("train", str(tmp_path / "study.json"), "--data", "rows.csv", "-o", str(target))
    with pytest.raises(SpuError, match="exists; choose another name, or overwrite it with --force"):
        run(*words)
    assert (target / "01-logistic.spu").read_text() == "earlier"
    assert run(*words, "--force").exit_code == 0
    assert (target / "01-logistic.spu").stat().st_size > 1000


def test_listing_a_workspace_never_makes_one(run, tmp_path):
    gone = tmp_path / "here"

    assert "There is no workspace here yet" in run("workspace", "list", "--workspace", str(gone)).stdout
    assert json.loads(run("workspace", "list", "--workspace", str(gone), "--json").stdout) == []
    assert not gone.exists()
