"""One row per player after a season: features, check record, latest check, label, and the hidden truth."""

from __future__ import annotations

import numpy as np
import pandas as pd

from spu_core.tables.roles import Role
from spu_core.tables.simulators.anti_cheat_players import Players
from spu_core.tables.table import Table

# How checks ended tells who admitted, so these columns are for rules, never for models.
RECORD_COLUMNS = ("checked_days", "passed_days", "last_check_rule", "last_check_outcome")


def player_table(players: Players, checks: pd.DataFrame) -> Table:
    """The players' table, with the label (admitted) and the truth (cheater)."""
    frame = players.features.copy()
    frame.insert(0, "player", player_names(np.arange(len(players))))
    days = checks.drop_duplicates(["user", "day"], keep="first")
    frame["checked_days"] = np.bincount(days["user"], minlength=len(players))
    passed = days["user"][days["outcome"] == "pass"]
    frame["passed_days"] = np.bincount(passed, minlength=len(players))
    # Days come in order, so the last row of a player is the latest check.
    latest = days.drop_duplicates("user", keep="last").set_index("user")
    frame["last_check_rule"] = latest["rule"].reindex(frame.index)
    frame["last_check_outcome"] = latest["outcome"].reindex(frame.index)
    admitted = checks["user"][checks["outcome"] == "admit"].unique()
    frame["admitted"] = np.isin(frame.index, admitted).astype(int)
    frame["cheater"] = players.truth.astype(int)
    return Table.from_frame(frame, name="anti_cheat", roles=ROLES, positive_values=[1])


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
