"""What a caller may watch while a model trains: progress of each round, and when to stop early."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from spu_core.models.features import Features


@dataclass(frozen=True)
class Progress:
    """Where a fit stands: round `iteration` of `iterations` in fit `stage` of `stages`; `loss` where one is watched."""

    iteration: int
    iterations: int
    stage: int = 1
    stages: int = 1
    loss: float | None = None

    @property
    def share(self) -> float:
        """Part of the work done, from 0 to 1."""
        return (self.stage - 1 + self.iteration / self.iterations) / self.stages


def soft_log_loss(target: np.ndarray, score: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Mean of −[s ln g + (1−s) ln(1−g)]; scores are kept 1e-15 away from 0 and 1.

    >>> round(soft_log_loss(np.array([0.5]), np.array([0.5])), 6)
    0.693147
    """
    score = np.clip(score, 1e-15, 1 - 1e-15)
    loss = -(target * np.log(score) + (1.0 - target) * np.log1p(-score))
    return float(np.average(loss, weights=weight))


@dataclass(frozen=True, eq=False)
class EarlyStop:
    """Stop when `loss(target, score, weight)` has not improved on these rows for `patience` rounds; keep the best."""

    features: Features
    target: np.ndarray
    weight: np.ndarray | None = None
    patience: int = 20
    loss: Callable[[np.ndarray, np.ndarray, np.ndarray | None], float] = soft_log_loss

    def __call__(self, score: np.ndarray) -> float:
        return self.loss(self.target, score, self.weight)


@dataclass(frozen=True, eq=False)
class Watch:
    """Hooks of one fit. `on_progress` is called after every round; what it raises ends the fit: so one cancels."""

    on_progress: Callable[[Progress], None] | None = None
    stop: EarlyStop | None = None
    stage: int = 1
    stages: int = 1

    def at(self, stage: int, stages: int) -> Watch:
        """The hooks of fit `stage` of `stages`."""
        return replace(self, stage=stage, stages=stages)

    def report(self, iteration: int, iterations: int, loss: float | None = None) -> None:
        if self.on_progress is not None:
            self.on_progress(Progress(iteration, iterations, self.stage, self.stages, loss))


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
