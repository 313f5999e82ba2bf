"""Random conditions, beliefs, rule sets and frames of mixed types with gaps, for Hypothesis."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from spu_core.rules import (
    AllOf,
    AnyOf,
    CheckRatio,
    CheckRecord,
    Compare,
    Constant,
    Not,
    Ramp,
    ReadyMade,
    Rule,
    RuleSet,
)

# Few distinct values, so that comparisons meet equal values, the ends of ranges and gaps.
NUMBERS = st.sampled_from([-1.5, 0, 1, 2.5, 1e300, -0.0])
TEXTS = st.sampled_from(["a", "ab", "b", "", "A", "__import__('os')"])
DAYS = st.sampled_from(["2024-01-31", "2024-02-01", "2024-02-01T12:00:00", "1969-12-31"])
SHARES = st.floats(0, 1)

_ORDERED = ["<", "<=", ">", ">=", "=", "!="]


def _comparisons(column, values, signs, *, text=False):
    kinds = [st.builds(Compare, st.just(column), st.sampled_from(signs), values)]
    kinds.append(st.builds(Compare, st.just(column), st.just("in"), st.lists(values, min_size=1, max_size=3)))
    kinds.append(st.just(Compare(column, "is_missing")))
    if "<" in signs:
        pair = st.tuples(values, values).map(sorted)
        kinds.append(st.builds(Compare, st.just(column), st.just("between"), pair))
    if text:
        kinds.append(st.builds(Compare, st.just(column), st.just("contains"), TEXTS.filter(bool)))
    return st.one_of(kinds)


COMPARISONS = st.one_of(
    _comparisons("number", NUMBERS, _ORDERED),
    _comparisons("whole", NUMBERS, _ORDERED),
    _comparisons("day", DAYS, _ORDERED),
    _comparisons("flag", st.booleans(), ["=", "!="]),
    _comparisons("text", TEXTS, ["=", "!="], text=True),
    _comparisons("level", TEXTS, ["=", "!="], text=True),
)

CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: AllOf(tuple(parts))),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: AnyOf(tuple(parts))),
        inner.map(Not),
    ),
    max_leaves=8,
)

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ANY_NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(str.strip)

BELIEFS = st.one_of(
    st.builds(Constant, SHARES),
    st.builds(ReadyMade, ANY_NAME),
    st.builds(
        lambda ends, low, high, scale, column: Ramp(
            column=column, start=ends[0], end=ends[1], at_start=low, at_end=high, scale=scale
        ),
        st.lists(SHARES, min_size=2, max_size=2, unique=True).map(sorted),
        SHARES,
        SHARES,
        st.sampled_from(["value", "quantile"]),
        ANY_NAME,
    ),
    st.builds(
        CheckRatio,
        rule_column=ANY_NAME,
        outcome_column=ANY_NAME,
        random_rule=ANY_NAME,
        failed=st.just(("fail", "skip")),
        admitted=st.lists(st.sampled_from(["admit", "caught"]), unique=True).map(tuple),
    ),
    st.builds(CheckRecord, checks_column=ANY_NAME, passes_column=ANY_NAME, penalty=st.none() | st.floats(0, 10)),
)

RULE_SETS = st.lists(
    st.builds(
        Rule,
        ANY_NAME,
        BELIEFS,
        st.none() | CONDITIONS,
        id=ANY_NAME,
        on=st.booleans(),
        note=ANY_TEXT,
    ),
    max_size=5,
    unique_by=(lambda rule: rule.name, lambda rule: rule.id),
).map(lambda rules: RuleSet(tuple(rules)))


def _or_missing(values):
    return st.one_of(st.none(), values)


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "number": _or_missing(NUMBERS.map(float) | st.sampled_from([float("inf"), float("-inf")])),
            "whole": _or_missing(st.integers(-2, 3)),
            "day": _or_missing(DAYS),
            "flag": _or_missing(st.booleans()),
            "text": _or_missing(TEXTS),
            "level": _or_missing(TEXTS),
        }
    ),
    min_size=1,
    max_size=12,
)


def frame_of(rows):
    """The rows as a typed frame, gaps included."""
    column = {name: [row[name] for row in rows] for name in rows[0]}
    return pd.DataFrame(
        {
            "number": np.array([np.nan if value is None else value for value in column["number"]]),
            "whole": pd.array(column["whole"], dtype="Int64"),
            "day": pd.to_datetime(pd.Series(column["day"], dtype="object"), format="ISO8601"),
            "flag": pd.array(column["flag"], dtype="boolean"),
            "text": pd.array(column["text"], dtype="str"),
            "level": pd.Categorical(column["level"], categories=["", "A", "__import__('os')", "a", "ab", "b"]),
        }
    )


def holds_for_row(condition, row):
    """The plain definition in three-valued logic: True, False, or None where a missing value decides."""
    if isinstance(condition, Not):
        inner = holds_for_row(condition.condition, row)
        return None if inner is None else not inner
    if isinstance(condition, AllOf | AnyOf):
        parts = [holds_for_row(part, row) for part in condition.parts]
        decisive = isinstance(condition, AnyOf)
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive
    return compare_for_row(condition, row)


def compare_for_row(compare, row):
    value = row[compare.column]
    if compare.operator == "is_missing":
        return value is None
    if value is None:
        return None
    wanted = list(compare.values)
    if compare.column == "day":
        value, wanted = _moment(value), [_moment(day) for day in wanted]
    first = wanted[0]
    return {
        "<": lambda: value < first,
        "<=": lambda: value <= first,
        ">": lambda: value > first,
        ">=": lambda: value >= first,
        "=": lambda: value == first,
        "!=": lambda: value != first,
        "between": lambda: first <= value <= wanted[1],
        "in": lambda: value in wanted,
        "contains": lambda: first in value,
    }[compare.operator]()


def _moment(day):
    return datetime.datetime.fromisoformat(day)
