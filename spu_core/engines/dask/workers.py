"""Whose workers do the work: our own, on this computer, or those of a scheduler that runs already.

Both kinds have a client, and can be started anew after a loss. Our own are then thrown away, their scheduler with them,
and others are started: a worker that waits in native code for a peer can only be killed. Those of a scheduler belong to
others as well, so they are asked to restart, with a patience that ends.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from spu_core.engines.dask.settings import FORK_SERVER
from spu_core.errors import EngineError

if TYPE_CHECKING:
    from distributed import Client, LocalCluster, Nanny

_CONNECT_PATIENCE = 10.0
_CLOSE_PATIENCE = 15.0
_RESTART_PATIENCE = 60.0
_STARTED_ANEW = "Its workers were started anew; start the training again."

Made = TypeVar("Made")


class Workers(Protocol):
    """Processes that work for a client."""

    client: Client

    def renew(self) -> str:
        """Start all of them anew; what came of it, in a sentence."""

    def close(self) -> None:
        """Let go of them."""


class OwnWorkers:
    """Processes on this computer, for us alone."""

    def __init__(self, count: int) -> None:
        if count < 1:
            raise EngineError(f"A cluster on this computer needs at least one worker, got {count}.")
        self._count = count
        self._start()

    def renew(self) -> str:
        self.close()
        try:
            self._start()
        except EngineError as problem:
            return str(problem)
        return _STARTED_ANEW

    def close(self) -> None:
        # New workers need nothing of the old ones, so whatever does not end in time is left behind.
        ending = threading.Thread(target=_end, args=(self.client, self._cluster), daemon=True, name="ending workers")
        ending.start()
        ending.join(_CLOSE_PATIENCE)

    def _start(self) -> None:
        from distributed import Client

        try:
            self._cluster = _patiently(lambda: _local_cluster(self._count))
            self.client = _patiently(lambda: Client(self._cluster, set_as_default=False))
        except Exception as problem:
            raise EngineError(
                f"Dask workers could not be started on this computer ({first_line(problem)}). In a script, open the "
                'cluster below `if __name__ == "__main__":`, since workers import the script.'
            ) from problem
        self.client.register_plugin(_quiet(), name="quiet")


class TheirWorkers:
    """The workers of a scheduler that others have started."""

    def __init__(self, address: str) -> None:
        from distributed import Client

        try:
            self.client = _patiently(lambda: Client(address, timeout=_CONNECT_PATIENCE, set_as_default=False))
        except Exception as problem:
            raise EngineError(
                f"No Dask scheduler answers at {address!r} ({first_line(problem)}). Start one with `dask scheduler`, "
                "and give its address as tcp://host:port."
            ) from problem
        self.count = len(processes_of(self.client) or ())

    def renew(self) -> str:
        if self.client.status != "running":
            return "Start the scheduler again, then the training."
        try:
            back = self._restart()
        except (TimeoutError, OSError, CancelledError):
            back = 0
        if back >= self.count:
            return _STARTED_ANEW
        if back:
            return f"{back} of its {self.count} workers came back; start the others by hand, then the training."
        return "Its workers could not be started anew; start them by hand, then the training."

    def _restart(self) -> int:
        """How many new workers there are within our patience; one that was killed may be listed a little longer."""
        none: frozenset[Process] = frozenset()
        old, end = processes_of(self.client) or none, time.monotonic() + _RESTART_PATIENCE
        self.client.restart(timeout=_RESTART_PATIENCE, wait_for_workers=False)
        before, now = old, processes_of(self.client) or none
        while time.monotonic() < end and (now != before or now & old or len(now) < self.count):
            time.sleep(1.0)
            before, now = now, processes_of(self.client) or none
        return len(now - old)

    def close(self) -> None:
        self.client.close()


class Process(NamedTuple):
    """A worker: its address, and the folder that tells it from one that was started anew at the same address."""

    address: str
    folder: str


def processes_of(client: Client) -> frozenset[Process] | None:
    """The workers there are now; None if the scheduler does not answer.

    The scheduler itself is asked: `client.scheduler_info()` may tell what a poll that asks for no worker left there.
    """
    if client.scheduler is None:
        return None
    try:
        found = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    except (OSError, TimeoutError):
        return None
    return frozenset(Process(address, worker["local_directory"]) for address, worker in found.items())


def first_line(problem: BaseException) -> str:
    """What an error says first, or its name."""
    return str(problem).splitlines()[0][:200] if str(problem) else type(problem).__name__


def _patiently(make: Callable[[], Made]) -> Made:
    """`make()`, tried thrice: a thread of Dask's that does not start within ten seconds fails a bare assertion."""
    for _ in range(2):
        with suppress(AssertionError):
            return make()
    return make()


def _local_cluster(count: int) -> LocalCluster:
    from distributed import LocalCluster

    _import_once()
    return LocalCluster(
        n_workers=count,
        threads_per_worker=1,  # boosters bring their own, and rules hold Python's lock
        dashboard_address="127.0.0.1:0",  # None would still take port 8787
        host="127.0.0.1",
        silence_logs=logging.CRITICAL,
        scheduler_kwargs={"dashboard": False},
        env=dict(os.environ),  # of now; the process that they are forked from knows that of its start
    )


def _import_once() -> None:
    """Let workers be forked from one process that has imported what they need: each would spend 1.5 seconds on it."""
    from distributed.utils import get_mp_context

    context = get_mp_context()  # Dask gives its own list of imports when it is first asked, so ours comes after it
    if context.get_start_method() == FORK_SERVER:
        context.set_forkserver_preload(
            ["spu_core.engines.dask.together", "spu_core.engines.dask.tasks", "lightgbm.dask"]
        )


def _end(client: Client, cluster: LocalCluster) -> None:
    if cluster.status.name == "closed":
        return
    cluster.sync(_kill, list(cluster.workers.values()))
    client.close()
    cluster.close()


async def _kill(nannies: Iterable[Nanny]) -> None:
    """End the worker processes at once; nothing that they hold is needed any more."""
    import psutil

    for nanny in nannies:
        nanny.close_gracefully(reason="thrown away")  # or it would start the process anew
        if nanny.pid is not None:
            with suppress(psutil.NoSuchProcess):
                psutil.Process(nanny.pid).kill()


def _quiet() -> Any:
    """A plugin for workers that share our standard output: LightGBM writes there while it connects."""
    from distributed import WorkerPlugin

    class Quiet(WorkerPlugin):
        def setup(self, worker: Any) -> None:
            os.dup2(2, 1)

    return Quiet()
