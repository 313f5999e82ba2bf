"""A small anti-cheat game in a workspace, whose players answer checks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spu_core.engines import Job, run_in_process
from spu_core.engines.stored_runs import stored_bundle
from spu_core.tables.samples import load_sample_rules
from spu_core.tables.simulators import AntiCheatConfig, AntiCheatWorld
from spu_core.tables.simulators.anti_cheat import Players
from spu_core.training import Candidate, TrainConfig, TrainPlan
from spu_core.workspace import DatasetRecord, RuleSetVersion, Workspace

QUICK = (
    Candidate("logistic", name="soft"),
    Candidate("labeled_vs_rest", {"learner": "logistic"}, name="plain"),
)


@dataclass(frozen=True)
class Game:
    """What was stored, and who can answer checks."""

    world: AntiCheatWorld
    players: Players
    dataset: DatasetRecord
    rules: RuleSetVersion
    runs: tuple[str, ...]

    def answers(self, users, seed: int = 0) -> np.ndarray:
        """How checks of these users end, in the words of the game."""
        rows = np.array([int(str(user)[1:]) for user in users])
        return self.world.check(self.players, rows, seed=seed)


@dataclass(frozen=True)
class Chances:
    """How likely flagged players are to admit and to pass: the ratios of endless checks, with no luck in them."""

    surrender: float
    passing: float


def chances_of_the_flagged(workspace: Workspace, run: str, flagged: int = 400) -> Chances:
    """What a model of the anti-cheat sample flags among 20,000 fresh players of the same game."""
    players = AntiCheatWorld().draw(20_000, seed=50_000)
    score = stored_bundle(workspace, run).predict(players.features)
    top = np.argsort(-score, kind="stable")[:flagged]
    return Chances(float(players.admit_chance[top].mean()), float(players.pass_chance[top].mean()))


def small_world(workspace: Workspace, candidates=QUICK, players: int = 2_500, seed: int = 3) -> Game:
    """A season of a small game, its rules, and quick models of it."""
    world = AntiCheatWorld(AntiCheatConfig(players=players, days=12, seed=seed))
    dataset = workspace.datasets.save(world.simulate().players, "Game")
    rules = workspace.rule_sets.create("Game", load_sample_rules("anti_cheat"))
    plan = TrainPlan(TrainConfig(folds=2, threads=1), tuple(candidates))
    parameters = {
        "dataset": dataset.id,
        "rule_set": rules.id,
        "rule_set_version": 1,
        "plan": plan.to_json(),
        "refine": False,
    }
    done = run_in_process(workspace, Job(kind="train", parameters=parameters, title="quick"))
    assert done.status == "finished", done.error
    return Game(world, world.draw(), dataset, rules, tuple(done.result["runs"]))
