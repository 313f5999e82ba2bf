"""A Dask cluster: connect to it, check its versions, and run work on it that always ends.

Boosters talk to each other through their own sockets. When a worker is lost, the others may wait for it in native code,
where they cannot be cancelled. So `Cluster.guarded` runs the work in a thread and watches the workers; when one is lost
or the time limit is reached, it restarts the worker processes and raises an `EngineError`.

>>> with open_cluster(workers=1) as cluster:  # doctest: +SKIP
...     cluster.client.submit(len, "abc").result()
3
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spu_core.engines.executors.dask_workers import (
    LocalWorkers,
    RemoteWorkers,
    WorkerId,
    WorkerPool,
    first_line,
    running_workers,
    settings_for_workers,
)
from spu_core.errors import EngineError, SpuError

if TYPE_CHECKING:
    from distributed import Client

SCHEDULER_VARIABLE = "SPU_DASK_SCHEDULER"
# Workers that are started on this computer if no scheduler is given.
LOCAL_WORKERS = 2
# xgboost is installed under one of two names; only packages that are installed here are compared.
PACKAGES = (
    "spu-studio",
    "numpy",
    "pandas",
    "pyarrow",
    "scikit-learn",
    "lightgbm",
    "xgboost",
    "xgboost-cpu",
    "dask",
    "distributed",
)
SILENT = "the scheduler does not answer any more."
_MISSING = "missing"
_POLL_SECONDS = 0.5
# Other workers may notice a loss before the scheduler does.
_LOSS_SECONDS = 2.0


@dataclass(frozen=True)
class Deadline:
    """Time limit of one distributed fit. `on_wait` is called while it runs, and may end it with an error."""

    seconds: float = 3600.0
    on_wait: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise EngineError(f"The time limit of a distributed fit must be positive, got {self.seconds} seconds.")

    @property
    def text(self) -> str:
        """Why a fit that reached the limit was stopped."""
        return f"it took longer than {self.seconds:,g} seconds."


@dataclass(frozen=True, eq=False)
class Cluster:
    """A connected cluster. Every long call goes through `guarded`.

    A restart replaces the client, so read `client` each time it is needed. `needed` are the addresses of workers that
    hold rows: work that needs them is stopped at once if one of them is gone.
    """

    pool: WorkerPool
    deadline: Deadline
    needed: frozenset[str] = frozenset()

    @property
    def client(self) -> Client:
        """The current Dask client."""
        return self.pool.client

    @property
    def workers(self) -> tuple[str, ...]:
        """Addresses of the workers that run now."""
        return tuple(sorted(worker.address for worker in running_workers(self.client) or ()))

    def guarded(self, work: Any, *, what: str) -> Any:
        """The result of `work()`. If it fails, or must be stopped, the workers are ready for other work afterwards.

        Parameters
        ----------
        work : callable
            Called in a thread, with the client as Dask's current one.
        what : str
            The name of the work in error messages, such as "Fold 2 of lightgbm".

        Raises
        ------
        EngineError
            A worker or the scheduler was lost, or the deadline was reached.
        """
        return run_guarded(self.pool, work, self.deadline, what, self.needed)

    def with_on_wait(self, call: Callable[[], None]) -> Cluster:
        """The same cluster; `call` is made repeatedly while work runs, and its error ends the work."""
        return replace(self, deadline=replace(self.deadline, on_wait=call))

    def needing(self, workers: Iterable[str]) -> Cluster:
        """The same cluster; its work needs these workers, since they hold the rows."""
        return replace(self, needed=frozenset(workers))

    def interruption(self, what: str, reason: str) -> EngineError:
        """Restart the workers; returns the error to raise."""
        return _interruption(self.pool, what, reason)


@contextmanager
def open_cluster(
    scheduler: str | None = None, *, workers: int = LOCAL_WORKERS, deadline: Deadline | None = None
) -> Iterator[Cluster]:
    """Connect to a Dask cluster, or start workers on this computer.

    Parameters
    ----------
    scheduler : str, optional
        Address of a running scheduler, tcp://host:port. Default: `SPU_DASK_SCHEDULER`, else workers are started here.
    workers : int
        How many workers to start on this computer.
    deadline : Deadline, optional
        Time limit of one distributed fit. Default: one hour.

    Raises
    ------
    EngineError
        Dask is missing, no scheduler answers, or versions on the workers differ from those here.
    """
    need_dask()
    address = scheduler or os.environ.get(SCHEDULER_VARIABLE) or None
    with _remote_workers(address) if address else _local_workers(workers) as pool:
        check_versions(pool.client)
        yield Cluster(pool, deadline or Deadline())


def need_dask() -> None:
    """Raise an error that names the extra to install, if Dask is missing."""
    try:
        importlib.metadata.version("distributed")
    except importlib.metadata.PackageNotFoundError:
        raise EngineError("Work on a cluster needs Dask; install it with: pip install 'spu-studio[dask]'.") from None


def check_address(address: str) -> None:
    """Refuse a text that cannot be the address of a scheduler, before a connection is tried.

    >>> check_address("tcp://10.0.0.7:8786")
    >>> check_address("gibberish")
    Traceback (most recent call last):
    ...
    spu_core.errors.EngineError: 'gibberish' is no address of a Dask scheduler ...
    """
    from distributed.comm import get_address_host_port

    try:
        host, port = get_address_host_port(address)
    except (ValueError, ImportError) as problem:
        raise _no_address(address, str(problem)) from None
    if not host:
        raise _no_address(address, "it names no host")
    if not 0 < port < 65_536:
        raise _no_address(address, f"there is no port {port}")


def _no_address(address: str, why: str) -> EngineError:
    return EngineError(f"{address!r} is no address of a Dask scheduler ({why}); give it as tcp://host:port.")


@contextmanager
def _remote_workers(address: str) -> Iterator[WorkerPool]:
    from distributed.utils import silence_logging_cmgr

    check_address(address)
    # Errors are reported by our messages; Dask would log dozens of lines before them.
    with silence_logging_cmgr(logging.CRITICAL), closing(RemoteWorkers(address)) as pool:
        if not pool.count:
            raise EngineError(
                f"The scheduler at {address} has no workers; start some with `dask worker {address}`, then try again."
            )
        yield pool


@contextmanager
def _local_workers(workers: int) -> Iterator[WorkerPool]:
    with settings_for_workers(), closing(LocalWorkers(workers)) as pool:
        yield pool


def run_guarded(
    pool: WorkerPool, work: Callable[[], Any], deadline: Deadline, what: str, needed: frozenset[str] = frozenset()
) -> Any:
    """The result of `work()`; see `Cluster.guarded`."""
    before = running_workers(pool.client) or frozenset()
    if gone := sorted(needed - {worker.address for worker in before}):
        raise _interruption(pool, what, f"the worker {gone[0]} was lost.")
    call = _Call(pool.client, work)
    call.start()
    try:
        reason = _watch(pool.client, call, deadline, before)
    except Exception:  # raised by `on_wait`: the caller wants to stop
        pool.restart()
        raise
    reason = reason or _cluster_fault(pool, call.error, before)
    if reason is None:
        return call.result
    raise _interruption(pool, what, reason) from call.error


def _interruption(pool: WorkerPool, what: str, reason: str) -> EngineError:
    return EngineError(f"{what} was interrupted: {reason} {pool.restart()}")


class _Call(threading.Thread):
    """The work in a thread. The thread is abandoned if it waits in native code for a lost worker."""

    def __init__(self, client: Client, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True, name="distributed fit")
        self.client, self.work = client, work
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self.client.as_current():
                self.result = self.work()
        except BaseException as error:  # raised again by the waiting thread
            self.error = error


def _watch(client: Client, call: _Call, deadline: Deadline, before: frozenset[WorkerId]) -> str | None:
    """Wait for the call. None if it has ended, else the reason why it must be abandoned."""
    start = time.monotonic()
    while True:
        call.join(_POLL_SECONDS)
        if not call.is_alive():
            return None
        if deadline.on_wait is not None:
            deadline.on_wait()
        if time.monotonic() - start > deadline.seconds:
            return deadline.text
        if client.status != "running":
            return SILENT
        if lost := _lost_worker(client, before):
            return lost


def _cluster_fault(pool: WorkerPool, error: BaseException | None, before: frozenset[WorkerId]) -> str | None:
    """How the cluster failed; None if there is a result. An error of the work itself is raised.

    Errors are judged by their type and by what the scheduler knows, never by their text: libraries change their texts.
    """
    if error is None:
        return None
    if isinstance(error, SpuError):
        raise error
    reason = _lost_soon(pool.client, before) or _fault_of_type(error)
    if reason is None:
        pool.restart()  # the other workers may wait in native code for the one that failed
        raise error
    return reason


def _fault_of_type(error: BaseException) -> str | None:
    """What an error says about the cluster; None if its type says nothing."""
    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError
    from lightgbm.basic import LightGBMError
    from xgboost.core import XGBoostError

    if isinstance(error, KilledWorker | CommClosedError | TimeoutError | ConnectionError | CancelledError):
        return f"the connection to the workers failed ({first_line(error)})."
    # The settings were checked before the fit, so what fails here is what only a distributed fit needs: sockets, ports.
    # Whatever the cause, the other workers still wait for the one that failed.
    if isinstance(error, LightGBMError):
        return f"LightGBM failed on the workers ({first_line(error)})."
    if isinstance(error, XGBoostError):
        return f"XGBoost failed on the workers ({first_line(error)})."
    return None


def _lost_worker(client: Client, before: frozenset[WorkerId]) -> str | None:
    now = running_workers(client)
    if now is None:
        return SILENT
    lost = sorted(before - now)
    return f"the worker {lost[0].address} was lost." if lost else None


def _lost_soon(client: Client, before: frozenset[WorkerId]) -> str | None:
    """The loss that explains an error. Other workers may notice it before the scheduler does, so wait a little."""
    end = time.monotonic() + _LOSS_SECONDS
    while (lost := _lost_worker(client, before)) is None and time.monotonic() < end:
        time.sleep(_POLL_SECONDS / 5)
    return lost


def check_versions(client: Client) -> None:
    """Refuse a cluster whose workers lack a package, or have another release of it."""
    ours = own_versions()
    # Ask the workers that answered first; others may join meanwhile.
    theirs = {worker: {"python": version} for worker, version in client.run(platform.python_version).items()}
    for package in ours.keys() - {"python"}:
        for worker, version in _on_workers(client, package, list(theirs)).items():
            theirs[worker][package] = version
    problems = differences(ours, theirs)
    if problems:
        raise EngineError("The workers cannot run this: " + " ".join(problems))


def own_versions() -> dict[str, str]:
    """The versions of Python and of each package that is installed here."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def differences(ours: Mapping[str, str], theirs: Mapping[str, Mapping[str, str]]) -> list[str]:
    """A sentence for each package whose version differs on a worker.

    >>> differences({"numpy": "2.4.6"}, {"tcp://a": {"numpy": "2.4.6"}, "tcp://b": {"numpy": "missing"}})
    ['numpy is missing on tcp://b; install 2.4.6 there.']
    """
    sentences = []
    for package, version in ours.items():
        for found in sorted({worker[package] for worker in theirs.values()} - {version}):
            where = [address for address, worker in theirs.items() if worker[package] == found]
            others = "" if len(where) == 1 else f" and {len(where) - 1} more"
            sentences.append(f"{package} is {found} on {where[0]}{others}; install {version} there.")
    return sentences


def _on_workers(client: Client, package: str, workers: list[str]) -> dict[str, str]:
    """The version of a package on these workers. Needs only the standard library, so that every worker can answer."""
    answers: dict[str, Any] = client.run(importlib.metadata.version, package, workers=workers, on_error="return")
    return {worker: answer if isinstance(answer, str) else _MISSING for worker, answer in answers.items()}
