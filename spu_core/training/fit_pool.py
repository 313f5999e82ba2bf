"""Fits in forked processes of this machine: candidates × folds, and the refits on all rows.

A forked process shares the memory of its parent until one of them writes to it, so the encoded rows exist once, nothing
is imported again, and a task is a few bytes. A fit is the same pure function as in one process, so scores are equal to
the bit. All tasks of a fold go to the same process as long as it has work, because equal fits are done once per process
(`FitMemo`).

The fits of a process run in a thread of its own: the threads of OpenMP do not survive a fork, and their library waits
for them for ever in the thread that started them.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import queue
import resource
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import psutil

from spu_core.errors import EngineError, SpuError, TrainingError
from spu_core.training.config import Candidate, TrainConfig
from spu_core.training.fitting import CandidateFitter, ProgressRange, Reporter, TrainProgress, fit_all_rows, fit_fold
from spu_core.training.rows import Fold, PreparedData

# A process has its next task at hand, so that it need not wait while the parent evaluates a run.
AHEAD = 2
POLL_SECONDS = 0.1
TELL_SECONDS = 0.2


def can_fork() -> bool:
    """Whether fits can run in forked processes. Other systems have fork, but their libraries do not survive it."""
    return sys.platform == "linux" and not multiprocessing.current_process().daemon


def usable_processes(threads: int = 1) -> int:
    """How many processes with so many threads each keep the processors of this machine busy."""
    return max(1, len(os.sched_getaffinity(0)) // threads) if can_fork() else 1


def reason_of(problem: Exception) -> str:
    """Why a candidate failed: the sentence of our own errors, the type and message of others."""
    if isinstance(problem, SpuError):
        return str(problem)
    if isinstance(problem, MemoryError):
        return "There was not enough memory; use fewer rows, fewer columns or a smaller model."
    return f"{type(problem).__name__}: {problem}"


@dataclass(frozen=True)
class FitTask:
    """The fit of a candidate on one fold (by its place), or on all rows (None) with the rounds of its folds."""

    candidate: Candidate
    fold: int | None
    rounds: tuple[int, ...] = ()
    step: str = "refitting"


@dataclass(eq=False)
class FitProcess:
    """A forked process, our end of the connection to it, and the tasks that it has been given."""

    process: Any
    connection: Connection
    given: set[int] = field(default_factory=set)


class FitPool:
    """Forked processes that fit; use it as a context, at whose end they are killed."""

    def __init__(self, data: PreparedData, config: TrainConfig, processes: int) -> None:
        self.folds = list(data.split.folds())
        self._tasks: dict[int, FitTask] = {}
        self._waiting: list[int] = []
        self._told: dict[int, list[TrainProgress]] = {}
        self._ended: dict[int, tuple[str, Any]] = {}
        self._workers: list[FitProcess] = []
        try:
            for _ in range(processes):
                self._workers.append(self._start(data, config, processes))
        except OSError as problem:
            self.close()
            raise EngineError(f"A process could not be started ({problem.strerror}); use fewer processes.") from None

    def submit(self, task: FitTask) -> int:
        """Put a task into the queue; the result is its number."""
        number = len(self._tasks)
        self._tasks[number] = task
        self._waiting.append(number)
        self._hand_out()
        return number

    def drop(self, numbers: Iterable[int]) -> None:
        """Remove tasks that no process has been given yet."""
        dropped = set(numbers)
        self._waiting = [number for number in self._waiting if number not in dropped]

    def result(self, number: int, report: Callable[[TrainProgress | None], None]) -> Any:
        """Wait for a task. `report` gets its progress, and None several times a second, so that it can cancel.

        Raises
        ------
        TrainingError
            If the fit failed.
        EngineError
            If a process was lost.
        """
        while True:
            for progress in self._told.pop(number, ()):
                report(progress)
            if number in self._ended:
                kind, value = self._ended.pop(number)
                if kind == "failed":
                    raise TrainingError(value)
                return value
            report(None)
            self._listen()

    def close(self) -> None:
        """Kill the processes; they hold nothing that must be saved."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.connection.close()
        self._workers = []

    def _start(self, data: PreparedData, config: TrainConfig, processes: int) -> FitProcess:
        ours, theirs = multiprocessing.Pipe()
        # The process must not keep the pipes of others open: it ends when the other end of its own pipe is closed.
        close = [ours, *(worker.connection for worker in self._workers)]
        share = _share_of_limits(processes)
        process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(theirs, close, share, data, self.folds, config), daemon=True
        )
        with warnings.catch_warnings():
            # Newer Pythons warn of a fork beside threads. The process runs NumPy and boosters, which need none of them.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        theirs.close()
        return FitProcess(process, ours)

    def _listen(self) -> None:
        """Take what the processes have sent, and give them more to do."""
        by_connection = {worker.connection: worker for worker in self._workers}
        for connection in wait(list(by_connection), POLL_SECONDS):
            worker = by_connection[connection]  # type: ignore[index]
            try:
                number, kind, value = worker.connection.recv()
            except (EOFError, OSError):
                raise _lost(worker) from None
            if kind == "progress":
                self._told.setdefault(number, []).append(value)
            else:
                self._ended[number] = kind, value
                worker.given.discard(number)
        self._hand_out()

    def _hand_out(self) -> None:
        for place, worker in enumerate(self._workers):
            while len(worker.given) < AHEAD and (number := self._next_for(place, worker)) is not None:
                self._waiting.remove(number)
                worker.given.add(number)
                worker.connection.send((number, self._tasks[number]))

    def _next_for(self, place: int, worker: FitProcess) -> int | None:
        """The first task of a fold that belongs to this process; an idle process also takes those of others."""
        own = (number for number in self._waiting if self._home(self._tasks[number]) == place)
        others = iter(()) if worker.given else iter(self._waiting)
        return next(own, next(others, None))

    def _home(self, task: FitTask) -> int:
        return (len(self.folds) if task.fold is None else task.fold) % len(self._workers)


