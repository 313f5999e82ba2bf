"""Checks of rules against a table: unknown columns, comparisons of the wrong type, unknown categories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from spu_core.errors import RuleError, nearest_hint
from spu_core.rules.beliefs import CheckRatio
from spu_core.rules.columns import KIND_NAMES, Columns, Kind, kind_of, level_text
from spu_core.rules.conditions import Compare, comparable
from spu_core.rules.operators import operator_of, value_text
from spu_core.rules.rule import Rule
from spu_core.tables import ColumnType, Finding, Role, Severity, Table

_FIX = "Correct the rule or switch it off."


def check_rules(rules: Iterable[Rule], table: Table) -> tuple[Finding, ...]:
    """Problems of rules with a table. `fit` raises the errors and ignores the warnings.

    >>> import pandas as pd
    >>> from spu_core.rules import RuleSet
    >>> table = Table.from_frame(pd.DataFrame({"age": [31, 54], "city": ["Bern", "Basel"]}))
    >>> rules = RuleSet((Rule("old", 0.5, Compare("aeg", ">", 50)), Rule("there", 0.2, Compare("city", "=", "bern"))))
    >>> for finding in check_rules(rules, table):
    ...     print(finding.message)
    Rule 'old' uses column 'aeg', which is not in the data. Did you mean 'age'?
    Rule 'there' compares column 'city' with 'bern', which is not a category of this column. Did you mean 'Bern'?
    """
    columns = Columns(table.outline, kinds_of(rules, table))
    return tuple(finding for rule in rules for finding in _check_rule(rule, table, columns))


def kinds_of(rules: Iterable[Rule], table: Table) -> dict[str, Kind]:
    """How each column that the rules read is compared."""
    names = dict.fromkeys(name for rule in rules for name in rule.columns)
    return {name: kind_of(table.outline[name]) for name in names if name in table.roles}


def check_kinds(rule: Rule, kinds: Mapping[str, Kind]) -> Iterator[Finding]:
    """Errors where a rule needs another kind of column."""
    for name, kind in rule.belief.needs.items():
        if kind is not None and kinds[name] is not kind:
            yield _error("wrong_type", _wrong_belief_column(rule, name, kind, kinds[name]), name)
    for compare in () if rule.when is None else rule.when.comparisons:
        problem = _kind_problem(compare, kinds[compare.column])
        if problem:
            holding = f"column {compare.column!r} holds {KIND_NAMES[kinds[compare.column]]}"
            message = f"Rule {rule.name!r} uses {compare.text}, but {holding}: {problem}"
            yield _error("wrong_type", message, compare.column)


def refuse_errors(findings: Iterable[Finding]) -> None:
    """Raise the first error, with the number of further errors."""
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if errors:
        more = f" ({len(errors) - 1} more rule errors.)" if len(errors) > 1 else ""
        raise RuleError(errors[0].message + more)


def _check_rule(rule: Rule, table: Table, columns: Columns) -> Iterator[Finding]:
    missing = [name for name in rule.columns if name not in table.roles]
    for name in missing:
        hint = nearest_hint(name, table.roles)
        yield _error(
            "unknown_column",
            f"Rule {rule.name!r} uses column {name!r}, which is not in the data. {hint}",
            name,
        )
    if missing:
        return
    yield from _check_roles(rule, table)
    yield from check_kinds(rule, columns.kinds)
    if isinstance(rule.belief, CheckRatio):
        yield from _check_admissions(rule, rule.belief, table, columns)
    for compare in () if rule.when is None else rule.when.comparisons:
        if table.types[compare.column] is ColumnType.CATEGORY and columns.kinds[compare.column] is Kind.TEXT:
            yield from _check_levels(rule, compare, columns)


def _check_roles(rule: Rule, table: Table) -> Iterator[Finding]:
    for name in rule.columns:
        if table.roles[name] is Role.TRUTH:
            message = (
                f"Rule {rule.name!r} uses column {name!r}, which holds the truth. The truth is for evaluation only; "
                "rules that use it would make every figure too good."
            )
            yield _error("reads_truth", message, name)
    compared = () if rule.when is None else (compare.column for compare in rule.when.comparisons)
    for name in dict.fromkeys(compared):
        if table.roles[name] is Role.LABEL:
            message = f"Rule {rule.name!r} uses the label column {name!r}, so the soft labels repeat the labels."
            yield Finding("reads_label", Severity.WARNING, message, "Confirmed cases get 1 without a rule.", name)


def _check_admissions(rule: Rule, belief: CheckRatio, table: Table, columns: Columns) -> Iterator[Finding]:
    forgotten = 0
    for part in table.parts(list(dict.fromkeys((belief.outcome_column, *table.columns_with(Role.LABEL))))):
        outcome = Columns(part.frame, columns.kinds).coded(belief.outcome_column)
        admitted = outcome.where(np.isin([level_text(level) for level in outcome.levels], belief.admitted))
        forgotten += int(np.count_nonzero(admitted & ~part.is_labeled))
    if forgotten:
        message = f"Rule {rule.name!r}: {forgotten:,} rows admitted in a check but are not confirmed cases."
        advice = "Mark them as positive in the label column: the rule does not fire on admitted rows."
        yield Finding("admitted_not_labeled", Severity.WARNING, message, advice, belief.outcome_column)


def _kind_problem(compare: Compare, kind: Kind) -> str:
    """Why the comparison does not fit a column of this kind; empty if it does."""
    refusal = operator_of(compare.operator).refuses(kind)
    if refusal:
        return refusal
    wrong = next((value for value in compare.values if not _fits(value, kind)), None)
    if wrong is not None:
        return f"it cannot be compared with {value_text(wrong)}."
    return _date_problem(compare) if kind is Kind.DATE else ""


def _fits(value: object, kind: Kind) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {
        Kind.NUMBER: is_number,
        Kind.DATE: isinstance(value, str),
        Kind.FLAG: isinstance(value, bool) or (is_number and value in (0, 1)),
        Kind.TEXT: isinstance(value, str) or is_number,
    }[kind]


def _date_problem(compare: Compare) -> str:
    try:
        moments = [comparable(value, Kind.DATE) for value in compare.values]
    except RuleError as problem:
        return str(problem)
    if operator_of(compare.operator).shape.is_growing and moments != sorted(moments):
        return "put the earlier date first."
    return ""


def _check_levels(rule: Rule, compare: Compare, columns: Columns) -> Iterator[Finding]:
    """Unknown categories: an error if the comparison has no known category, else a warning."""
    if not operator_of(compare.operator).names_levels:
        return
    levels = set(columns.coded(compare.column).levels)
    unknown = [value for value in compare.values if level_text(value) not in levels]
    severity = Severity.ERROR if len(unknown) == len(compare.values) else Severity.WARNING
    for value in unknown[:3]:
        message = (
            f"Rule {rule.name!r} compares column {compare.column!r} with {value_text(value)}, "
            f"which is not a category of this column. {_level_hint(level_text(value), levels)}"
        )
        yield Finding("unknown_level", severity, message, _FIX, compare.column)


def _level_hint(wanted: str, levels: set[str]) -> str:
    """A hint for an unknown category. Names that differ only in upper and lower case come first."""
    same = [level for level in sorted(levels) if level.strip().casefold() == wanted.strip().casefold()]
    return f"Did you mean {same[0]!r}?" if same else nearest_hint(wanted, levels)


def _wrong_belief_column(rule: Rule, name: str, wanted: Kind, found: Kind) -> str:
    return (
        f"Rule {rule.name!r} takes its belief from column {name!r}, which must hold {KIND_NAMES[wanted]} "
        f"but holds {KIND_NAMES[found]}."
    )


def _error(code: str, message: str, column: str) -> Finding:
    return Finding(code, Severity.ERROR, message, _FIX, column)
