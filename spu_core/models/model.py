"""Fitted models: what a fit is given, what models have in common, how they are stored, and models made of others.

A stored model is a state: a JSON-able description with its `kind`, and named blobs (bytes or number arrays), never
pickle. `methods.model_from_state` reads it back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from spu_core.checks import check_groups
from spu_core.errors import ScoreError, TrainingError
from spu_core.metrics import soft_log_loss
from spu_core.models.features import Features

Blob: TypeAlias = bytes | np.ndarray
State: TypeAlias = tuple[dict[str, Any], dict[str, Blob]]


class Model(Protocol):
    """A fitted model: it scores rows and can be stored.

    `parts` are the models it is made of. `rounds_` is the number of rounds it kept, None where it does not grow in
    rounds. `refined_soft_label` is set by the fused method only, and is not stored.
    """

    @property
    def parts(self) -> tuple[Model, ...]: ...

    @property
    def rounds_(self) -> int | None: ...

    @property
    def refined_soft_label(self) -> np.ndarray | None: ...

    def score_rows(self, features: Features, rule_score: np.ndarray | None = None) -> np.ndarray:
        """One score in [0, 1] per row; higher means more likely positive."""
        ...

    def to_state(self) -> State:
        """(description with its `kind`, blobs); `model_from_state` gives back a model with equal scores to the bit."""
        ...


class ComposedModel:
    """Base of the models that are made of other models; `kind` names the class in stored states."""

    kind: ClassVar[str]
    rounds_: ClassVar[int | None] = None
    refined_soft_label: np.ndarray | None = None

    @classmethod
    def from_parts(cls, description: Mapping[str, Any], parts: Sequence[Model]) -> Model:
        """The model of a stored description, whose parts have been read already."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class AverageModel(ComposedModel):
    """Mean score of several models."""

    parts: tuple[Model, ...]

    kind = "average"

    def score_rows(self, features: Features, rule_score: np.ndarray | None = None) -> np.ndarray:
        total = np.zeros(len(features))
        for part in self.parts:
            total += part.score_rows(features, rule_score)
        return total / len(self.parts)

    def to_state(self) -> State:
        return pack(self.kind, self.parts)

    @classmethod
    def from_parts(cls, description: Mapping[str, Any], parts: Sequence[Model]) -> AverageModel:
        return cls(tuple(parts))


@dataclass(frozen=True, eq=False)
class ScaledModel(ComposedModel):
    """min(1, g / divisor): Elkan and Noto's step from P(labelled | x) to P(positive | x), at most 1."""

    part: Model
    divisor: float

    kind = "scaled"

    @property
    def parts(self) -> tuple[Model, ...]:
        return (self.part,)

    def score_rows(self, features: Features, rule_score: np.ndarray | None = None) -> np.ndarray:
        return np.minimum(1.0, self.part.score_rows(features, rule_score) / self.divisor)

    def to_state(self) -> State:
        return pack(self.kind, self.parts, divisor=self.divisor)

    @classmethod
    def from_parts(cls, description: Mapping[str, Any], parts: Sequence[Model]) -> ScaledModel:
        return cls(parts[0], description["divisor"])


@dataclass(frozen=True, eq=False)
class WithRuleScoreModel(ComposedModel):
    """A model that has the rule score as one more column."""

    part: Model
    active: np.ndarray

    kind = "with_rule_score"

    @property
    def parts(self) -> tuple[Model, ...]:
        return (self.part,)

    def score_rows(self, features: Features, rule_score: np.ndarray | None = None) -> np.ndarray:
        values = need_rule_score(rule_score, len(features))
        return self.part.score_rows(features.select(self.active).with_column("rule_score", values))

    def to_state(self) -> State:
        return pack(self.kind, self.parts, active=self.active.tolist())

    @classmethod
    def from_parts(cls, description: Mapping[str, Any], parts: Sequence[Model]) -> WithRuleScoreModel:
        return cls(parts[0], np.array(description["active"], dtype=np.int64))


@dataclass(frozen=True, eq=False)
class RuleScoreModel(ComposedModel):
    """The rule score itself; nothing is learnt."""

    kind = "rule_score"
    parts: ClassVar[tuple[Model, ...]] = ()

    def score_rows(self, features: Features, rule_score: np.ndarray | None = None) -> np.ndarray:
        return need_rule_score(rule_score, len(features)).copy()

    def to_state(self) -> State:
        return {"kind": self.kind}, {}

    @classmethod
    def from_parts(cls, description: Mapping[str, Any], parts: Sequence[Model]) -> RuleScoreModel:
        return cls()


