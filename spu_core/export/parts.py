"""What a fitted model is made of: the columns it reads, whether it reads the rule score, whether it keeps rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spu_core.models import Model
from spu_core.models.learners import SoftForest, SoftLearner, SoftNeighbors
from spu_core.models.learners.network import SoftNetwork
from spu_core.models.methods.fused import FusedModel
from spu_core.models.model import AverageModel, RuleScoreModel, ScaledModel, WithRuleScoreModel


def active_columns(model: Model) -> np.ndarray:
    """Positions of the encoded columns that the model reads, in increasing order."""
    found: set[int] = set()
    for part in outer_parts(model):
        found |= {int(place) for place in _active(part)}
    return np.array(sorted(found), dtype=np.int64)


def reads_rule_score(model: Model) -> bool:
    """Whether rows must come with what the rules say of them."""
    return any(
        isinstance(part, WithRuleScoreModel | RuleScoreModel) or (isinstance(part, FusedModel) and part.uses_rules)
        for part in outer_parts(model)
    )


def keeps_training_rows(model: Model) -> bool:
    """Whether the model holds rows of the training table: whoever has it can read them."""
    return any(isinstance(part, SoftNeighbors) for part in all_parts(model))


def outer_parts(model: Model) -> Iterator[Model]:
    """The model and its parts, except those behind a rule-score column: they count columns on their own."""
    yield model
    if isinstance(model, AverageModel | FusedModel):
        for part in model.parts:
            yield from outer_parts(part)
    elif isinstance(model, ScaledModel):
        yield from outer_parts(model.part)


def all_parts(model: Model) -> Iterator[Model]:
    """The model and everything in it."""
    for part in outer_parts(model):
        yield part
        if isinstance(part, WithRuleScoreModel):
            yield from all_parts(part.part)


def check_parts(model: Model, width: int) -> None:
    """What plain data cannot guarantee by themselves: settings that obey their law (a million threads would end the
    process), no column beyond the encoder, no tree in a circle."""
    for part in outer_parts(model):
        _check_range(_active(part), width, "a model reads a column that the encoder does not make")
    for part in all_parts(model):
        if isinstance(part, SoftLearner):
            part.check_settings()
        if isinstance(part, SoftForest):
            _check_forest(part)
        elif isinstance(part, SoftNetwork):
            _check_layers(part)


def _active(part: Model) -> np.ndarray:
    if isinstance(part, SoftLearner):
        return np.asarray(part.active_)
    return np.asarray(part.active) if isinstance(part, WithRuleScoreModel) else np.empty(0, dtype=np.int64)


def _check_range(values: np.ndarray, end: int, law: str) -> None:
    if values.size and (values.min() < 0 or values.max() >= end):
        raise ValueError(law)


def _check_forest(forest: SoftForest) -> None:
    tree = forest.trees_
    start, left, right = tree["start"], tree["children_left"], tree["children_right"]
    sizes = {tree[name].shape for name in tree if name != "start"}
    if len(sizes) != 1 or start[0] != 0 or start[-1] != left.size or (np.diff(start) < 1).any():
        raise ValueError("the arrays of a forest do not belong together")
    node = np.arange(left.size) - np.repeat(start[:-1], np.diff(start))
    end = np.repeat(np.diff(start), np.diff(start))
    inner = left >= 0
    for child in (left[inner], right[inner]):
        # Children come after their parent, so that every walk ends.
        if (child <= node[inner]).any() or (child >= end[inner]).any():
            raise ValueError("a tree of a forest leads back to itself")
    _check_range(tree["feature"][inner], forest.active_.size, "a tree splits on a column that is not there")


def _check_layers(network: SoftNetwork) -> None:
    width = network.view_.width
    for weight, bias in zip(network.layers_.weights, network.layers_.biases, strict=True):
        if weight.ndim != 2 or weight.shape[0] != width or bias.shape != (weight.shape[1],):
            raise ValueError("the layers of a network do not fit each other")
        width = weight.shape[1]
    if width != 1:
        raise ValueError("a network must end in one number")
