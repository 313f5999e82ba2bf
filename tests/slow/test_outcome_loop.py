"""The whole loop in simulated games: flag, check, feed back, train again; is the surrender ratio better afterwards?

In each world a model learns from a short season of checks. Twice, a tenth of the players is checked (a tenth of these
at random), the outcomes are fed back, and the model is trained again. The first and the last model then flag 2 % of
20,000 fresh players, and the chances of exactly these players to admit and to pass are averaged: no luck of the draw is
left in the comparison. The control spends the same checks on chance alone. The design was fixed before the first run.
Quick runs play 3 worlds; SPU_SLOW=1 plays 40.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from spu_core.labels import soft_labels_for
from spu_core.labels.check_log import ADMITTED, FAILED, PASSED
from spu_core.rules import RuleSet
from spu_core.tables.samples import load_sample_rules
from spu_core.tables.simulators import AntiCheatConfig, AntiCheatWorld
from spu_core.training import Candidate, TrainConfig, cross_fit
from spu_core.trust.outcomes.feedback import RowChecks, feed_back
from spu_core.trust.outcomes.review_queue import QueuePlan, fill_queue

pytestmark = pytest.mark.slow
CODES = {"pass": PASSED, "fail": FAILED, "admit": ADMITTED}
FRESH, FLAGGED, ROUNDS, BUDGET = 20_000, 400, 2, 600
SIGNS = {"surrender": 1, "passing": -1, "precision": 1}


@dataclass(frozen=True)
class Result:
    """Chances of the flagged fresh players to admit, to pass, and the share of cheaters among them."""

    surrender: float
    passing: float
    precision: float


def play(seed, random_share):
    """Results of the first and of the last model in one world."""
    world = AntiCheatWorld(AntiCheatConfig(players=6_000, days=10, seed=seed))
    players, rules = world.draw(), RuleSet.from_json(load_sample_rules("anti_cheat"))
    table = first = world.simulate().players
    run, results, checked = train(table, rules), [], None
    results.append(judged(world, run, seed))
    for turn in range(1, ROUNDS + 1):
        is_open = ~table.is_labeled & ~np.isin(np.arange(len(table)), [] if checked is None else checked.row)
        plan = QueuePlan(budget=BUDGET, random_share=random_share, seed=seed, turn=turn)
        queue = fill_queue(np.arange(len(table)), {"model": run.need_score()}, plan, is_open=is_open)
        answers = world.check(players, queue.row, seed=1_000 * seed + turn)
        outcome = np.array([CODES[str(answer)] for answer in answers])
        now = RowChecks(queue.row, queue.arm.astype(object), outcome, np.full(len(queue), np.datetime64("NaT", "D")))
        checked = now if checked is None else joined(checked, now)
        table = feed_back(first, rules, checked).table
        run = train(table, rules)
        results.append(judged(world, run, seed))
    return results[0], results[-1]


def joined(one, two):
    return RowChecks(*(np.concatenate([getattr(one, n), getattr(two, n)]) for n in ("row", "arm", "outcome", "day")))


def train(table, rules):
    [run] = cross_fit(
        table,
        soft_labels_for(table, rules),
        [Candidate("lightgbm", {"rounds": 60})],
        TrainConfig(folds=3, threads=1),
    )
    return run


def judged(world, run, seed):
    fresh = world.draw(FRESH, seed=50_000 + seed)
    top = np.argsort(-run.fit_all().score(fresh.features), kind="stable")[:FLAGGED]
    return Result(*(float(each[top].mean()) for each in (fresh.admit_chance, fresh.pass_chance, fresh.truth)))


def test_outcomes_that_are_fed_back_make_the_next_model_better_than_checks_by_chance(replicates):
    """Three figures must gain where the model chooses, and gain more than in the same worlds where chance does."""
    seeds = range(replicates(3, 40))
    gains = {share: gain_of([play(seed, share) for seed in seeds], share) for share in (0.1, 0.9)}
    for name, sign in SIGNS.items():
        assert sign * gains[0.1][name].mean() > 0
        assert sign * (gains[0.1][name] - gains[0.9][name]).mean() > 0


def gain_of(pairs, share):
    """What each figure gained in each world, told in words."""
    gains = {}
    for name, sign in SIGNS.items():
        before, after = (np.array([getattr(pair[at], name) for pair in pairs]) for at in (0, 1))
        gain = gains[name] = after - before
        print(
            f"random share {share}, {name}: {before.mean():.4f} → {after.mean():.4f}, difference {gain.mean():+.4f} ± "
            f"{gain.std(ddof=1) / np.sqrt(gain.size):.4f}, better in {(sign * gain > 0).sum()} of {gain.size} worlds"
        )
    return gains
