"""Which engine a training runs on."""

from __future__ import annotations

import pytest

from spu_core.engines.executors import Engine, engine_titles, open_executor
from spu_core.errors import EngineError
from spu_core.tables.samples import load_sample
from spu_core.training import LocalExecutor


def test_by_default_the_work_runs_in_this_process(monkeypatch):
    monkeypatch.delenv("SPU_DASK_SCHEDULER", raising=False)

    assert Engine.chosen(None, None) == Engine("here")
    with open_executor(Engine(), load_sample("breast_cancer")) as executor:
        assert isinstance(executor, LocalExecutor)


def test_an_address_in_the_environment_means_dask_unless_here_is_asked_for(monkeypatch):
    monkeypatch.setenv("SPU_DASK_SCHEDULER", "tcp://10.0.0.7:8786")

    assert Engine.chosen(None, None) == Engine("dask", "tcp://10.0.0.7:8786")
    assert Engine.chosen("dask", "tcp://10.0.0.8:1") == Engine("dask", "tcp://10.0.0.8:1")
    assert Engine.chosen("here", None) == Engine("here")


def test_engines_that_do_not_exist_are_named():
    with pytest.raises(EngineError, match=r"engine must be one of 'here', 'dask'"):
        Engine("spark")


def test_an_address_for_this_process_makes_no_sense():
    with pytest.raises(EngineError, match="belongs to the engine 'dask'"):
        Engine("here", "tcp://10.0.0.7:8786")


def test_the_operator_names_the_cluster_and_users_only_choose_it(monkeypatch):
    monkeypatch.delenv("SPU_DASK_SCHEDULER", raising=False)
    assert next(iter(engine_titles())) == "here"

    monkeypatch.setenv("SPU_DASK_SCHEDULER", "tcp://10.0.0.7:8786")
    assert engine_titles()["dask"] == "On the Dask cluster at tcp://10.0.0.7:8786"
    assert next(iter(engine_titles())) == "dask"
