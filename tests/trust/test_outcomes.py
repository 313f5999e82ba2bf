"""Ratios of checks: counted by hand, honest about users who repeat, about few checks, and about whom they speak of."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from spu_core.errors import TableError
from spu_core.theory.check_ratio import wilson_interval
from spu_core.trust import (
    Checks,
    clustered_ratio,
    compare_arms,
    detectable_difference,
    outcome_ratios,
    ratio_table,
    ratios_over_time,
)


def checks_of(**columns):
    return Checks.read(pd.DataFrame(columns))


def test_the_ratios_are_those_of_the_paper():
    """Table 3: admitted, and passed, over all security checks assigned."""
    outcome = ["admit"] * 3 + ["skip"] * 2 + ["fail"] * 5 + ["pass"] * 10
    [found] = outcome_ratios(checks_of(user=range(20), arm=["model"] * 20, outcome=outcome))

    assert (found.admitted, found.failed, found.passed) == (3, 7, 10)
    assert (found.surrender.estimate, found.pass_.estimate, found.failure.estimate) == (0.15, 0.5, 0.35)


def test_with_one_check_per_user_the_limits_are_wilsons_up_to_the_number_of_users():
    hits = np.r_[np.ones(30), np.zeros(270)]
    found = clustered_ratio(hits, np.arange(300))
    low, high = wilson_interval(30, 300)

    assert found.low == pytest.approx(float(low), abs=0.002)
    assert found.high == pytest.approx(float(high), abs=0.002)


@settings(max_examples=60)
@given(hits=st.lists(st.booleans(), min_size=1, max_size=60), users=st.integers(1, 30))
def test_a_ratio_lies_within_its_limits_and_they_within_zero_and_one(hits, users):
    found = clustered_ratio(np.array(hits, dtype=int), np.arange(len(hits)) % users)

    assert 0.0 <= found.low <= found.estimate <= found.high <= 1.0


def test_the_same_checks_of_fewer_users_are_worth_less():
    hits = np.tile([1, 1, 0, 0, 0, 0, 0, 0], 25)
    apart, together = clustered_ratio(hits, np.arange(200)), clustered_ratio(np.sort(hits), np.arange(200) // 10)

    assert together.high - together.low > 1.5 * (apart.high - apart.low)


def test_users_who_always_end_alike_count_once():
    """Ten users, each checked twenty times with the same end: worth about ten checks, not two hundred."""
    hits = np.repeat([1, 1, 1, 0, 0, 0, 0, 0, 0, 0], 20)
    low, high = wilson_interval(3, 10)
    found = clustered_ratio(hits, np.repeat(np.arange(10), 20))

    assert found.high - found.low >= 0.9 * float(high - low)


def test_nothing_found_is_not_nothing_there():
    found = clustered_ratio(np.zeros(50), np.arange(50))

    assert (found.estimate, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(float(wilson_interval(0, 50)[1]))
    assert found.warning == "No such outcome so far; the ratio can change a lot with a few more."


def test_few_users_are_said():
    assert clustered_ratio([1, 0, 1], [1, 2, 3]).warning.startswith("Only 3 rows were checked")


def test_the_ratios_say_which_rows_they_come_from():
    model, chance = outcome_ratios(checks_of(user=[1, 2], arm=["random", "model"], outcome=["pass", "fail"]))[::1]

    assert model.arm == "model"
    assert "ranked highest in its random part" in model.comes_from
    assert "random sample of the rows" in chance.comes_from
    assert ratio_table((model, chance))["is_random"].tolist() == [False, True]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"user": [1], "outcome": ["pass"]}, "Checks need the columns user, arm and outcome"),
        ({"user": [1], "arm": ["a"], "outcome": ["perhaps"]}, "outcome 'perhaps'; use one of"),
        ({"user": [None], "arm": ["a"], "outcome": ["pass"]}, "'user' of checks is missing in row 0"),
        ({"user": [1], "arm": ["a"], "outcome": ["pass"], "day": ["soon"]}, "cannot be read as a date"),
    ],
)
def test_checks_that_cannot_be_counted_are_refused(columns, message):
    with pytest.raises(TableError, match=message):
        checks_of(**columns)


def test_the_score_test_equals_the_chi_square_test_of_a_table_of_two_by_two():
    from scipy.stats import chi2_contingency

    outcome = ["admit"] * 20 + ["pass"] * 180 + ["admit"] * 8 + ["pass"] * 192
    found = compare_arms(checks_of(user=range(400), arm=["a"] * 200 + ["b"] * 200, outcome=outcome), "a", "b")
    expected = chi2_contingency([[20, 180], [8, 192]], correction=False).pvalue

    assert found.surrender.p_value == pytest.approx(expected, rel=0.02)
    assert found.surrender.estimate == pytest.approx(0.06)
    assert found.surrender.low < 0.06 < found.surrender.high


def test_users_who_repeat_make_the_same_difference_less_sure():
    outcome = ["admit"] * 20 + ["pass"] * 80 + ["admit"] * 8 + ["pass"] * 92
    arm = ["a"] * 100 + ["b"] * 100
    one = compare_arms(checks_of(user=range(200), arm=arm, outcome=outcome), "a", "b").surrender
    few = compare_arms(checks_of(user=np.arange(200) // 4, arm=arm, outcome=outcome), "a", "b").surrender

    assert one.estimate == few.estimate
    assert few.p_value > 2 * one.p_value


def test_users_in_both_arms_are_counted_and_said():
    found = compare_arms(
        checks_of(user=[1, 1, 2, 2] * 10, arm=["a", "b"] * 20, outcome=["pass", "fail"] * 20), "a", "b"
    )

    assert found.shared_users == 2
    assert any("2 rows were checked in both groups" in note for note in found.notes)


def test_the_limits_of_a_difference_join_those_of_both_arms_unless_they_share_users():
    outcome, arm = ["admit"] * 20 + ["pass"] * 80 + ["admit"] * 8 + ["pass"] * 92, ["a"] * 100 + ["b"] * 100
    apart = compare_arms(checks_of(user=range(200), arm=arm, outcome=outcome), "a", "b", level=0.9).surrender
    mixed = compare_arms(checks_of(user=np.r_[0:100, 50:150], arm=arm, outcome=outcome), "a", "b", level=0.9).surrender

    one, two = (clustered_ratio(np.arange(100) < hits, np.arange(100), 0.9) for hits in (20, 8))
    low = 0.12 - np.hypot(one.estimate - one.low, two.high - two.estimate)
    high = 0.12 + np.hypot(one.high - one.estimate, two.estimate - two.low)
    assert (apart.low, apart.high) == pytest.approx((low, high))
    reach = 1.6448536 * mixed.standard_error
    assert (mixed.low, mixed.high) == pytest.approx((0.12 - reach, 0.12 + reach))


def test_the_verdict_is_said_in_words():
    outcome = ["admit"] * 30 + ["pass"] * 170 + ["admit"] * 4 + ["pass"] * 196
    found = compare_arms(checks_of(user=range(400), arm=["a"] * 200 + ["b"] * 200, outcome=outcome), "a", "b")

    assert "'a' against 'b': confirmed share is higher by 13.0 points" in found.sentence
    assert "Stopping as soon as p is small" in found.notes[0]
    assert any("only 4 of these outcomes" in note for note in found.notes)
    assert len(found.notes) == 2


@pytest.mark.parametrize(
    ("first", "second", "message"), [("a", "x", "arm must be one of"), ("a", "a", "got 'a' twice")]
)
def test_arms_that_cannot_be_compared_are_refused(first, second, message):
    with pytest.raises(TableError, match=message):
        compare_arms(checks_of(user=[1, 2], arm=["a", "b"], outcome=["pass", "pass"]), first, second)


def test_more_checks_detect_smaller_differences():
    few, many = detectable_difference(0.02, 300), detectable_difference(0.02, 3_000)

    assert 0 < many < few
    with pytest.raises(TableError, match="checks must be at least 1"):
        detectable_difference(0.02, 0)
    with pytest.raises(TableError, match="power"):
        detectable_difference(0.02, 300, power=1.5)


def test_the_detectable_difference_has_the_power_that_was_asked_for():
    """The two-sample formula: pooled variance without a difference, both variances with one."""
    ratio, checks = 0.1, 500
    other = ratio + detectable_difference(ratio, checks, power=0.9, level=0.9)
    pooled = (ratio + other) / 2
    critical = norm.ppf(0.95) * np.sqrt(2 * pooled * (1 - pooled) / checks)
    error = np.sqrt((ratio * (1 - ratio) + other * (1 - other)) / checks)

    assert norm.sf((critical - (other - ratio)) / error) == pytest.approx(0.9)
    assert detectable_difference(0.0, 100) > 0
    assert detectable_difference(1.0, 100) == 0.0


def test_ratios_over_time_add_up_to_the_ratio():
    rng = np.random.default_rng(0)
    checks = checks_of(
        user=range(300),
        arm=rng.choice(["a", "random"], 300),
        outcome=rng.choice(["admit", "pass"], 300, p=[0.1, 0.9]),
        day=np.datetime64("2026-03-02") + rng.integers(0, 60, 300),
    )
    table = ratios_over_time(checks, every="month")
    [whole] = [each for each in outcome_ratios(checks) if each.arm == "a"]
    part = table[table["arm"] == "a"]

    assert table.index.tolist() == list(range(len(table)))
    assert list(zip(table["period"], table["arm"], strict=True)) == sorted(
        zip(table["period"], table["arm"], strict=True)
    )
    assert part["checks"].sum() == whole.checks
    assert (part["checks"] * part["surrender_ratio"]).sum() == pytest.approx(whole.admitted)
    with pytest.raises(TableError, match="every must be one of 'day', 'week', 'month'"):
        ratios_over_time(checks, every="year")
