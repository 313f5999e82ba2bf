"""Checks that are answered by the simulated game of the anti-cheat sample, to try the whole loop without reviewers."""

from __future__ import annotations

import numpy as np
import pandas as pd

from spu_core.tables import Table
from spu_core.tables.simulators import AntiCheatWorld
from spu_core.tables.simulators.anti_cheat_players import Players
from spu_core.trust.outcomes.outcome_file import OutcomeLine
from spu_core.workspace import Workspace

COMPARED = ("account_age_days", "headshot_rate", "reaction_ms", "devices")
WORDS = {"pass": "passed", "fail": "failed", "admit": "admitted"}


def sample_players(table: Table) -> Players | None:
    """The players behind the anti-cheat sample, where this table is (made from) that sample; else None."""
    if not set(COMPARED) <= set(table.frame.columns):
        return None
    players = AntiCheatWorld().draw()
    if len(players) != len(table):
        return None
    same = all(np.array_equal(table.frame[name].to_numpy(), players.features[name].to_numpy()) for name in COMPARED)
    return players if same else None


def simulated_outcomes(workspace: Workspace, queue: str, players: Players, *, seed: int = 0) -> tuple[OutcomeLine, ...]:
    """How the checks of a queue end in the game; the day is that of the queue."""
    entries, record = workspace.queues.entries(queue), workspace.queues.get(queue)
    rows = np.array([entry.row for entry in entries])
    turn = int(record.plan.get("turn", 1))
    found = AntiCheatWorld().check(players, rows, seed=1_000 * seed + turn)
    day = record.made.date().isoformat()
    return tuple(
        OutcomeLine(entry.row, entry.user, WORDS[str(outcome)], day)
        for entry, outcome in zip(entries, found, strict=True)
    )


def simulated_csv(lines: tuple[OutcomeLine, ...]) -> str:
    """The same as the file that a reviewer would send back."""
    frame = pd.DataFrame([(line.user, line.outcome, line.day) for line in lines], columns=["user", "outcome", "day"])
    return frame.to_csv(index=False)
