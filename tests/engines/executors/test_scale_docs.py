"""What docs/scale.md, folders.md and cluster.md print is run, on a small table, with other addresses and short fits."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from spu_core import cli
from spu_core.engines.processes.os_processes import end_tree
from spu_core.tables.samples import load_sample, load_sample_rules
from tests.engines.executors.test_guarded_work import opened_with_patience
from tests.live import free_address

pytestmark = pytest.mark.xdist_group("cluster")

DOCS = Path(__file__).resolve().parents[3] / "docs"
TEXT = "\n".join((DOCS / name).read_text(encoding="utf-8") for name in ("scale.md", "folders.md", "cluster.md"))
PRINTED_ADDRESS = "tcp://10.0.0.7:8786"
# These need another machinery than the one at hand: a browser, Kubernetes, SLURM.
NOT_RUN = ("spu app", "KubeCluster", "SLURMCluster")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)


def block_with(language, mark):
    (found,) = [block for block in blocks(language) if mark in block]
    return found


COMMANDS, ON_CLUSTER, BY_HAND = (block_with("sh", mark) for mark in ("spu convert", "--engine dask", "dask scheduler"))
PYTHON, PYTHON_ON_CLUSTER = (block_with("python", mark) for mark in ("convert_table", "open_cluster"))


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A folder with the files that the page speaks of."""
    monkeypatch.chdir(tmp_path)
    frame = load_sample("breast_cancer").frame
    frame.to_csv("rows.csv", index=False)
    Path("rules.json").write_text(load_sample_rules("breast_cancer"))
    for place, rows in {"rows": frame, "new_rows": frame[:200]}.items():
        Path(place).mkdir()
        rows[:100].to_parquet(Path(place) / "a.parquet")
        rows[100:].to_parquet(Path(place) / "b.parquet")
    return tmp_path


def spu(line):
    """Run a printed line of the shell in this process."""
    words = shlex.split(line, comments=True)
    assert words[0] == "spu"
    done = CliRunner().invoke(cli.app, words[1:])
    assert done.exit_code == 0, done.output
    return done


def lines(block):
    return [line for line in block.strip().splitlines() if not any(mark in line for mark in NOT_RUN)]


def make_short(study):
    """Ten rounds and two folds: what is printed does not say how many."""
    note = json.loads(study.read_text())
    note["plan"]["config"]["folds"] = 2
    for candidate in note["plan"]["candidates"]:
        candidate["settings"] = {"rounds": 10}
    study.write_text(json.dumps(note))


def test_every_example_of_the_page_is_run_here_or_needs_what_is_not_here():
    known = {COMMANDS, ON_CLUSTER, BY_HAND, PYTHON, PYTHON_ON_CLUSTER}
    others = {block for language in ("sh", "python") for block in blocks(language)} - known

    assert len(others) == 3
    assert all(any(mark in block for mark in NOT_RUN) for block in others)


def test_the_commands_for_one_machine_run_as_printed(desk):
    (desk / "rows").rename(desk / "before")
    for line in lines(COMMANDS):
        spu(line)
        if line.startswith("spu plan"):
            make_short(desk / "study.json")

    assert (desk / "runs" / "02-xgboost.spu").exists()
    assert (desk / "labelled.parquet").exists()
    assert (desk / "scored.parquet").exists()


def test_the_python_for_one_machine_runs_as_printed(desk):
    found = run_python(PYTHON.replace("TrainConfig()", "TrainConfig(folds=2)"))

    assert [run.error for run in found["runs"]] == [None, None]
    assert len(found["explore"]) == len(found["folder"])


def test_the_commands_for_a_cluster_run_as_printed(cluster, desk):
    spu("spu plan rows -o study.json --rules rules.json --method lightgbm")
    make_short(desk / "study.json")
    for line in lines(ON_CLUSTER):
        done = spu(line.replace(PRINTED_ADDRESS, cluster.client.scheduler.address))
        assert ("are spread over the workers" in done.stderr) == line.startswith("spu train")

    assert sorted(path.name for path in (desk / "scores").iterdir()) == ["a.parquet", "b.parquet"]


def test_the_python_for_a_cluster_runs_as_printed(cluster, desk):
    found = run_python(PYTHON_ON_CLUSTER.replace(PRINTED_ADDRESS, cluster.client.scheduler.address))

    assert [run.error for run in found["runs"]] == [None]


def run_python(code):
    found = {}
    exec(compile(code, "docs", "exec"), found)  # our own text, not a user's
    return found


def test_a_cluster_started_by_hand_as_printed_is_one():
    port = str(free_address()[1])
    scheduler, *workers = BY_HAND.replace(PRINTED_ADDRESS, f"tcp://127.0.0.1:{port}").replace("8786", port).splitlines()
    with shell(scheduler), shell("\n".join(workers)), opened_with_patience(f"tcp://127.0.0.1:{port}") as found:
        assert found.client.submit(os.environ.get, "OMP_WAIT_POLICY").result(timeout=300) == "PASSIVE"


@contextmanager
def shell(script):
    """A printed script in a shell of its own, ended with all that it started."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": places}
    with subprocess.Popen(["sh", "-c", script], env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            end_tree(psutil.Process(process.pid))
