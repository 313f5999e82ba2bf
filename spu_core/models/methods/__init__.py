"""All methods by key, in the order in which they are offered, and how stored models are read.

| module | methods |
|---|---|
| `fused` | fused |
| `soft_labels` | lightgbm xgboost neural_net logistic nearest_neighbors extra_trees cnn two_stage soft_bagging |
| `baselines` | labeled_vs_rest soft_as_positive soft_as_feature soft_threshold rule_score oracle |
| `pu` | elkan_noto weighted_elkan_noto bagging_pu nnpu sar_em |
"""

from __future__ import annotations

from spu_core.errors import BundleError, TrainingError, nearest_hint
from spu_core.models.learners import LEARNERS
from spu_core.models.method import Method
from spu_core.models.methods.baselines import BASELINES, PU, REFERENCES
from spu_core.models.methods.fused import FUSED, OURS, SOFT_LABELS, FusedModel
from spu_core.models.model import (
    AverageModel,
    ComposedModel,
    Model,
    RuleScoreModel,
    ScaledModel,
    State,
    WithRuleScoreModel,
    unpack,
)

METHODS: dict[str, Method] = {entry.key: entry for entry in (FUSED, *SOFT_LABELS, *OURS, *BASELINES, *PU, *REFERENCES)}
COMPOSED: dict[str, type[ComposedModel]] = {
    composed.kind: composed for composed in (AverageModel, ScaledModel, WithRuleScoreModel, FusedModel)
}


def method(key: str) -> Method:
    """The method of this key; an unknown key is refused with the nearest known one."""
    if key not in METHODS:
        raise TrainingError(f"There is no method {key!r}. {nearest_hint(key, METHODS)}")
    return METHODS[key]


def model_from_state(state: State) -> Model:
    """The model of a state that `to_state` made."""
    description, blobs = state
    kind = description.get("kind")
    if kind in LEARNERS:
        return LEARNERS[kind].from_state(description, blobs)
    if kind in COMPOSED:
        parts = [model_from_state(part) for part in unpack(description, blobs)]
        return COMPOSED[kind].from_parts(description, parts)
    if kind == RuleScoreModel.kind:
        return RuleScoreModel()
    known = sorted([*LEARNERS, *COMPOSED, RuleScoreModel.kind])
    raise BundleError(f"A model of kind {kind!r} is not known; known are {', '.join(known)}.")
