"""Single commands: JSON for programs, sentences for people, exit codes as documented."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from spu_core import __version__, cli
from spu_core.commands.command_index import INDEX_FILE, make_index
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
def run(tmp_path, no_trial, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sales.csv").write_text(FILE)
    (tmp_path / "rules.json").write_text(RULES)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x81")
    runner = CliRunner()
    return lambda *words, **more: runner.invoke(cli.app, list(words), **more)


def test_samples_are_listed_as_words_and_as_json(run):
    assert "breast_cancer" in run("sample").stdout
    assert "breast_cancer" in json.loads(run("sample", "--json").stdout)


def test_a_profile_reads_standard_input(run):
    found = json.loads(run("profile", "-", "--json", input=FILE).stdout)

    assert found["labeled"] == 11
    assert [column["column"] for column in found["columns"]] == ["id", "amount", "fraud"]


def test_a_profile_names_what_makes_models_look_too_good(run):
    lines = [f"{row % 30 * 1.37:.2f},{(row % 30) ** 2 / 7:.3f},{int(row % 30 < 6)}" for row in range(120)]
    printed = run("profile", "-", input="\n".join(["x,z,label", *lines])).stdout

    assert "90 of 120 rows repeat an earlier row in all features" in printed


def test_the_profile_of_the_breast_cancer_file_names_the_real_class(run):
    run("sample", "breast_cancer", "--truth")
    frame = pd.read_csv("breast_cancer.csv").assign(malignant=pd.read_csv("breast_cancer.truth.csv")["malignant"])
    frame.to_csv("both.csv", index=False)
    printed = run("profile", "both.csv").stdout

    assert "Column 'malignant' is '1' for 100% of the positives of 'labeled'" in printed


def test_models_judged_on_later_rows_that_have_changed_are_called_worse_than_chance_first(run, tmp_path):
    """x points to positives in the first two thirds of the rows, and away from them in the last."""
    rng = np.random.default_rng(0)
    x, late = rng.normal(size=900), np.arange(900) >= 600
    label = rng.random(900) < 1 / (1 + np.exp(2 - np.where(late, -2.0, 2.0) * x))
    day = pd.date_range("2024-01-01", periods=900, freq="D").strftime("%Y-%m-%d")
    frame = pd.DataFrame({"x": x, "z": rng.normal(size=900), "day": day, "label": label.astype(int)})
    frame.to_csv("drift.csv", index=False)
    assert (
        run("plan", "drift.csv", "-o", "s.json", "--method", "labeled_vs_rest", "--out-of-time", "0.3").exit_code == 0
    )
    trained = run("train", "s.json", "--data", "drift.csv", "-o", "runs")
    compared = run("compare", "runs/01-labeled_vs_rest.spu")
    told = json.loads(run("compare", "runs/01-labeled_vs_rest.spu", "--json").output)
    report = json.loads(run("report", "runs/01-labeled_vs_rest.spu", "--json").output)

    assert "No model can be recommended. No model is better than chance" in trained.output
    assert compared.output.startswith("Recommended: no model (cannot tell)\nNo model can be recommended. No model is")
    assert told["headline"].startswith("No model is better than chance")
    assert report["recommendation"]["model"] is told["recommendation"]["model"] is None
    page = (tmp_path / "report.html").read_text()
    assert page.index("No model is better than chance") < page.index("ROC_SPU and its ceiling")


def test_soft_labels_go_to_standard_output(run):
    printed = run("label", "sales.csv", "--rules", "rules.json", "-o", "-").stdout

    assert printed.splitlines()[0] == "id,amount,fraud,soft_label,rule_score"
    assert printed.splitlines()[1].endswith(",1.0,0.0")
    assert len(printed.splitlines()) == 121


def test_cells_are_written_as_they_stood_in_the_file(run, tmp_path):
    lines = ["id,amount,day,fraud", *(f"{n:04d},${n}.50,{n % 28 + 1:02d}.01.2024,{n % 2}" for n in range(40))]
    (tmp_path / "money.csv").write_text("\n".join([*lines, ""]))
    printed = run("label", "money.csv", "--rules", "rules.json", "-o", "-").stdout

    assert [line.rsplit(",", 2)[0] for line in printed.splitlines()] == lines


def test_rows_may_come_in_and_go_out_by_pipes_while_the_summary_goes_beside_them(run):
    found = run("label", "-", "--rules", "rules.json", "-o", "-", "--json", input=FILE)

    assert found.stdout == run("label", "sales.csv", "--rules", "rules.json", "-o", "-").stdout
    assert json.loads(found.stderr)["rows"] == 120


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
        (["plan", "sales.csv", "-o", "s.json", "--role", "fraud=king"], "king"),
        (["plan", "sales.csv", "-o", "s.json", "--method", "lightgmb"], "Did you mean 'lightgbm'?"),
        (["plan", "sales.csv", "-o", "s.json", "--folds", "0"], "folds must"),
        (["plan", "sales.csv", "-o", "s.json", "--seed", "-1"], "seed"),
        (["plan", "sales.csv", "-o", "absent/s.json"], "cannot be written: No such file or directory"),
        (["plan", "sales.csv", "-o", "."], "'.' is a folder; give the name of a file"),
        (["profile", "."], "holds no .parquet file; convert a text file"),
        (["profile", "caf\udce9.csv"], "cannot be opened"),
        (["label", "sales.csv", "--rules", "absent.json", "-o", "-"], "cannot be read: No such file"),
        (["label", "sales.csv", "--rules", "binary", "-o", "-"], "it is not UTF-8 text"),
        (
            ["label", "sales.csv", "--rules", "rules.json", "-o", "absent/out.parquet"],
            "cannot be written: No such file",
        ),
        (["train", "-", "--data", "-", "-o", "runs"], "cannot both come from standard input"),
        (["sample", "../../etc/passwd"], "passwd"),
        (["sample", "breast_cancer", "-o", "sales.csv"], "sales.csv"),
        (["score", "x.spu", "sales.csv", "-o", "out.doc"], "must end in .csv or .parquet"),
        (["score", "x.spu", "sales.csv", "-o", "-"], "'x.spu' cannot be opened"),
        (["score", "x.spu", "sales.csv", "-o", "-", "--flag-by", "luck"], "flag_by must be one of"),
        (["export", "x.spu", "-o", "model.pkl"], "must be one of"),
        (["export", "x.spu", "-o", "card.md"], "'x.spu' cannot be opened"),
        (["report", "x.spu"], "'x.spu' cannot be opened"),
        (["track", "x.spu"], "'x.spu' cannot be opened"),
        (["workspace", "list", "--workspace", "sales.csv"], "sales.csv"),
        (["workspace", "check", "--workspace", "absent"], "There is no workspace in"),
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
    assert run("plan", "sales.csv", "-o", "s.json", "--folds", "many").exit_code == 2
    assert run("app", "--port", "99999").exit_code == 2


def ended(monkeypatch, *words):
    monkeypatch.setattr("sys.argv", ["spu", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def test_a_refusal_is_json_for_a_program_that_asked_for_json(run, monkeypatch, capsys):
    assert ended(monkeypatch, "profile", "nothing.csv", "--json") == 1
    printed = capsys.readouterr()

    assert printed.out == ""
    assert "nothing.csv" in json.loads(printed.err)["error"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["profile", "--json"], "Missing argument"),
        (["profil", "sales.csv", "--json"], "Did you mean 'profile'?"),
        (["plan", "sales.csv", "-o", "s.json", "--folds", "many", "--json"], "--folds"),
        (["workspace", "--json"], "No such option: --json"),
    ],
)
def test_a_wrong_call_is_json_for_a_program_that_asked_for_json(run, monkeypatch, capsys, words, sentence):
    assert ended(monkeypatch, *words) == 2
    told = json.loads(capsys.readouterr().err)

    assert sentence in told["error"]
    assert told["exit_code"] == 2


def test_a_fault_of_ours_is_exit_code_3_and_shows_its_traceback_on_request_only(run, monkeypatch, capsys):
    def fail(*_):
        raise RuntimeError("surprise")

    monkeypatch.setattr("spu_core.commands.data_commands.open_input", fail)
    assert ended(monkeypatch, "profile", "sales.csv") == 3
    printed = capsys.readouterr().err
    assert "A fault of ours (RuntimeError: surprise)" in printed
    assert "Traceback" not in printed

    monkeypatch.setenv("SPU_TRACEBACK", "1")
    monkeypatch.setattr("sys.argv", ["spu", "profile", "sales.csv"])
    with pytest.raises(RuntimeError, match="surprise"):
        cli.main()


def test_ctrl_c_is_exit_code_130(run, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("spu_core.commands.data_commands.open_input", stop)
    assert ended(monkeypatch, "profile", "sales.csv") == 130


INTERRUPT = """
import os, signal, sys
from spu_core.__main__ import main

