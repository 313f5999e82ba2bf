"""The paper's method with each learner: E[S | X] by soft cross-entropy, without the columns that rules read."""

from __future__ import annotations

from spu_core.models.method import Method, Need
from spu_core.models.targets import plain


def _soft(learner: str, title: str, words: str) -> Method:
    """The paper's method with one of the learners."""
    return Method(
        key=learner,
        title=title,
        group="soft label",
        words=words,
        needs=(Need.SOFT_LABELS,),
        keeps_rule_columns=False,
        learners=(learner,),
        target=plain.soft_label,
    )


SOFT_LABELS = (
    _soft(
        "lightgbm",
        "Soft labels, LightGBM",
        "The paper's method: boosted trees learn S by soft cross-entropy, without the columns the rules read.",
    ),
    _soft("xgboost", "Soft labels, XGBoost", "The paper's method with XGBoost's trees."),
    _soft("neural_net", "Soft labels, neural network", "The paper's method with a three-layer neural network."),
    _soft(
        "logistic",
        "Soft labels, logistic regression",
        "The paper's method with a linear score: smooth and readable.",
    ),
    _soft(
        "nearest_neighbors",
        "Soft labels, nearest neighbours",
        "The mean soft label of the most similar rows; nothing is assumed about its shape.",
    ),
    _soft("extra_trees", "Soft labels, extra trees", "The mean soft label in the leaves of a forest."),
    _soft(
        "cnn",
        "Soft labels, convolutional network",
        "The paper's method for pixel columns; needs the extra vision.",
    ),
)
