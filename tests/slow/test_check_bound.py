"""Appendix A.1's lower bound P(Y=1|S=s) ≥ s, by simulation: when it holds, and what breaks it."""

import os

import numpy as np
import pandas as pd
import pytest

from spu_core.labels.check_ratio_labels import check_ratio_labels
from spu_core.tables.simulators import AntiCheatConfig, simulate_anti_cheat
from spu_core.theory.check_ratio import fit_check_ratios

pytestmark = pytest.mark.slow
FULL = os.environ.get("SPU_SLOW") == "1"
USERS = 1_000_000 if FULL else 200_000


def one_check_each(picks, truth, rng):
    """At most one check per user, shared by all rules that pick the user; cheaters fail 80 %, innocents 10 %."""
    fails = rng.random(truth.size) < np.where(truth, 0.8, 0.1)
    rows = [
        pd.DataFrame({"user": np.flatnonzero(picked), "rule": rule, "outcome": fails[picked]})
        for rule, picked in picks.items()
    ]
    log = pd.concat(rows, ignore_index=True)
    return log.assign(outcome=np.where(log["outcome"], "fail", "pass"))


def shortfalls(result, truth):
    """For each non-zero s: by how many standard errors the share of positives stays below s."""
    value = result.labels.value[~result.labels.is_labeled]
    truth = truth[~result.labels.is_labeled]
    groups = [(s, truth[value == s]) for s in np.unique(value[value > 0])]
    return {
        float(s): (s - members.mean()) / np.sqrt(s * (1 - s) / members.size)
        for s, members in groups
        if members.size >= 100
    }


def two_rules(rng, copy):
    """Rule b picks independently of rule a given the truth, or is its copy."""
    truth = rng.random(USERS) < 0.05
    a = rng.random(USERS) < np.where(truth, 0.3, 0.03)
    b = a if copy else rng.random(USERS) < np.where(truth, 0.3, 0.06)
    return {"random": rng.random(USERS) < 0.1, "a": a, "b": b}, truth


@pytest.mark.parametrize("copy", [False, True], ids=["independent rules", "copied rule"])
def test_the_strongest_rule_keeps_the_lower_bound(copy):
    rng = np.random.default_rng(0)
    picks, truth = two_rules(rng, copy)
    result = check_ratio_labels(one_check_each(picks, truth, rng), random_rule="random", users=np.arange(USERS))

    assert max(shortfalls(result, truth).values()) < 3


def test_noisy_or_breaks_the_lower_bound_when_rules_overlap():
    """Counting the same evidence twice: S rises above the share of positives by over five standard errors."""
    rng = np.random.default_rng(0)
    picks, truth = two_rules(rng, copy=True)
    log = one_check_each(picks, truth, rng)
    result = check_ratio_labels(log, random_rule="random", users=np.arange(USERS), combine="noisy_or")

    assert max(shortfalls(result, truth).values()) > 5


def test_the_strongest_rule_breaks_it_too_when_a_rule_is_good_only_where_a_stronger_one_fires():
    """Rule b picks everybody whom a picks, and innocents at random: alone it is worth nothing, but its ratio is not."""
    rng = np.random.default_rng(0)
    picks, truth = two_rules(rng, copy=False)
    picks["b"] = picks["a"] | (rng.random(USERS) < 0.03)
    log = one_check_each(picks, truth, rng)
    shared = check_ratio_labels(log, random_rule="random", users=np.arange(USERS))
    # The remedy: write each check under its strongest rule only.
    only_b = (log["rule"] == "b") & log["user"].isin(np.flatnonzero(picks["a"]))
    own = check_ratio_labels(log[~only_b], random_rule="random", users=np.arange(USERS))

    assert max(shortfalls(shared, truth).values()) > 5
    assert max(shortfalls(own, truth).values(), default=0.0) < 3


def test_thirty_days_of_checks_break_it_unless_only_the_first_counts():
    season = simulate_anti_cheat(AntiCheatConfig(players=USERS, seed=1))
    truth, users = season.players.truth, season.players.frame["player"]
    every, first = (
        check_ratio_labels(season.checks, random_rule="random", users=users, repeats=repeats)
        for repeats in ("every", "first")
    )

    assert max(shortfalls(every, truth).values()) > 5
    assert max(shortfalls(first, truth).values()) < 3


def test_the_interval_of_a_soft_label_covers_it_as_often_as_it_says():
    """95 % nominal at 200 + 60 checks; Monte-Carlo error of a share near .95: .005 (2,000 repeats)."""
    rng, repeats, covered = np.random.default_rng(0), 20_000 if FULL else 2_000, 0
    rule, truth = np.repeat(["random", "aim"], [200, 60]), 1 - 0.1 / 0.5
    for _ in range(repeats):
        failed = rng.random(260) < np.where(rule == "random", 0.1, 0.5)
        ratios = fit_check_ratios(rule, failed, np.zeros(260, dtype=bool), "random")
        covered += ratios.value_low[0] <= truth <= ratios.value_high[0]

    assert 0.93 < covered / repeats < 0.97
