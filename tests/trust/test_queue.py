"""Queues: the budget is kept, the top is flagged, chance has its share, and a user never changes the arm."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from spu_core.errors import TableError
from spu_core.trust import Checks, QueuePlan, assign_arms, disagreement, fill_queue, measure_on_holdout, split_balance
from spu_core.trust.outcomes.arms import SplitBalance, hash_shares
from spu_core.trust.outcomes.review_queue import MODEL_ABOVE, RULES_ABOVE, ArmPlan

USERS = np.array([f"u{number}" for number in range(2_000)], dtype=object)
SCORE = np.random.default_rng(0).random(2_000)


def test_each_model_flags_the_top_of_its_own_users():
    other = 1 - SCORE
    queue = fill_queue(USERS, {"a": SCORE, "b": other}, QueuePlan(budget=100, random_share=0.2))
    arms = assign_arms(USERS, ["a", "b"], random_share=0.2)

    for name, score in (("a", SCORE), ("b", other)):
        mine = np.flatnonzero(arms == name)
        expected = mine[np.argsort(-score[mine])][:40]
        assert set(queue.row[queue.arm == name]) == set(expected)
    assert (queue.arm == "random").sum() == 20


def test_chance_does_not_look_at_the_score():
    queue = fill_queue(USERS, {"a": SCORE}, QueuePlan(budget=400, random_share=0.5))
    random_rows = queue.row[queue.arm == "random"]

    assert abs(SCORE[random_rows].mean() - 0.5) < 4 * SCORE.std() / np.sqrt(random_rows.size)


def test_the_holdout_stays_the_same_whatever_the_models_and_the_round():
    first = assign_arms(USERS, ["a"], random_share=0.1)
    second = assign_arms(USERS[::-1], ["new", "old"], random_share=0.1)[::-1]

    assert np.array_equal(first == "random", second == "random")


def test_a_larger_holdout_contains_the_smaller():
    small, large = (assign_arms(USERS, ["a"], random_share=share) == "random" for share in (0.1, 0.3))

    assert (small <= large).all()


def test_another_round_draws_other_users_by_chance_but_the_same_arms():
    first, second = (
        fill_queue(USERS, {"a": SCORE}, QueuePlan(budget=100, random_share=0.5, turn=turn)) for turn in (1, 2)
    )

    assert set(first.row[first.arm == "random"]) != set(second.row[second.arm == "random"])
    assert set(first.row[first.arm == "a"]) == set(second.row[second.arm == "a"])


def test_a_user_with_many_rows_is_checked_once_for_the_best_of_them():
    users = np.repeat(["x", "y", "z"], 4)
    score = np.arange(12) / 12
    queue = fill_queue(users, {"a": score}, QueuePlan(budget=12, random_share=0.0))

    assert sorted(queue.user.tolist()) == ["x", "y", "z"]
    assert sorted(queue.row.tolist()) == [3, 7, 11]


def test_ties_are_broken_by_the_hash_and_not_by_the_order_of_the_file():
    same = np.zeros(2_000)
    queue = fill_queue(USERS, {"a": same}, QueuePlan(budget=50, random_share=0.0))
    turned = fill_queue(USERS[::-1], {"a": same}, QueuePlan(budget=50, random_share=0.0))

    assert set(queue.user) == set(turned.user)
    assert queue.row.max() > 1_000


def test_checks_are_shared_out_evenly_and_chance_gets_at_least_one():
    two = fill_queue(USERS, {"a": SCORE, "b": SCORE}, QueuePlan(budget=5, random_share=0.0))
    few = fill_queue(USERS, {"a": SCORE}, QueuePlan(budget=3, random_share=0.1))

    assert {plan.arm: plan.checks for plan in two.plans} == {"a": 3, "b": 2}
    assert {plan.arm: plan.checks for plan in few.plans} == {"a": 2, "random": 1}
    chance = few.plans[1]
    assert chance.chance == 1 / chance.users
    assert ArmPlan("a", users=0, checks=0, cut=float("nan")).chance == 0.0


@settings(max_examples=50)
@given(
    budget=st.integers(1, 60), share=st.sampled_from([0.0, 0.1, 0.5]), models=st.integers(1, 3), seed=st.integers(0, 5)
)
def test_the_budget_is_never_exceeded_and_closed_rows_are_never_chosen(budget, share, models, seed):
    is_open = np.arange(200) % 3 > 0
    scores = {f"m{number}": SCORE[:200] for number in range(models)}
    queue = fill_queue(USERS[:200], scores, QueuePlan(budget=budget, random_share=share, seed=seed), is_open=is_open)

    assert len(queue) <= budget
    assert is_open[queue.row].all()
    assert len(set(queue.user)) == len(queue)
    assert [plan.checks for plan in queue.plans] == [int((queue.arm == plan.arm).sum()) for plan in queue.plans]


def test_the_hash_is_the_one_that_any_program_can_compute():
    import hashlib

    digest = hashlib.sha256(b"7:arm:ann").digest()

    assert hash_shares(["ann"], 7)[0] == int.from_bytes(digest[:8], "big") / 2**64


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: fill_queue(["a"], {"m": [0.1]}, QueuePlan(budget=1), is_open=[False]), "No user is left to check"),
        (lambda: fill_queue(["a"], {"m": [0.1]}, QueuePlan(budget=1), is_open=[True, True]), "is_open has 2 rows"),
        (lambda: assign_arms(["a"], ["m", "m"]), "names of the models must be distinct"),
        (lambda: assign_arms(["a"], ["random"]), "none may be 'random'"),
        (lambda: assign_arms([None], ["m"]), "Row 0 has no user"),
        (lambda: QueuePlan(budget=5, random_share=0.95), "random_share must be at most 0.9"),
    ],
)
def test_queues_that_cannot_be_filled_are_refused(act, message):
    with pytest.raises(TableError, match=message):
        act()


def test_a_split_that_lost_users_is_suspicious():
    arms = np.array(["a"] * 500 + ["b"] * 350)
    found = split_balance(arms, {"a": 0.5, "b": 0.5}, {"age": np.r_[np.zeros(500), np.ones(350)]})

    assert found.is_suspicious
    assert "find out why" in found.sentence
    assert (found.of, round(found.largest_gap, 1)) == ("age", 2.0)
    assert SplitBalance({}, {}, 0.0007, 0.0, "age").is_suspicious
    assert not SplitBalance({}, {}, 0.001, 0.0, "age").is_suspicious


@pytest.mark.parametrize("counts", [(60, 40), (55, 40, 25), (30, 30, 22, 18)])
def test_the_sizes_of_the_arms_are_judged_like_the_chi_square_test_of_scipy(counts):
    names = "abcd"[: len(counts)]
    shares = dict(zip(names, (0.5, 0.3, 0.2, 0.2), strict=False))
    expected = np.array(list(shares.values())) / sum(shares.values()) * sum(counts)

    found = split_balance(np.repeat(list(names), counts), shares)

    assert found.p_value == pytest.approx(chisquare(counts, expected).pvalue)


def test_the_holdout_measures_a_score_by_random_checks_only():
    outcome = ["admit"] * 5 + ["fail"] * 5 + ["pass"] * 10
    checks = Checks.read({"user": range(21), "arm": ["random"] * 20 + ["a"], "outcome": [*outcome, "pass"]})
    score = np.r_[np.full(5, 0.9), np.full(5, 0.5), np.full(10, 0.1)]

    with pytest.raises(TableError, match="Only random checks represent all users"):
        measure_on_holdout(np.arange(21), checks, 2)
    with pytest.raises(TableError, match="score has 2 entries, but there are 20 checks"):
        measure_on_holdout([0.1, 0.2], checks.of("random"), 2)
    found = measure_on_holdout(score, checks.of("random"), 0.4)
    assert (found.flagged, found.surrender.estimate, found.pass_.estimate) == (10, 0.5, 0.0)
    assert (found.admission_auc.estimate, found.not_passed_auc.estimate) == (1.0, 1.0)
    assert found.admission_auc.warning == "Only 5 checks of one kind; the interval may be too narrow."
    assert measure_on_holdout(score[:1], checks.of("random").only([0]), 0.95).surrender is None


def test_an_auc_of_four_admissions_is_not_given():
    checks = Checks.read({"user": range(30), "arm": ["random"] * 30, "outcome": ["admit"] * 4 + ["pass"] * 26})

    assert measure_on_holdout(np.arange(30) / 30, checks, 0.5).admission_auc is None


def test_disagreement_finds_both_kinds_with_the_largest_gap_first():
    score = np.array([0.99, 0.9, 0.5, 0.4, 0.01, 0.02])
    rules = np.array([0.0, 0.0, 0.4, 0.5, 0.9, 0.0])
    found = disagreement(score, rules, budget=3)

    assert found.row.tolist() == [4, 0, 1]
    assert found.side.tolist() == [RULES_ABOVE, MODEL_ABOVE, MODEL_ABOVE]
    assert (np.diff(found.gap) <= 0).all()


def test_ranks_become_percentiles_and_closed_rows_are_left_out():
    found = disagreement([0.9, 0.1, 0.5, 0.4], [0.0, 0.8, 0.5, 0.3], is_open=[True, False, True, True], budget=4)

    assert found.row.tolist() == [0]  # the others agree, or are closed
    assert (found.model_percentile[0], found.rules_percentile[0], found.gap[0]) == (87.5, 12.5, 0.75)


@pytest.mark.parametrize("side", ["model", "rules"])
def test_one_side_alone_gets_no_more_rows_than_the_budget(side):
    assert disagreement([0.9, 0.8, 0.1, 0.2], [0.1, 0.2, 0.8, 0.9], budget=1, side=side).row.size == 1


def test_rows_of_which_the_rules_say_nothing_are_not_suspected_by_them():
    found = disagreement([0.1, 0.2, 0.3, 0.9], [0.0, 0.0, 0.0, 0.5], budget=4, side="rules")

    assert len(found) == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (([0.1], [0.1, 0.2], "both"), "score has 1 rows, but rule_score has 2"),
        (([0.1, 0.2], [0.1, 0.1], "both"), "The rule score is the same in every row"),
        (([0.1, 0.2], [0.1, 0.2], "up"), "side must be one of"),
    ],
)
def test_disagreements_that_cannot_be_are_refused(values, message):
    with pytest.raises(TableError, match=message):
        disagreement(values[0], values[1], side=values[2])
