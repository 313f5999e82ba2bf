"""One simulated world of Table 3: train on a season of checks, flag fresh players, and see how their checks end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from spu_core.labels import check_ratio_labels, check_record_labels
from spu_core.metrics import auc_spu_score
from spu_core.models import SoftLabelClassifier
from spu_core.tables import Table
from spu_core.tables.simulators import AntiCheatConfig, AntiCheatSeason, AntiCheatWorld, Players
from spu_core.tables.simulators.anti_cheat import RANDOM_RULE

METHODS = ("method 1", "method 2", "baseline", "oracle")
FLAGGED_SHARE = 0.05
# Fresh players must not be those of another world's season, whose seeds count from 0.
FRESH = 100_000


@dataclass(frozen=True)
class Flagged:
    """What checks of the flagged bring: shares that admit and pass, and how well the scores rank cheaters."""

    surrender: float
    passed: float
    auc: float


def play_world(config: AntiCheatConfig, fresh_players: int) -> dict[str, Flagged]:
    """All four ways to train the same network, judged on the same fresh players."""
    world = AntiCheatWorld(config)
    season = world.simulate()
    features, truth = _features(season.players), season.players.truth
    assert truth is not None
    fresh = world.draw(fresh_players, seed=FRESH + config.seed)
    found = {}
    for name, target in _targets(season, truth).items():
        network = SoftLabelClassifier("neural_net", seed=config.seed).fit(features, target)
        found[name] = judge_flagged(fresh, network.predict_proba(fresh.features)[:, 1])
    return found


def judge_flagged(fresh: Players, score: np.ndarray, share: float = FLAGGED_SHARE) -> Flagged:
    """Expected outcomes when the highest `share` of scores are checked: no coin is flipped, so worlds vary less."""
    flagged = np.argsort(-score, kind="stable")[: max(1, round(share * score.size))]
    return Flagged(
        float(fresh.admit_chance[flagged].mean()),
        float(fresh.pass_chance[flagged].mean()),
        auc_spu_score(fresh.truth.astype(np.float64), score),
    )


def _targets(season: AntiCheatSeason, truth: np.ndarray) -> dict[str, np.ndarray]:
    """What each method learns: soft labels of A.1 and A.2, the label alone, the truth."""
    table, labeled = season.players, season.players.is_labeled
    ratios = check_ratio_labels(season.checks, random_rule=RANDOM_RULE, users=table.frame["player"])
    # The table's records leave out the check in which a player admitted; A.2 counts it as not passed.
    checks = table.frame["checked_days"].to_numpy() + labeled
    records = check_record_labels(checks, table.frame["passed_days"].to_numpy(), admitted=labeled)
    soft = (ratios.labels.value, records.labels.value, labeled.astype(np.float64), truth.astype(np.float64))
    return dict(zip(METHODS, soft, strict=True))


def _features(table: Table) -> pd.DataFrame:
    """What a network may see of a player; a fresh player has no record yet."""
    return table.frame[list(table.features)]
