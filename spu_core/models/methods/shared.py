"""Learners and settings that several methods share."""

from __future__ import annotations

from spu_core.models.settings import Setting

TREES_FIRST = ("lightgbm", "xgboost", "logistic", "neural_net", "extra_trees", "nearest_neighbors")
FOLDS = Setting(name="folds", default=4, low=2, high=20, help="Inner folds: a row's own label never makes its target.")
BAGS = Setting(name="bags", default=20, low=1, high=500, help="Bags to average.")
BAG_RATIO = Setting(
    name="bag_ratio",
    default=1.0,
    low=0.1,
    high=100.0,
    log=True,
    tunable=True,
    help="Unlabelled rows per labelled one in a bag.",
)
SMALL_BAGS = (("rounds", 60), ("num_leaves", 8))
