"""Random conditions, beliefs, rule sets and frames of mixed types with gaps, for Hypothesis."""

from __future__ import annotations

import datetime
from itertools import groupby

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from spu_core.rules import (
    OPERATORS,
    AllOf,
    AnyOf,
    CheckRatio,
    CheckRecord,
    Compare,
    Constant,
    Kind,
    Not,
    Ramp,
    ReadyMade,
    Rule,
    RuleSet,
)
from spu_core.rules.combine import COMBINERS

# Few distinct values, so that comparisons meet equal values, the ends of ranges and gaps.
VALUES = [-1.5, 0, 1, 2.5, 1e300, -0.0]
NUMBERS = st.sampled_from(VALUES)
LEVELS = ["", "A", "a", "aa", "ab", "abab", "b", "ba", "__import__('os')"]
TEXTS = st.sampled_from(LEVELS)
MOMENTS = ["2024-01-31", "2024-02-01", "2024-02-01T12:00:00", "1969-12-31"]
DAYS = st.sampled_from(MOMENTS)
SHARES = st.floats(0, 1)

KINDS = {
    "number": Kind.NUMBER,
    "whole": Kind.NUMBER,
    "day": Kind.DATE,
    "flag": Kind.FLAG,
    "text": Kind.TEXT,
    "level": Kind.TEXT,
}
SINGLE = {Kind.NUMBER: NUMBERS, Kind.DATE: DAYS, Kind.FLAG: st.booleans(), Kind.TEXT: TEXTS}
# Values of each shape, from a strategy of single values.
SHAPED = {
    "one": lambda single: single,
    "limit": lambda single: single,
    "limits": lambda single: st.tuples(single, single).map(sorted),
    "several": lambda single: st.lists(single, min_size=1, max_size=3),
    "text": lambda single: single.filter(bool),
    "nothing": lambda single: st.none(),
}


@st.composite
def comparisons(draw):
    """Any operator of the table. Those for texts come as often as those for numbers, however many there are of each."""
    by_kinds = groupby(sorted(OPERATORS.values(), key=lambda row: row.kinds), key=lambda row: row.kinds)
    operator = draw(st.sampled_from(draw(st.sampled_from([tuple(rows) for _, rows in by_kinds]))))
    column = draw(st.sampled_from([name for name, kind in KINDS.items() if kind in operator.kinds]))
    return Compare(column, operator.sign, draw(SHAPED[operator.shape.name](SINGLE[KINDS[column]])))


COMPARISONS = comparisons()

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

RULES = st.lists(
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
)
RULE_SETS = st.builds(RuleSet, RULES.map(tuple), st.deferred(lambda: st.sampled_from(list(COMBINERS))), SHARES)


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


# Rows in which every column holds each of its values, and a gap.
EVERY_VALUE = pd.DataFrame(
    {
        "number": pd.Series([*map(float, VALUES), float("inf"), float("-inf")]),
        "whole": pd.Series(range(-2, 4)),
        "day": pd.Series(MOMENTS),
        "flag": pd.Series([False, True]),
        "text": pd.Series(LEVELS),
        "level": pd.Series([*LEVELS, None]),
    },
    dtype=object,
)
EVERY_VALUE = EVERY_VALUE.where(EVERY_VALUE.notna(), None).to_dict("records")


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
            "level": pd.Categorical(column["level"], categories=LEVELS),
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
    return ROW_BY_ROW[compare.operator](value, *wanted)


# What each operator says of one value that is there, in plain Python.
ROW_BY_ROW = {
    "<": lambda value, wanted: value < wanted,
    "<=": lambda value, wanted: value <= wanted,
    ">": lambda value, wanted: value > wanted,
    ">=": lambda value, wanted: value >= wanted,
    "=": lambda value, wanted: value == wanted,
    "!=": lambda value, wanted: value != wanted,
    "between": lambda value, low, high: low <= value <= high,
    "in": lambda value, *wanted: value in wanted,
    "contains": lambda value, wanted: wanted in value,
}


def _moment(day):
    return datetime.datetime.fromisoformat(day)
