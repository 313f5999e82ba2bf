"""Progress of a training: what the caller is told, and how it cancels."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from spu_core.errors import TrainingError
from spu_core.models import FitMonitor, Progress


@dataclass(frozen=True, slots=True)
class TrainProgress:
    """How far a training is. `fold` is −1 for held-out rows and None for a refit on all rows.

    `share` is the share of the whole work that is done; `seconds_left` is an estimate, None until there is one.
    """

    candidate: str
    place: int
    candidates: int
    fold: int | None
    folds: int
    step: str
    iteration: int
    iterations: int
    loss: float | None
    share: float
    seconds: float
    seconds_left: float | None
    training_loss: float | None = None


class TrainingCancelled(TrainingError):  # noqa: N818  (a cancelled training is not an error)
    """The caller asked to stop; `runs` are the candidates that were finished before."""

    def __init__(self, message: str = "The training was cancelled.", runs: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.runs = tuple(runs)


@dataclass(frozen=True, slots=True)
class ProgressRange:
    """The part of a candidate's work that one step covers, as shares from 0 to 1."""

    low: float = 0.0
    high: float = 1.0

    def part(self, place: int, of: int) -> ProgressRange:
        """Part `place` (from 0) of `of` equal ones.

        >>> ProgressRange(0.0, 0.5).part(1, 2)
        ProgressRange(low=0.25, high=0.5)
        """
        width = (self.high - self.low) / of
        return ProgressRange(self.low + place * width, self.low + (place + 1) * width)

    def at(self, share: float) -> float:
        return self.low + share * (self.high - self.low)


@dataclass
class Reporter:
    """Turns rounds of single fits into progress of the whole training, and asks after each round whether to stop."""

    names: Sequence[str]
    folds: int
    on_progress: Callable[[TrainProgress], None] | None = None
    should_stop: Callable[[], bool] | None = None
    raised: BaseException | None = None
    place: int = 0
    fold: int | None = None
    finished_seconds: list[float] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    candidate_started: float = field(default_factory=time.monotonic)

    def begin(self, place: int) -> None:
        self.place, self.candidate_started = place, time.monotonic()

    def finish(self) -> float:
        """Seconds the candidate took."""
        self.finished_seconds.append(time.monotonic() - self.candidate_started)
        return self.finished_seconds[-1]

    def monitor(
        self, span: ProgressRange, step: str, losses: list[float] | None = None, training_losses: int = 0
    ) -> FitMonitor:
        """The monitor of one fit; held-out losses are appended to `losses`."""

        def after_round(progress: Progress) -> None:
            if losses is not None and progress.loss is not None:
                losses.append(progress.loss)
            self.report(span.at(progress.share), step, progress)

        return FitMonitor(after_round, training_losses=0 if self.on_progress is None else training_losses)

    def report(self, share: float, step: str, progress: Progress | None = None) -> None:
        """Tell the caller and ask whether to stop; what the caller raises ends the training, not one candidate."""
        try:
            if self.on_progress is not None:
                self.on_progress(self._progress(share, step, progress or Progress(0, 1)))
            if self.should_stop is not None and self.should_stop():
                raise TrainingCancelled
        except BaseException as problem:
            self.raised = problem
            raise

    def _progress(self, share: float, step: str, progress: Progress) -> TrainProgress:
        now = time.monotonic()
        return TrainProgress(
            candidate=self.names[self.place],
            place=self.place + 1,
            candidates=len(self.names),
            fold=self.fold,
            folds=self.folds,
            step=step,
            iteration=progress.iteration,
            iterations=progress.iterations,
            loss=progress.loss,
            share=(self.place + share) / len(self.names),
            seconds=now - self.started,
            seconds_left=self._seconds_left(now - self.candidate_started, share),
            training_loss=progress.training_loss,
        )

    def _seconds_left(self, spent: float, share: float) -> float | None:
        """The rest of this candidate at its own speed, and the mean of all so far for each one to come."""
        if share < 0.02 and not self.finished_seconds:
            return None
        mean = sum(self.finished_seconds) / len(self.finished_seconds) if self.finished_seconds else None
        whole = spent / share if share >= 0.02 else max(spent, mean or 0.0)
        typical = whole if mean is None else (sum(self.finished_seconds) + whole) / (len(self.finished_seconds) + 1)
        return whole - spent + typical * (len(self.names) - self.place - 1)


SHOWN_AFTER = 2.0  # seconds; what is over sooner needs no bar


@contextmanager
def progress_shown(wanted: bool | None) -> Iterator[Callable[[TrainProgress], None] | None]:
    """A progress bar on standard error, where `wanted`; None: in notebooks and terminals. Yields `on_progress`."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter if wanted is None else wanted):
        yield None
        return
    if console.is_jupyter:
        yield _in_notebook()
        return
    # Names of runs are shown as they are, even if they look like markup.
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task("training", total=1.0)

    def show(at: TrainProgress) -> None:
        if at.seconds >= SHOWN_AFTER and not bar.live.is_started:
            bar.start()
        bar.update(task, completed=at.share, description=f"{at.candidate}, {at.step}")

    try:
        yield show
    finally:
        bar.stop()


def _in_notebook() -> Callable[[TrainProgress], None]:
    """A bar of IPython, since that of rich needs widgets, which may be missing."""
    bar: Any = None

    def show(at: TrainProgress) -> None:
        nonlocal bar
        if bar is None and at.seconds >= SHOWN_AFTER:
            bar = import_module("IPython.display").ProgressBar(100)
            bar.display()
        if bar is not None and round(100 * at.share) != bar.progress:
            bar.progress = round(100 * at.share)

    return show
