"""A connection to a Dask cluster: one that runs already, or one of processes on this computer.

>>> with open_cluster(workers=1) as cluster:  # doctest: +SKIP
...     cluster.client.submit(len, "abc").result()
3
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spu_core.engines.dask.guard import Deadline, interruption, run_guarded
from spu_core.engines.dask.settings import settings_for_workers
from spu_core.engines.dask.versions import check_versions
from spu_core.engines.dask.workers import OwnWorkers, TheirWorkers, Workers, processes_of
from spu_core.engines.places import OWN_WORKERS, SCHEDULER_VARIABLE
from spu_core.errors import EngineError

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True, eq=False)
class Cluster:
    """The workers that were found or started; every long call goes through `guarded`.

    After a loss they are new ones, with a client of their own: ask for `client` whenever it is needed.
    """

    hands: Workers
    deadline: Deadline
    address: str | None = None
    needed: frozenset[str] = frozenset()

    @property
    def client(self) -> Client:
        return self.hands.client

    @property
    def is_local(self) -> bool:
        """Whether its workers were started here, for us alone."""
        return self.address is None

    @property
    def workers(self) -> tuple[str, ...]:
        """Addresses of the workers that are there now."""
        return tuple(sorted(process.address for process in processes_of(self.client) or ()))

    @property
    def words(self) -> str:
        """Where the work runs, in a sentence."""
        place = self.address or "this computer"
        count = len(self.workers)
        return f"{count} Dask worker{'' if count == 1 else 's'} on {place}"

    def guarded(self, work: Any, *, what: str) -> Any:
        """`work()` within the deadline; if workers are lost or time runs out, they are started anew and it is said."""
        return run_guarded(self.hands, work, self.deadline, what, self.needed)

    def while_waiting(self, call: Callable[[], None]) -> Cluster:
        """The same cluster; whoever waits for it makes this call now and then, and an error of it ends the work."""
        return replace(self, deadline=replace(self.deadline, on_wait=call))

    def needing(self, workers: Iterable[str]) -> Cluster:
        """The same cluster; work on it is given up at once where one of these workers is gone, with what it held."""
        return replace(self, needed=frozenset(workers))

    def interrupted(self, what: str, reason: str) -> EngineError:
        """The error of work that was given up, after its workers have been started anew."""
        return interruption(self.hands, what, reason)


@contextmanager
def open_cluster(
    scheduler: str | None = None, *, workers: int = OWN_WORKERS, deadline: Deadline | None = None
) -> Iterator[Cluster]:
    """Connect to the scheduler at this address, at `SPU_DASK_SCHEDULER`, or else start workers on this computer.

    Versions on the workers are compared with ours first: a package that is missing or of another release is named.
    """
    need_dask()
    address = scheduler or os.environ.get(SCHEDULER_VARIABLE) or None
    with _their(address) if address else _own(workers) as hands:
        check_versions(hands.client)
        yield Cluster(hands, deadline or Deadline(), address)


def need_dask() -> None:
    """Raise the sentence that says which extra to install, where Dask is missing."""
    try:
        importlib.metadata.version("distributed")
    except importlib.metadata.PackageNotFoundError:
        raise EngineError("Work on a cluster needs Dask; install it with: pip install 'spu-studio[dask]'.") from None


def check_address(address: str) -> None:
    """Refuse what cannot be the address of a scheduler, before anybody waits for an answer.

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
def _their(address: str) -> Iterator[Workers]:
    from distributed.utils import silence_logging_cmgr

    check_address(address)
    # What went wrong is our sentence; forty lines of Dask's before it would hide it.
    with silence_logging_cmgr(logging.CRITICAL), closing(TheirWorkers(address)) as hands:
        if not hands.count:
            raise EngineError(
                f"The scheduler at {address} has no workers; start some with `dask worker {address}`, then try again."
            )
        yield hands


@contextmanager
def _own(workers: int) -> Iterator[Workers]:
    with settings_for_workers(), closing(OwnWorkers(workers)) as hands:
        yield hands
