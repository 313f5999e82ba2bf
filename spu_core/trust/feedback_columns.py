"""Where a table keeps the history of checks: the columns that the rules of Appendix A read, filled anew by outcomes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from spu_core.labels.check_log import ADMITTED, FAILED, PASSED
from spu_core.rules import CheckRatio, CheckRecord, RuleSet
from spu_core.tables import ColumnType, Role, Table
from spu_core.trust.outcomes import RANDOM

LAST_RULE, LAST_OUTCOME, COUNT, PASSES, CONFIRMED = (
    "last_check_rule", "last_check_outcome", "checks", "checks_passed", "confirmed",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class RowChecks:
    """Finished checks of rows of one table, in the order they happened; `day` is NaT where it is unknown."""

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
    """The belief of this kind that the rules hold: that of an active rule if there is one, else of any."""
    held = [rule for rule in rules if isinstance(rule.belief, kind)]
    chosen = next((rule for rule in held if rule.on), held[0] if held else None)
    return None if chosen is None else chosen.belief


@dataclass(frozen=True, slots=True)
class HistoryColumns:
    """Which columns hold the history of checks, and in which words."""

    rule: str
    outcome: str
    count: str
    passes: str
    words: dict[int, str]
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
    """The latest check of every row; the record of checks and passes of rows that are not held out."""
    names = np.where(checks.is_random, places.random, checks.arm)
    words = np.array([places.words[code] for code in checks.outcome.tolist()], dtype=object)
    counted = checks.only((checks.outcome != ADMITTED) & (use_holdout | ~checks.is_random))
    passed = counted.only(counted.outcome == PASSED)
    columns = {
        places.rule: _latest(table, places.rule, checks.row, names),
        places.outcome: _latest(table, places.outcome, checks.row, words),
        places.count: _added(table, places.count, counted.row),
        places.passes: _added(table, places.passes, passed.row),
    }
    return with_columns(table, columns, Role.IGNORE)


def with_labels(table: Table, checks: RowChecks, *, use_holdout: bool) -> tuple[Table, int, int]:
    """The table with who admitted labelled; how many are new, and how many of the holdout were left out."""
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
    labelled = replace(table, frame=table.frame.assign(**{column: values}), positive_values=table.positive_values)
    return labelled, int(fresh.size), withheld


def with_columns(table: Table, columns: dict[str, pd.Series], role: Role) -> Table:
    """The table with some columns added in this role, or filled anew in the role they had."""
    frame = table.frame.assign(**columns)
    kinds = {
        name: ColumnType.CATEGORY if values.dtype == "str" else ColumnType.NUMBER for name, values in columns.items()
    }
    roles = {**dict.fromkeys(columns, role), **table.roles}
    return replace(table, frame=frame, roles=roles, types={**kinds, **table.types})


def _latest(table: Table, column: str, rows: np.ndarray, values: np.ndarray) -> pd.Series:
    old = table.frame[column].astype(object) if column in table.frame else pd.Series(None, range(len(table)), object)
    changed = old.where(old.notna(), None).to_numpy(dtype=object, copy=True)
    # Later entries overwrite earlier ones, and checks come in the order they happened.
    changed[rows] = values
    return pd.Series(changed, dtype="str")


def _added(table: Table, column: str, rows: np.ndarray) -> pd.Series:
    more = np.bincount(rows, minlength=len(table))
    old = table.frame[column].fillna(0).to_numpy(dtype=np.int64) if column in table.frame else np.zeros(len(table), int)
    return pd.Series(old + more)
