"""Whatever a file holds, it becomes rules or a RuleError: never another exception."""

import contextlib
import json

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from spu_core.errors import RuleError
from spu_core.rules import CheckRatio, CheckRecord, Compare, FittedRules, Ramp, ReadyMade, Rule, RuleSet
from spu_core.rules.beliefs import (
    FrozenBelief,
    FrozenConstant,
    FrozenRamp,
    FrozenRatios,
    FrozenReadyMade,
    FrozenRecords,
)
from spu_core.rules.columns import Kind

RULES = RuleSet(
    (
        Rule(
            "a",
            0.5,
            (Compare("x", ">", 1) | ~Compare("c", "in", ["u", "v"])) & Compare("x", "between", [0, 9]),
        ),
        Rule("b", Ramp(column="x", start=0, end=1, scale="quantile")),
        Rule("c", ReadyMade("x")),
        Rule("d", CheckRatio(rule_column="c", outcome_column="o", random_rule="r")),
        Rule("e", CheckRecord(checks_column="x", passes_column="y", penalty=0.1)),
    )
)
FROZEN: tuple[FrozenBelief, ...] = (
    FrozenConstant(0.5),
    FrozenRamp("x", (0.0, 1.0), (0.1, 0.9), 0.0, 1.0),
    FrozenReadyMade("x"),
    FrozenRatios("c", "o", ("fail",), {"r": 0.0, "s": 0.5}),
    FrozenRecords("x", "y", (0.25, 0.75), (1.0, 1.0)),
)
KINDS = {"x": Kind.NUMBER, "c": Kind.TEXT, "o": Kind.TEXT, "y": Kind.NUMBER}
FITTED = FittedRules(RULES, KINDS, FROZEN)
FRAME = pd.DataFrame({"x": [0.0, 1.0], "y": [0.0, 0.0], "c": ["r", "u"], "o": ["fail", "pass"]})

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["all", "not", "kind"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places_of(value, path=()):
    """The path to every value inside a JSON value."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from places_of(inner, (*path, key))


def changed(value, path, new):
    """A copy with another value at one place."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(copy[path[0]], path[1:], new)
    return copy


def one_change(text):
    data = json.loads(text)
    return st.builds(
        lambda path, new: json.dumps(changed(data, path, new)),
        st.sampled_from(list(places_of(data))),
        ANYTHING,
    )


@given(one_change(RULES.to_json()))
@settings(max_examples=300)
def test_a_rule_file_with_any_value_anywhere(text):
    with contextlib.suppress(RuleError):
        RuleSet.from_json(text)


@given(one_change(FITTED.to_json()))
@settings(max_examples=300)
def test_fitted_rules_with_any_value_anywhere_are_refused_or_can_be_applied(text):
    with contextlib.suppress(RuleError):
        FittedRules.from_json(text).apply(FRAME)


@given(st.binary(max_size=200) | st.text(max_size=200))
@settings(max_examples=200)
def test_any_bytes_and_any_text(source):
    with contextlib.suppress(RuleError):
        RuleSet.from_json(source)
