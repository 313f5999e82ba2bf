"""A distributed fit that ends in any case: with a result, or with a sentence and a cluster that works again.

Boosters talk to each other through sockets of their own. When one worker dies, the others may wait for it in native
code, where no cancellation reaches them; so the fit runs in a thread, we watch the workers, and after a loss the
worker processes are started anew.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spu_core.engines.dask.workers import Process, Workers, first_line, processes_of
from spu_core.errors import EngineError, SpuError

if TYPE_CHECKING:
    from distributed import Client

_LOOK_EVERY = 0.5
_NEWS_PATIENCE = 2.0
SILENT = "the scheduler does not answer any more."


@dataclass(frozen=True)
class Deadline:
    """How long one distributed fit may take; `on_wait` is called while it goes on, and may end it by an error."""

    seconds: float = 3600.0
    on_wait: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise EngineError(f"The time limit of a distributed fit must be positive, got {self.seconds} seconds.")

    @property
    def words(self) -> str:
        """Why a fit that reached it was given up."""
        return f"it took longer than {self.seconds:,g} seconds."


def run_guarded(
    hands: Workers, work: Callable[[], Any], deadline: Deadline, what: str, needed: frozenset[str] = frozenset()
) -> Any:
    """The result of `work()`; whatever else comes of it, the workers are ready for other work.

    Work that is bound to the `needed` workers would wait for one that was lost before it began until its deadline.
    """
    before = processes_of(hands.client) or frozenset()
    if gone := sorted(needed - {process.address for process in before}):
        raise interruption(hands, what, f"the worker {gone[0]} was lost.")
    call = _Call(hands.client, work)
    call.start()
    try:
        reason = _watch(hands.client, call, deadline, before)
    except Exception:  # of `on_wait`: the caller wants no more of it
        hands.renew()
        raise
    reason = reason or _fault(hands, call.error, before)
    if reason is None:
        return call.result
    raise interruption(hands, what, reason) from call.error


def interruption(hands: Workers, what: str, reason: str) -> EngineError:
    """Start the workers anew; the error that says why, and what to do now."""
    return EngineError(f"{what} was interrupted: {reason} {hands.renew()}")


class _Call(threading.Thread):
    """The work in a thread that may be left behind: it waits in native code if its peers are gone."""

    def __init__(self, client: Client, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True, name="distributed fit")
        self.client, self.work = client, work
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self.client.as_current():
                self.result = self.work()
        except BaseException as error:  # raised again by the thread that waits
            self.error = error


def _watch(client: Client, call: _Call, deadline: Deadline, before: frozenset[Process]) -> str | None:
    """None when the call has ended by itself, else why it must be given up."""
    start = time.monotonic()
    while True:
        call.join(_LOOK_EVERY)
        if not call.is_alive():
            return None
        if deadline.on_wait is not None:
            deadline.on_wait()
        if time.monotonic() - start > deadline.seconds:
            return deadline.words
        if client.status != "running":
            return SILENT
        if lost := _lost(client, before):
            return lost


def _fault(hands: Workers, error: BaseException | None, before: frozenset[Process]) -> str | None:
    """None if the work has a result, else how the cluster failed it; an error of the work itself is raised."""
    if error is None:
        return None
    if isinstance(error, SpuError):
        raise error
    reason = _busy_port(error) or _lost_soon(hands.client, before) or _broken(error)
    if reason is None:
        hands.renew()  # the peers of the worker that failed may wait for it in native code for ever
        raise error
    return reason


def _lost(client: Client, before: frozenset[Process]) -> str | None:
    now = processes_of(client)
    if now is None:
        return SILENT
    lost = sorted(before - now)
    return f"the worker {lost[0].address} was lost." if lost else None


def _lost_soon(client: Client, before: frozenset[Process]) -> str | None:
    """The loss that explains an error: the peers of a worker may hear of its death before the scheduler does."""
    end = time.monotonic() + _NEWS_PATIENCE
    while (lost := _lost(client, before)) is None and time.monotonic() < end:
        time.sleep(_LOOK_EVERY / 5)
    return lost


def _busy_port(error: BaseException) -> str | None:
    if "ind" in str(error) and "port" in str(error) and "fail" in str(error):
        return "a port that the workers wanted to talk through is taken by another program."
    return None


def _broken(error: BaseException) -> str | None:
    """None if the error is not of the cluster but of the work."""
    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    cut_off = isinstance(error, KilledWorker | CommClosedError | TimeoutError | ConnectionError | CancelledError)
    if cut_off or any(mark in str(error) for mark in _MARKS):
        return f"the workers lost each other ({first_line(error)})."
    return None


# What boosters say when a peer is gone.
_MARKS = ("Socket ", "ollective", "allgather", "allreduce", "Invalid worker address", "onnect to rank")
