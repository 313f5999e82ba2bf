"""The anti-cheat game: players, five detection rules and a random one, and a season of daily security checks.

On each day a player may be picked by one or more rules and is then checked once. The check ends in `admit` (the player
is labelled a cheater and never checked again), `fail` (or skip) or `pass` (innocent, or with technical means).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_share
from spu_core.errors import TableError
from spu_core.tables.simulators.anti_cheat_players import Players, draw_players
from spu_core.tables.table import Table

RANDOM_RULE = "random"
OUTCOMES = np.array(["pass", "fail", "admit"], dtype=object)
SHARES = (
    "cheater_share", "hardened_share", "innocent_failure", "cheater_admission", "cheater_pass",
    "admission_tilt", "rule_rate", "random_rate",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AntiCheatConfig:
    """Everything that decides the game; two equal configs give equal data.

    Cheaters fail or skip a check with 1 − `cheater_admission` − `cheater_pass`. `admission_tilt` concentrates the
    admissions on casual cheaters: at 0 all cheaters admit alike, at 1 hardened ones never do. `exposure` multiplies
    how often the imprecise `complaints` rule checks players; large values make labels say who was checked.
    `concentration` tells how alike players of one class behave when checked.
    """

    players: int = 8_000
    days: int = 30
    seed: int = 0
    cheater_share: float = 0.08
    hardened_share: float = 0.6
    innocent_failure: float = 0.1
    cheater_admission: float = 0.04
    cheater_pass: float = 0.1
    admission_tilt: float = 0.25
    rule_rate: float = 0.05
    random_rate: float = 0.015
    exposure: float = 1.0
    concentration: float = 30.0

    def __post_init__(self) -> None:
        for name in SHARES:
            check_share(getattr(self, name), name, TableError, closed=True)
        for name, least in (("players", 1), ("days", 1), ("exposure", 0), ("concentration", 1e-3)):
            if not getattr(self, name) >= least:
                raise TableError(f"{name} must be at least {least}, got {getattr(self, name)}.")
        if self.casual_admission + self.cheater_pass > 1.0:
            raise TableError(
                f"Casual cheaters would admit with {self.casual_admission:.2f} and pass with {self.cheater_pass:.2f}, "
                "more than 1 together; lower cheater_admission, cheater_pass or admission_tilt."
            )

    @property
    def hardened_admission(self) -> float:
        return self.cheater_admission * (1.0 - self.admission_tilt)

    @property
    def casual_admission(self) -> float:
        """Chosen so that all cheaters together admit with `cheater_admission`."""
        if self.hardened_share == 1.0:
            return self.cheater_admission
        others = self.hardened_share * self.hardened_admission
        return (self.cheater_admission - others) / (1.0 - self.hardened_share)

    @property
    def cheater_failure(self) -> float:
        """Chance that a checked cheater fails or skips."""
        return 1.0 - self.cheater_admission - self.cheater_pass


@dataclass(frozen=True, eq=False)
class AntiCheatSeason:
    """`players` is a table with one row per player, `checks` one row per rule that asked for a check."""

    players: Table
    checks: pd.DataFrame


class AntiCheatWorld:
    """A game that can be asked for fresh players and for what happens when some of them are checked.

    >>> world = AntiCheatWorld(AntiCheatConfig(seed=1))
    >>> fresh = world.draw(1000, seed=2)
    >>> outcomes = world.check(fresh, fresh.truth, seed=3)
    >>> sorted(set(outcomes.tolist()))
    ['admit', 'fail', 'pass']
    """

    def __init__(self, config: AntiCheatConfig | None = None) -> None:
        self.config = config or AntiCheatConfig()

    def draw(self, players: int | None = None, *, seed: int | None = None) -> Players:
        """A fresh population; without arguments the one that the config's season is played with."""
        rng = self._rng(0, self.config.seed if seed is None else seed)
        return draw_players(self.config, players or self.config.players, rng)

    def check(self, players: Players, rows: Any = slice(None), *, seed: int = 0) -> np.ndarray:
        """Outcome of one check of each chosen player: "pass", "fail" (or skip) or "admit"."""
        return OUTCOMES[_outcomes(players, np.arange(len(players))[rows], self._rng(1, seed))]

    def season(self, players: Players) -> pd.DataFrame:
        """All checks of the season: user (the row of the player), day from 1, rule, outcome."""
        rng, picks = self._rng(2, self.config.seed), detection_picks(players.features)
        rates = self.rule_rates()
        chance = np.column_stack([picks[name] * rate for name, rate in rates.items()]).astype(np.float32)
        is_active, days = np.ones(len(players), dtype=bool), []
        for day in range(1, self.config.days + 1):
            fired = (rng.random(chance.shape, dtype=np.float32) < chance) & is_active[:, None]
            checked = np.flatnonzero(fired.any(axis=1))
            outcome = _outcomes(players, checked, rng)
            is_active[checked[outcome == 2]] = False
            row, rule = np.nonzero(fired[checked])
            days.append(np.column_stack([checked[row], np.full(row.size, day), rule, outcome[row]]))
        player, day_column, rule, outcome = np.concatenate(days).T
        return pd.DataFrame(
            {
                "user": player,
                "day": day_column,
                "rule": pd.Series(np.array(list(rates), dtype=object)[rule], dtype="str"),
                "outcome": pd.Series(OUTCOMES[outcome], dtype="str"),
            }
        )

    def rule_rates(self) -> dict[str, float]:
        """How often per day each rule asks a player whom it suspects for a check."""
        complaints = min(3.0 * self.config.exposure * self.config.rule_rate, 1.0)
        rates = dict.fromkeys(DETECTION_RULES, self.config.rule_rate)
        return {RANDOM_RULE: self.config.random_rate, **rates, "complaints": complaints}

    def simulate(self) -> AntiCheatSeason:
        """The config's players after a season, with their check records, labels and hidden truth."""
        from spu_core.tables.simulators.anti_cheat_table import player_table, with_user_names

        players = self.draw()
        checks = self.season(players)
        return AntiCheatSeason(player_table(players, checks), with_user_names(checks))

    def _rng(self, purpose: int, seed: int) -> np.random.Generator:
        # Separate streams: more players must not change how the checks end.
        return np.random.default_rng([purpose, seed])


