"""Several processes on one workspace lose nothing, and a -wal that somebody deletes takes nothing along."""

import os
import signal
from pathlib import Path

from spu_core.errors import WorkspaceError
from spu_core.workspace import Workspace, check
from tests.workspace.fakes import FakeTable
from tests.workspace.scenario import in_a_process

PROCESSES, SAVES = 8, 200


def save_many(folder, process, say):
    """Alternately a dataset and a version of a rule set that all processes edit."""
    with Workspace.open(folder) as workspace:
        for number in range(SAVES):
            if number % 2:
                content = f"table {process} {number}"
                say(f"dataset {workspace.datasets.save(FakeTable(content.encode(), content)).id} {content}")
            else:
                say(f"version {save_version(workspace, f'{process} {number}')} {process} {number}")


def save_version(workspace, text):
    """Edit the shared rule set; where another process was faster, read it again and repeat."""
    while True:
        edited = workspace.rule_sets.list()[0]
        try:
            return workspace.rule_sets.save(edited, text).number
        except WorkspaceError:
            continue


def in_processes(count, do):
    """Run `do(process, say)` in that many forks at once; returns what each said."""
    pipes: dict[int, int] = {}
    for process in range(count):
        theirs, ours = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(theirs)
                do(process, lambda line, ours=ours: os.write(ours, f"{line}\n".encode()))
            finally:
                os._exit(0)
        os.close(ours)
        pipes[pid] = theirs
    said = [Path(f"/dev/fd/{pipe}").read_text().splitlines() for pipe in pipes.values()]
    for pid, pipe in pipes.items():
        os.close(pipe)
        os.waitpid(pid, 0)
    return said


def test_eight_processes_save_two_hundred_times_each_and_all_saves_are_there(tmp_path):
    with Workspace.open(tmp_path) as workspace:
        shared = workspace.rule_sets.create("shared", "start")

    said = in_processes(PROCESSES, lambda process, say: save_many(tmp_path, process, say))

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

    def save(process, say):
        with Workspace.open(tmp_path) as workspace:
            say(workspace.datasets.save(FakeTable(b"the same", "name")).id)

    said = in_processes(6, save)

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
