"""A day of work in a few saves, and what must be true of the workspace after any fault in it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import contextmanager, suppress

import pytest

from spu_core.errors import WorkspaceError
from spu_core.workspace import Disk, Outcome, Threshold, Workspace, check
from tests.workspace.fakes import FakeTable, draft_of, writes

Acknowledge = Callable[[str], None]


def work(folder, disk: Disk, acknowledge: Acknowledge) -> None:
    """Save one thing of each kind; say `kind id content` after each save that returned."""
    with suppress(WorkspaceError), Workspace.open(folder, disk=disk) as workspace:
        dataset = _try(lambda: workspace.datasets.save(FakeTable(b"first table", "first")))
        _say(acknowledge, "dataset", dataset, "first table")
        other = _try(lambda: workspace.datasets.save(FakeTable(b"second table", "second")))
        _say(acknowledge, "dataset", other, "second table")
        _work_on_rules(workspace, acknowledge)
        if dataset is not None:
            _work_on_runs(workspace, dataset, acknowledge)
            if _try(lambda: workspace.outcomes.add(dataset.id, [Outcome(1, True), Outcome(2, False)])):
                acknowledge(f"outcomes {dataset.id} 2")
        if other is not None:
            plan = _try(lambda: workspace.plan_deletion("dataset", other.id))
            acknowledge(f"deleting {other.id} -")
            if plan is not None and _try(lambda: workspace.delete(plan) or True):
                acknowledge(f"deleted {other.id} -")


def verify(folder, acknowledged: list[str]) -> None:
    """Every acknowledged save is there with its content, whatever is listed is whole, and the catalogue is sound."""
    with Workspace.open(folder) as workspace:
        assert workspace.catalogue.row("PRAGMA integrity_check")[0] == "ok"
        assert not workspace.catalogue.rows("PRAGMA foreign_key_check")
        _everything_listed_is_whole(workspace)
        maybe_deleted = {line.split()[1] for line in acknowledged if line.startswith("deleting")}
        for line in acknowledged:
            kind, token, content = line.split(" ", 2)
            if kind == "deleted":
                assert token not in {item.id for item in workspace.datasets.list()}
            elif kind != "deleting" and token not in maybe_deleted:
                assert _stored(workspace, kind, token) == content
        assert not list(workspace.files.drafts.iterdir())
    report = check(folder)
    assert all("are not listed" in problem.what for problem in report.problems), report


@contextmanager
def unwritable(folder):
    """A new folder, and a call that makes it read-only: by its permissions, or for root by how it is mounted."""
    folder.mkdir()
    if os.geteuid():
        yield folder, lambda: [path.chmod(0o500) for path in (folder, *folder.rglob("*")) if path.is_dir()]
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o700)
        return
    if subprocess.run(["mount", "--bind", str(folder), str(folder)], check=False).returncode:
        pytest.skip("root may write to every folder, and this one may not mount any")
    try:
        yield folder, lambda: subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)  # lazily: caches may hold it


def in_a_process(do: Callable[[Acknowledge], None]) -> list[str]:
    """Run `do` in a fork that may die at any point; returns what it acknowledged until then."""
    theirs, ours = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(theirs)
        try:
            do(lambda line: os.write(ours, f"{line}\n".encode()) and None)
        finally:
            os._exit(0)
    os.close(ours)
    with open(theirs) as stream:
        lines = stream.read().splitlines()
    os.waitpid(pid, 0)
    return lines


def _work_on_rules(workspace, acknowledge):
    first = _try(lambda: workspace.rule_sets.create("rules", "one"))
    if first is None:
        return
    acknowledge(f"rules {first.id}/1 one")
    if _try(lambda: workspace.rule_sets.save(first, "two")):
        acknowledge(f"rules {first.id}/2 two")


def _work_on_runs(workspace, dataset, acknowledge):
    run = _try(lambda: workspace.runs.save(draft_of(dataset), writes(b"the run")))
    _say(acknowledge, "run", run, "the run")
    if run is not None:
        export = _try(lambda: workspace.exports.save(run.id, "model", "onnx", writes(b"the model")))
        _say(acknowledge, "export", export, "the model")
        if _try(lambda: workspace.thresholds.save(run.id, Threshold("five percent", 0.7, 0.05))):
            acknowledge(f"threshold {run.id} 0.7")


def _try(save):
    try:
        return save()
    except WorkspaceError:
        return None


def _say(acknowledge, kind, record, content):
    if record is not None:
        acknowledge(f"{kind} {record.id} {content}")


def _stored(workspace, kind, token):
    if kind == "rules":
        rule_set, _, number = token.partition("/")
        return workspace.rule_sets.get(rule_set, int(number)).text
    if kind == "outcomes":
        return str(len(workspace.outcomes.list(token)))
    if kind == "threshold":
        return str(workspace.thresholds.list(token)[0].threshold)
    shelf = {"dataset": workspace.datasets, "run": workspace.runs, "export": workspace.exports}[kind]
    return shelf.path(token).read_text()


def _everything_listed_is_whole(workspace):
    for dataset in workspace.datasets.list():
        assert workspace.datasets.path(dataset.id).exists()
    for run in workspace.runs.list():
        assert workspace.runs.path(run.id).read_bytes() == b"the run"
        for export in workspace.exports.list(run.id):
            assert workspace.exports.path(export.id).exists()
    for rules in workspace.rule_sets.list():
        assert workspace.rule_sets.history(rules.id)