DETECTION_RULES: dict[str, tuple[tuple[str, str, float], ...]] = {
    "impossible_aim": (("headshot_rate", ">", 0.42), ("reaction_ms", "<", 225)),
    "input_script": (("input_regularity", ">", 0.7),),
    "device_hopping": (("devices", ">", 3),),
    "win_streak": (("win_rate", ">", 0.65),),
    "complaints": (("complaints", ">", 3),),
}


def detection_picks(features: pd.DataFrame) -> dict[str, np.ndarray]:
    """Which players each rule suspects; the random rule suspects everybody."""
    picks = {RANDOM_RULE: np.ones(len(features), dtype=bool)}
    for name, conditions in DETECTION_RULES.items():
        picks[name] = np.logical_and.reduce(
            [
                features[column].to_numpy() > limit if sign == ">" else features[column].to_numpy() < limit
                for column, sign, limit in conditions
            ]
        )
    return picks


def simulate_anti_cheat(config: AntiCheatConfig | None = None) -> AntiCheatSeason:
    """A season of the anti-cheat game: the table of players and the frame of checks."""
    return AntiCheatWorld(config).simulate()


def _outcomes(players: Players, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """0 pass, 1 fail or skip, 2 admit."""
    draw = rng.random(rows.size)
    admits = draw < players.admit_chance[rows]
    passes = draw >= 1.0 - players.pass_chance[rows]
    return np.where(admits, 2, np.where(passes, 0, 1))