def _lost(worker: FitProcess) -> EngineError:
    worker.process.join()
    code = worker.process.exitcode
    if code == -signal.SIGXCPU:
        signal.raise_signal(signal.SIGXCPU)  # the limit of processor time is that of all processes together
    how = f"was killed ({signal.Signals(-code).name})" if code is not None and code < 0 else f"ended (code {code})"
    return EngineError(
        f"A process of the training {how}, perhaps because the machine ran out of memory; use fewer rows or columns, "
        "or one process, and start it again."
    )


def _share_of_limits(processes: int) -> tuple[int | None, int | None]:
    """(bytes of address space beyond the present ones, seconds of processor time) for each of so many processes."""
    memory, _ = resource.getrlimit(resource.RLIMIT_AS)
    seconds, _ = resource.getrlimit(resource.RLIMIT_CPU)
    free = memory - psutil.Process().memory_info().vms
    return (
        None if memory == resource.RLIM_INFINITY else max(free // processes, 0),
        None if seconds == resource.RLIM_INFINITY else math.ceil((seconds - time.process_time()) / processes),
    )


def _serve(
    connection: Connection,
    close: list[Connection],
    limits: tuple[int | None, int | None],
    data: PreparedData,
    folds: list[Fold],
    config: TrainConfig,
) -> None:
    """The main thread of a process: takes tasks until the parent ends, also while a fit runs in the other thread."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in close:
        other.close()
    _limit(*limits)
    tasks: queue.SimpleQueue[tuple[int, FitTask]] = queue.SimpleQueue()
    threading.Thread(target=_work, args=(connection, tasks, data, folds, config), daemon=True).start()
    while True:
        try:
            tasks.put(connection.recv())
        except (EOFError, OSError):
            os._exit(0)


def _limit(memory: int | None, seconds: int | None) -> None:
    if memory is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + memory, hard))
    if seconds is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))


def _work(
    connection: Connection,
    tasks: queue.SimpleQueue[tuple[int, FitTask]],
    data: PreparedData,
    folds: list[Fold],
    config: TrainConfig,
) -> None:
    while True:
        number, task = tasks.get()
        last = 0.0

        def tell(progress: TrainProgress, number: int = number) -> None:
            nonlocal last
            has_loss = progress.loss is not None or progress.training_loss is not None
            if has_loss or time.monotonic() - last > TELL_SECONDS:
                last = time.monotonic()
                connection.send((number, "progress", progress))

        try:
            connection.send((number, "done", _done(task, data, folds, config, tell)))
        except Exception as problem:
            connection.send((number, "failed", reason_of(problem)))


def _done(
    task: FitTask, data: PreparedData, folds: list[Fold], config: TrainConfig, tell: Callable[[TrainProgress], None]
) -> Any:
    fitter = CandidateFitter(task.candidate, config, Reporter([task.candidate.name], len(folds), tell))
    rows = data.rows_for(task.candidate)
    if task.fold is None:
        return fit_all_rows(fitter, rows, task.rounds, task.step)
    return fit_fold(fitter, rows, ProgressRange(), folds[task.fold])