def need_rule_score(rule_score: np.ndarray | None, rows: int) -> np.ndarray:
    """The rule score of the rows to be scored, or an error that says how to pass it."""
    if rule_score is None:
        raise ScoreError(
            "This model reads the rule score of each row: apply the rules to the same rows and pass rule_score=."
        )
    if rule_score.shape != (rows,):
        raise ScoreError(f"rule_score has shape {rule_score.shape}, but there are {rows:,} rows to score.")
    return rule_score


def pack(kind: str, parts: Sequence[Model], **own: Any) -> State:
    """Several models as one state: the blobs of part 2 are called `2/…`."""
    states = [part.to_state() for part in parts]
    blobs = {f"{place}/{name}": blob for place, (_, inner) in enumerate(states) for name, blob in inner.items()}
    return {"kind": kind, **own, "parts": [description for description, _ in states]}, blobs


def unpack(description: Mapping[str, Any], blobs: Mapping[str, Blob]) -> list[State]:
    """The states of the parts of a packed state."""
    states: list[State] = []
    for place, part in enumerate(description["parts"]):
        start = f"{place}/"
        inner = {name.removeprefix(start): blob for name, blob in blobs.items() if name.startswith(start)}
        states.append((part, inner))
    return states


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Encoded rows with everything that is believed or known about them.

    Only `rule_score` may become a feature: `soft_label` is 1 in labelled rows, which leaks the label. `rule_columns`
    are the columns that rules read; a method keeps or drops them. `truth` is for the oracle alone.
    """

    features: Features
    soft_label: np.ndarray
    is_labeled: np.ndarray
    rule_score: np.ndarray | None = None
    truth: np.ndarray | None = None
    weight: np.ndarray | None = None
    groups: np.ndarray | None = None
    rule_columns: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.features)

    def take(self, rows: Any) -> TrainingRows:
        """Only these rows: a mask or increasing positions."""
        return replace(
            self,
            features=self.features.take(rows),
            soft_label=self.soft_label[rows],
            is_labeled=self.is_labeled[rows],
            rule_score=_taken(self.rule_score, rows),
            truth=_taken(self.truth, rows),
            weight=_taken(self.weight, rows),
            groups=_taken(self.groups, rows),
        )

    def without_rule_columns(self) -> TrainingRows:
        """The same rows without the columns that rules read."""
        return replace(self, features=self.features.without(self.rule_columns)) if self.rule_columns else self

    @property
    def labeled_share(self) -> float:
        """ρ, the weighted share of labelled rows."""
        return float(np.average(self.is_labeled, weights=self.weight))

    def need_labels(self, method: str) -> None:
        """Refuse rows of which none or all are labelled."""
        count = int(self.is_labeled.sum())
        if count == 0:
            raise TrainingError(
                f"{method} learns from confirmed cases, but no row is labelled; mark some, or use a soft-label method."
            )
        if count == len(self):
            raise TrainingError(
                f"{method} needs unlabelled rows beside the labelled ones, but all {count:,} rows are labelled."
            )


class Loss(Protocol):
    """The loss that early stopping measures; lower is better."""

    def __call__(self, target: np.ndarray, score: np.ndarray, /, *, sample_weight: np.ndarray | None = None) -> float:
        """One number for the held-out rows."""
        ...


@dataclass(frozen=True, eq=False)
class StopRule:
    """Rows for early stopping: a fit ends when `loss` has not improved on them for `patience` rounds."""

    rows: TrainingRows
    patience: int = 20
    loss: Loss = soft_log_loss

    def with_target(self, target: np.ndarray) -> EarlyStop:
        """What a learner needs: the features, the target that the method gives these rows, and their weights."""
        return EarlyStop(self.rows.features, target, self.rows.weight, self.patience, self.loss)


@dataclass(frozen=True, eq=False)
class EarlyStop:
    """Stop when `loss` has not improved on these rows for `patience` rounds, and keep the best round."""

    features: Features
    target: np.ndarray
    weight: np.ndarray | None = None
    patience: int = 20
    loss: Loss = soft_log_loss

    def __call__(self, score: np.ndarray) -> float:
        return self.loss(self.target, score, sample_weight=self.weight)


@dataclass
class BestRound:
    """The best round so far. Feed it a loss per round, and ask whether to go on."""

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


@dataclass(frozen=True)
class Progress:
    """How far a fit is: round `iteration` of `iterations` in fit `stage` of `stages`.

    `loss` is that of the held-out rows, where there are some; `training_loss` that of the training rows, in the few
    rounds that compute it.
    """

    iteration: int
    iterations: int
    stage: int = 1
    stages: int = 1
    loss: float | None = None
    training_loss: float | None = None

    @property
    def share(self) -> float:
        """Share of the work that is done, from 0 to 1."""
        return (self.stage - 1 + self.iteration / self.iterations) / self.stages


@dataclass(frozen=True, eq=False)
class FitMonitor:
    """Progress and early stopping of one fit.

    `on_progress` is called after every round; an exception that it raises ends the fit, which is how a fit is
    cancelled. `training_losses` is the number of rounds that also report the training loss, where the learner can;
    each costs a pass over the rows.
    """

    on_progress: Callable[[Progress], None] | None = None
    stop: EarlyStop | None = None
    stage: int = 1
    stages: int = 1
    training_losses: int = 0

    def at(self, stage: int, stages: int) -> FitMonitor:
        """The monitor of fit `stage` of `stages`."""
        return replace(self, stage=stage, stages=stages)

    def wants_training_loss(self, iteration: int, iterations: int) -> bool:
        """Whether this round reports the training loss: only in the last fit, and only without a held-out loss.

        >>> monitor = FitMonitor(training_losses=4)
        >>> [number for number in range(1, 201) if monitor.wants_training_loss(number, 200)]
        [1, 50, 100, 150, 200]
        """
        if not self.training_losses or self.stop is not None or self.stage < self.stages:
            return False
        return iteration in (1, iterations) or iteration % max(1, iterations // self.training_losses) == 0

    def recorded(self) -> tuple[FitMonitor, list[tuple[int, int, float]]]:
        """A monitor that does the same, and the list to which it adds (round, rounds, loss) for each training loss."""
        losses: list[tuple[int, int, float]] = []
        tell = self.on_progress
        if tell is None or not self.training_losses:
            return self, losses

        def record(progress: Progress) -> None:
            if progress.training_loss is not None:
                losses.append((progress.iteration, progress.iterations, progress.training_loss))
            tell(progress)

        return replace(self, on_progress=record), losses

    def repeat(self, losses: Iterable[tuple[int, int, float]]) -> None:
        """Report an equal fit that was done before: its recorded losses, and its end."""
        for iteration, iterations, loss in losses:
            self.report(iteration, iterations, training_loss=loss)
        self.report(1, 1)

    def report(
        self, iteration: int, iterations: int, loss: float | None = None, training_loss: float | None = None
    ) -> None:
        if self.on_progress is not None:
            self.on_progress(Progress(iteration, iterations, self.stage, self.stages, loss, training_loss))


@dataclass
class ThrottledReport:
    """Reports within a long round: call it as often as you like, at most four reports a second are passed on."""

    monitor: FitMonitor
    iterations: int
    last: float = field(default_factory=time.monotonic)

    def __call__(self, finished: int) -> None:
        """`finished` rounds are done, and the next one has begun."""
        now = time.monotonic()
        if now - self.last >= 0.25:
            self.last = now
            self.monitor.report(finished, self.iterations)


def inner_folds(is_labeled: np.ndarray, groups: np.ndarray | None, folds: int, seed: int) -> np.ndarray:
    """The fold of each row, stratified by the label; rows of one group stay together.

    >>> inner_folds(np.array([True, True, False, False]), None, 2, 0).tolist()
    [0, 1, 0, 1]
    """
    folds = int(min(folds, is_labeled.size))
    rng = np.random.default_rng(seed)
    if groups is not None:
        code = check_groups(groups, is_labeled.size)
        count = int(code.max()) + 1
        if count < 2:
            raise TrainingError(
                "All rows belong to one group, so no inner split can keep groups together; use another group column."
            )
        return grouped_folds(is_labeled.astype(np.int64), code, min(folds, count), rng)
    fold = np.empty(is_labeled.size, dtype=np.int64)
    start = 0
    for flag in (True, False):
        rows = rng.permutation(np.flatnonzero(is_labeled == flag))
        # The second stratum starts where the first ended, so that the sizes of folds differ by one row at most.
        fold[rows] = (start + np.arange(rows.size)) % folds
        start += rows.size
    return fold


def grouped_folds(strata: np.ndarray, code: np.ndarray, folds: int, rng: np.random.Generator) -> np.ndarray:
    """The fold of each row: groups, the largest first, each to the fold where its strata are rarest.

    `code` numbers the groups from 0. `StratifiedGroupKFold` of scikit-learn balances folds about as well, but took
    0.17 ms a group, nearly thirty times as long, and rows that repeat each other make almost as many groups as rows.
    """
    count, width = int(code.max()) + 1, int(strata.max()) + 1
    content = np.bincount(code * width + strata, minlength=count * width).reshape(count, width).astype(float)
    price = content / np.maximum(content.sum(axis=0), 1.0) ** 2
    order = rng.permutation(count)
    order = order[np.argsort(-content.sum(axis=1)[order], kind="stable")]
    load = np.zeros((folds, width))
    home = np.empty(count, dtype=np.int64)
    for group in order:
        cost = (load * price[group]).sum(axis=1)
        home[group] = np.lexsort((load.sum(axis=1), cost))[0]
        load[home[group]] += content[group]
    return home[code]


def _taken(values: np.ndarray | None, rows: Any) -> np.ndarray | None:
    return None if values is None else values[rows]
