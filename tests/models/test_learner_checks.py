"""Every learner keeps scikit-learn's contract; an expected failure says why in words."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from spu_core.models import (
    SoftForest,
    SoftLabelClassifier,
    SoftLightGBM,
    SoftLogistic,
    SoftNeighbors,
    SoftNetwork,
    SoftXGBoost,
)

ROWS_ARE_RANKED = "the encoder ranks rows without their weights, so a row of weight 2 is not two rows to the bit"
LEAF_COUNTS_ROWS = "leaf sizes and bins count rows, so a row of weight 2 is not two rows to the bit"
NEIGHBOURS_COUNT_ROWS = "k neighbours are k rows, whatever their weights"

WEIGHTS_ARE_NOT_COPIES = {
    "lightgbm": LEAF_COUNTS_ROWS,
    "xgboost": LEAF_COUNTS_ROWS,
    "extra_trees": LEAF_COUNTS_ROWS,
    "logistic": ROWS_ARE_RANKED,
    "neural_net": "mini-batches are drawn by row, and the encoder ranks rows without their weights",
    "nearest_neighbors": NEIGHBOURS_COUNT_ROWS,
}


def expected_failures(estimator):
    reason = WEIGHTS_ARE_NOT_COPIES[getattr(estimator, "key", "lightgbm")]
    return {"check_sample_weight_equivalence_on_dense_data": reason}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        SoftLightGBM(rounds=15, threads=1),
        SoftXGBoost(rounds=15, threads=1),
        SoftLogistic(),
        SoftNetwork(rounds=40, batch_rows=16),
        SoftNeighbors(neighbors=5, threads=1),
        SoftForest(rounds=10, threads=1),
        SoftLabelClassifier("lightgbm", rounds=15, threads=1),
        SoftLabelClassifier(rounds=15, threads=1),
    ],
    expected_failed_checks=expected_failures,
)
def test_the_learner_keeps_scikit_learns_contract(estimator, check):
    check(estimator)
