"""Worker processes that are killed while they work hard."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from spu_core.engines.executors import Cluster


@contextmanager
def killing_one(cluster: Cluster) -> Iterator[str]:
    """One worker dies as soon as it has worked for a second; its address."""
    address, process = min(cluster.client.run(os.getpid).items())
    with _killing([process], after=1.0):
        yield address


@contextmanager
def killing_all(cluster: Cluster) -> Iterator[None]:
    """All workers die as soon as one of them has worked for three seconds: it imports a lot before it fits."""
    with _killing(list(cluster.client.run(os.getpid).values()), after=3.0):
        yield


@contextmanager
def _killing(processes: list[int], after: float) -> Iterator[None]:
    ended = threading.Event()
    victims = [psutil.Process(process) for process in processes]
    killer = threading.Thread(target=_kill_at_work, args=(victims, after, ended))
    killer.start()
    try:
        yield
    finally:
        ended.set()
        killer.join()


def _kill_at_work(victims: list[psutil.Process], after: float, ended: threading.Event) -> None:
    start = _cpu_seconds(victims[0])
    while _cpu_seconds(victims[0]) - start < after:
        if ended.wait(0.05):
            return
    for victim in victims:
        victim.kill()


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
