"""Fitted beliefs, which store every number that was learnt from a table.

They evaluate each row on its own, so chunks of rows give the same result as the whole table. `of(columns)` returns one
number for all rows, or one per row, with NaN where the belief is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from spu_core.codec import Reader, tagged
from spu_core.errors import RuleError
from spu_core.rules.columns import Columns, level_text
from spu_core.theory.check_prior import CheckPrior

# Two counts below this limit fit into one 64-bit integer.
MAX_CHECKS = 10**9


class FrozenBelief:
    """A belief that depends only on the row."""

    __slots__ = ()
    kind: ClassVar[str]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        names = (field.name for field in fields(self) if field.name.endswith("column"))  # type: ignore[arg-type]
        return tuple(getattr(self, name) for name in names)

    def check(self) -> None:
        """Raise an error if stored numbers do not fit together."""

    def of(self, columns: Columns) -> float | np.ndarray:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class FrozenConstant(FrozenBelief):
    """One number."""

    kind: ClassVar[str] = "constant"
    value: float

    def check(self) -> None:
        _check_shares([self.value], "value")

    def of(self, columns: Columns) -> float | np.ndarray:
        return self.value


@dataclass(frozen=True, slots=True)
class FrozenRamp(FrozenBelief):
    """Linear interpolation between knots. Outside, `below` and `above` hold (default: beliefs of the end knots)."""

    kind: ClassVar[str] = "ramp"
    column: str
    knots: tuple[float, ...]
    beliefs: tuple[float, ...]
    below: float | None = None
    above: float | None = None

    def check(self) -> None:
        _check(len(self.knots) == len(self.beliefs) > 0, "as many beliefs as knots")
        _check(all(left < right for left, right in pairwise(self.knots)), "knots in growing order")
        _check_shares([*self.beliefs, self.below, self.above], "beliefs")

    def of(self, columns: Columns) -> float | np.ndarray:
        values = columns.ordered(self.column)
        return np.interp(values, self.knots, self.beliefs, left=self.below, right=self.above)


@dataclass(frozen=True, slots=True)
class FrozenReadyMade(FrozenBelief):
    """A column of values in [0, 1]."""

    kind: ClassVar[str] = "ready_made"
    column: str

    def of(self, columns: Columns) -> float | np.ndarray:
        values = columns.ordered(self.column)
        bad = np.flatnonzero((values < 0.0) | (values > 1.0))
        if bad.size:
            raise RuleError(
                f"Column {self.column!r} is used as a belief and must lie in [0, 1], but row {bad[0]} holds "
                f"{values[bad[0]]:g}; use a ramp to map it to [0, 1]."
            )
        return values


@dataclass(frozen=True, slots=True)
class FrozenRatios(FrozenBelief):
    """Appendix A.1 with the stored soft label of each check rule."""

    kind: ClassVar[str] = "check_ratio"
    rule_column: str
    outcome_column: str
    failed: tuple[str, ...]
    values: Mapping[str, float]

    def check(self) -> None:
        _check_shares(self.values.values(), "values")

    def of(self, columns: Columns) -> float | np.ndarray:
        rule, outcome = columns.coded(self.rule_column), columns.coded(self.outcome_column)
        by_rule = [self.values.get(level_text(level), np.nan) for level in rule.levels]
        outcomes = [level_text(level) for level in outcome.levels]
        # A missing value has code −1, which selects the last entry, NaN.
        ratio = np.array([*by_rule, np.nan])[rule.codes]
        return np.where(outcome.where(np.isin(outcomes, self.failed)), ratio, np.nan)


@dataclass(frozen=True, slots=True)
class FrozenRecords(FrozenBelief):
    """Appendix A.2 with the stored prior on its grid."""

    kind: ClassVar[str] = "check_record"
    checks_column: str
    passes_column: str
    grid: tuple[float, ...]
    density: tuple[float, ...]

    def check(self) -> None:
        _check(len(self.grid) == len(self.density) > 0, "one density per grid point")
        _check(
            all(each >= 0 for each in self.density) and any(self.density),
            "a density that is not negative and not all 0",
        )
        _check_shares(self.grid, "grid")

    def of(self, columns: Columns) -> float | np.ndarray:
        checks, passes, rows = self.records(columns)
        belief = np.full(len(columns), np.nan)
        belief[rows] = np.where(passes < checks, 1.0 - self._chance_to_pass(checks, passes), np.nan)
        return belief

    def records(self, columns: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Checks and passes of the rows that have both, and the numbers of these rows."""
        checks, passes = columns.ordered(self.checks_column), columns.ordered(self.passes_column)
        rows = np.flatnonzero((checks == checks) & (passes == passes))
        n, k = checks[rows], passes[rows]
        bad = np.flatnonzero(~((k >= 0) & (k <= n) & (n < MAX_CHECKS) & (n == np.floor(n)) & (k == np.floor(k))))
        if bad.size:
            raise RuleError(
                f"Columns {self.checks_column!r} and {self.passes_column!r} must be whole numbers with "
                f"0 ≤ passes ≤ checks, but row {rows[bad[0]]} holds {n[bad[0]]:g} checks and {k[bad[0]]:g} passes."
            )
        return n.astype(np.int64), k.astype(np.int64), rows

    def _chance_to_pass(self, checks: np.ndarray, passes: np.ndarray) -> np.ndarray:
        """E[θ | k, n], one distinct record at a time, so that the result does not depend on the other rows."""
        prior = CheckPrior(np.array(self.grid), np.array(self.density), 0.0, 0, 0.0)
        distinct, position = np.unique(checks * MAX_CHECKS + passes, return_inverse=True)
        means = [prior.posterior_mean([record // MAX_CHECKS], [record % MAX_CHECKS])[0] for record in distinct]
        return np.array(means, dtype=np.float64)[position]


def read_frozen(reader: Reader, data: Any, place: str) -> FrozenBelief:
    """A fitted belief from plain JSON values, with numbers that fit together."""
    belief: FrozenBelief = _read_tagged(reader, data, place)
    reader.make(place, belief.check)
    return belief


_read_tagged = tagged(FrozenConstant, FrozenRamp, FrozenReadyMade, FrozenRatios, FrozenRecords)


def _check_shares(values: Iterable[float | None], name: str) -> None:
    for value in values:
        if value is not None and not 0.0 <= value <= 1.0:
            raise RuleError(f"{name} must lie in [0, 1], got {value:g}; fit the rules again.")


def _check(holds: bool, requirement: str) -> None:
    if not holds:
        raise RuleError(f"it needs {requirement}; fit the rules again.")
