"""The paper's Figure 2: who is picked, how checks end and what follows, with the counts of a simulated season."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from spu_core.experiments.result import ResultTable
from spu_core.experiments.theorems.part import Part
from spu_core.tables.simulators import AntiCheatConfig, AntiCheatWorld
from spu_core.tables.simulators.anti_cheat import RANDOM_RULE

ALL = "All players"
PICKED = ("Picked by a detection rule", "Picked at random only", "Never picked")
ENDED = ("Admit", "Fail or skip, never admit", "Pass every check", "No check")
FOLLOWS = (
    "Permanent restriction: label 1",
    "Temporary restriction: soft label",
    "Plays on: unlabelled",
    "Plays on, unchecked: unlabelled",
)


def run(players: int, seed: int = 0) -> Part:
    """Play a season and count players along every path of the procedure."""
    config = AntiCheatConfig(players=players, seed=seed)
    world = AntiCheatWorld(config)
    population = world.draw()
    flows = count_flows(world.season(population), population.truth)
    table = ResultTable(
        "figure2",
        "Figure 2: check and punishment, counted",
        ("from", "to", "players", "cheaters among them"),
        tuple((flow["from"], flow["to"], flow["players"], flow["cheaters"]) for flow in flows),
        f"One simulated season: {players:,} players, {config.days} days. Who cheats is known to the simulator only.",
    )
    return Part((table,), {"flows": flows})


def count_flows(checks: pd.DataFrame, truth: np.ndarray) -> list[dict[str, Any]]:
    """Players, and cheaters among them, on every path; each player counts once at each stage."""
    is_random = checks["rule"].eq(RANDOM_RULE)
    picked = np.full(truth.size, PICKED[2], dtype=object)
    picked[checks["user"]] = PICKED[1]
    picked[checks.loc[~is_random, "user"]] = PICKED[0]
    ended = np.full(truth.size, ENDED[3], dtype=object)
    for outcome, words in (("pass", ENDED[2]), ("fail", ENDED[1]), ("admit", ENDED[0])):
        ended[checks.loc[checks["outcome"].eq(outcome), "user"]] = words
    follows = pd.Series(ended).map(dict(zip(ENDED, FOLLOWS, strict=True))).to_numpy()
    stages = (np.full(truth.size, ALL, dtype=object), picked, ended, follows)
    return [flow for source, target in pairwise(stages) for flow in _flows(source, target, truth)]


def _flows(source: np.ndarray, target: np.ndarray, truth: np.ndarray) -> list[dict[str, Any]]:
    frame = pd.DataFrame({"from": source, "to": target, "cheats": truth})
    grouped = frame.groupby(["from", "to"], sort=True)["cheats"].agg(["size", "sum"]).reset_index()
    return [
        {"from": str(row["from"]), "to": str(row["to"]), "players": int(row["size"]), "cheaters": int(row["sum"])}
        for row in grouped.to_dict("records")
    ]


def ends_of(flows: list[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """(players, cheaters) at each end of the procedure."""
    return {flow["to"]: (flow["players"], flow["cheaters"]) for flow in flows if flow["to"] in FOLLOWS}
