"""A distributed call ends in any case, and the cluster works afterwards."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from spu_core.engines.dask import Deadline, open_cluster
from spu_core.engines.dask.guard import FitStopped, explain
from spu_core.errors import EngineError, TrainingError


def sleeping(cluster, seconds=120.0):
    """Work that keeps one worker busy for long."""
    return lambda: cluster.client.submit(time.sleep, seconds, pure=False).result()


def still_works(cluster) -> bool:
    return cluster.client.submit(len, "abc", pure=False).result(timeout=30) == 3


def test_what_ends_by_itself_is_returned(cluster):
    assert cluster.guarded(lambda: cluster.client.submit(len, "abcd").result(), what="Counting") == 4


def test_an_error_of_the_work_itself_reaches_the_caller(cluster):
    def fails():
        raise TrainingError("Nothing to learn.")

    with pytest.raises(TrainingError, match=r"^Nothing to learn\.$"):
        cluster.guarded(fails, what="Fold 1")


def test_time_runs_out_with_a_sentence_and_a_working_cluster(breakable):
    cluster = breakable
    impatient = replace(cluster, deadline=Deadline(seconds=1.0))

    with pytest.raises(EngineError, match=r"^Fold 1 was interrupted: it took longer than 1 seconds\. Its workers were"):
        impatient.guarded(sleeping(cluster), what="Fold 1")

    assert still_works(cluster)


def test_a_caller_may_stop_it(breakable):
    cluster = breakable
    stopped = replace(cluster, deadline=Deadline(should_stop=lambda: True))

    with pytest.raises(FitStopped):
        stopped.guarded(sleeping(cluster), what="Fold 1")

    assert still_works(cluster)


def test_a_lost_worker_is_named_and_the_cluster_works_again(breakable):
    cluster = breakable
    address, process = next(iter(cluster.client.run(os.getpid).items()))
    work = sleeping(cluster)

    def dies_meanwhile():
        os.kill(process, signal.SIGKILL)
        return work()

    with pytest.raises(EngineError, match=rf"^Fold 2 was interrupted: the worker {address} was lost\. "):
        cluster.guarded(dies_meanwhile, what="Fold 2")

    assert still_works(cluster)


def test_a_scheduler_that_dies_gets_a_sentence():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    scheduler = start_dask("scheduler", "--host", address)
    worker = start_dask("worker", address, "--nthreads", "1")
    try:
        joined = open_with_patience(address)
        with joined as cluster:

            def dies_meanwhile():
                scheduler.kill()
                time.sleep(60)

            with pytest.raises(
                EngineError, match=r"the scheduler does not answer any more\. Start the scheduler again"
            ):
                cluster.guarded(dies_meanwhile, what="Fold 3")
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()


def start_dask(*arguments):
    command = [sys.executable, "-m", "dask", *arguments, "--no-dashboard"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def open_with_patience(address):
    """The cluster at this address, as soon as its worker has come."""
    for _ in range(40):
        opened = open_cluster(address)
        try:
            cluster = opened.__enter__()
        except EngineError:
            time.sleep(0.5)
            continue
        return _Entered(opened, cluster)
    raise AssertionError(f"no worker came to {address}")


class _Entered:
    def __init__(self, opened, cluster):
        self.opened, self.cluster = opened, cluster

    def __enter__(self):
        return self.cluster

    def __exit__(self, *error):
        self.opened.__exit__(None, None, None)


def test_a_busy_port_is_said():
    assert "taken by another program" in explain(RuntimeError("Binding port 12400 failed"))


def test_a_time_limit_must_be_positive():
    with pytest.raises(EngineError, match="must be positive, got 0 seconds"):
        Deadline(seconds=0)
