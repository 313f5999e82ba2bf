"""Cohen's κ of two reviewers: equal to scikit-learn's, and an interval that holds for few rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from spu_core.trust import Verdict
from spu_core.trust.audit.verdicts import reviewer_agreement

WORDS = np.array(["negative", "positive"])


def verdicts_of(**names):
    return [Verdict(row, word, name) for name, words in names.items() for row, word in enumerate(words) if word]


def test_kappa_equals_that_of_scikit_learn():
    rng = np.random.default_rng(1)
    ann, bob = WORDS[rng.integers(0, 2, 60)], WORDS[rng.integers(0, 2, 60)]
    [found] = reviewer_agreement(verdicts_of(ann=ann, bob=bob))
    assert found.kappa == pytest.approx(cohen_kappa_score(ann, bob))
    assert found.low < found.kappa < found.high


def test_only_rows_that_both_decided_count_and_unsure_ones_are_named():
    found = reviewer_agreement(
        verdicts_of(
            ann=["positive", "negative", "unsure", "negative", "positive"],
            bob=["positive", "negative", "positive", "", ""],
        )
    )
    assert [(each.rows, each.unsure) for each in found] == [(2, 1)]
    assert "ann and bob agree on 2 of 2 rows" in found[0].sentence
    assert "on 1 more at least one was unsure" in found[0].sentence


def test_without_both_verdicts_kappa_is_undefined_in_words():
    [found] = reviewer_agreement(verdicts_of(ann=["negative"] * 5, bob=["negative"] * 5))
    assert np.isnan(found.kappa)
    assert "needs rows with both verdicts" in found.sentence


def test_reviewers_without_common_rows_are_no_pair():
    assert reviewer_agreement([Verdict(1, "positive", "ann"), Verdict(2, "positive", "bob")]) == ()


@pytest.mark.parametrize(("prior", "right", "rows"), [(0.1, 0.95, 20), (0.3, 0.98, 20), (0.5, 0.9, 40)])
def test_the_interval_covers_kappa_also_with_few_rows(prior, right, rows):
    """Two independent reviewers, each right with probability `right`: coverage within three Monte-Carlo errors."""
    shares = sum(
        weight * np.outer(chances, chances)
        for weight, chances in ((prior, np.array([1 - right, right])), (1 - prior, np.array([right, 1 - right])))
    )
    chance = (shares.sum(axis=0) * shares.sum(axis=1)).sum()
    kappa = (np.trace(shares) - chance) / (1 - chance)
    rng = np.random.default_rng(3)
    hits = []
    for _ in range(300):
        cells = rng.choice(4, size=rows, p=shares.ravel())
        [found] = reviewer_agreement(verdicts_of(ann=WORDS[cells // 2], bob=WORDS[cells % 2]))
        hits.append(found.low <= kappa <= found.high)
    assert np.mean(hits) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / len(hits))
