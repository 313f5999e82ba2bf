"""Leaks in time: checks that happened after the date of a row's features, and features from after a check."""

from __future__ import annotations

from typing import Any

import numpy as np

from spu_core.errors import TableError
from spu_core.tables import Finding, Role, Severity, Table

NO_DATES = Finding(
    "no_dates",
    Severity.INFO,
    "The rows have no date, so nobody can tell whether a check came before or after the features of its row.",
    "Give the column with the date of the features the role time.",
)


def history_leaks(
    table: Table, row: Any, day: Any, *, history: tuple[str, ...] = (), days_after: int = 0
) -> tuple[Finding, ...]:
    """What the dates of checks say about a table: `row` is the row of each check, `day` when it happened.

    `history` names the columns that sum up checks (how many, how they ended). Such a column that models may see is a
    leak wherever a check is later than the features of its row: on the day of scoring nobody knows it yet. Features
    from more than `days_after` days after a check may show what the check did to the user, who was warned or banned.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"day": pd.to_datetime(["2026-03-01"] * 3), "checks": [1, 0, 2], "label": [0, 1, 0]})
    >>> table = Table.from_frame(frame, roles={"day": "time", "checks": "feature", "label": "label"})
    >>> found = history_leaks(table, [0, 2], ["2026-03-05", "2026-02-20"], history=("checks",))
    >>> [(each.code, each.severity.value) for each in found]
    [('history_after_features', 'error'), ('features_after_check', 'warning')]
    """
    times = table.times
    if times is None:
        return (NO_DATES,)
    if not np.issubdtype(times.dtype, np.datetime64):
        return (_not_dates(table),)
    row, day = np.asarray(row, dtype=np.int64), np.asarray(day).astype("datetime64[D]")
    if row.shape != day.shape:
        raise TableError(f"row has {row.size} entries, but day has {day.size}; each check needs both.")
    features = times.astype("datetime64[D]")[row]
    known = ~np.isnat(day) & ~np.isnat(features)
    after = row[known & (day > features)]
    before = row[known & (features > day + np.timedelta64(days_after, "D"))]
    found = []
    if after.size:
        found.append(_history(table, after, int(known.sum()), history))
    if before.size:
        found.append(_aftermath(before, int(known.sum()), days_after))
    return tuple(found)


def _history(table: Table, rows: np.ndarray, total: int, history: tuple[str, ...]) -> Finding:
    seen = [name for name in history if table.roles.get(name) is Role.FEATURE]
    count = f"{rows.size:,} of {total:,} checks happened after the date of the features of their row"
    lines = tuple(int(row) + 1 for row in np.unique(rows)[:5])
    if not seen:
        text = f"{count}. No column that sums up checks is a feature, so they count as outcomes only."
        return Finding("history_after_features", Severity.INFO, text, "Keep such columns out of the features.")
    names = ", ".join(map(repr, seen))
    text = f"{count}, and {names} tells models about them: on the day of scoring nobody knows it yet."
    advice = f"Give {names} the role ignore; rules may still read it."
    return Finding("history_after_features", Severity.ERROR, text, advice, seen[0], lines)


def _aftermath(rows: np.ndarray, total: int, days_after: int) -> Finding:
    later = f"more than {days_after} days after" if days_after else "after"
    text = (
        f"The features of {rows.size:,} of {total:,} checked rows are from {later} their check, so they may show what "
        "the check did: a warned or banned user behaves otherwise."
    )
    advice = "Take the features as they were before the check."
    return Finding(
        "features_after_check", Severity.WARNING, text, advice, None, tuple(int(r) + 1 for r in np.unique(rows)[:5])
    )


def _not_dates(table: Table) -> Finding:
    column = table.column_with(Role.TIME)
    text = f"The time column {column!r} holds numbers, which cannot be compared with the days of checks."
    return Finding("no_dates", Severity.INFO, text, "Bring the time of the rows as dates.", column)
