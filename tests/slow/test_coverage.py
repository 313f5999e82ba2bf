"""Nominal 95 % intervals and bands hold in simulation, with few positives, unequal groups, ties and weights.

Quick runs use few data sets of a few designs, and only see gross faults. SPU_SLOW=1 uses all designs with 2,000 data
sets for intervals (Monte-Carlo error .005) and 500 for bands (.010); docs/mathematics.md has the table.
"""

from __future__ import annotations

import numpy as np
import pytest

from spu_core.metrics import (
    auc_spu_ceiling,
    auc_spu_ceiling_interval,
    auc_spu_interval,
    auc_spu_score,
    ceiling_gap_interval,
    ceiling_share_interval,
    compare_auc_spu,
    roc_spu_band,
)

pytestmark = pytest.mark.slow


def soft(size, rng):
    x = rng.normal(size=size)
    soft_label = 1 / (1 + np.exp(1 - 1.5 * x)) * (rng.random(size) < 0.8)
    soft_label[rng.random(size) < 0.1 * soft_label] = 1.0
    return soft_label, x + 0.7 * rng.normal(size=size), x + 0.9 * rng.normal(size=size), {}


def rules(size, rng):
    truth = rng.random(size) < 0.15
    hit, missed = rng.choice([0, 0.3, 0.6, 1], size, p=[0.2, 0.2, 0.3, 0.3]), rng.choice([0, 0.3, 0.6], size)
    soft_label = np.where(truth, hit, missed * (rng.random(size) < 0.3))
    return soft_label, 1.5 * truth + rng.normal(size=size), 1.3 * truth + rng.normal(size=size), {}


def tied(size, rng):
    x = rng.normal(size=size)
    soft_label = np.clip(0.3 + 0.3 * x + 0.1 * rng.normal(size=size), 0, 1)
    return soft_label, np.clip(np.round(x + rng.normal(size=size)), -1, 1), np.round(x + rng.normal(size=size)), {}


def weighted(size, rng):
    *scored, _ = soft(size, rng)
    return *scored, {"sample_weight": np.exp(rng.normal(size=size))}


def hard(positives, of):
    def draw(size, rng):
        truth = (np.arange(size) < positives * size // of).astype(float)
        shared = 1.2 * truth + 0.7 * rng.normal(size=size)
        return truth, shared + 0.7 * rng.normal(size=size), shared + 0.7 * rng.normal(size=size), {}

    return draw


def grouped(sizes):
    """Rows of a group share most of what makes them positive, and their scores share an error."""

    def draw(count, rng):
        group = np.repeat(np.arange(count), sizes(count, rng))
        x = rng.normal(size=count)[group] + 0.3 * rng.normal(size=group.size)
        scores = (x + rng.normal(size=count)[group] for _ in range(2))
        return np.clip(0.3 + 0.25 * x, 0, 1), *scores, {"groups": group}

    return draw


equal = grouped(lambda count, rng: np.full(count, 8))
unequal = grouped(lambda count, rng: np.minimum(rng.zipf(1.6, count), 60))

# Each with the size of a data set, that of the population, and whether quick runs use it.
DESIGNS = {
    "soft, 50 rows": (soft, 50, 1_000_000, False),
    "soft, 2,000 rows": (soft, 2000, 1_000_000, True),
    "rules, 200 rows": (rules, 200, 1_000_000, False),
    "rules, 1,000 rows": (rules, 1000, 1_000_000, True),
    "tied, 400 rows": (tied, 400, 1_000_000, False),
    "lognormal weights, 1,000 rows": (weighted, 1000, 1_000_000, False),
    "10 positives of 1,000": (hard(10, 1000), 1000, 1_000_000, False),
    "20 positives of 1,000": (hard(20, 1000), 1000, 1_000_000, True),
    "40 positives of 20,000": (hard(40, 20_000), 20_000, 1_000_000, False),
    "30 positives of 300": (hard(30, 300), 300, 900_000, False),
    "25 groups of 8": (equal, 25, 200_000, False),
    "100 groups of 8": (equal, 100, 200_000, True),
    "50 unequal groups": (unequal, 50, 200_000, False),
    "100 unequal groups": (unequal, 100, 200_000, True),
}
designs = pytest.mark.parametrize("name", DESIGNS)


@pytest.fixture
def design(name, replicates):
    draw, size, population, quick = DESIGNS[name]
    if not replicates(quick, True):
        pytest.skip("only with SPU_SLOW=1")
    return draw, size, replicates(population // 5, population)


@designs
def test_intervals_of_auc_ceiling_gap_share_and_difference_cover_the_truth(design, replicates):
    draw, size, population = design
    soft_label, score, other, more = draw(population, np.random.default_rng(10_000))
    weight = more.get("sample_weight")
    auc, second = (auc_spu_score(soft_label, values, sample_weight=weight) for values in (score, other))
    ceiling = auc_spu_ceiling(soft_label, sample_weight=weight)
    truth = np.array([auc, ceiling, ceiling - auc, (auc - 0.5) / (ceiling - 0.5), auc - second])
    count = replicates(100, 2000)
    covered = np.zeros(truth.size)
    for seed in range(count):
        soft_label, score, other, more = draw(size, np.random.default_rng(seed))
        intervals = [
            auc_spu_interval(soft_label, score, **more),
            auc_spu_ceiling_interval(soft_label, **more),
            ceiling_gap_interval(soft_label, score, **more),
            ceiling_share_interval(soft_label, score, **more),
            compare_auc_spu(soft_label, score, other, **more),
        ]
        covered += [i.low - 1e-9 <= value <= i.high + 1e-9 for value, i in zip(truth, intervals, strict=True)]

    assert (covered / count >= replicates(0.86, 0.905)).all(), covered / count
    assert covered[0] / count >= replicates(0.86, 0.925), covered / count


def test_rows_of_a_group_taken_as_independent_do_not_cover(replicates):
    soft_label, score, _, _ = equal(40_000, np.random.default_rng(10_000))
    truth = auc_spu_score(soft_label, score)
    count = replicates(100, 2000)
    covered = 0
    for seed in range(count):
        soft_label, score, _, _ = equal(50, np.random.default_rng(seed))
        covered += truth in auc_spu_interval(soft_label, score)

    assert covered / count < 0.75


def curve_of(soft_label, score, weight):
    """Points of the population's curve, from the definition."""
    order = np.argsort(-score, kind="stable")
    last = np.flatnonzero(np.append(np.diff(score[order]) < 0.0, True))
    mass = np.stack([weight * (1 - soft_label), weight * soft_label])[:, order].cumsum(axis=1)[:, last]
    return np.append(0.0, mass[0] / mass[0, -1]), np.append(0.0, mass[1] / mass[1, -1])


@designs
def test_bands_cover_the_whole_curve_at_once(design, replicates):
    draw, size, population = design
    soft_label, score, _, more = draw(population, np.random.default_rng(10_000))
    curve = curve_of(soft_label, score, more.get("sample_weight", 1.0))
    covered = []
    for seed in range(replicates(50, 500)):
        soft_label, score, _, more = draw(size, np.random.default_rng(seed))
        band = roc_spu_band(soft_label, score, **more)
        if band.missing_because is None:
            truth = np.interp(band.fpr, *curve)
            covered.append(((band.simultaneous_low - 1e-9 <= truth) & (truth <= band.simultaneous_high + 1e-9)).all())

    assert len(covered) >= replicates(40, 200), "too often no band"
    assert np.mean(covered) >= replicates(0.85, 0.92), np.mean(covered)
    assert np.mean(covered) <= replicates(1.0, 0.99), np.mean(covered)
