"""Kills and full disks below SQLite: at the k-th write, fsync or rename of opening, saving, deleting, backing up, jobs.

`sweep` starts this file under a shim (faults_below.c), forks once for each point, and looks at what is left.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from spu_core.engines import jobs_now, restart, run_in_process, start_worker, wait_for
from spu_core.errors import WorkspaceError
from spu_core.workspace import Disk, JobStatus, Workspace, make_backup
from tests.engines.steps import job
from tests.workspace.scenario import Acknowledge, in_a_process, verify, work

SOURCE = Path(__file__).with_suffix(".c")
NO_COMPILER = "No C compiler was found, so faults cannot be injected below SQLite: install gcc or clang."
COUNT, KILL, FULL = 1, 2, 3
SAVE = {"do": "save", "name": "made by the job"}
PATIENCE = 600.0  # of a busy machine, whose workers have the lowest priority
ENDED = (JobStatus.FINISHED, JobStatus.FAILED, JobStatus.INTERRUPTED)


def sweep(folder: Path, strides: Mapping[str, int]) -> dict[str, int]:
    """Every n-th point of these scenarios: how many `points`, and how many ended badly.

    Only points at which the fault happened are counted. `refused`: the workspace does not open afterwards, or on the
    full disk; `lost`: something acknowledged is gone; `raw`: a fault was not told in words.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        import pytest

        pytest.skip(NO_COMPILER)
    shim = folder / "faults_below.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(shim), str(SOURCE), "-ldl"], check=True)
    # In memory where there is such a disk: a killed process loses nothing that a disk would have kept.
    # A process that was killed may leave a child that still writes while the folder is removed.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else folder
    with tempfile.TemporaryDirectory(dir=memory, ignore_cleanup_errors=True) as place:
        done = subprocess.run(
            [sys.executable, "-m", "tests.workspace.faults_below", os.path.realpath(place), json.dumps(strides)],
            env={**os.environ, "LD_PRELOAD": str(shim)},
            cwd=SOURCE.parents[2],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return json.loads(done.stdout.splitlines()[-1])


@dataclass(frozen=True)
class Scenario:
    """What is there before, what is done while the disk fails, and what must be true afterwards."""

    before: Callable[[Path], list[str]]
    do: Callable[[Path, Acknowledge], None]
    after: Callable[[Path, list[str]], None]
    # The process that gets the fault, by its module; empty: the one that does it.
    module: str = ""


def nothing(folder: Path) -> list[str]:
    return []


def some_work(folder: Path) -> list[str]:
    """A workspace with a saved day, rows that the last backup lacks, and files for the sweep."""
    said: list[str] = []
    work(folder, Disk(), said.append)
    (folder / "tmp" / "left over").write_bytes(b"half")
    return said


def open_again(folder: Path, say: Acknowledge) -> None:
    Workspace.open(folder).close()


def save_a_lot(folder: Path, say: Acknowledge) -> None:
    """Texts that take many pages of the catalogue, as rule sets do."""
    with Workspace.open(folder) as workspace:
        for number in range(3):
            text = f"{number}" * 20_000
            say(f"rules {workspace.rule_sets.create(f'rules {number}', text).id}/1 {text}")


def delete_all(folder: Path, say: Acknowledge) -> None:
    with Workspace.open(folder) as workspace:
        for dataset in workspace.datasets.list():
            plan = workspace.plan_deletion("dataset", dataset.id)
            say(f"deleting {dataset.id} -")
            workspace.delete(plan)
            say(f"deleted {dataset.id} -")


def verify_deletion(folder: Path, said: list[str]) -> None:
    """What is gone is gone with all that belonged to it; the rules, which belong to no dataset, are there."""
    going = [line.split()[1] for line in said if line.startswith("deleting")]
    verify(folder, [line for line in said if not going or line.startswith(("rules", "delet"))])
    with Workspace.open(folder) as workspace:
        left = {dataset.id for dataset in workspace.datasets.list()}
        assert {run.dataset for run in workspace.runs.list()} <= left


def back_up_often(folder: Path, say: Acknowledge) -> None:
    with Workspace.open(folder) as workspace:
        for number in range(3):
            say(f"rules {workspace.rule_sets.create(f'before backup {number}', 'text').id}/1 text")
            make_backup(workspace)


def do_job(folder: Path, say: Acknowledge) -> None:
    with Workspace.open(folder) as workspace:
        say(f"job {run_in_process(workspace, job(SAVE)).id} -")


def start_job(folder: Path, say: Acknowledge) -> None:
    with Workspace.open(folder) as workspace:
        say(f"job {start_worker(workspace, job(SAVE)).id} -")


def verify_jobs(folder: Path, said: list[str]) -> None:
    """An acknowledged job is known and over, or it starts again; what it made is there."""
    verify(folder, [line for line in said if not line.startswith("job")])
    with Workspace.open(folder) as workspace:
        known = {item.id for item in jobs_now(workspace)}
        assert {line.split()[1] for line in said if line.startswith("job")} <= known
        for token in known:
            now = wait_for(workspace, token, PATIENCE)
            assert now.status in ENDED, now
            if now.status is not JobStatus.FINISHED:
                restart(workspace, token)
                now = wait_for(workspace, token, PATIENCE)
            assert now.status is JobStatus.FINISHED, now
            assert workspace.rule_sets.get(now.result["made"][0]).name == SAVE["name"]


SCENARIOS = {
    "work": Scenario(nothing, lambda folder, say: work(folder, Disk(), say), verify),
    "save": Scenario(some_work, save_a_lot, verify),
    "open": Scenario(some_work, open_again, verify),
    "delete": Scenario(some_work, delete_all, verify_deletion),
    "backup": Scenario(some_work, back_up_often, verify),
    "run": Scenario(some_work, do_job, verify_jobs),
    "start": Scenario(some_work, start_job, verify_jobs),
    "watch": Scenario(some_work, start_job, verify_jobs, "spu_core.engines.processes.supervisor"),
    "end": Scenario(some_work, start_job, verify_jobs, "spu_core.engines.processes.worker"),
}


class RawError(Exception):
    """A fault reached the caller as something else than a `WorkspaceError`."""


def main(folder: Path, strides: Mapping[str, int]) -> Counter[str]:
    found: Counter[str] = Counter()
    shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
    for name, stride in strides.items():
        last = calls_of(shim, folder / f"{name}-count", SCENARIOS[name])
        for kind in (KILL, FULL):
            # The starts differ, so that the two kinds together see more points of a sample.
            for number in range(1 + (kind - KILL) * (stride // 2), last + 1, stride):
                at = f"{name}-{kind}-{number}"
                try:
                    one_point(shim, folder / at, SCENARIOS[name], kind, number)
                except tuple(FOUND) as problem:
                    found[next(said for kind, said in FOUND.items() if isinstance(problem, kind))] += 1
                    print(f"{at}: {type(problem).__name__}: {str(problem)[:300]}", file=sys.stderr, flush=True)
                happened = noted(folder / at)
                found["points"] += happened
                found[name] += happened
                shutil.rmtree(folder / at, ignore_errors=True)
    return found


FOUND = {WorkspaceError: "refused", AssertionError: "lost", RawError: "raw"}


def one_point(shim: ctypes.CDLL, folder: Path, scenario: Scenario, kind: int, number: int) -> None:
    before = scenario.before(folder)
    said = before + in_a_process(lambda say: under_fault(shim, folder, scenario, kind, number, say))
    on_full_disk = [line for line in said if line.startswith(("raw", "refused", "seen"))]
    said = [line for line in said if line not in on_full_disk]
    for line in on_full_disk:
        if line.startswith("raw"):
            raise RawError(line)
        if line.startswith("refused") and before:
            raise WorkspaceError(line)
        saved = {each.split()[1].partition("/")[0] for each in said if each.startswith("rules")}
        assert line.startswith("refused") or saved <= set(line.split()), "not seen on the full disk"
    scenario.after(folder, said)


def under_fault(shim: ctypes.CDLL, folder: Path, scenario: Scenario, kind: int, number: int, say: Acknowledge) -> None:
    if scenario.module:
        os.environ["FAULT_BELOW"] = f"{scenario.module} {kind} {number} {folder}"
    else:
        shim.fault_arm(kind, ctypes.c_long(number), str(folder).encode())
    try:
        scenario.do(folder, say)
        if scenario.module:
            with Workspace.open(folder) as workspace:
                wait_for(workspace, workspace.jobs.list()[0].id, PATIENCE)
    except WorkspaceError:
        pass  # said in words, and nothing was acknowledged
    except Exception as problem:
        say(f"raw {type(problem).__name__}: {problem}".replace("\n", " "))
    if kind == FULL:
        look_at_a_full_disk(folder, say)


def look_at_a_full_disk(folder: Path, say: Acknowledge) -> None:
    """A workspace that was there before opens although the disk is still full, and shows what was saved."""
    try:
        with Workspace.open(folder) as workspace:
            say(" ".join(["seen", *(rules.id for rules in workspace.rule_sets.list())]))
    except WorkspaceError as problem:
        say(f"refused while the disk is full: {problem}".replace("\n", " "))


def calls_of(shim: ctypes.CDLL, folder: Path, scenario: Scenario) -> int:
    """How many writes, fsyncs and renames the scenario has."""
    scenario.before(folder)
    in_a_process(lambda say: under_fault(shim, folder, scenario, COUNT, 0, say))
    return noted(folder)


def noted(folder: Path) -> int:
    """How many calls the shim has noted under this folder."""
    notes = folder.with_name(f"{folder.name}.calls")
    return notes.stat().st_size if notes.exists() else 0


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), json.loads(sys.argv[2]))))
