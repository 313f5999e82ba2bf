"""Several processes on one workspace lose nothing, and a -wal that somebody deletes takes nothing along."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spu_core.errors import WorkspaceError
from spu_core.workspace import Workspace, check
from tests.workspace.fakes import FakeTable
from tests.workspace.scenario import in_a_process

pytestmark = pytest.mark.xdist_group("processes")

PROCESSES, SAVES = 8, 200 if os.environ.get("SPU_SLOW") == "1" else 50


def save_many(folder, process):
    """Alternately a dataset and a version of a rule set that all processes edit."""
    with Workspace.open(folder) as workspace:
        for number in range(SAVES):
            if number % 2:
                content = f"table {process} {number}"
                print(f"dataset {workspace.datasets.save(FakeTable(content.encode(), content)).id} {content}")
            else:
                print(f"version {save_version(workspace, f'{process} {number}')} {process} {number}")


def save_the_same(folder, process):
    """One table, whoever saves it."""
    with Workspace.open(folder) as workspace:
        print(workspace.datasets.save(FakeTable(b"the same", "name")).id)


def save_version(workspace, text):
    """Edit the shared rule set; where another process was faster, read it again and repeat."""
    while True:
        edited = workspace.rule_sets.list()[0]
        try:
            return workspace.rule_sets.save(edited, text).number
        except WorkspaceError:
            continue


def in_processes(count, task, folder, name=f"tests.workspace.{Path(__file__).stem}"):
    """Run a function of a test file in that many fresh interpreters at once; returns what each printed.

    A fork of the test runner would take along the threads' locks of whatever was tested before.
    """
    code = f"import sys; from {name} import {task.__name__} as task; task(sys.argv[1], sys.argv[2])"
    root = Path(__file__).resolve().parents[2]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(folder), str(process)], cwd=root, stdout=subprocess.PIPE, text=True
        )
        for process in range(count)
    ]
    said = [process.communicate(timeout=600)[0].splitlines() for process in running]
    assert [process.returncode for process in running] == [0] * count
    return said


def test_eight_processes_save_at_once_and_all_saves_are_there(tmp_path):
    with Workspace.open(tmp_path) as workspace:
        shared = workspace.rule_sets.create("shared", "start")

    said = in_processes(PROCESSES, save_many, tmp_path)

    with Workspace.open(tmp_path) as workspace:
        contents = {item.id: item.name for item in workspace.datasets.list()}
        texts = {version.text for version in workspace.rule_sets.history(shared.id)}
        for line in (line for lines in said for line in lines):
            kind, token, content = line.split(" ", 2)
            assert content == contents[token] if kind == "dataset" else content in texts
        assert sum(map(len, said)) == PROCESSES * SAVES
        assert len(contents) + len(texts) - 1 == PROCESSES * SAVES
    assert check(tmp_path).is_well


def test_the_same_table_saved_by_many_at_once_is_one_copy(tmp_path):
    Workspace.open(tmp_path).close()

    said = in_processes(6, save_the_same, tmp_path)

    assert len({token for lines in said for token in lines}) == 1
    assert len(list((tmp_path / "files").iterdir())) == 1


def test_a_deleted_wal_of_a_killed_process_takes_nothing_along(tmp_path):
    def save_and_die(say):
        with Workspace.open(tmp_path) as workspace:
            for number in range(20):
                say(workspace.rule_sets.create(f"rules {number}", "{}").id)
            os.kill(os.getpid(), signal.SIGKILL)

    said = in_a_process(save_and_die)
    assert (tmp_path / "catalogue.sqlite-wal").exists()
    (tmp_path / "catalogue.sqlite-wal").unlink()

    with Workspace.open(tmp_path) as workspace:
        assert {rules.id for rules in workspace.rule_sets.list()} == set(said)
    assert check(tmp_path).is_well
