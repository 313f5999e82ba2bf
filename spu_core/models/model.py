"""Fitted models: what they have in common, how they are stored, and those that are made of other models.

A stored model is a state: a JSON-able description with its `kind`, and named blobs (bytes or number arrays), never
pickle. `methods.model_from_state` reads it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from spu_core.errors import ScoreError
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
