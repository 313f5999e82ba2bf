"""Faults below SQLite, and looks at a catalogue while others write it: it always opens, and nothing saved is lost.

A sample of points; `tests/slow/test_faults_below.py` goes through all of them.
"""

import itertools
import os
from pathlib import Path

import pytest

from spu_core.engines.processes.os_processes import wait_until
from spu_core.workspace import Home, Workspace
from tests.workspace.faults_below import PATIENCE, sweep
from tests.workspace.test_many_processes import in_processes

# Every n-th point of each scenario.
SAMPLE = {
    "work": 67,
    "save": 29,
    "open": 37,
    "delete": 43,
    "backup": 61,
    "run": 47,
    "start": 60,
    "watch": 12,
    "end": 31,
}
JOINS = 250


@pytest.mark.xdist_group("processes")
def test_a_kill_or_a_full_disk_below_sqlite_leaves_a_workspace_that_opens_with_all_that_was_saved(tmp_path):
    found = sweep(tmp_path, SAMPLE)

    assert found["points"] > 30
    assert not found.keys() & {"refused", "lost", "raw"}, found


def save_long_texts(folder):
    """Each save takes many pages of the catalogue, so that it is often between two of them."""
    with Workspace.open(folder) as workspace:
        for number in itertools.takewhile(lambda _: not enough(folder).exists(), itertools.count()):
            print(workspace.rule_sets.create(f"{os.getpid()} {number}", str(number % 10) * 30_000).id)


def join_often(folder, joins):
    """Begins when both others save, who end when this ends."""
    try:
        with Workspace.join(Home.at(folder), ".") as workspace:
            both = lambda: len({rules.name.split()[0] for rules in workspace.rule_sets.list()}) == 2  # noqa: E731
            assert wait_until(both, PATIENCE)
        for _ in range(joins):
            Workspace.join(Home.at(folder), ".").close()
            print("joined")
    finally:
        enough(folder).touch()


def enough(folder):
    return Path(f"{folder}.enough")


def save_or_join(folder, process):
    if process == "0":
        join_often(folder, int(os.environ["JOINS"]))
    else:
        save_long_texts(folder)


def join_while_two_save(folder, joins):
    """Counts of looks and of saves; a look that is refused, or a save that is not there afterwards, fails."""
    Workspace.open(folder).close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JOINS", str(joins))
        joined, *saved = in_processes(3, save_or_join, folder, __name__)
    tokens = {token for lines in saved for token in lines}
    with Workspace.open(folder) as workspace:
        assert {rules.id for rules in workspace.rule_sets.list()} == tokens
    return len(joined), len(tokens)


@pytest.mark.xdist_group("processes")
def test_a_workspace_is_joined_whenever_one_likes_while_two_others_save(tmp_path):
    joined, _ = join_while_two_save(tmp_path / "home", JOINS)

    assert joined == JOINS
