"""Intervals and p-values made from influence values within folds, shown by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from spu_core.metrics import auc_spu_score
from spu_core.training import Basis
from spu_core.training.folded import folded_auc, folded_interval
from spu_core.training.pairs import compare_pairs


def draw(rng, rows):
    """Soft labels and a score whose level differs from fold to fold, as cross-fitted scores do."""
    belief = np.clip(rng.beta(0.5, 1.5, rows), 0, 1)
    fold = np.arange(rows) % 5
    level = rng.normal(size=5)[fold]
    none = np.zeros(rows, dtype=bool)
    basis = Basis(belief, none, belief, fold, np.ones(rows, dtype=bool))
    scores = [2 * belief + rng.normal(size=rows) + level for _ in range(2)]
    return basis, scores


@pytest.mark.slow
def test_the_interval_over_folds_covers_the_truth(replicates):
    rng = np.random.default_rng(0)
    belief = rng.beta(0.5, 1.5, 400_000)
    truth = auc_spu_score(belief, 2 * belief + rng.normal(size=belief.size))
    count = replicates(300, 2000)
    covered = 0
    for _ in range(count):
        basis, (score, _) = draw(rng, 400)
        covered += truth in folded_interval(basis.soft_label, score, basis)

    # Four Monte-Carlo standard errors of a share of 95 %.
    assert abs(covered / count - 0.95) < 4 * np.sqrt(0.95 * 0.05 / count)


@pytest.mark.slow
def test_two_equally_good_candidates_are_told_apart_as_rarely_as_promised(replicates):
    rng = np.random.default_rng(1)
    count = replicates(300, 2000)
    told_apart = 0
    for _ in range(count):
        basis, scores = draw(rng, 400)
        aucs = {str(k): folded_auc(basis.soft_label, score, basis) for k, score in enumerate(scores)}
        told_apart += compare_pairs(aucs)[0].can_be_told_apart

    assert abs(told_apart / count - 0.05) < 4 * np.sqrt(0.95 * 0.05 / count)
