"""What is claimed about ratios of checks holds in simulation: coverage, type-I error, power, split, delay, bounds.

Quick runs use 150 data sets per design (Monte-Carlo error of a coverage of .95: .018); SPU_SLOW=1 uses 4,000 (.0034).
Accepted are three Monte-Carlo errors around the claim, and beyond them what is written beside each: these are
approximations, which may lose a point or two of coverage with few users or few events.
"""

from __future__ import annotations

import numpy as np
import pytest

from spu_core.trust.outcomes.arms import assign_arms, compare_arms, detectable_difference, split_balance
from spu_core.trust.outcomes.feedback import belief_bounds
from spu_core.trust.outcomes.ratios import Checks, clustered_ratio, label_delay

pytestmark = pytest.mark.slow
FEW, MANY = 150, 4_000
NEVER = np.datetime64("NaT", "D")


def users_with_checks(users, ratio, concentration, most, rng):
    """Users differ in their chance to hit (a Beta of this concentration) and have 1 to `most` checks each."""
    chance = rng.beta(ratio * concentration, (1 - ratio) * concentration, users)
    user = np.repeat(np.arange(users), rng.integers(1, most + 1, users))
    return user, (rng.random(user.size) < chance[user]).astype(int)


# users, ratio, how alike users are (small: very different), most checks per user
DESIGNS = {
    "one check each, rare": (600, 0.03, 1e6, 1),
    "one check each, common": (200, 0.4, 1e6, 1),
    "a few checks, users alike": (300, 0.1, 30.0, 4),
    "many checks, users differ": (150, 0.3, 2.0, 10),
    "many checks, rare, users differ": (400, 0.05, 2.0, 6),
    "few users": (25, 0.3, 5.0, 4),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_the_interval_of_a_ratio_covers_it_although_users_repeat(name, replicates):
    users, ratio, concentration, most = DESIGNS[name]
    count, rng = replicates(FEW, MANY), np.random.default_rng(1)
    drawn = [users_with_checks(users, ratio, concentration, most, rng) for _ in range(count)]
    covered = np.mean([ratio in clustered_ratio(hits, user) for user, hits in drawn])
    naive = np.mean([ratio in clustered_ratio(hits, np.arange(hits.size)) for _, hits in drawn])

    print(f"{name}: coverage {covered:.4f} ± {error(covered, count):.4f}, without clusters {naive:.4f}")
    assert covered >= 0.95 - 0.02 - 3 * error(0.95, count)


@pytest.mark.parametrize("name", [name for name in DESIGNS if name != "few users"])
def test_two_equal_arms_are_told_apart_no_more_often_than_promised(name, replicates):
    count, rng = replicates(400, MANY), np.random.default_rng(2)
    false = 0
    for _ in range(count):
        user, hits = users_with_checks(*DESIGNS[name], rng)
        # A coin per user: that the hash is as good as one is tested below.
        arm = np.where(rng.random(user.max() + 1) < 0.5, "a", "b")[user]
        found = compare_arms(checks_of(user, arm, hits), "a", "b")
        false += found.surrender.is_clear
    share = false / count

    print(f"{name}: type-I error {share:.4f} ± {error(share, count):.4f}")
    assert share <= 0.05 + 0.01 + 3 * error(0.05, count)


@pytest.mark.parametrize(("ratio", "checks"), [(0.02, 1_000), (0.1, 300), (0.4, 200)])
def test_a_detectable_difference_is_found_with_the_promised_power(ratio, checks, replicates):
    count, rng = replicates(FEW, MANY), np.random.default_rng(3)
    difference, told_apart, covered = detectable_difference(ratio, checks), 0, 0
    for _ in range(count):
        hits = np.r_[rng.random(checks) < ratio + difference, rng.random(checks) < ratio].astype(int)
        arm = np.repeat(["a", "b"], checks)
        found = compare_arms(checks_of(np.arange(2 * checks), arm, hits), "a", "b").surrender
        told_apart, covered = told_apart + found.is_clear, covered + (difference in found)
    power, coverage = told_apart / count, covered / count

    print(f"ratio {ratio}, {checks} checks: power {power:.4f} ± {error(power, count):.4f}, coverage {coverage:.4f}")
    assert abs(power - 0.8) <= 0.03 + 3 * error(0.8, count)
    assert coverage >= 0.94 - 3 * error(0.95, count)


def test_the_split_by_hash_is_as_balanced_as_a_random_one(replicates):
    count, rng = replicates(FEW, MANY), np.random.default_rng(4)
    users, value = np.arange(600), rng.normal(size=600)
    shares = {"random": 0.1, "a": 0.45, "b": 0.45}
    found = [split_balance(assign_arms(users, ["a", "b"], seed=seed), shares, {"x": value}) for seed in range(count)]
    rejected = np.mean([balance.p_value < 0.05 for balance in found])
    gaps = np.array([balance.largest_gap for balance in found])
    drawn = np.array([largest_gap(rng.permutation(value)) for _ in range(count)])
    gap, expected, spread = gaps.mean(), drawn.mean(), np.hypot(gaps.std(), drawn.std()) / np.sqrt(count)

    print(f"sizes rejected at .05: {rejected:.4f} ± {error(rejected, count):.4f}; gap {gap:.4f} against {expected:.4f}")
    assert abs(rejected - 0.05) <= 0.01 + 3 * error(0.05, count)
    # Arms drawn by hash vary in size, which widens the gap by a few per cent.
    assert gap == pytest.approx(expected, rel=0.05, abs=0.05 * expected + 4 * spread)


def largest_gap(value):
    """Of three parts of the expected sizes, drawn by a permutation."""
    means = [part.mean() for part in np.split(value, [60, 330])]
    return (max(means) - min(means)) / value.std()


def test_the_delay_is_not_underestimated_by_recent_rows(replicates):
    count, rng = replicates(40, 1_000), np.random.default_rng(5)
    today = np.datetime64("2026-06-30", "D")
    careful, naive = [], []
    for _ in range(count):
        start = today - rng.integers(1, 91, 1_500)
        delay = 1 + rng.poisson(rng.gamma(2.0, 10.0, start.size))
        done = start + delay
        confirmed = np.where((rng.random(start.size) < 0.3) & (done <= today), done, NEVER)
        seen = delay[~np.isnat(confirmed)]
        careful.append(label_delay(start, confirmed, today).known_share(14))
        naive.append((seen <= 14).mean())
    within = 1 + rng.poisson(rng.gamma(2.0, 10.0, 400_000))
    truth = (within[within <= 89] <= 14).mean()

    print(f"known after 14 days: {np.mean(careful):.4f}, naive {np.mean(naive):.4f}, truth {truth:.4f}")
    assert np.mean(careful) == pytest.approx(truth, abs=0.01 + 3 * np.std(careful) / np.sqrt(count))
    assert np.mean(naive) > truth + 0.02


def test_what_random_checks_prove_of_a_rule_is_below_the_truth(replicates):
    import pandas as pd

    from spu_core.rules import Compare, Rule, RuleSet
    from spu_core.tables import Table

    count, rng, wrong = replicates(FEW, MANY), np.random.default_rng(6), 0
    size, innocent_failure = 400, 0.12
    for _ in range(count):
        fires = rng.random(size) < 0.3
        positive = rng.random(size) < np.where(fires, 0.35, 0.03)
        chance = np.where(positive[:, None], [0.1, 0.8, 0.1], [1 - innocent_failure, innocent_failure, 0.0])
        outcome = (rng.random(size)[:, None] > np.cumsum(chance, axis=1)[:, :2]).sum(axis=1)
        label = (np.arange(size) == 0).astype(int)
        table = Table.from_frame(pd.DataFrame({"x": fires * 1.0, "label": label}), roles={"label": "label"})
        rules = RuleSet((Rule("fires", 0.1, Compare("x", ">", 0.5)),))
        [bound] = belief_bounds(rules, table, np.arange(size), outcome, np.ones(size, dtype=bool))
        wrong += bound.low > positive[fires].mean()
    share = wrong / count

    print(f"lower limit above the true share: {share:.4f} ± {error(share, count):.4f}")
    assert share <= 0.025 + 3 * error(0.025, count)


def checks_of(user, arm, hits):
    outcome = np.where(hits == 1, 2, 0)
    nothing = np.full(len(hits), NEVER)
    names, codes = np.unique(user, return_inverse=True)
    return Checks(names, codes, np.asarray(arm, dtype=str), outcome, nothing, nothing)


def error(share, count):
    return float(np.sqrt(max(share * (1 - share), 1e-9) / count))
