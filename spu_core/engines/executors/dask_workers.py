"""Dask worker processes: started on this computer, or those of a scheduler that already runs.

Both kinds have a client and can be restarted after a loss. Workers on this computer are then replaced together with
their scheduler, since a worker that waits in native code for a lost one can only be killed. Workers of a running
scheduler may serve others as well, so they are asked to restart, with a time limit.

Dask changes the environment and settings of the process that starts workers (`OMP_NUM_THREADS=1` among them).
`settings_for_workers` restores both when the last workers have ended.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from spu_core.errors import EngineError

if TYPE_CHECKING:
    from distributed import Client, LocalCluster, Nanny

_CONNECT_SECONDS = 10.0
_CLOSE_SECONDS = 15.0
_RESTART_SECONDS = 60.0
_RESTARTED = "Its workers were restarted; start the training again."
_FORK_SERVER = "forkserver"

_SETTINGS: dict[str, Any] = {
    # A worker may not answer for a while when boosters use all cores; it is not lost.
    "distributed.comm.timeouts.tcp": "300s",
    "distributed.comm.timeouts.connect": "120s",
    # Dask gives up a worker that is not back after this time; its default of 15 s is too short on a busy machine.
    "distributed.deploy.lost-worker-timeout": "1h",
    # Dask's own value makes the C library return the memory of every array to the kernel and request it again.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    # Workers sample themselves a hundred times a second for a profile that is not used here.
    "distributed.worker.profile.enabled": False,
    # Idle threads of several workers must not spin on the same cores. Libraries read this when they load.
    "distributed.nanny.pre-spawn-environ.OMP_WAIT_POLICY": "PASSIVE",
}
if _FORK_SERVER in multiprocessing.get_all_start_methods():  # not on Windows
    _SETTINGS["distributed.worker.multiprocessing-method"] = _FORK_SERVER

# Variables that Dask sets besides those of its settings.
_VARIABLES = ("PYTHONHASHSEED", "__DASK_PARENT_PID")

_lock = threading.Lock()
_users = 0
_settings = ExitStack()

Made = TypeVar("Made")


class WorkerPool(Protocol):
    """Worker processes with a client."""

    client: Client

    def restart(self) -> str:
        """Restart all workers; returns a sentence that says how it went."""

    def close(self) -> None:
        """End the workers, or the connection to them."""


class LocalWorkers:
    """Worker processes on this computer, used by this process only."""

    def __init__(self, count: int) -> None:
        if count < 1:
            raise EngineError(f"A cluster on this computer needs at least one worker, got {count}.")
        self._count = count
        self._start()

    def restart(self) -> str:
        """Replace the workers and their scheduler by new ones."""
        self.close()
        try:
            self._start()
        except EngineError as problem:
            return str(problem)
        return _RESTARTED

    def close(self) -> None:
        """End the workers. What does not end in time is left behind: new workers do not depend on it."""
        ending = threading.Thread(target=_end, args=(self.client, self._cluster), daemon=True, name="ending workers")
        ending.start()
        ending.join(_CLOSE_SECONDS)

    def _start(self) -> None:
        try:
            self._cluster = _retried(lambda: _local_cluster(self._count))
            self.client = _retried(lambda: _client_type()(self._cluster, set_as_default=False))
        except Exception as problem:
            raise EngineError(
                f"Dask workers could not be started on this computer ({first_line(problem)}). In a script, open the "
                'cluster below `if __name__ == "__main__":`, since workers import the script.'
            ) from problem
        self.client.register_plugin(_quiet(), name="quiet")


class RemoteWorkers:
    """The workers of a scheduler that already runs."""

    def __init__(self, address: str) -> None:
        try:
            self.client = _retried(lambda: _client_type()(address, timeout=_CONNECT_SECONDS, set_as_default=False))
        except Exception as problem:
            raise EngineError(
                f"No Dask scheduler answers at {address!r} ({first_line(problem)}). Start one with `dask scheduler`, "
                "and give its address as tcp://host:port."
            ) from problem
        self.count = len(running_workers(self.client) or ())

    def restart(self) -> str:
        """Ask the scheduler to restart its workers."""
        if self.client.status != "running":
            return "Start the scheduler again, then the training."
        try:
            back = self._restarted()
        except (TimeoutError, OSError, CancelledError):
            back = 0
        if back >= self.count:
            return _RESTARTED
        if back:
            return f"{back} of its {self.count} workers came back; start the others by hand, then the training."
        return "Its workers could not be restarted; start them by hand, then the training."

    def close(self) -> None:
        """Close the connection; the workers keep running."""
        self.client.close()

    def _restarted(self) -> int:
        """The number of new workers within the time limit. A killed worker may be listed a little longer."""
        none: frozenset[WorkerId] = frozenset()
        old, end = running_workers(self.client) or none, time.monotonic() + _RESTART_SECONDS
        self.client.restart(timeout=_RESTART_SECONDS, wait_for_workers=False)
        before, now = old, running_workers(self.client) or none
        while time.monotonic() < end and (now != before or now & old or len(now) < self.count):
            time.sleep(1.0)
            before, now = now, running_workers(self.client) or none
        return len(now - old)


class WorkerId(NamedTuple):
    """A worker process: its address, and its folder, which changes when it is restarted at the same address."""

    address: str
    folder: str


def running_workers(client: Client) -> frozenset[WorkerId] | None:
    """The workers that run now; None if the scheduler does not answer.

    The scheduler itself is asked, because `client.scheduler_info()` may return the answer to an earlier, narrower call.
    """
    if client.scheduler is None:
        return None
    try:
        found = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    except (OSError, TimeoutError):
        return None
    return frozenset(WorkerId(address, worker["local_directory"]) for address, worker in found.items())


def first_line(problem: BaseException) -> str:
    """The first line of an error, or the name of its type."""
    return str(problem).splitlines()[0][:200] if str(problem) else type(problem).__name__


@contextmanager
def settings_for_workers() -> Iterator[None]:
    """Settings of this process while workers run on this computer; the last user restores the old ones."""
    global _users
    with _lock:
        if not _users:
            _settings.enter_context(_set_in_process())
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _settings.close()


@contextmanager
def _set_in_process() -> Iterator[None]:
    import dask
    import distributed  # noqa: F401  (registers its default settings, which ours must not replace)

    with dask.config.set(_SETTINGS), ExitStack() as restored:
        variables = dask.config.get("distributed.nanny.pre-spawn-environ")
        restored.enter_context(_restoring(os.environ, (*variables, *_VARIABLES)))
        restored.enter_context(_without_stdin_as_file(vars(sys.modules["__main__"])))
        yield


@contextmanager
def _restoring(values: MutableMapping[str, Any], names: tuple[str, ...]) -> Iterator[None]:
    """Afterwards these names have their present values again, or are absent again."""
    before: Mapping[str, Any] = {name: values[name] for name in names if name in values}
    try:
        yield
    finally:
        for name in names:
            values.pop(name, None)
        values.update(before)


@contextmanager
def _without_stdin_as_file(main: MutableMapping[str, Any]) -> Iterator[None]:
    """Workers import the script of the caller by its file name; a script from a pipe has the name `<stdin>`."""
    with _restoring(main, ("__file__",)):
        if main.get("__file__") == "<stdin>":
            del main["__file__"]
        yield


def _client_type() -> type[Client]:
    """Dask's client, with one difference: `who_has` lists data in the order of the workers' addresses.

    LightGBM numbers the workers in the order of that list, and the numbers decide which worker's rows make the bins of
    a column. Dask's own order is random, so two equal fits would differ.
    """
    from distributed import Client

    class OrderedClient(Client):
        def who_has(self, futures: Any = None, **options: Any) -> dict[Any, Any]:
            return dict(sorted(super().who_has(futures, **options).items(), key=lambda held: sorted(held[1])))

    return OrderedClient


def _retried(make: Callable[[], Made]) -> Made:
    """`make()`, at most three times: on a busy machine, Dask fails an assertion if its thread starts too late."""
    for _ in range(2):
        with suppress(AssertionError):
            return make()
    return make()


def _local_cluster(count: int) -> LocalCluster:
    from distributed import LocalCluster

    _preload_imports()
    return LocalCluster(
        n_workers=count,
        threads_per_worker=1,  # boosters start their own threads, and rules hold Python's lock
        dashboard_address="127.0.0.1:0",  # None would still use port 8787
        host="127.0.0.1",
        silence_logs=logging.CRITICAL,
        scheduler_kwargs={"dashboard": False},
        env=dict(os.environ),  # as it is now; the fork server has the environment of its start
    )


def _preload_imports() -> None:
    """Fork workers from a process that has imported what they need; each would spend 1.5 seconds on it."""
    from distributed.utils import get_mp_context

    context = get_mp_context()  # Dask sets its own list of imports at the first call, so ours is set after it
    if context.get_start_method() == _FORK_SERVER:
        context.set_forkserver_preload(["spu_core.engines.executors", "lightgbm.dask"])


def _end(client: Client, cluster: LocalCluster) -> None:
    if cluster.status.name == "closed":
        return
    cluster.sync(_kill, list(cluster.workers.values()))
    client.close()
    cluster.close()


async def _kill(nannies: Iterable[Nanny]) -> None:
    """Kill the worker processes; nothing that they hold is needed any more."""
    import psutil

    for nanny in nannies:
        nanny.close_gracefully(reason="replaced")  # else the nanny would start the process again
        if nanny.pid is not None:
            with suppress(psutil.NoSuchProcess):
                psutil.Process(nanny.pid).kill()


def _quiet() -> Any:
    """A plugin that sends the standard output of local workers to standard error: LightGBM prints when it connects."""
    from distributed import WorkerPlugin

    class Quiet(WorkerPlugin):
        def setup(self, worker: Any) -> None:
            os.dup2(2, 1)

    return Quiet()
