"""Executors: where the fits of a training run.

`open_executor` gives the one for an engine and a table: `LocalExecutor` (this process), `ProcessExecutor` (forked
processes of this machine), `DaskTaskExecutor` (each fit a task on a cluster, for tables) or `DaskSpreadExecutor` (rows
spread over a cluster, for folders).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

from spu_core.checks import check_choice
from spu_core.engines.executors.dask_cluster import (
    LOCAL_WORKERS,
    SCHEDULER_VARIABLE,
    Cluster,
    Deadline,
    open_cluster,
)
from spu_core.engines.executors.dask_spread import DaskSpreadExecutor, refused_when_spread, soft_labels_on
from spu_core.engines.executors.dask_tasks import DaskTaskExecutor, score_folder_on
from spu_core.errors import EngineError
from spu_core.tables import Table
from spu_core.training import Executor, LocalExecutor
from spu_core.training.cross_fitting import ProcessExecutor

__all__ = [
    "ENGINES",
    "LOCAL_WORKERS",
    "SCHEDULER_VARIABLE",
    "Cluster",
    "DaskSpreadExecutor",
    "DaskTaskExecutor",
    "Deadline",
    "Engine",
    "engine_titles",
    "open_cluster",
    "open_executor",
    "refused_when_spread",
    "score_folder_on",
    "soft_labels_on",
]

ENGINES = ("here", "dask")


@dataclass(frozen=True)
class Engine:
    """The choice of an engine: "here" (this machine) or "dask", with the address of its scheduler.

    Without an address, "dask" starts workers on this computer.

    >>> Engine.chosen(None, "tcp://10.0.0.7:8786")
    Engine(name='dask', scheduler='tcp://10.0.0.7:8786')
    >>> Engine.chosen("here", None).name
    'here'
    """

    name: str = "here"
    scheduler: str | None = None

    def __post_init__(self) -> None:
        check_choice(self.name, ENGINES, "engine", EngineError)
        if self.scheduler and self.name != "dask":
            raise EngineError("A scheduler's address belongs to the engine 'dask'; leave one of the two out.")

    @classmethod
    def chosen(cls, name: str | None, scheduler: str | None) -> Engine:
        """The engine for these arguments. An address alone, given or in `SPU_DASK_SCHEDULER`, means Dask."""
        if name == "here":
            return cls("here", scheduler or None)
        address = scheduler or os.environ.get(SCHEDULER_VARIABLE) or None
        return cls(name or ("dask" if address else "here"), address)


def engine_titles() -> dict[str, str]:
    """Engine → its description, for those that can be used here; the default comes first.

    Only the operator sets the address of a cluster (`SPU_DASK_SCHEDULER`), because Dask trusts whoever answers there.
    """
    address = os.environ.get(SCHEDULER_VARIABLE)
    if address:
        return {"dask": f"On the Dask cluster at {address}", "here": "On this computer"}
    words = {"here": "On this computer"}
    if find_spec("distributed") is not None:
        words["dask"] = "By Dask workers on this computer"
    return words


@contextmanager
def open_executor(engine: Engine, table: Table, processes: int = 1) -> Iterator[Executor]:
    """The executor for training this table on this engine; workers that it starts end with the context.

    `processes` is the number of processes on this machine; Dask has its own workers.
    """
    if engine.name == "here" and processes == 1:
        yield LocalExecutor()
        return
    if engine.name == "here":
        with ProcessExecutor(processes, refits=True) as executor:
            yield executor
        return
    with open_cluster(engine.scheduler) as cluster:
        yield DaskTaskExecutor(cluster) if table.in_memory else DaskSpreadExecutor(cluster)
