"""Scorers for scikit-learn: `cross_val_score(model, X, soft_label, scoring=auc_spu_scorer)`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import make_scorer

from spu_core.metrics import auc_spu_score, known_positive_auc_score


def _known_positive_auc(y: Any, score: Any, *, is_labeled: Any = None, sample_weight: Any = None) -> float:
    """Rows whose y is 1 count as confirmed, unless `is_labeled` says which rows are."""
    return known_positive_auc_score(
        np.asarray(y) == 1 if is_labeled is None else is_labeled, score, sample_weight=sample_weight
    )


auc_spu_scorer = make_scorer(auc_spu_score, response_method="predict_proba")
auc_spu_scorer.__doc__ = """AUC_SPU of a fitted classifier.

Parameters
----------
estimator : classifier
    Any classifier with `predict_proba`; the second column is the score.
X : array-like
    The features.
y_true : array-like of float
    Soft labels in [0, 1], or classes 0 and 1.
sample_weight : array-like of float, optional
    Weight of each row.
"""

known_positive_auc_scorer = make_scorer(_known_positive_auc, response_method="predict_proba")
known_positive_auc_scorer.__doc__ = """AUC of a fitted classifier on confirmed cases.

Parameters
----------
estimator : classifier
    Any classifier with `predict_proba`; the second column is the score.
X : array-like
    The features.
y_true : array-like of float
    Soft labels in [0, 1], or classes 0 and 1. Rows of 1 count as confirmed.
sample_weight : array-like of float, optional
    Weight of each row.
is_labeled : array-like of bool, optional
    The confirmed rows, needed where a rule also gives a soft label of 1. Passed by metadata routing:
    `known_positive_auc_scorer.set_score_request(is_labeled=True)`.
"""