class Interrupt:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["spu", "profile", "sales.csv"]
main()
"""


@pytest.mark.parametrize("module", ["typer", "spu_core.commands.command_index", "pandas", "pyarrow.csv"])
def test_ctrl_c_is_one_line_also_while_modules_are_imported(run, tmp_path, module):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    code = INTERRUPT.format(module=module)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Stopped.\n")


def test_a_reader_that_leaves_early_ends_the_command_in_silence(run, tmp_path):
    rows = "id,amount,fraud\n" + "".join(f"{row},{row % 13},{int(row % 11 == 0)}\n" for row in range(60_000))
    (tmp_path / "many.csv").write_text(rows)
    command = [sys.executable, "-m", "spu_core", "label", "many.csv", "--rules", "rules.json", "-o", "-"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline().startswith("id,amount")
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()


def leaves(group, path=()):
    """Every command with the words that lead to it."""
    for name, command in group.commands.items():
        yield from leaves(command, (*path, name)) if hasattr(command, "commands") else [((*path, name), command)]


def test_every_command_takes_json_but_those_that_serve():
    without = [
        " ".join(path)
        for path, command in leaves(typer.main.get_command(cli.app))
        if not any("--json" in parameter.opts for parameter in command.params)
    ]

    assert without == ["app", "serve", "mcp"]


def test_versions_are_words_and_json(run):
    assert run("version").stdout.strip() == __version__
    assert run("--version").stdout.strip() == __version__
    assert json.loads(run("version", "--json").stdout)["spu-studio"] == __version__


def test_the_index_holds_what_the_commands_say():
    """Help and completion use it; if this fails, run `python -m tests.doc_tables`."""
    assert INDEX_FILE.read_text(encoding="utf-8") == make_index()


@pytest.mark.parametrize("asked", [["--help"], ["--version"]])
def test_help_and_version_do_not_import_the_engine(run, asked):
    code = f"import sys, spu_core.cli as cli; sys.argv[1:] = {asked!r}; sys.exit = print; cli.main(); " + (
        "print([name for name in ('numpy', 'pandas', 'sklearn') if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("spu pro", ["profile"]),
        ("spu workspace b", ["backup"]),
        ("spu sample breast", ["breast_cancer"]),
        ("spu plan x.csv --method lightg", ["lightgbm"]),
        ("spu export x.spu --as on", ["onnx"]),
        ("spu train study.json --sch", ["--scheduler"]),
    ],
)
def test_a_shell_completes_commands_samples_methods_and_forms(words, offered, run):
    asked = {"_SPU_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}

    assert run(prog_name="spu", env=asked).stdout.split() == offered


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
    for path, _ in leaves(typer.main.get_command(cli.app)):
        found = run(*path, "--help")
        assert found.exit_code == 0
        assert len(found.stdout) > 200, path


def test_features_names_the_columns_that_a_model_needs(run, tmp_path):
    rows = [(row, (row * 7) % 13, row % 5, int((row * 7) % 13 > 9 and row % 3 == 0)) for row in range(300)]
    lines = [",".join(map(str, each)) for each in (("id", "amount", "noise", "fraud"), *rows)]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    words = ("features", "rows.csv", "--method", "labeled_vs_rest", "--folds", "2", "--role", "fraud=label")

    found = json.loads(run(*words, "--jobs", "2", "--metric", "known_positive_auc", "--margin", "0.1", "--json").stdout)

    assert found["columns"] == ["amount"]
    assert found["dropped"] == ["noise"]
    assert {each["column"] for each in found["single"]} == {"amount", "noise"}
    spoken = run(*words, "--jobs", "1", "--add", "--margin", "0.1").stdout
    assert "columns are enough: AUC_SPU changes by" in spoken
    assert "Not needed: noise" in spoken
    assert "metric must be one of" in str(run(*words, "--metric", "auc").exception)
