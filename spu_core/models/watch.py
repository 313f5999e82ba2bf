"""What a caller may watch while a model trains: progress of each round, and when to stop early."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from spu_core.metrics import soft_log_loss
from spu_core.models.features import Features


@dataclass(frozen=True)
class Progress:
    """Where a fit stands: round `iteration` of `iterations` in fit `stage` of `stages`.

    `loss` is that of held-out rows, where some are watched; `training_loss` that of the rows it learns from, in the few
    rounds that look at it.
    """

    iteration: int
    iterations: int
    stage: int = 1
    stages: int = 1
    loss: float | None = None
    training_loss: float | None = None

    @property
    def share(self) -> float:
        """Part of the work done, from 0 to 1."""
        return (self.stage - 1 + self.iteration / self.iterations) / self.stages


class Loss(Protocol):
    """What early stopping watches: lower is better."""

    def __call__(self, target: np.ndarray, score: np.ndarray, /, *, sample_weight: np.ndarray | None = None) -> float:
        """One number for the held-out rows."""
        ...


@dataclass(frozen=True, eq=False)
class EarlyStop:
    """Stop when `loss` has not improved on these rows for `patience` rounds; keep the best."""

    features: Features
    target: np.ndarray
    weight: np.ndarray | None = None
    patience: int = 20
    loss: Loss = soft_log_loss

    def __call__(self, score: np.ndarray) -> float:
        return self.loss(self.target, score, sample_weight=self.weight)


@dataclass(frozen=True, eq=False)
class Watch:
    """Hooks of one fit. `on_progress` is called after every round; what it raises ends the fit: so one cancels.

    `looks` is the number of rounds that also tell the training loss, as far as the learner can; each costs a pass over
    the rows.
    """

    on_progress: Callable[[Progress], None] | None = None
    stop: EarlyStop | None = None
    stage: int = 1
    stages: int = 1
    looks: int = 0

    def at(self, stage: int, stages: int) -> Watch:
        """The hooks of fit `stage` of `stages`."""
        return replace(self, stage=stage, stages=stages)

    def looks_in(self, iteration: int, iterations: int) -> bool:
        """Whether this round tells the training loss: of the last fit only, and where no held-out loss is watched.

        >>> [round_ for round_ in range(1, 201) if Watch(looks=4).looks_in(round_, 200)]
        [1, 50, 100, 150, 200]
        """
        if not self.looks or self.stop is not None or self.stage < self.stages:
            return False
        return iteration in (1, iterations) or iteration % max(1, iterations // self.looks) == 0

    def report(
        self, iteration: int, iterations: int, loss: float | None = None, training_loss: float | None = None
    ) -> None:
        if self.on_progress is not None:
            self.on_progress(Progress(iteration, iterations, self.stage, self.stages, loss, training_loss))


@dataclass
class Pulse:
    """For rounds that take long: call it as often as you like, the watcher hears it four times a second."""

    watch: Watch
    iterations: int
    heard: float = field(default_factory=time.monotonic)

    def __call__(self, finished: int) -> None:
        """`finished` rounds are done, the next one is under way."""
        now = time.monotonic()
        if now - self.heard >= 0.25:
            self.heard = now
            self.watch.report(finished, self.iterations)


@dataclass
class BestRound:
    """The memory of early stopping: feed it a loss per round, ask whether to go on."""

    patience: int
    loss: float = field(default=np.inf)
    iteration: int = 0

    def update(self, iteration: int, loss: float) -> bool:
        """Whether this round is the best so far."""
        if loss < self.loss:
            self.loss, self.iteration = loss, iteration
            return True
        return False

    def is_over(self, iteration: int) -> bool:
        return iteration - self.iteration >= self.patience
