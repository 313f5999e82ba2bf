"""Players of the simulated game: hidden kind, what the game sees of them, and how they behave when checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from spu_core.tables.simulators.common import category, shares, squashed

if TYPE_CHECKING:
    from spu_core.tables.simulators.anti_cheat import AntiCheatConfig

INNOCENT, CASUAL, HARDENED = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Players:
    """A population: `features` is what a model may see; everything else is hidden from it.

    A checked player admits with `admit_chance`, passes with `pass_chance`, and fails or skips otherwise.
    """

    features: pd.DataFrame
    kind: np.ndarray
    admit_chance: np.ndarray
    pass_chance: np.ndarray

    def __len__(self) -> int:
        return self.kind.size

    @property
    def truth(self) -> np.ndarray:
        """Whether each player cheats."""
        return self.kind != INNOCENT


def draw_players(config: AntiCheatConfig, size: int, rng: np.random.Generator) -> Players:
    """Independent players from the world that the config describes."""
    kind = _kinds(config, size, rng)
    admit, fails = _behaviour(config, kind, rng)
    return Players(_features(kind, rng), kind, admit, 1.0 - admit - fails)


def _kinds(config: AntiCheatConfig, size: int, rng: np.random.Generator) -> np.ndarray:
    cheats, is_hardened = rng.random(size) < config.cheater_share, rng.random(size) < config.hardened_share
    return np.where(cheats, np.where(is_hardened, HARDENED, CASUAL), INNOCENT)


def _behaviour(config: AntiCheatConfig, kind: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Chances to admit and to fail or skip; people differ, and their means are the config's parameters."""
    admit = np.array([0.0, config.casual_admission, config.hardened_admission])[kind]
    passes = np.where(kind == INNOCENT, 1.0 - config.innocent_failure, config.cheater_pass)
    # Among those who do not admit; a Beta of this concentration keeps the mean.
    share = np.clip(passes / (1.0 - admit), 0.0, 1.0)
    return admit, (1.0 - admit) * (1.0 - shares(share, config.concentration, rng))


def _features(kind: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    casual, hardened = (kind == CASUAL) * 1.0, (kind == HARDENED) * 1.0
    skill, noise = rng.standard_normal(kind.size), lambda: rng.standard_normal(kind.size)
    hours = rng.gamma(2.0, 1.0 + 0.3 * casual)
    age = np.exp(6.0 - 0.3 * casual - 0.8 * hardened + 0.8 * noise())
    return pd.DataFrame(
        {
            "account_age_days": np.clip(age, 1, 4000).astype(int),
            "hours_per_day": np.clip(hours, 0.05, 18).round(2),
            "night_share": squashed(-1.5 + 0.6 * casual + 0.5 * noise()).round(3),
            "headshot_rate": squashed(-1.4 + 0.45 * skill + 0.2 * casual + 1.0 * hardened + 0.4 * noise()).round(3),
            "reaction_ms": (260 - 18 * skill - 6 * casual - 38 * hardened + 24 * noise()).round(0).astype(int),
            "kill_death_ratio": np.exp(0.1 + 0.35 * skill + 0.2 * casual + 0.5 * hardened + 0.3 * noise()).round(2),
            "win_rate": squashed(0.3 * skill + 0.2 * casual + 0.4 * hardened + 0.25 * noise()).round(3),
            "input_regularity": squashed(-1.0 + 1.6 * casual + 0.6 * hardened + 0.8 * noise()).round(3),
            "complaints": rng.poisson(0.9 * hours * np.exp(0.5 * skill + 0.3 * casual + 0.5 * hardened)),
            "devices": 1 + rng.poisson(0.35 + 0.3 * casual + 0.9 * hardened),
            "friends": rng.poisson(np.exp(2.6 - 0.3 * casual - 0.5 * hardened + 0.5 * noise())),
            "spend": (np.exp(2.5 + 1.2 * noise()) * (rng.random(kind.size) < 0.35)).round(2),
            "platform": category(["pc", "console", "mobile"], [0.45, 0.2, 0.35], kind.size, rng),
            "region": category(["north", "south", "east", "west"], [0.4, 0.25, 0.2, 0.15], kind.size, rng),
        }
    )
