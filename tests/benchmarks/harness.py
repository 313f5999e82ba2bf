"""Ratios of CPU times, measured alternately in one process on the same data, since machines are noisy."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import psutil

if TYPE_CHECKING:  # other benchmarks do without Streamlit
    from tests.live import Server

WIDEST_NAME = 70


@dataclass(frozen=True)
class BenchRow:
    """One measured figure beside its goal."""

    name: str
    measured: float
    goal: float
    law: Literal["at most", "at least"]
    unit: str = "×"

    @property
    def met(self) -> bool:
        return self.measured <= self.goal if self.law == "at most" else self.measured >= self.goal


def alternate(calls: Mapping[str, Callable[[], Any]], repeats: int = 5) -> dict[str, float]:
    """Median CPU seconds of each call; the calls take turns, so that a slow moment hits them all."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.process_time()
            call()
            seconds[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def peak_bytes(call: Callable[[], Any]) -> int:
    """Largest amount of memory that Python and NumPy held at once during the call, beyond what they held before."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def peak_memory_of(code: str) -> int:
    """Peak resident bytes of a fresh Python process that runs our own constant `code`."""
    unit = 1 if sys.platform == "darwin" else 1024
    report = f"{code}\nimport resource\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * {unit})"
    result = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return int(result.stdout.split()[-1])


def cpu_seconds_of(code: str) -> float:
    """CPU seconds, children included, of a fresh Python process that runs our own constant `code`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def process_of(server: Server) -> psutil.Process:
    """The process that serves a dashboard: the one that listens on its port."""
    port = int(server.url.rsplit(":", 1)[1])
    listening = [each for each in psutil.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
    return psutil.Process(next(each.pid for each in listening if each.laddr.port == port))


def print_table(rows: Iterable[BenchRow]) -> None:
    """Print one line per figure, as soon as it is measured: name, measured, goal, and whether the goal is met."""
    for row in rows:
        mark = "ok  " if row.met else "MISS"
        goal = f"goal: {row.law} {row.goal:g} {row.unit}"
        print(f"{mark} {row.name:<{WIDEST_NAME}}  {row.measured:8.3g} {row.unit}   {goal}", flush=True)
