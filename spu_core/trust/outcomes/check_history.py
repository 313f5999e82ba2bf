"""The history of checks in a table: the columns that the rules of Appendix A read, and leaks from the future."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import TableError
from spu_core.labels.check_log import ADMITTED, FAILED, PASSED
from spu_core.rules import CheckRatio, CheckRecord, RuleSet
from spu_core.tables import ColumnType, Finding, Role, Severity, Table
from spu_core.trust.outcomes.ratios import RANDOM

LAST_RULE, LAST_OUTCOME, COUNT, PASSES, CONFIRMED = (
    "last_check_rule", "last_check_outcome", "checks", "checks_passed", "confirmed",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class RowChecks:
    """Finished checks of rows of one table, in chronological order; `day` is NaT if it is unknown."""

    row: np.ndarray
    arm: np.ndarray
    outcome: np.ndarray
    day: np.ndarray

    def __len__(self) -> int:
        return self.row.size

    def only(self, keep: Any) -> RowChecks:
        return RowChecks(self.row[keep], self.arm[keep], self.outcome[keep], self.day[keep])

    @property
    def is_random(self) -> np.ndarray:
        return self.arm == RANDOM


def check_belief(rules: RuleSet, kind: type) -> Any:
    """The belief of this type: that of an active rule if there is one, else that of any rule, else None."""
    held = [rule for rule in rules if isinstance(rule.belief, kind)]
    chosen = next((rule for rule in held if rule.on), held[0] if held else None)
    return None if chosen is None else chosen.belief


@dataclass(frozen=True, slots=True)
class HistoryColumns:
    """Names of the columns that hold the history of checks, and of the outcomes in them."""

    rule: str
    outcome: str
    count: str
    passes: str
    outcome_names: dict[int, str]
    random: str

    @classmethod
    def of(cls, rules: RuleSet | None) -> HistoryColumns:
        ratio = check_belief(rules or RuleSet(), CheckRatio)
        record = check_belief(rules or RuleSet(), CheckRecord)
        admitted = ratio.admitted[0] if ratio and ratio.admitted else "admit"
        return cls(
            ratio.rule_column if ratio else LAST_RULE,
            ratio.outcome_column if ratio else LAST_OUTCOME,
            record.checks_column if record else COUNT,
            record.passes_column if record else PASSES,
            {PASSED: "pass", FAILED: ratio.failed[0] if ratio else "fail", ADMITTED: admitted},
            ratio.random_rule if ratio else RANDOM,
        )

    @property
    def names(self) -> tuple[str, ...]:
        return self.rule, self.outcome, self.count, self.passes


def with_history(table: Table, checks: RowChecks, places: HistoryColumns, *, use_holdout: bool) -> Table:
    """Add the latest check of every row, and the record of checks and passes of rows outside the holdout."""
    names = np.where(checks.is_random, places.random, checks.arm)
    outcomes = np.array([places.outcome_names[code] for code in checks.outcome.tolist()], dtype=object)
    counted = checks.only((checks.outcome != ADMITTED) & (use_holdout | ~checks.is_random))
    passed = counted.only(counted.outcome == PASSED)
    columns = {
        places.rule: _latest(table, places.rule, checks.row, names),
        places.outcome: _latest(table, places.outcome, checks.row, outcomes),
        places.count: _added(table, places.count, counted.row),
        places.passes: _added(table, places.passes, passed.row),
    }
    return with_columns(table, columns, Role.IGNORE)


def with_labels(table: Table, checks: RowChecks, *, use_holdout: bool) -> tuple[Table, int, int]:
    """The table with labels for rows that admitted, the number of new labels, and the number left out (holdout)."""
    admitted = checks.only(checks.outcome == ADMITTED)
    rows = np.unique(admitted.row if use_holdout else admitted.row[~admitted.is_random])
    fresh = rows[~table.is_labeled[rows]]
    withheld = 0 if use_holdout else int(np.unique(admitted.row[admitted.is_random]).size)
    if not fresh.size:
        return table, 0, withheld
    column = table.column_with(Role.LABEL)
    if column is None:
        flags = pd.Series(np.isin(np.arange(len(table)), fresh).astype(np.int64))
        return with_columns(table, {CONFIRMED: flags}, Role.LABEL), int(fresh.size), withheld
    values = table.frame[column].copy()
    values.iloc[fresh] = table.positive_values[0]
    labelled = table.with_frame(table.frame.assign(**{column: values}))
    return labelled, int(fresh.size), withheld


def with_columns(table: Table, columns: dict[str, pd.Series], role: Role) -> Table:
    """The table with columns added in this role; existing columns are replaced and keep their role."""
    frame = table.frame.assign(**columns)
    kinds = {
        name: ColumnType.CATEGORY if values.dtype == "str" else ColumnType.NUMBER for name, values in columns.items()
    }
    roles = {**dict.fromkeys(columns, role), **table.roles}
    return table.with_frame(frame, roles=roles, types={**kinds, **table.types})


def _latest(table: Table, column: str, rows: np.ndarray, values: np.ndarray) -> pd.Series:
    old = table.frame[column].astype(object) if column in table.frame else pd.Series(None, range(len(table)), object)
    changed = old.where(old.notna(), None).to_numpy(dtype=object, copy=True)
    # Checks are in chronological order, so the latest one overwrites the others.
    changed[rows] = values
    return pd.Series(changed, dtype="str")


def _added(table: Table, column: str, rows: np.ndarray) -> pd.Series:
    more = np.bincount(rows, minlength=len(table))
    old = table.frame[column].fillna(0).to_numpy(dtype=np.int64) if column in table.frame else np.zeros(len(table), int)
    return pd.Series(old + more)


NO_DATES = Finding(
    "no_dates",
    Severity.INFO,
    "The rows have no date, so it is unknown whether a check was before or after the features of its row.",
    "Give the role time to the column with the date of the features.",
)


def history_leaks(
    table: Table, row: Any, day: Any, *, history: tuple[str, ...] = (), days_after: int = 0
) -> tuple[Finding, ...]:
    """Findings about leaks from the future: `row` is the row of each check, `day` the day of the check.

    `history` names the columns that summarise checks (number, outcomes). Such a column is a leak if it is a feature and
    a check is later than the features of its row, because it is not yet known at scoring time. Features from more than
    `days_after` days after a check may show an effect of the check: the user was warned or banned.

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
        text = f"{count}. No column that summarises checks is a feature, so they are used as outcomes only."
        return Finding("history_after_features", Severity.INFO, text, "Do not use such columns as features.")
    names = ", ".join(map(repr, seen))
    text = f"{count}, but models use {names} as a feature. It is not yet known at scoring time."
    advice = f"Give {names} the role ignore; rules may still read it."
    return Finding("history_after_features", Severity.ERROR, text, advice, seen[0], lines)


def _aftermath(rows: np.ndarray, total: int, days_after: int) -> Finding:
    later = f"more than {days_after} days after" if days_after else "after"
    text = (
        f"The features of {rows.size:,} of {total:,} checked rows are from {later} their check, so they may show an "
        "effect of the check: a warned or banned user behaves differently."
    )
    advice = "Use the features from before the check."
    return Finding(
        "features_after_check", Severity.WARNING, text, advice, None, tuple(int(r) + 1 for r in np.unique(rows)[:5])
    )


def _not_dates(table: Table) -> Finding:
    column = table.column_with(Role.TIME)
    text = f"The time column {column!r} holds numbers, which cannot be compared with the days of checks."
    return Finding("no_dates", Severity.INFO, text, "Convert the time of the rows to dates.", column)
