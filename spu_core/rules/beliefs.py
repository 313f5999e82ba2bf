"""Beliefs: how strongly a fired rule suggests that a row is positive, as the analyst defines it and as it was fitted.

Constant       one number
Ramp           a number that grows or falls along a column, on the scale of its values or of its quantiles
ReadyMade      a column that already holds values in [0, 1]
CheckRatio     Appendix A.1: 1 − failure ratio under the random rule / failure ratio under the row's rule
CheckRecord    Appendix A.2: 1 − expected chance to pass, given the row's record of checks and passes

`freeze` reads a table once and returns the fitted belief (`FrozenBelief`), which stores every learnt number. It
evaluates each row on its own, so chunks of rows give the same result as the whole table: `of(columns)` returns one
number for all rows, or one per row, with NaN where the belief is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from spu_core.checks import check_number, check_share
from spu_core.codec import Reader, tagged
from spu_core.errors import RuleError
from spu_core.rules.columns import Columns, Kind, level_text
from spu_core.rules.operators import one_line
from spu_core.tables.profiles import nearest_quantiles
from spu_core.theory.check_prior import CheckPrior, fit_check_prior
from spu_core.theory.check_ratio import CheckRatios, check_ratios_of_counts

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


# With this many knots the interpolation error is at most 1/128 of the ramp's quantile range.
QUANTILE_KNOTS = 129
SCALES = ("value", "quantile")


class Belief:
    """How strongly a fired rule suggests a positive."""

    __slots__ = ()
    kind: ClassVar[str]

    @property
    def needs(self) -> Mapping[str, Kind | None]:
        """The columns it reads, with the kind of values each must hold (None: any)."""
        return {}

    @property
    def learns_from(self) -> tuple[str, ...]:
        """The columns whose values `freeze` reads."""
        return ()

    @property
    def text(self) -> str:
        """A short description of the belief, the right side of a rule's text."""
        raise NotImplementedError

    def freeze(self, columns: Columns) -> FrozenBelief:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Constant(Belief):
    """The same belief wherever the rule fires."""

    kind: ClassVar[str] = "constant"
    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", check_share(self.value, "A belief", RuleError, closed=True))

    @property
    def text(self) -> str:
        return belief_text(self.value)

    def freeze(self, columns: Columns) -> FrozenBelief:
        return FrozenConstant(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp(Belief):
    """A belief that follows a number column: a straight line between two points, flat outside.

    Parameters
    ----------
    column : str
        Number column.
    start, end : float
        Values of the column between which the belief changes. On the quantile scale they are shares of the rows (0.5 is
        the median); equal values share the middle of their ranks.
    at_start, at_end : float, default 0 and 1
        Beliefs at `start` and `end`, in [0, 1].
    scale : {"value", "quantile"}, default "value"

    Raises
    ------
    RuleError
        If an argument is not valid.

    Examples
    --------
    >>> Ramp(column="age", start=20, end=60, at_start=0.1, at_end=0.8).text
    '0.10 to 0.80 as age goes from 20 to 60'
    >>> Ramp(column="age", start=0.5, end=0.95, at_start=0.8, at_end=0, scale="quantile").text
    '0.80 down to 0.00 as age goes from its 50% to its 95% quantile'
    """

    kind: ClassVar[str] = "ramp"
    column: str
    start: float
    end: float
    at_start: float = 0.0
    at_end: float = 1.0
    scale: str = "value"

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            object.__setattr__(self, name, check_number(getattr(self, name), f"{name} of a ramp", RuleError))
        for name in ("at_start", "at_end"):
            share = check_share(getattr(self, name), f"{name} of a ramp", RuleError, closed=True)
            object.__setattr__(self, name, share)
        if self.scale not in SCALES:
            raise RuleError(f"scale of a ramp must be 'value' or 'quantile', got {self.scale!r}.")
        if not self.start < self.end:
            raise RuleError(
                f"A ramp must start before it ends, got {self.start:g} and {self.end:g}; "
                "for a decreasing ramp set at_start above at_end."
            )
        if self.scale == "quantile" and not (self.start >= 0.0 and self.end <= 1.0):
            raise RuleError(
                f"start and end of a quantile ramp must lie in [0, 1], got {self.start:g} and {self.end:g}."
            )

    @property
    def needs(self) -> Mapping[str, Kind | None]:
        return {self.column: Kind.NUMBER}

    @property
    def learns_from(self) -> tuple[str, ...]:
        return (self.column,) if self.scale == "quantile" else ()

    @property
    def text(self) -> str:
        down = "down " if self.at_end < self.at_start else ""
        ends = f"{belief_text(self.at_start)} {down}to {belief_text(self.at_end)}"
        column = one_line(self.column)
        ranges = {
            "value": f"from {self.start:.6g} to {self.end:.6g}",
            "quantile": f"from its {100 * self.start:.4g}% to its {100 * self.end:.4g}% quantile",
        }
        return f"{ends} as {column} goes {ranges[self.scale]}"

    def freeze(self, columns: Columns) -> FrozenBelief:
        return {"value": self._on_values, "quantile": self._on_quantiles}[self.scale](columns)

    def _on_values(self, columns: Columns) -> FrozenBelief:
        return FrozenRamp(self.column, (self.start, self.end), (self.at_start, self.at_end))

    def _on_quantiles(self, columns: Columns) -> FrozenBelief:
        values = columns.ordered(self.column)
        values = values[np.isfinite(values)]
        values.sort()
        if not values.size:
            raise RuleError(f"Column {self.column!r} has no finite value, so its quantiles are not known.")
        knots = np.unique(nearest_quantiles(values, np.linspace(self.start, self.end, QUANTILE_KNOTS)))
        # How many values are smaller than each knot, and how many are at most as large.
        below, upto = (np.searchsorted(values, knots, side=side) for side in ("left", "right"))
        rank = (below + upto) / (2 * values.size)
        beliefs = np.interp(rank, (self.start, self.end), (self.at_start, self.at_end))
        return FrozenRamp(self.column, _floats(knots), _floats(beliefs), below=self.at_start, above=self.at_end)


@dataclass(frozen=True, slots=True)
class ReadyMade(Belief):
    """A belief that is read from a column. The rule does not fire where the column is missing.

    Parameters
    ----------
    column : str
        Column with values in [0, 1].
    """

    kind: ClassVar[str] = "ready_made"
    column: str

    @property
    def needs(self) -> Mapping[str, Kind | None]:
        return {self.column: Kind.NUMBER}

    @property
    def text(self) -> str:
        return f"the value of {one_line(self.column)}"

    def freeze(self, columns: Columns) -> FrozenBelief:
        return FrozenReadyMade(self.column)


def belief_text(value: float) -> str:
    """A belief with two decimals, or up to four digits if two decimals are not exact.

    >>> belief_text(0.5), belief_text(0.125), belief_text(0.001)
    ('0.50', '0.125', '0.001')
    """
    short = f"{value:.2f}"
    return short if float(short) == value else f"{value:.4g}"


def _floats(values: np.ndarray) -> tuple[float, ...]:
    return tuple(values.tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRatio(Belief):
    """Appendix A.1: the belief for a failed check, from the failure ratio of the rule that asked for it.

    One column names the rule that asked for the check, another its outcome. Failed and skipped checks get the ratio of
    their rule. Passed and admitted checks, and rules that were unknown at fitting, get no belief. Admitted checks only
    count as checks: these rows are confirmed cases with S = 1, and the rule score must not depend on labels.
    """

    kind: ClassVar[str] = "check_ratio"
    rule_column: str
    outcome_column: str
    random_rule: str
    failed: tuple[str, ...] = ("fail", "skip")
    admitted: tuple[str, ...] = ("admit",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "failed", _texts(self.failed, "failed"))
        object.__setattr__(self, "admitted", _texts(self.admitted, "admitted"))
        both = set(self.failed) & set(self.admitted)
        if not self.failed or both:
            raise RuleError(
                f"A check has one outcome, so failed and admitted must differ and failed must not be empty; failed is "
                f"{self.failed}, admitted is {self.admitted}."
            )

    @property
    def needs(self) -> Mapping[str, Kind | None]:
        return {self.rule_column: None, self.outcome_column: None}

    @property
    def learns_from(self) -> tuple[str, ...]:
        return tuple(self.needs)

    @property
    def text(self) -> str:
        against = one_line(self.random_rule)
        return f"check ratio of {one_line(self.rule_column)} against {against!r} where the check failed"

    def ratios(self, columns: Columns) -> CheckRatios:
        """Failure ratio and soft label of each rule, with confidence intervals."""
        rule, outcome = columns.coded(self.rule_column), columns.coded(self.outcome_column)
        checked = (rule.codes >= 0) & (outcome.codes >= 0)
        outcomes = [level_text(level) for level in outcome.levels]
        names = [level_text(level) for level in rule.levels]
        flags = (
            checked,
            checked & outcome.where(np.isin(outcomes, self.failed)),
            checked & outcome.where(np.isin(outcomes, self.admitted)),
        )
        checks, failures, admissions = (_count_by_name(names, rule.codes[rows]) for rows in flags)
        if not checks:
            raise RuleError(
                f"No row has both {self.rule_column!r} and {self.outcome_column!r}, so no check can be counted."
            )
        return check_ratios_of_counts(checks, failures, admissions, self.random_rule)

    def freeze(self, columns: Columns) -> FrozenBelief:
        ratios = self.ratios(columns)
        values = dict(zip(ratios.names, ratios.value.tolist(), strict=True))
        return FrozenRatios(self.rule_column, self.outcome_column, self.failed, values)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRecord(Belief):
    """Appendix A.2: 1 − E[θ | k passes of n checks] for rows with a failed or skipped check; no belief for others."""

    kind: ClassVar[str] = "check_record"
    checks_column: str
    passes_column: str
    penalty: float | None = None

    def __post_init__(self) -> None:
        if self.penalty is not None and check_number(self.penalty, "penalty", RuleError) < 0:
            raise RuleError(f"penalty must not be negative, got {self.penalty:g}.")

    @property
    def needs(self) -> Mapping[str, Kind | None]:
        return {self.checks_column: Kind.NUMBER, self.passes_column: Kind.NUMBER}

    @property
    def learns_from(self) -> tuple[str, ...]:
        return tuple(self.needs)

    @property
    def text(self) -> str:
        return f"check record of {one_line(self.passes_column)} out of {one_line(self.checks_column)}"

    def prior(self, columns: Columns) -> CheckPrior:
        """Distribution of the probability to pass a check."""
        unfitted = FrozenRecords(self.checks_column, self.passes_column, (), ())
        checks, passes, _ = unfitted.records(columns)
        return fit_check_prior(checks, passes, penalty=self.penalty)

    def freeze(self, columns: Columns) -> FrozenBelief:
        prior = self.prior(columns)
        return FrozenRecords(
            self.checks_column, self.passes_column, tuple(prior.grid.tolist()), tuple(prior.density.tolist())
        )


def _count_by_name(names: list[str], codes: np.ndarray) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, count in zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True):
        if count:
            found[name] = found.get(name, 0) + count
    return found


def _texts(values: Any, name: str) -> tuple[str, ...]:
    entries = (values,) if isinstance(values, str) else tuple(values)
    if not all(isinstance(entry, str) for entry in entries):
        raise RuleError(f"{name} of a check ratio must list outcomes as texts, got {values!r}.")
    return entries
