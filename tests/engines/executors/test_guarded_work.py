"""A distributed call ends in any case, and the cluster works afterwards."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
import time
from concurrent.futures import CancelledError
from dataclasses import replace

import pytest
from distributed.comm.core import CommClosedError
from lightgbm.basic import LightGBMError
from xgboost.core import XGBoostError

from spu_core.engines.executors import Deadline, open_cluster
from spu_core.engines.executors.dask_cluster import run_guarded
from spu_core.engines.executors.dask_workers import running_workers
from spu_core.errors import EngineError, TrainingError
from tests.live import free_address

pytestmark = pytest.mark.xdist_group("cluster")


def sleeping(cluster, seconds=120.0):
    """Work that keeps one worker busy for long."""
    return lambda: cluster.client.submit(time.sleep, seconds, pure=False).result()


class CountingPool:
    """Workers that count how often they were restarted."""

    def __init__(self, client):
        self.client, self.restarts = client, 0

    def restart(self):
        self.restarts += 1
        return "They were."

    def close(self):
        raise AssertionError("nobody should close them")


@pytest.fixture
def pool(cluster):
    return CountingPool(cluster.client)


def test_what_ends_by_itself_is_returned(pool):
    assert run_guarded(pool, lambda: pool.client.submit(len, "abcd").result(), Deadline(), "Counting") == 4
    assert pool.restarts == 0


def test_an_error_in_our_own_words_reaches_the_caller_and_disturbs_nobody(pool):
    def fails():
        raise TrainingError("Nothing to learn.")

    with pytest.raises(TrainingError, match=r"^Nothing to learn\.$"):
        run_guarded(pool, fails, Deadline(), "Fold 1")
    assert pool.restarts == 0


def test_after_any_other_error_no_worker_is_left_to_wait_for_the_one_that_failed(pool):
    with pytest.raises(ZeroDivisionError):
        run_guarded(pool, lambda: 1 / 0, Deadline(), "Fold 1")
    assert pool.restarts == 1


def test_work_that_needs_a_worker_which_was_lost_before_is_not_begun(pool):
    begun = []

    with pytest.raises(EngineError, match=r"^Fold 2 was interrupted: the worker tcp://127\.0\.0\.1:1 was lost\. They"):
        run_guarded(pool, lambda: begun.append(1), Deadline(), "Fold 2", frozenset({"tcp://127.0.0.1:1"}))
    assert pool.restarts == 1
    assert not begun


def test_what_the_caller_raises_while_it_waits_ends_the_work(pool):
    def changes_its_mind():
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        run_guarded(pool, sleeping(pool, seconds=2.0), Deadline(on_wait=changes_its_mind), "Fold 1")
    assert pool.restarts == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionError("Socket recv error"), r"the connection to the workers failed \(Socket recv error\)\."),
        (CommClosedError("in Client"), r"the connection to the workers failed \(in Client\)\."),
        (CancelledError(), r"the connection to the workers failed \(CancelledError\)\."),
        (TimeoutError("too late"), r"the connection to the workers failed \(too late\)\."),
        (LightGBMError("Binding port 12400 failed"), r"LightGBM failed on the workers \(Binding port 12400 failed\)\."),
        (XGBoostError("any text\nand more"), r"XGBoost failed on the workers \(any text\)\."),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_of_the_cluster_is_recognised_by_its_type(pool, error, reason):
    def fails():
        raise error

    with pytest.raises(EngineError, match=rf"^Fold 1 was interrupted: {reason} They were\.$"):
        run_guarded(pool, fails, Deadline(), "Fold 1")
    assert pool.restarts == 1


def test_the_text_of_an_error_decides_nothing(pool):
    def fails():
        raise ValueError("Socket recv error: failed to bind a port, allreduce, connect to rank 1")

    with pytest.raises(ValueError, match=r"^Socket recv error"):
        run_guarded(pool, fails, Deadline(), "Fold 1")
    assert pool.restarts == 1


def test_no_worker_is_taken_for_lost_while_the_client_polls_for_none(cluster):
    """Dask's client asks in the background for no worker at all, and keeps that answer where `scheduler_info` reads."""
    known = running_workers(cluster.client)
    cluster.client.sync(cluster.client._update_scheduler_info, n_workers=0)

    assert len(known) == 2
    assert running_workers(cluster.client) == known


def test_time_runs_out_with_a_sentence_and_a_working_cluster(cluster):
    impatient = replace(cluster, deadline=Deadline(seconds=1.0))

    with pytest.raises(EngineError, match=r"^Fold 1 was interrupted: it took longer than 1 seconds\. Its workers were"):
        impatient.guarded(sleeping(cluster), what="Fold 1")

    assert len(cluster.workers) == 2
    assert cluster.client.submit(len, "abc", pure=False).result(timeout=300) == 3


def test_a_scheduler_that_dies_gets_a_sentence_and_nothing_else(monkeypatch):
    printed = io.StringIO()
    printer = logging.StreamHandler(printed)
    monkeypatch.setattr(logging.getLogger("distributed"), "handlers", [printer])
    monkeypatch.setattr(logging.getLogger("distributed.client"), "handlers", [printer])
    address = f"tcp://127.0.0.1:{free_address()[1]}"
    scheduler = start_dask("scheduler", "--host", address)
    worker = start_dask("worker", address, "--nthreads", "1", "--no-nanny")
    try:
        with opened_with_patience(address) as cluster:

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
    assert printed.getvalue() == ""


def start_dask(*arguments):
    command = [sys.executable, "-m", "dask", *arguments, "--no-dashboard"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def opened_with_patience(address):
    """The cluster at this address, as soon as its worker has come."""
    end = time.monotonic() + 300
    while True:
        try:
            with open_cluster(address):
                return open_cluster(address)
        except EngineError:
            if time.monotonic() > end:
                raise
            time.sleep(0.3)


def test_a_time_limit_must_be_positive():
    with pytest.raises(EngineError, match="must be positive, got 0 seconds"):
        Deadline(seconds=0)
