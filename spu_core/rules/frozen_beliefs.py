"""Fitted beliefs, which store every number that was learnt from a table.

They evaluate each row on its own, so chunks of rows give the same result as the whole table. `of(columns)` returns one
number for all rows, or one per row, with NaN where the belief is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from dataclasses import fields as dataclass_fields
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from spu_core.errors import RuleError
from spu_core.rules.columns import Columns, level_text
from spu_core.rules.strict_json import Fields, check_json_number
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

    def of(self, columns: Columns) -> float | np.ndarray:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class FrozenConstant(FrozenBelief):
    """One number."""

    kind: ClassVar[str] = "constant"
    value: float

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


MAX_NUMBERS = 100_000


def frozen_as_data(belief: FrozenBelief) -> dict[str, Any]:
    """A frozen belief as plain JSON values.

    >>> frozen_as_data(FrozenConstant(0.5))
    {'kind': 'constant', 'value': 0.5}
    """
    values = {field.name: getattr(belief, field.name) for field in dataclass_fields(belief)}  # type: ignore[arg-type]
    return {"kind": belief.kind} | {name: _plain(value) for name, value in values.items() if value is not None}


def frozen_of_data(data: Any, place: str) -> FrozenBelief:
    """A frozen belief from plain JSON values."""
    fields = Fields(data, place)
    belief = _READ[fields.choice("kind", _READ)](fields)
    fields.done()
    return belief


def _ramp(fields: Fields) -> FrozenBelief:
    knots, beliefs = fields.numbers("knots", MAX_NUMBERS), _shares(fields, "beliefs")
    _check(fields, len(knots) == len(beliefs) > 0, "needs as many beliefs as knots")
    _check(fields, all(left < right for left, right in pairwise(knots)), "needs knots in growing order")
    below, above = (_share(fields, name) if name in fields else None for name in ("below", "above"))
    return FrozenRamp(fields.text("column"), knots, beliefs, below, above)


def _ratios(fields: Fields) -> FrozenBelief:
    table = fields.get("values")
    inner = Fields(table, fields.at("values"))
    values = {name: _share(inner, name) for name in inner.value}
    columns = (fields.text("rule_column"), fields.text("outcome_column"))
    return FrozenRatios(*columns, fields.texts("failed", 1_000), values)


def _records(fields: Fields) -> FrozenBelief:
    grid, density = _shares(fields, "grid"), fields.numbers("density", MAX_NUMBERS)
    _check(fields, len(grid) == len(density) > 0, "needs one density per grid point")
    _check(fields, min(density) >= 0 and any(density), "needs a density that is not negative and not all 0")
    return FrozenRecords(fields.text("checks_column"), fields.text("passes_column"), grid, density)


def _share(fields: Fields, name: str) -> float:
    return _check_share(fields.number(name), fields.at(name))


def _shares(fields: Fields, name: str) -> tuple[float, ...]:
    numbers = enumerate(fields.numbers(name, MAX_NUMBERS))
    return tuple(_check_share(number, f"{fields.at(name)}[{i}]") for i, number in numbers)


def _check_share(value: Any, place: str) -> float:
    if not 0.0 <= check_json_number(value, place) <= 1.0:
        raise RuleError(f"{place} must lie in [0, 1], got {value:g}.")
    return float(value)


def _check(fields: Fields, holds: bool, requirement: str) -> None:
    if not holds:
        raise RuleError(f"{fields.place} {requirement}; fit the rules again.")


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


_READ: Mapping[str, Callable[[Fields], FrozenBelief]] = {
    FrozenConstant.kind: lambda fields: FrozenConstant(_share(fields, "value")),
    FrozenRamp.kind: _ramp,
    FrozenReadyMade.kind: lambda fields: FrozenReadyMade(fields.text("column")),
    FrozenRatios.kind: _ratios,
    FrozenRecords.kind: _records,
}
