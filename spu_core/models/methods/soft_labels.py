"""Methods that learn from soft labels: the paper's method with each learner, two stages, soft bagging."""

from __future__ import annotations

import numpy as np

from spu_core.errors import TrainingError
from spu_core.models.fit_inputs import TrainingRows
from spu_core.models.method import FOLDS, TREES_FIRST, LearnerFitter, Method, Need, Options
from spu_core.models.methods.pu import BAG_RATIO, BAGS, SMALL_BAGS, average_of_bags
from spu_core.models.model import Model


def soft_label(rows: TrainingRows, options: Options) -> np.ndarray:
    """The target of the paper's method: S itself."""
    if np.ptp(rows.soft_label) == 0:
        raise TrainingError(
            f"The soft label is {rows.soft_label[0]:g} in every row, so there is only one class; "
            "add labelled positives or a rule that fires on some rows."
        )
    return rows.soft_label


def two_stage(rows: TrainingRows, fitter: LearnerFitter) -> Model:
    """Learn the cross-fitted E[S | X without rule columns] from all columns; labelled rows stay 1.

    The first stage cannot repeat the rules, since it does not see the columns that they read. The second stage may use
    those columns, but only as far as the other columns confirm them.
    """
    folds = fitter.options["folds"]
    smooth = fitter.out_of_fold(rows.without_rule_columns(), rows.soft_label, folds=folds, of=folds + 1)
    target = np.where(rows.is_labeled, 1.0, smooth)
    return fitter.fit(rows.features, target, rows.weight, stage=folds + 1, of=folds + 1)


def soft_bagging(rows: TrainingRows, fitter: LearnerFitter) -> Model:
    """Bagging in which the unlabelled rows of a bag keep their soft labels."""
    return average_of_bags(rows, np.where(rows.is_labeled, 1.0, rows.soft_label), fitter)


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
        target=soft_label,
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

OURS = (
    Method(
        key="two_stage",
        title="Two stages",
        group="ours",
        words="First E[S | columns the rules do not read], cross-fitted; then a refit of that with all columns.",
        needs=(Need.SOFT_LABELS,),
        keeps_rule_columns=True,
        learners=TREES_FIRST,
        source=two_stage,
        own_settings=(FOLDS,),
    ),
    Method(
        key="soft_bagging",
        title="Soft bagging",
        group="ours",
        words="Bags of all labelled rows and some unlabelled ones that keep their soft labels, averaged.",
        needs=(Need.LABELS, Need.SOFT_LABELS),
        keeps_rule_columns=False,
        learners=TREES_FIRST,
        source=soft_bagging,
        own_settings=(BAGS, BAG_RATIO),
        learner_defaults=SMALL_BAGS,
    ),
)
