"""One row per player after a season: features, check record, latest check, label, and the hidden truth."""

from __future__ import annotations

import numpy as np
import pandas as pd

from spu_core.tables.roles import Role
from spu_core.tables.simulators.anti_cheat_players import Players
from spu_core.tables.simulators.common import table_of
from spu_core.tables.table import Table

# For rules, not for models: a fresh player has no record yet.
RECORD_COLUMNS = ("checked_days", "passed_days", "last_check_rule", "last_check_outcome")


def player_table(players: Players, checks: pd.DataFrame) -> Table:
    """The players' table, with the label (admitted) and the truth (cheater).

    The records leave the admission itself out: it is the label, and a rule that reads them must not know it.
    """
    frame = players.features.copy()
    frame.insert(0, "player", player_names(np.arange(len(players))))
    is_admission = checks["outcome"] == "admit"
    # Several rules may ask on one day; the random one comes first, so that it stays a random sample.
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
    return table_of(frame, "anti_cheat", ROLES)


def with_user_names(checks: pd.DataFrame) -> pd.DataFrame:
    """The checks with the names that the table of players uses."""
    return checks.assign(user=player_names(checks["user"].to_numpy()))


def player_names(rows: np.ndarray) -> pd.Series:
    """Names of equal length, so that they sort as they were made."""
    return "p" + pd.Series(rows).astype("str").str.zfill(7)


ROLES = {
    "player": Role.ID,
    **dict.fromkeys(RECORD_COLUMNS, Role.IGNORE),
    "admitted": Role.LABEL,
    "cheater": Role.TRUTH,
}
