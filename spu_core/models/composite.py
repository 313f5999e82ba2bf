"""Fitted models made of other models: an average, a scaled one, one that reads the rule score, the rules alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spu_core.errors import ScoreError
from spu_core.models.features import Features
from spu_core.models.state import Blob, Model, State, loads, pack, unpack


@loads("average")
@dataclass(frozen=True, eq=False)
class Average:
    """Mean score of several models."""

    parts: tuple[Model, ...]

    def score_rows(self, features: Features, rule_score: np.ndarray | None = None) -> np.ndarray:
        total = np.zeros(len(features))
        for part in self.parts:
            total += part.score_rows(features, rule_score)
        return total / len(self.parts)

    def to_state(self) -> State:
        description, blobs = pack(self.parts)
        return {"kind": "average", **description}, blobs

    @classmethod
    def from_state(cls, description: Mapping[str, Any], blobs: Mapping[str, Blob]) -> Average:
        return cls(tuple(unpack(description, blobs)))


@loads("scaled")
@dataclass(frozen=True, eq=False)
class Scaled:
    """min(1, g / divisor): Elkan–Noto's step from P(labelled | x) to P(positive | x), kept a probability."""

    part: Model
    divisor: float

    def score_rows(self, features: Features, rule_score: np.ndarray | None = None) -> np.ndarray:
        return np.minimum(1.0, self.part.score_rows(features, rule_score) / self.divisor)

    def to_state(self) -> State:
        description, blobs = pack([self.part])
        return {"kind": "scaled", "divisor": self.divisor, **description}, blobs

    @classmethod
    def from_state(cls, description: Mapping[str, Any], blobs: Mapping[str, Blob]) -> Scaled:
        return cls(unpack(description, blobs)[0], description["divisor"])


@loads("with_rule_score")
@dataclass(frozen=True, eq=False)
class WithRuleScore:
    """A model that has the rule score as one more column."""

    part: Model
    active: np.ndarray

    def score_rows(self, features: Features, rule_score: np.ndarray | None = None) -> np.ndarray:
        values = need_rule_score(rule_score, len(features))
        return self.part.score_rows(features.select(self.active).with_column("rule_score", values))

    def to_state(self) -> State:
        description, blobs = pack([self.part])
        return {"kind": "with_rule_score", "active": self.active.tolist(), **description}, blobs

    @classmethod
    def from_state(cls, description: Mapping[str, Any], blobs: Mapping[str, Blob]) -> WithRuleScore:
        return cls(unpack(description, blobs)[0], np.array(description["active"], dtype=np.int64))


@loads("rule_score")
@dataclass(frozen=True, eq=False)
class RuleScore:
    """No model at all: the rules speak."""

    def score_rows(self, features: Features, rule_score: np.ndarray | None = None) -> np.ndarray:
        return need_rule_score(rule_score, len(features)).copy()

    def to_state(self) -> State:
        return {"kind": "rule_score"}, {}

    @classmethod
    def from_state(cls, description: Mapping[str, Any], blobs: Mapping[str, Blob]) -> RuleScore:
        return cls()


def need_rule_score(rule_score: np.ndarray | None, rows: int) -> np.ndarray:
    """The rule score of the rows to be scored, or words on how to give it."""
    if rule_score is None:
        raise ScoreError(
            "This model reads the rule score of each row: apply the rules to the same rows and pass rule_score=."
        )
    if rule_score.shape != (rows,):
        raise ScoreError(f"rule_score has shape {rule_score.shape}, but there are {rows:,} rows to score.")
    return rule_score
