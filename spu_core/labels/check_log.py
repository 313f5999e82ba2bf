"""A log of checks: which user was checked, by which rule, on which day, and the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import TableError, nearest_hint

PASSED, FAILED, ADMITTED = 0, 1, 2
OUTCOME_CODES = {
    "pass": PASSED,
    "passed": PASSED,
    "cleared": PASSED,
    "fail": FAILED,
    "failed": FAILED,
    "skip": FAILED,
    "skipped": FAILED,
    "fail-or-skip": FAILED,
    "fail_or_skip": FAILED,
    "admit": ADMITTED,
    "admitted": ADMITTED,
    "confirmed": ADMITTED,
}
NEEDED = ("user", "rule", "outcome")


@dataclass(frozen=True, eq=False)
class CheckLog:
    """One row per check and rule that asked for it. `user` is an index into `users`; `day` may be unknown."""

    users: np.ndarray
    user: np.ndarray
    rule: np.ndarray
    outcome: np.ndarray
    day: np.ndarray | None

    @classmethod
    def read(cls, checks: Any) -> CheckLog:
        """A log from a data frame or a mapping of arrays with user, rule, outcome and, if known, day."""
        frame = _frame(checks)
        user, users = pd.factorize(frame["user"])
        for column in ("user", "rule", "outcome"):
            _refuse_missing(frame[column])
        day = frame["day"].to_numpy() if "day" in frame else None
        return cls(np.asarray(users), user, frame["rule"].to_numpy(dtype=object), _outcomes(frame["outcome"]), day)

    def __len__(self) -> int:
        return self.user.size

    @property
    def is_repeated(self) -> np.ndarray:
        """Rows after the first check of a user under one rule."""
        return self.pairs().duplicated().to_numpy()

    @property
    def duplicates(self) -> int:
        """Rows that repeat the user, rule and day of an earlier one."""
        return 0 if self.day is None else int(self.pairs().assign(day=self.day).duplicated().sum())

    def firsts(self) -> CheckLog:
        """Only the first check of each user under each rule, by day."""
        if self.day is None:
            raise TableError("repeats='first' needs the column 'day' to know which check came first; add it.")
        _refuse_missing(pd.Series(self.day, name="day"))
        ordered = self._rows(np.argsort(self.day, kind="stable"))
        return ordered._rows(np.flatnonzero(~ordered.is_repeated))

    def pairs(self) -> pd.DataFrame:
        return pd.DataFrame({"user": self.user, "rule": pd.factorize(self.rule)[0]})

    def _rows(self, rows: np.ndarray) -> CheckLog:
        day = None if self.day is None else self.day[rows]
        return CheckLog(self.users, self.user[rows], self.rule[rows], self.outcome[rows], day)


def _frame(checks: Any) -> pd.DataFrame:
    if not isinstance(checks, pd.DataFrame | Mapping):
        raise TableError(
            f"checks must be a data frame or a mapping with user, rule and outcome, got {type(checks).__name__}."
        )
    for name in NEEDED:
        if name not in checks:
            hint = nearest_hint(name, map(str, checks))
            raise TableError(f"checks has no column {name!r}; it needs user, rule, outcome and, if known, day. {hint}")
    columns = {name: np.asarray(checks[name]) for name in (*NEEDED, "day") if name in checks}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise TableError(f"The columns of checks have different lengths: {lengths}; each needs one row per check.")
    if not lengths["user"]:
        raise TableError("checks is empty; at least one check is needed.")
    return pd.DataFrame(columns)


def _outcomes(outcomes: pd.Series) -> np.ndarray:
    codes, levels = pd.factorize(outcomes)
    kinds: list[int] = []
    for level in levels:
        word = str(level).strip().lower()
        if word not in OUTCOME_CODES:
            row = int(np.flatnonzero(codes == len(kinds))[0])
            known = ", ".join(map(repr, OUTCOME_CODES))
            raise TableError(f"Row {row} of checks has the unknown outcome {level!r}; use one of {known}.")
        kinds.append(OUTCOME_CODES[word])
    return np.array(kinds)[codes]


def _refuse_missing(values: pd.Series) -> None:
    missing = np.flatnonzero(values.isna())
    if missing.size:
        raise TableError(
            f"Column {values.name!r} of checks is missing in row {missing[0]}; fill it in or remove that check."
        )
