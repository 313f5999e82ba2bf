"""A connection to a Dask cluster: one that runs already, or one of processes on this computer.

>>> with open_cluster(workers=1) as cluster:  # doctest: +SKIP
...     cluster.client.submit(len, "abc").result()
3
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spu_core.engines.dask.guard import Deadline, run_guarded
from spu_core.engines.dask.versions import check_versions
from spu_core.engines.places import SCHEDULER_VARIABLE
from spu_core.errors import EngineError

if TYPE_CHECKING:
    from distributed import Client

_PATIENCE = 10.0
# Boosters on all cores may keep a worker from answering for a while; it is not lost for that.
_PATIENT = {"distributed.comm.timeouts.tcp": "300s", "distributed.comm.timeouts.connect": "120s"}


@dataclass(frozen=True, eq=False)
class Cluster:
    """A client with the workers that it found; every long call goes through `guarded`."""

    client: Client
    deadline: Deadline
    address: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether its workers were started here, for us alone."""
        return self.address is None

    @property
    def workers(self) -> tuple[str, ...]:
        """Addresses of the workers that are there now."""
        return tuple(sorted(self.client.scheduler_info(n_workers=-1)["workers"]))

    @property
    def words(self) -> str:
        """Where the work runs, in a sentence."""
        place = self.address or "this computer"
        count = len(self.workers)
        return f"{count} Dask worker{'' if count == 1 else 's'} on {place}"

    def guarded(self, work: Any, *, what: str) -> Any:
        """`work()` within the deadline; if workers are lost or time runs out, the cluster is cleaned and it is said."""
        return run_guarded(self.client, work, self.deadline, what)


@contextmanager
def open_cluster(
    scheduler: str | None = None, *, workers: int = 2, deadline: Deadline | None = None
) -> Iterator[Cluster]:
    """Connect to the scheduler at this address, at `SPU_DASK_SCHEDULER`, or else start workers on this computer.

    Versions on the workers are compared with ours first: a package that is missing or of another release is named.
    """
    need_dask()
    address = scheduler or os.environ.get(SCHEDULER_VARIABLE) or None
    opened = _connected(address) if address else _local(workers)
    with opened as client:
        check_versions(client)
        yield Cluster(client, deadline or Deadline(), address)


def need_dask() -> None:
    """Raise the sentence that says which extra to install, where Dask is missing."""
    try:
        importlib.metadata.version("distributed")
    except importlib.metadata.PackageNotFoundError:
        raise EngineError("Work on a cluster needs Dask; install it with: pip install 'spu-studio[dask]'.") from None


@contextmanager
def _connected(address: str) -> Iterator[Client]:
    from distributed import Client

    try:
        client = Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, ImportError) as problem:
        raise EngineError(
            f"No Dask scheduler answers at {address!r} ({_first_line(problem)}). Start one with `dask scheduler`, and "
            "give its address as tcp://host:port."
        ) from problem
    with client:
        if not client.scheduler_info(n_workers=-1)["workers"]:
            raise EngineError(
                f"The scheduler at {address} has no workers; start some with `dask worker {address}`, then try again."
            )
        yield client


@contextmanager
def _local(workers: int) -> Iterator[Client]:
    import dask
    from distributed import Client, LocalCluster

    if workers < 1:
        raise EngineError(f"A cluster on this computer needs at least one worker, got {workers}.")
    # One thread a worker: boosters bring their own, and rules hold Python's lock.
    with (
        dask.config.set(_PATIENT),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=None,
            host="127.0.0.1",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.register_plugin(_quiet(), name="quiet")
        yield client


def _quiet() -> Any:
    """A plugin for workers that share our standard output: LightGBM writes there while it connects."""
    from distributed import WorkerPlugin

    class Quiet(WorkerPlugin):
        def setup(self, worker: Any) -> None:
            os.dup2(2, 1)

    return Quiet()


def _first_line(problem: Exception) -> str:
    return str(problem).splitlines()[0] if str(problem) else type(problem).__name__
