"""Workers on this very machine: they finish, fail, obey and die as promised, and nothing of them is left."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spu_core.engines import JobQueue, QueueLimits, cancel, jobs_now, refresh, restart, start_worker, wait_for
from spu_core.engines.processes.os_processes import find_process, this_process, wait_until
from spu_core.workspace import JobStatus, Workspace
from tests.engines.steps import is_gone, job, processes_of, sleep, wait_for_step
from tests.workspace.scenario import in_a_process

pytestmark = pytest.mark.xdist_group("processes")

# Ends a wait for what never comes; no test passes or fails by how long something takes.
PATIENCE = 240.0
STUBBORN = ({"do": "spawn", "seconds": 300, "session": True}, {"do": "spawn", "seconds": 300}, sleep(0.3))

# Seven ways to end, started together: title → (job, how it ends, what it says).
ENDINGS = {
    "time": (
        job(*STUBBORN, {"do": "hang", "seconds": 300}, seconds=5),
        "failed",
        "Stopped after its time limit of 5",
    ),
    "words": (job({"do": "fail", "sentence": "No positives."}), "failed", "No positives."),
    "traceback": (job({"do": "fail"}), "failed", "An unexpected error stopped this job."),
    "memory": (
        job({"do": "allocate", "megabytes": 4000}, memory=2_000_000_000),
        "failed",
        "This job needed more memory than the 2.0 GB that it may use; use fewer rows",
    ),
    "crash": (
        job({"do": "die", "signal": int(signal.SIGSEGV)}),
        "interrupted",
        "The worker crashed (SIGSEGV)",
    ),
    "killed": (job(sleep(0.5), {"do": "die"}), "interrupted", "The worker was killed (SIGKILL)"),
    "well": (job(sleep(0.3), {"do": "save", "name": "kept"}, threads=1), "finished", ""),
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """All endings, submitted by a process that dies at once, in a home that nobody looks after."""
    folder = tmp_path_factory.mktemp("workers")

    def submit(say):
        with Workspace.open(folder) as workspace:
            JobQueue(workspace.home).set_limits(QueueLimits(running=3, waiting=20))
            for title, (task, _, _) in ENDINGS.items():
                say(f"{title} {start_worker(workspace, task).id}")

    tokens = dict(line.split() for line in in_a_process(submit))
    with Workspace.open(folder) as workspace:
        # Only reading: that those who wait get their turn is the work of those who finish.
        wait_until(lambda: all(item.status.is_over for item in workspace.jobs.list()), PATIENCE, pause=0.2)
        yield workspace, tokens


@pytest.mark.parametrize("title", ENDINGS)
def test_a_job_ends_as_it_should_though_its_server_is_gone(ended, title):
    workspace, tokens = ended
    over = workspace.jobs.get(tokens[title])

    assert over.status == ENDINGS[title][1]
    assert over.error.startswith(ENDINGS[title][2])
    assert wait_until(lambda: not processes_of(over.id), PATIENCE)


def test_a_worker_is_modest_and_tells_its_result(ended):
    workspace, tokens = ended
    over = workspace.jobs.get(tokens["well"])

    niceness = min(19, os.nice(0) + int(os.environ["SPU_WORKER_NICENESS"]))
    assert (over.share, over.result["nice"], over.result["threads"]) == (1.0, niceness, "1")
    assert workspace.rule_sets.get(over.result["made"][1]).name == "kept"
    assert over.heartbeat is not None
    assert over.started <= over.heartbeat


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="This kernel does not weigh sessions.")
def test_the_session_of_a_worker_gives_way_to_the_session_of_the_server():
    code = (
        "from pathlib import Path; from spu_core.engines.processes.os_processes import lower_priority; "
        "lower_priority(); print(Path('/proc/self/autogroup').read_text().split()[-1])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "SPU_WORKER_NICENESS"}
    command = [sys.executable, "-c", code]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=environment)

    assert int(said.stdout) == min(19, os.nice(0) + 10)


def test_an_interrupted_job_keeps_its_last_progress(ended):
    workspace, tokens = ended

    assert "step" in workspace.jobs.get(tokens["killed"]).message


def test_the_traceback_is_in_the_log_for_the_maintainer(ended):
    workspace, tokens = ended

    assert "RuntimeError: self-test failure, as told" in workspace.jobs.log(tokens["traceback"])
    assert "Segmentation fault" in workspace.jobs.log(tokens["crash"])


def test_the_time_limit_ends_the_whole_tree(ended):
    workspace, tokens = ended
    spawned = [pid for pid in workspace.jobs.get(tokens["time"]).detail["made"] if isinstance(pid, int)]

    assert len(spawned) == 2
    assert all(map(is_gone, spawned))


def cancelled(workspace, running):
    """Whether it ends as cancelled; on a busy machine its processes may need a moment after they were killed."""
    cancel(workspace, running.id)
    return wait_for(workspace, running.id, PATIENCE).status is JobStatus.CANCELLED


def test_cancel_ends_the_whole_tree_whether_it_listens_or_not(workspace):
    hanging = start_worker(workspace, job(*STUBBORN, {"do": "hang", "seconds": 300}))
    gentle = start_worker(workspace, job(sleep(300)))
    wait_for_step(workspace, gentle.id, 1)
    assert wait_until(lambda: "hang" in workspace.jobs.get(hanging.id).message, PATIENCE)
    spawned = [pid for pid in workspace.jobs.get(hanging.id).detail["made"] if isinstance(pid, int)]

    for running in (hanging, gentle):
        assert cancelled(workspace, running)
        assert wait_until(lambda token=running.id: not processes_of(token), PATIENCE)
    assert len(spawned) == 2
    assert all(map(is_gone, spawned))


def test_a_killed_or_frozen_watcher_takes_its_tree_along_and_the_job_can_start_again(workspace):
    killed = start_worker(workspace, job(*STUBBORN[:2], sleep(300)))
    frozen = start_worker(workspace, job(sleep(300)))
    assert wait_until(lambda: workspace.jobs.get(killed.id).message == "sleeping", PATIENCE)
    wait_for_step(workspace, frozen.id, 1)

    watcher = find_process(workspace.jobs.get(killed.id).worker)
    tree = [process.pid for process in watcher.children(recursive=True)]
    assert len(tree) == 3
    watcher.kill()
    assert wait_until(lambda: refresh(workspace, killed.id).status is JobStatus.INTERRUPTED, PATIENCE)
    assert "ended unexpectedly" in workspace.jobs.get(killed.id).error
    assert wait_until(lambda: not processes_of(killed.id) and all(map(is_gone, tree)), PATIENCE)

    find_process(workspace.jobs.get(frozen.id).worker).suspend()
    assert cancelled(workspace, frozen)
    assert wait_until(lambda: not processes_of(frozen.id), PATIENCE)

    again = restart(workspace, killed.id)
    assert (again.status, again.attempt) == (JobStatus.RUNNING, 2)
    assert wait_until(lambda: workspace.jobs.get(killed.id).message == "sleeping", PATIENCE)
    assert cancelled(workspace, killed)


def test_a_worker_whose_row_or_workspace_is_gone_exits(workspace):
    running = start_worker(workspace, job(sleep(300)))
    wait_for_step(workspace, running.id, 1)

    workspace.delete(workspace.plan_deletion("job", running.id))

    assert wait_until(lambda: not processes_of(running.id), PATIENCE)
    assert jobs_now(workspace) == ()


def test_a_reused_pid_is_never_taken_for_the_worker():
    me = this_process()

    assert find_process(me).pid == os.getpid()
    for change in (
        {"start": me["start"] - 1},
        {"boot": "another"},
        {"host": "another"},
        {"pid": 1},
        {"pid": None},
    ):
        assert find_process({**me, **change}) is None
