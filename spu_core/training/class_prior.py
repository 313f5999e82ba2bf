"""The class prior of a table before anything is trained: labelled against the rest, scored out of fold."""

from __future__ import annotations

import numpy as np

from spu_core.errors import AssumptionError, TrainingError
from spu_core.labels import SoftLabels
from spu_core.tables import Table
from spu_core.theory.prior import PriorEstimate, estimate_prior
from spu_core.training.config import TrainConfig
from spu_core.training.cross_fitting import cross_fit

MOST_ROWS = 20_000


def estimate_class_prior(table: Table, *, most_rows: int = MOST_ROWS, seed: int = 0) -> PriorEstimate:
    """A range for the share of positives, from at most `most_rows` rows drawn at random.

    Its upper end rests on confirmed positives being a random sample of all positives, and is far too high where
    positives and negatives look alike; see `estimate_prior`.
    """
    labeled = int(np.count_nonzero(table.is_labeled))
    if not 0 < labeled < len(table):
        raise AssumptionError(
            f"To estimate the share of positives some rows must be confirmed and some not; {labeled:,} of "
            f"{len(table):,} are confirmed."
        )
    part = _drawn(table, most_rows, seed)
    labels = SoftLabels.from_values(part.is_labeled.astype(np.float64), part.is_labeled)
    run = cross_fit(part, labels, ["labeled_vs_rest"], TrainConfig(folds=3, seed=seed))[0]
    if run.error:
        raise TrainingError(f"The share of positives cannot be estimated: {run.error}")
    return estimate_prior(part.is_labeled, run.score, seed=seed)


def _drawn(table: Table, most_rows: int, seed: int) -> Table:
    if len(table) <= most_rows:
        return table
    rows = np.sort(np.random.default_rng(seed).choice(len(table), most_rows, replace=False))
    return table.only(rows)
