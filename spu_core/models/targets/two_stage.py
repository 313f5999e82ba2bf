"""Two stages: first what the other columns say of S, then a refit that may see every column."""

from __future__ import annotations

import numpy as np

from spu_core.models.evidence import Evidence
from spu_core.models.state import Model
from spu_core.models.trainer import Trainer


def two_stage(rows: Evidence, trainer: Trainer) -> Model:
    """Learn the cross-fitted E[S | X without rule columns] from all columns; labelled rows stay 1.

    The first stage cannot echo the rules, since it does not see what they read; the second may use those columns, but
    only for what the others confirm.
    """
    folds = trainer.options["folds"]
    smooth = trainer.out_of_fold(rows.without_rule_columns(), rows.soft_label, folds=folds, of=folds + 1)
    target = np.where(rows.is_labeled, 1.0, smooth)
    return trainer.fit(rows.features, target, rows.weight, stage=folds + 1, of=folds + 1)
