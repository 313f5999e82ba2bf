"""The rule editor: what it shows of a column, and the draft of a rule (rows of conditions, a shape, and a belief)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import RuleError
from spu_core.rules.beliefs import Belief, CheckRatio, CheckRecord, Constant, Ramp
from spu_core.rules.checking import check_kinds, refuse_errors
from spu_core.rules.columns import Columns, Kind, column_of, kind_of
from spu_core.rules.conditions import AllOf, AnyOf, Compare, Condition, Not
from spu_core.rules.operators import LIMIT, OPERATORS
from spu_core.rules.rule import Rule
from spu_core.rules.rule_set import RuleSet
from spu_core.tables import Histogram, Table
from spu_core.tables.profiles import ColumnProfile, histogram
from spu_core.tables.reading.values import stamps
from spu_core.theory.check_prior import CheckPrior
from spu_core.theory.check_ratio import CheckRatios

# Longer lists are too long to choose from. Rules can also use categories that are not listed.
MOST_LEVELS = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class ColumnChoices:
    """One column as the rule editor shows it.

    Numbers and dates (nanoseconds since 1970) have a `histogram`. Flags, texts and categories have `levels`: their
    values in the form that a comparison takes, most frequent first. The bars of both count `rows` rows.
    """

    name: str
    kind: Kind
    rows: int
    missing: int
    is_whole: bool
    histogram: Histogram | None
    levels: tuple[Any, ...]
    positives: np.ndarray
    rest: np.ndarray


def column_choices(table: Table, name: str) -> ColumnChoices:
    """The histogram or the categories of one column.

    >>> table = Table.from_frame(pd.DataFrame({"city": ["Bern", "Bern", None, "Basel"], "label": [1, 0, 0, 0]}))
    >>> choices = column_choices(table, "city")
    >>> choices.levels, choices.positives.tolist(), choices.rest.tolist(), choices.missing
    (('Bern', 'Basel'), [1, 0], [1, 1], 1)
    """
    values, is_labeled = column_of(table.frame, name), table.is_labeled
    kind, missing = kind_of(values), int(values.isna().sum())
    if kind in (Kind.NUMBER, Kind.DATE) and not isinstance(values.dtype, pd.CategoricalDtype):
        numbers = _numbers(values, kind)
        finite = numbers[np.isfinite(numbers)]
        is_whole = kind is Kind.NUMBER and bool((finite == np.floor(finite)).all())
        nothing = np.zeros(0, dtype=np.int64)
        bars = histogram(numbers, is_labeled)
        return ColumnChoices(name, kind, len(values), missing, is_whole, bars, (), nothing, nothing)
    levels, positives, rest = _levels(values, kind, is_labeled)
    return ColumnChoices(name, kind, len(values), missing, False, None, levels, positives, rest)


def with_bars_of_all(choices: ColumnChoices, column: ColumnProfile) -> ColumnChoices:
    """Choices from a sample, with the histogram of all rows. Categories are counted in the sample."""
    if choices.histogram is None or column.histogram is None:
        return choices
    return replace(choices, histogram=column.histogram, missing=column.missing, rows=column.rows)


def from_checks(belief: CheckRatio | CheckRecord, table: Table) -> CheckRatios | CheckPrior:
    """The ratios or the prior that the belief learns from a table, for a preview."""
    for name in belief.needs:
        column_of(table.frame, name, "This belief")
    columns = Columns(table.frame, {name: kind_of(table.frame[name]) for name in belief.needs})
    refuse_errors(check_kinds(Rule("checks", belief), columns.kinds))
    return belief.ratios(columns) if isinstance(belief, CheckRatio) else belief.prior(columns)


def _numbers(values: pd.Series, kind: Kind) -> np.ndarray:
    if kind is Kind.NUMBER:
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    if isinstance(values.dtype, pd.DatetimeTZDtype):
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    return stamps(values)


def _levels(values: pd.Series, kind: Kind, is_labeled: np.ndarray) -> tuple[tuple[Any, ...], np.ndarray, np.ndarray]:
    codes, levels = pd.factorize(values)
    present = codes >= 0
    counts = np.bincount(codes[present], minlength=len(levels))
    hits = np.bincount(codes[present & is_labeled], minlength=len(levels))
    order = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
    named = tuple(level_value(levels[place], kind) for place in order)
    return named, hits[order], (counts - hits)[order]


def level_value(value: Any, kind: Kind) -> Any:
    """A category in the form that a comparison takes."""
    return _LEVEL[kind](value)


_LEVEL: dict[Kind, Callable[[Any], Any]] = {
    Kind.NUMBER: lambda value: value.item() if isinstance(value, np.generic) else value,
    Kind.DATE: lambda value: value.isoformat(),
    Kind.FLAG: bool,
    Kind.TEXT: str,
}


FLAT, RAMP_UP, RAMP_DOWN, AS_IT_IS = "Flat", "Ramp up", "Ramp down", "As it is"
RANGE, LEVELS = "between", "in"
# A range without an upper end is ≥, one without a lower end is ≤.
OPEN_ABOVE, OPEN_BELOW = ">=", "<="
END_OF_DAY = f"T{time.max.isoformat()}"
LONGEST_NAME = 80


@dataclass(frozen=True)
class DraftCondition:
    """One row of the editor; `value` is (low, high) for a range, a tuple for categories, else one value or None."""

    column: str
    operator: str = RANGE
    value: Any = None
    negated: bool = False
    joined: str = "and"

    @property
    def compare(self) -> Condition | None:
        """The comparison; None if it is not complete."""
        found = self._comparison()
        return Not(found) if found is not None and self.negated else found

    @property
    def problem(self) -> str:
        """Why this row is not a valid comparison; empty if it is."""
        try:
            self._comparison()
        except RuleError as problem:
            return str(problem)
        return ""

    def _comparison(self) -> Compare | None:
        if self.operator == RANGE:
            return _range(self.column, *(self.value or (None, None)))
        is_open = self.value in (None, "", ()) or (isinstance(self.value, tuple) and None in self.value)
        if is_open and OPERATORS[self.operator].shape.is_required:
            return None
        return Compare(self.column, self.operator, self.value)


@dataclass(frozen=True)
class RuleDraft:
    """An unsaved rule. A condition or belief that the editor cannot show is kept unchanged (`kept_when`,
    `kept_belief`)."""

    conditions: tuple[DraftCondition, ...] = ()
    belief: float = 0.5
    shape: str = FLAT
    name: str = ""
    editing: str | None = None
    on: bool = True
    note: str = ""
    kept_when: Condition | None = None
    kept_belief: Belief | None = None
    ends: tuple[float, float] | None = field(default=None, compare=False)

    @property
    def when(self) -> Condition | None:
        """All rows as one condition; *and* binds more strongly than *or*. None if no row is complete."""
        return self.kept_when if self.kept_when is not None else joined_rows(self.conditions)

    @property
    def problem(self) -> str:
        """Why these rows are not a valid condition; empty if they are."""
        try:
            self.when  # noqa: B018
        except RuleError as problem:
            return str(problem)
        return ""

    @property
    def is_complete(self) -> bool:
        """Whether the draft can be previewed and saved."""
        if self.problem:
            return False
        return self.when is not None or (self.shape == AS_IT_IS and self.kept_belief is not None)

    def rule(self, taken: Iterable[str] = ()) -> Rule:
        """The rule. Its name is the typed one or made from the condition, and distinct from those `taken`."""
        name = self.name.strip()[:200] or automatic_name(self)
        name = _distinct(name, taken)
        return Rule(name, self._belief(), self.when, id=self.editing or "", on=self.on, note=self.note)

    def _belief(self) -> Belief:
        if self.shape == AS_IT_IS and self.kept_belief is not None:
            return self.kept_belief
        if self.shape in (RAMP_UP, RAMP_DOWN) and self.conditions and self.ends is not None:
            start, end = _ramp_ends(self.conditions[0], self.ends)
            if start < end:
                low, high = (0.0, self.belief) if self.shape == RAMP_UP else (self.belief, 0.0)
                return Ramp(column=self.conditions[0].column, start=start, end=end, at_start=low, at_end=high)
        return Constant(self.belief)


def draft_of(rule: Rule) -> RuleDraft:
    """The draft of an existing rule. Parts that the editor cannot show are kept unchanged."""
    rows = rows_of(rule.when)
    head = RuleDraft(name=rule.name, editing=rule.id, on=rule.on, note=rule.note)
    head = replace(head, conditions=rows) if rows is not None else replace(head, kept_when=rule.when)
    belief = rule.belief
    if isinstance(belief, Constant):
        return replace(head, belief=belief.value)
    if isinstance(belief, Ramp) and rows and _ramp_fits(belief, rows[0]):
        up = belief.at_start == 0.0
        return replace(head, shape=RAMP_UP if up else RAMP_DOWN, belief=belief.at_end if up else belief.at_start)
    return replace(head, shape=AS_IT_IS, kept_belief=belief)


def save_draft(rules: RuleSet, draft: RuleDraft) -> RuleSet:
    """The rules with the draft added, or in place of the rule that it edits."""
    taken = [rule.name for rule in rules if rule.id != draft.editing]
    if draft.editing is not None and draft.editing in {rule.id for rule in rules}:
        return rules.replace(draft.editing, draft.rule(taken))
    return rules.add(draft.rule(taken))


def add_rules(rules: RuleSet, more: RuleSet) -> RuleSet:
    """Both sets in one; a name that is taken gets a number."""
    for rule in more:
        rules = rules.add(rule.renamed(_distinct(rule.name, rules.names)))
    return rules


def joined_rows(conditions: Iterable[DraftCondition]) -> Condition | None:
    """Rows as one condition; incomplete rows are left out."""
    groups: list[list[Condition]] = []
    for row in conditions:
        compare = row.compare
        if compare is None:
            continue
        if groups and row.joined == "and":
            groups[-1].append(compare)
        else:
            groups.append([compare])
    parts = [group[0] if len(group) == 1 else AllOf(tuple(group)) for group in groups]
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))


def rows_of(condition: Condition | None) -> tuple[DraftCondition, ...] | None:
    """A condition as rows; None where rows cannot express it."""
    if condition is None:
        return ()
    groups = condition.parts if isinstance(condition, AnyOf) else (condition,)
    rows: list[DraftCondition] = []
    for group in groups:
        members = group.parts if isinstance(group, AllOf) else (group,)
        for place, member in enumerate(members):
            row = _row(member, "and" if place else "or")
            if row is None:
                return None
            rows.append(row)
    return tuple(rows)


def automatic_name(draft: RuleDraft) -> str:
    """A name from the condition, short enough to read in a list."""
    if draft.problem or draft.when is None:
        return "New rule"
    text = condition_text(draft.when)
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def condition_text(condition: Condition) -> str:
    """A condition as people say it.

    >>> condition_text(Compare("city", "in", ["Bern", "Basel"]) & Compare("age", ">=", 60))
    'city is Bern or Basel and age is at least 60'
    >>> condition_text(~Compare("age", "between", [20, 30]))
    'not age from 20 to 30'
    """
    if isinstance(condition, Not):
        return f"not {condition_text(condition.condition)}"
    if isinstance(condition, Compare):
        values = [_value_text(value) for value in condition.values]
        return " ".join(f"{condition.column} {OPERATORS[condition.operator].phrased(values)}".split())
    joined = " and " if isinstance(condition, AllOf) else " or "
    return joined.join(f"({condition_text(part)})" if part.parts else condition_text(part) for part in condition.parts)


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value).removesuffix(END_OF_DAY)


def rounded_range(low: float, high: float, ends: tuple[float, float], is_whole: bool) -> tuple[Any, Any]:
    """A range selected on a chart, rounded to whole numbers if the column has only those, else to few digits.

    An end at or beyond the end of the column becomes None.

    >>> rounded_range(28.958, 46.083, (17.0, 90.0), True), rounded_range(0.12345, 9.0, (0.0, 9.0), False)
    ((29, 46), (0.12, None))
    """
    first, last = ends
    span = (last - first) or 1.0
    digits = max(0, 2 - math.floor(math.log10(span)))
    start: float
    end: float
    if is_whole:
        start, end = math.ceil(low), math.floor(high)
        start, end = (start, end) if start <= end else (round(low), round(low))
    else:
        start, end = round(low, digits), round(high, digits)
    return (None if low <= first else start), (None if high >= last else end)


def moment_of(nanoseconds: float) -> date:
    """The day (UTC) of a time in nanoseconds, as date widgets need it."""
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).date()


def _range(column: str, low: Any, high: Any) -> Compare | None:
    low, high = _written(low, first=True), _written(high, first=False)
    if low is not None and high is not None:
        return Compare(column, RANGE, [low, high])
    if low is not None:
        return Compare(column, OPEN_ABOVE, low)
    return None if high is None else Compare(column, OPEN_BELOW, high)


def _written(value: Any, *, first: bool) -> Any:
    """Dates as text. A range includes its whole last day."""
    if isinstance(value, date):
        return value.isoformat() if first else datetime.combine(value, time.max).isoformat()
    return value


def _row(condition: Condition, joined: str) -> DraftCondition | None:
    negated = isinstance(condition, Not)
    inner = condition.condition if isinstance(condition, Not) else condition
    if not isinstance(inner, Compare):
        return None
    operator, value = inner.operator, inner.value
    span = OPERATORS[operator].span
    if operator in (RANGE, OPEN_ABOVE, OPEN_BELOW) and span is not None:
        low, high = span(inner.values)
        if not (_is_day(low, "") and _is_day(high, END_OF_DAY)):
            return None
        operator, value = RANGE, (_read_day(low), _read_day(high))
    elif OPERATORS[operator].shape is LIMIT and isinstance(value, str):
        return None
    elif operator in ("=", "!=") and isinstance(value, str | bool):
        negated = negated is not (operator == "!=")
        operator, value = LEVELS, (value,)
    return DraftCondition(inner.column, operator, value, negated, joined)


def _is_day(value: Any, end: str) -> bool:
    """Whether a limit is a number, or a date that a date widget can show without changing its meaning."""
    return not isinstance(value, str) or value[10:] == end


def _read_day(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return datetime.fromisoformat(value).date()


def _ramp_ends(row: DraftCondition, ends: tuple[float, float]) -> tuple[float, float]:
    low, high = row.value if row.operator == RANGE and row.value else (None, None)
    return float(ends[0] if low is None else low), float(ends[1] if high is None else high)


def _ramp_fits(belief: Ramp, row: DraftCondition) -> bool:
    """Whether the ramp covers the range of the first row and has a belief of 0 at one end."""
    if belief.scale != "value" or belief.column != row.column or row.operator != RANGE or row.negated:
        return False
    low, high = row.value
    same = (low is None or low == belief.start) and (high is None or high == belief.end)
    return same and (belief.at_start == 0.0) is not (belief.at_end == 0.0)


def _distinct(name: str, taken: Iterable[str]) -> str:
    used, found, count = set(taken), name, 2
    while found in used:
        found, count = f"{name[:190]} ({count})", count + 1
    return found
