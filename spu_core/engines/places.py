"""Which engine a training runs on: this process, or a Dask cluster, chosen by name, address or environment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

from spu_core.checks import check_choice
from spu_core.errors import EngineError
from spu_core.tables import Table, TableFolder
from spu_core.training import Executor, LocalExecutor

ENGINES = ("here", "dask")
SCHEDULER_VARIABLE = "SPU_DASK_SCHEDULER"
# On this computer, without an address.
OWN_WORKERS = 2


@dataclass(frozen=True)
class Engine:
    """The name of an engine, and the address of its scheduler: without one, workers start on this computer.

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
        """What was asked for; an address alone, given or in `SPU_DASK_SCHEDULER`, means Dask."""
        if name == "here":
            return cls("here", scheduler or None)
        address = scheduler or os.environ.get(SCHEDULER_VARIABLE) or None
        return cls(name or ("dask" if address else "here"), address)


def engine_words() -> dict[str, str]:
    """The engines that can be chosen on this installation, in words; the one that is used by default comes first.

    Where the cluster is, the operator decides by `SPU_DASK_SCHEDULER`: who answers there is trusted with everything.
    """
    address = os.environ.get(SCHEDULER_VARIABLE)
    if address:
        return {"dask": f"On the Dask cluster at {address}", "here": "In one process on this computer"}
    words = {"here": "In one process on this computer"}
    if find_spec("distributed") is not None:
        words["dask"] = "By Dask workers on this computer"
    return words


@contextmanager
def open_place(engine: Engine, table: Table | TableFolder) -> Iterator[Executor]:
    """Where this table is trained: on a cluster, a table travels to every worker and a folder is spread over them."""
    if engine.name == "here":
        yield LocalExecutor()
        return
    from spu_core.engines.dask import TasksOn, TogetherOn, open_cluster

    with open_cluster(engine.scheduler) as cluster:
        yield TogetherOn(cluster) if isinstance(table, TableFolder) else TasksOn(cluster)
