"""Kill −9 at random points of saving and of running jobs: every acknowledged save is there, a job is never lost.

30 kills by default, 200 with SPU_SLOW=1, any number with SPU_CRASH_KILLS (1,000 by hand before a release).
"""

import os
import random
import signal
import time
from pathlib import Path

import psutil
import pytest

from spu_core.engines import jobs_now, restart, start_worker, wait_for
from spu_core.engines.processes.os_processes import wait_until
from spu_core.workspace import Disk, JobStatus, Workspace, check
from tests.engines.steps import job, processes_of, sleep
from tests.workspace.scenario import verify, work

pytestmark = pytest.mark.xdist_group("processes")

KILLS = int(os.environ.get("SPU_CRASH_KILLS", 200 if os.environ.get("SPU_SLOW") == "1" else 30))
SAVERS = 2
JOB_KILLS = max(1, KILLS // 5)


def start_saver(folder):
    """A process that works until it dies; returns its pid and the pipe of what it acknowledges."""
    theirs, ours = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            while True:
                work(folder, Disk(), lambda line: os.write(ours, f"{line}\n".encode()) and None)
        finally:
            os._exit(1)
    os.close(ours)
    return pid, theirs


def kill_after(pid, pipe, saves, seconds):
    """Kill it that many seconds after that many acknowledged saves; returns all that it acknowledged."""
    said = b""
    while said.count(b"\n") < saves:
        said += os.read(pipe, 4096)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    # It died by our hand and not by an error of its own.
    assert os.WIFSIGNALED(status)
    said += Path(f"/dev/fd/{pipe}").read_bytes()
    os.close(pipe)
    return said.decode().splitlines()


@pytest.mark.slow
def test_savers_killed_at_random_lose_nothing_they_acknowledged(tmp_path):
    chance, saves = random.Random(0), 0
    for number in range(0, KILLS - JOB_KILLS, SAVERS):
        # A fresh folder now and then, so that creating one is hit too.
        folder = tmp_path / str(number // 12)
        savers = [start_saver(folder) for _ in range(SAVERS)]
        acknowledged = [
            line
            for pid, pipe in savers
            for line in kill_after(pid, pipe, chance.randrange(12), chance.uniform(0, 0.05))
        ]
        saves += len(acknowledged)
        verify(folder, acknowledged)

    assert saves > KILLS


@pytest.mark.slow
def test_jobs_killed_at_random_are_interrupted_keep_their_saves_and_can_start_again(tmp_path):
    chance, kills = random.Random(1), 0
    with Workspace.open(tmp_path) as workspace:
        steps = [step for number in range(4) for step in ({"do": "save", "name": str(number)}, sleep(0.1))]
        tokens = [start_worker(workspace, job(*steps)).id for _ in range(2)]
        while kills < JOB_KILLS:
            time.sleep(chance.uniform(0, 1.5))
            kills += kill_one(chance.choice(tokens), chance)
            for token in tokens:
                now = next(item for item in jobs_now(workspace) if item.id == token)
                assert now.status not in (JobStatus.FAILED, JobStatus.CANCELLED), now
                if now.status is JobStatus.INTERRUPTED:
                    restart(workspace, token)
            if all(item.status is JobStatus.FINISHED for item in workspace.jobs.list()):
                tokens = [start_worker(workspace, job(*steps)).id for _ in range(2)]

        for item in workspace.jobs.list():
            while (now := wait_for(workspace, item.id, 600)).status is JobStatus.INTERRUPTED:
                restart(workspace, item.id)
            assert now.status is JobStatus.FINISHED
            made = [token for token in now.result["made"] if token]
            assert [workspace.rule_sets.get(token).name for token in made] == ["0", "1", "2", "3"]
        assert wait_until(lambda: not any(processes_of(item.id) for item in workspace.jobs.list()), 600)
    assert check(tmp_path).is_well


def kill_one(token, chance):
    """The watcher or the process that works, whichever chance chooses; 1 where there was one to kill."""
    living = processes_of(token)
    if not living:
        return 0
    try:
        chance.choice(living).kill()
    except psutil.NoSuchProcess:
        return 0
    return 1
