"""Connecting to a cluster: who answers, who works there, with which releases."""

from __future__ import annotations

import re

import pytest
from distributed import LocalCluster

from spu_core.engines.dask import cluster as module
from spu_core.engines.dask import open_cluster, versions
from spu_core.errors import EngineError


def test_without_an_address_workers_start_on_this_computer(cluster):
    assert cluster.words == "2 Dask workers on this computer"
    assert cluster.client.submit(len, "abc").result(timeout=30) == 3


def test_an_address_is_taken_from_the_environment(cluster, monkeypatch):
    monkeypatch.setenv("SPU_DASK_SCHEDULER", cluster.client.scheduler.address)

    with open_cluster() as joined:
        assert not joined.is_local
        assert joined.workers == cluster.workers


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 1.0)

    with pytest.raises(EngineError, match=r"No Dask scheduler answers at 'tcp://127\.0\.0\.1:9' .*dask scheduler"):
        open_cluster("tcp://127.0.0.1:9").__enter__()


@pytest.mark.parametrize("address", ["nonsense", "tcp://", "gopher://127.0.0.1:1"])
def test_an_address_that_is_none_gets_a_sentence(address, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 1.0)

    with pytest.raises(EngineError, match=re.escape(repr(address))):
        open_cluster(address).__enter__()


def test_a_scheduler_without_workers_says_how_to_start_some():
    with (
        LocalCluster(n_workers=0, dashboard_address=None) as empty,
        pytest.raises(EngineError, match=r"has no workers; start some with `dask worker tcp://"),
    ):
        open_cluster(empty.scheduler_address).__enter__()


def test_a_cluster_of_no_worker_is_refused():
    with pytest.raises(EngineError, match="at least one worker, got 0"):
        open_cluster(workers=0).__enter__()


def test_a_package_that_workers_lack_is_named(cluster, monkeypatch):
    monkeypatch.setattr(versions, "own_versions", lambda: {"a-package-nobody-has": "1.2"})

    with pytest.raises(EngineError, match=r"a-package-nobody-has is missing on tcp://\S+ and 1 more; install 1\.2"):
        versions.check_versions(cluster.client)


def test_another_release_on_the_workers_is_refused(cluster, monkeypatch):
    found = versions.own_versions()
    monkeypatch.setattr(versions, "own_versions", lambda: {**found, "numpy": "1.0"})

    with pytest.raises(EngineError, match=rf"numpy is {re.escape(found['numpy'])} on .* install 1\.0 there\.$"):
        versions.check_versions(cluster.client)


def test_without_dask_the_extra_is_named(monkeypatch):
    def missing(package: str) -> str:
        raise module.importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(module.importlib.metadata, "version", missing)

    with pytest.raises(EngineError, match=r"pip install 'spu-studio\[dask\]'"):
        module.need_dask()
