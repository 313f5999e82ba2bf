"""Connecting to a cluster: who answers, who works there, with which releases."""

from __future__ import annotations

import multiprocessing
import os
import re
import sys

import pytest
from distributed import Client, LocalCluster

from spu_core.engines.executors import dask_cluster, dask_workers, open_cluster
from spu_core.engines.executors import dask_cluster as module
from spu_core.errors import EngineError

pytestmark = pytest.mark.xdist_group("cluster")


def test_without_an_address_workers_start_on_this_computer(cluster):
    assert len(cluster.workers) == 2
    assert cluster.client.submit(len, "abc").result(timeout=300) == 3


def _start_of_worker() -> tuple[int, bool, str | None, str | None]:
    return (
        os.getppid(),
        "lightgbm.dask" in sys.modules,
        os.environ.get("OMP_WAIT_POLICY"),
        os.environ.get("MALLOC_TRIM_THRESHOLD_"),
    )


@pytest.mark.skipif("forkserver" not in multiprocessing.get_all_start_methods(), reason="no fork server here")
def test_what_workers_need_is_imported_once_for_all_of_them(cluster):
    found = list(cluster.client.run(_start_of_worker).values())
    assert len(found) == 2
    (parent,) = {parent for parent, *_ in found}
    assert parent != os.getpid()
    assert {tuple(rest) for _, *rest in found} == {(True, "PASSIVE", None)}


def test_an_address_is_taken_from_the_environment(cluster, monkeypatch):
    monkeypatch.setenv("SPU_DASK_SCHEDULER", cluster.client.scheduler.address)

    with open_cluster() as joined:
        assert joined.client.scheduler.address == cluster.client.scheduler.address
        assert joined.workers == cluster.workers


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr(dask_workers, "_CONNECT_SECONDS", 1.0)

    with pytest.raises(EngineError, match=r"No Dask scheduler answers at 'tcp://127\.0\.0\.1:9' .*dask scheduler"):
        open_cluster("tcp://127.0.0.1:9").__enter__()


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("nonsense", "missing port"),
        ("tcp://", "missing port"),
        ("tcp://10.0.0.7", "missing port"),
        ("tcp://:8786", "it names no host"),
        ("tcp://10.0.0.7:99999", "there is no port 99999"),
        ("tcp://10.0.0.7:port", "invalid"),
        ("gopher://127.0.0.1:1", "unknown address scheme 'gopher'"),
        ("inproc://10.0.0.7/1/1", "host and port"),
    ],
)
def test_an_address_that_is_none_is_refused_before_anybody_waits(address, why, monkeypatch):
    monkeypatch.setattr("distributed.Client.__init__", never)

    with pytest.raises(EngineError, match=f"^{re.escape(repr(address))} is no address of a Dask scheduler .*{why}"):
        open_cluster(address).__enter__()


def never(*_, **__):
    raise AssertionError("nobody should have been called")


def test_a_client_that_cannot_be_made_gets_the_sentence_of_a_silent_scheduler(monkeypatch):
    monkeypatch.setattr("distributed.Client.__init__", never)

    with pytest.raises(EngineError, match=r"No Dask scheduler answers at 'tcp://127\.0\.0\.1:9' \(nobody should"):
        open_cluster("tcp://127.0.0.1:9").__enter__()


def test_a_thread_that_starts_late_once_is_forgiven(cluster, monkeypatch):
    real, tries = Client.__init__, []

    def late_at_first(*arguments, **named):
        tries.append(arguments)
        if len(tries) == 1:
            raise AssertionError
        return real(*arguments, **named)

    monkeypatch.setattr("distributed.Client.__init__", late_at_first)

    with open_cluster(cluster.client.scheduler.address) as joined:
        assert len(joined.workers) == 2
    assert len(tries) == 2


def test_workers_that_cannot_be_started_here_get_a_sentence(monkeypatch):
    monkeypatch.setattr("distributed.LocalCluster.__init__", never)

    with pytest.raises(EngineError, match=r"could not be started on this computer \(nobody .* `if __name__ =="):
        open_cluster().__enter__()


def test_a_scheduler_without_workers_says_how_to_start_some():
    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as empty,
        pytest.raises(EngineError, match=r"has no workers; start some with `dask worker tcp://"),
    ):
        open_cluster(empty.scheduler_address).__enter__()


def test_a_cluster_of_no_worker_is_refused():
    with pytest.raises(EngineError, match="at least one worker, got 0"):
        open_cluster(workers=0).__enter__()


def test_a_package_that_workers_lack_is_named(cluster, monkeypatch):
    monkeypatch.setattr(dask_cluster, "own_versions", lambda: {"a-package-nobody-has": "1.2"})

    with pytest.raises(EngineError, match=r"a-package-nobody-has is missing on tcp://\S+ and 1 more; install 1\.2"):
        dask_cluster.check_versions(cluster.client)


def test_another_release_on_the_workers_is_refused(cluster, monkeypatch):
    found = dask_cluster.own_versions()
    monkeypatch.setattr(dask_cluster, "own_versions", lambda: {**found, "numpy": "1.0"})

    with pytest.raises(EngineError, match=rf"numpy is {re.escape(found['numpy'])} on .* install 1\.0 there\.$"):
        dask_cluster.check_versions(cluster.client)


def test_a_worker_that_joins_while_versions_are_compared_is_not_taken_for_a_wrong_one():
    class Growing:
        """A client that sees one more worker at every question, unless it asks those it knows."""

        seen = 0

        def run(self, call, *words, workers=None, **_):
            self.seen += 1
            return {worker: call(*words) for worker in workers or [f"tcp://{number}" for number in range(self.seen)]}

    client = Growing()
    dask_cluster.check_versions(client)
    assert client.seen > 2


def test_without_dask_the_extra_is_named(monkeypatch):
    def missing(package: str) -> str:
        raise module.importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(module.importlib.metadata, "version", missing)

    with pytest.raises(EngineError, match=r"pip install 'spu-studio\[dask\]'"):
        module.need_dask()
