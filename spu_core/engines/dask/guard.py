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
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spu_core.errors import EngineError, SpuError

if TYPE_CHECKING:
    from distributed import Client

_LOOK_EVERY = 0.5
_RESTART_PATIENCE = 30.0
_RESTARTS = 3


@dataclass(frozen=True)
class Deadline:
    """How long one distributed fit may take, and who may end it earlier."""

    seconds: float = 3600.0
    should_stop: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise EngineError(f"The time limit of a distributed fit must be positive, got {self.seconds} seconds.")


class FitStopped(Exception):  # noqa: N818  (stopping is a wish, not an error)
    """The caller's `should_stop` said so; the cluster has been cleaned."""


def run_guarded(client: Client, work: Callable[[], Any], deadline: Deadline, what: str) -> Any:
    """The result of `work()`, or an EngineError after the cluster has been made usable again."""
    before = _workers(client)
    call = _Call(client, work)
    call.start()
    reason = _watch(client, call, deadline, before)
    if reason is None and call.error is None:
        return call.result
    if reason is None:
        assert call.error is not None
        if isinstance(call.error, SpuError) or not _is_loss(call.error):
            raise call.error
        reason = explain(call.error)
    elif reason == _STOPPED:
        restart(client, len(before))
        raise FitStopped
    raise EngineError(f"{what} was interrupted: {reason} {_after(client, len(before))}") from call.error


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


_STOPPED = "stopped"


def _watch(client: Client, call: _Call, deadline: Deadline, before: frozenset[str]) -> str | None:
    """None when the call has ended by itself, else why it must be given up."""
    start = time.monotonic()
    while True:
        call.join(_LOOK_EVERY)
        if not call.is_alive():
            return None
        if deadline.should_stop is not None and deadline.should_stop():
            return _STOPPED
        if time.monotonic() - start > deadline.seconds:
            return f"it took longer than {deadline.seconds:,.0f} seconds."
        if client.status != "running":
            return "the scheduler does not answer any more."
        if lost := before - _workers(client):
            return f"the worker {sorted(lost)[0]} was lost."


def restart(client: Client, workers: int) -> bool:
    """Start all worker processes anew; True if work can be done on them, be it on fewer than there were."""
    for _ in range(_RESTARTS):
        try:
            # A worker that died is started anew by its nanny; to restart it at the same moment could lose it for good.
            _wait(client, workers)
            client.restart(timeout=_RESTART_PATIENCE)
            _wait(client, workers)
            return bool(client.submit(len, "ok", pure=False).result(timeout=_RESTART_PATIENCE) == 2)
        except (TimeoutError, OSError, CancelledError):  # the restart itself may cancel what we ask
            continue
    return False


def _wait(client: Client, workers: int) -> None:
    with suppress(TimeoutError):  # a machine that was lost may not come back
        client.wait_for_workers(workers, timeout=_RESTART_PATIENCE)


def explain(error: BaseException) -> str:
    """Why a fit that ended with this error was the cluster's fault, in a sentence."""
    text = str(error)
    if "ind" in text and "port" in text and "fail" in text:
        return "a port that the workers wanted to talk through is taken by another program; try again."
    first = text.splitlines()[0][:200] if text else type(error).__name__
    return f"the workers lost each other ({first})."


def _is_loss(error: BaseException) -> bool:
    """Whether workers or the way between them failed, not the data or the settings."""
    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    if isinstance(error, KilledWorker | CommClosedError | TimeoutError | ConnectionError | CancelledError):
        return True
    return any(mark in str(error) for mark in _MARKS)


_MARKS = (
    "Socket ",
    "ollective",
    "allgather",
    "allreduce",
    "Invalid worker address",
    "bind",
    "Connect to rank",
    "connect to rank",
)


def _after(client: Client, workers: int) -> str:
    if client.status != "running":
        return "Start the scheduler again, then the training."
    if restart(client, workers):
        return "Its workers were started anew; start the training again."
    return "Its workers could not be started anew; start them by hand, then the training."


def _workers(client: Client) -> frozenset[str]:
    """The workers there are now; none if the scheduler does not answer."""
    try:
        return frozenset(client.scheduler_info(n_workers=-1)["workers"])
    except (OSError, TimeoutError, ValueError):
        return frozenset()
