"""Figures of check outcomes against slow, obvious oracles: shuffled users, hazards one by one, dates by hand."""

import numpy as np
import pandas as pd
import pytest

from spu_core.tables import Table
from spu_core.trust import Checks, clustered_ratio, compare_arms, history_leaks, label_delay

SHUFFLES = 2_000


def repeated_users(seed, differ):
    """120 users with one to four checks each, half of them in either arm."""
    rng = np.random.default_rng(seed)
    chance = rng.beta(0.6, 1.4, 120) if differ else np.full(120, 0.3)
    chance[:60] += 0.1
    user = np.repeat(np.arange(120), rng.integers(1, 5, 120))
    hits = rng.random(user.size) < chance[user].clip(0, 1)
    return user, np.where(user < 60, "a", "b"), hits


@pytest.mark.parametrize("differ", [False, True], ids=["users alike", "users differ"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_clustered_test_agrees_with_shuffling_whole_users(seed, differ):
    """If the arms are alike, users may be dealt out anew: how often is the difference as large by chance?"""
    user, arm, hits = repeated_users(seed, differ)
    found = compare_arms(
        Checks.read({"user": user, "arm": arm, "outcome": np.where(hits, "admit", "pass")}), "a", "b"
    ).surrender
    rng = np.random.default_rng(10 + seed)
    as_large = 0
    for _ in range(SHUFFLES):
        is_first = rng.permutation(120)[user] < 60
        as_large += abs(hits[is_first].mean() - hits[~is_first].mean()) >= abs(found.estimate) - 1e-12
    shuffled = as_large / SHUFFLES
    error = np.sqrt(max(shuffled * (1 - shuffled), 1e-4) / SHUFFLES)

    # 120 users: the normal approximation of p itself is good to about a tenth.
    assert found.p_value == pytest.approx(shuffled, abs=4 * error + 0.1 * shuffled + 0.005)


def test_the_variance_of_a_clustered_ratio_is_that_of_leaving_out_one_user_at_a_time():
    """The jackknife over users, to second order in their number."""
    user, _, hits = repeated_users(3, differ=True)
    left_out = np.array([hits[user != each].mean() for each in range(120)])
    jackknife = np.sqrt(119 / 120 * ((left_out - left_out.mean()) ** 2).sum())

    assert clustered_ratio(hits, user).standard_error == pytest.approx(jackknife, rel=0.05)


def delays_by_hand(delay, limit, horizon):
    """P(delay ≤ d), walking back from the longest delay: of those who could have needed d days, how many did not?"""
    share, known = {}, 1.0
    for day in range(horizon, -1, -1):
        share[day] = known
        could = sum(1 for each, last in zip(delay, limit, strict=True) if each <= day <= last)
        needed = sum(1 for each in delay if each == day)
        known *= 1.0 - needed / could if could else 1.0
    return share


def test_delays_are_estimated_by_reversed_hazards():
    rng = np.random.default_rng(4)
    today = np.datetime64("2026-06-30", "D")
    age, delay = rng.integers(0, 60, 300), rng.poisson(12, 300)
    start, seen = today - age, delay <= age
    confirmed = np.where(seen, start + delay, np.datetime64("NaT", "D"))
    found = label_delay(start, confirmed, today)
    expected = delays_by_hand(delay[seen].tolist(), age[seen].tolist(), int(delay[seen].max()))

    assert found.known_share(np.arange(61)).tolist() == pytest.approx(
        [0.0 if day < delay[seen].min() else expected[min(day, found.horizon)] for day in range(61)]
    )


def test_every_check_is_held_against_the_date_of_its_row():
    rng = np.random.default_rng(5)
    days = np.datetime64("2026-03-01", "D") + rng.integers(0, 30, 80)
    frame = pd.DataFrame({"day": days.astype("datetime64[s]"), "checks": 1, "label": [1] + [0] * 79})
    table = Table.from_frame(frame, roles={"day": "time", "checks": "feature", "label": "label"})
    row, checked = rng.integers(0, 80, 200), np.datetime64("2026-03-01", "D") + rng.integers(0, 40, 200)
    after = sum(checked[at] > days[row[at]] for at in range(200))
    before = sum(days[row[at]] - checked[at] > np.timedelta64(3, "D") for at in range(200))
    leak, aftermath = history_leaks(table, row, checked, history=("checks",), days_after=3)

    assert f"{after:,} of 200 checks happened after" in leak.message
    assert f"The features of {before:,} of 200 checked rows" in aftermath.message
