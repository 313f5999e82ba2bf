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
from spu_core.tables.roles import Role
from spu_core.tables.simulators.scenarios import category, shares, squashed, table_of
from spu_core.tables.table import Table

RANDOM_RULE = "random"
OUTCOMES = np.array(["pass", "fail", "admit"], dtype=object)
SHARES = (
    "cheater_share", "hardened_share", "innocent_failure", "cheater_admission", "cheater_pass",
    "admission_tilt", "rule_rate", "random_rate",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AntiCheatConfig:
    """Parameters of the game; equal configs give equal data.

    Cheaters fail or skip a check with 1 − `cheater_admission` − `cheater_pass`. `admission_tilt` concentrates the
    admissions on casual cheaters: at 0 all cheaters admit alike, at 1 hardened ones never do. `exposure` multiplies
    how often the imprecise `complaints` rule checks players; with large values, labels mostly depend on who was
    checked. `concentration` is how similarly players of one class behave when checked.
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
        """Admission probability of casual cheaters, so that all cheaters together admit with `cheater_admission`."""
        if self.hardened_share == 1.0:
            return self.cheater_admission
        others = self.hardened_share * self.hardened_admission
        return (self.cheater_admission - others) / (1.0 - self.hardened_share)


@dataclass(frozen=True, eq=False)
class AntiCheatSeason:
    """`players` is a table with one row per player, `checks` one row per rule that asked for a check."""

    players: Table
    checks: pd.DataFrame


class AntiCheatWorld:
    """A simulated game that draws new players and simulates checks of them.

    >>> world = AntiCheatWorld(AntiCheatConfig(seed=1))
    >>> fresh = world.draw(1000, seed=2)
    >>> outcomes = world.check(fresh, fresh.truth, seed=3)
    >>> sorted(set(outcomes.tolist()))
    ['admit', 'fail', 'pass']
    """

    def __init__(self, config: AntiCheatConfig | None = None) -> None:
        self.config = config or AntiCheatConfig()

    def draw(self, players: int | None = None, *, seed: int | None = None) -> Players:
        """Draw a new population; without arguments, the players of the config's season."""
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
        players = self.draw()
        checks = self.season(players)
        return AntiCheatSeason(player_table(players, checks), with_user_names(checks))

    def _rng(self, purpose: int, seed: int) -> np.random.Generator:
        # Separate random streams, so that more players do not change the outcomes of checks.
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
    """Chances to admit and to fail or skip; they vary by player, and their means are the config's parameters."""
    admit = np.array([0.0, config.casual_admission, config.hardened_admission])[kind]
    passes = np.where(kind == INNOCENT, 1.0 - config.innocent_failure, config.cheater_pass)
    # The failure rate among players who do not admit; a Beta distribution keeps its mean.
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


# Columns for rules, not for models: a new player has no record yet.
RECORD_COLUMNS = ("checked_days", "passed_days", "last_check_rule", "last_check_outcome")


def player_table(players: Players, checks: pd.DataFrame) -> Table:
    """The players' table, with the label (admitted) and the truth (cheater).

    The records exclude the admission itself: it is the label, and a rule that reads the records must not see it.
    """
    frame = players.features.copy()
    frame.insert(0, "player", player_names(np.arange(len(players))))
    is_admission = checks["outcome"] == "admit"
    # Several rules may ask on one day; the random rule has priority, so that it stays a random sample.
    days = checks[~is_admission].drop_duplicates(["user", "day"])
    frame["checked_days"] = np.bincount(days["user"], minlength=len(players))
    passed = days["user"][days["outcome"] == "pass"]
    frame["passed_days"] = np.bincount(passed, minlength=len(players))
    # Days come in order, so the last row of a player is the latest check.
    latest = days.drop_duplicates("user", keep="last").set_index("user")
    frame["last_check_rule"] = latest["rule"].reindex(frame.index)
    frame["last_check_outcome"] = latest["outcome"].reindex(frame.index)
    admitted = checks["user"][is_admission].unique()
    frame["admitted"] = np.isin(frame.index, admitted).astype(int)
    frame["cheater"] = players.truth.astype(int)
    return table_of(frame, "anti_cheat", ANTI_CHEAT_ROLES)


def with_user_names(checks: pd.DataFrame) -> pd.DataFrame:
    """The checks with the names that the table of players uses."""
    return checks.assign(user=player_names(checks["user"].to_numpy()))


def player_names(rows: np.ndarray) -> pd.Series:
    """Names of equal length, so that they sort by row number."""
    return "p" + pd.Series(rows).astype("str").str.zfill(7)


ANTI_CHEAT_ROLES = {
    "player": Role.ID,
    **dict.fromkeys(RECORD_COLUMNS, Role.IGNORE),
    "admitted": Role.LABEL,
    "cheater": Role.TRUTH,
}
