import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spu_core.errors import RuleError
from spu_core.rules import CheckRatio, CheckRecord, Compare, FittedRules, Ramp, ReadyMade, Rule, RuleSet
from spu_core.tables import Table

RNG = np.random.default_rng(0)
N = 400
FRAME = pd.DataFrame(
    {
        "amount": np.where(RNG.random(N) < 0.1, np.nan, RNG.lognormal(size=N)),
        "visits": RNG.integers(0, 4, N),
        "city": RNG.choice(["Bern", "Basel", "Chur"], N),
        "suspicion": np.where(RNG.random(N) < 0.3, np.nan, RNG.random(N)),
        "asked_by": np.where(RNG.random(N) < 0.2, None, RNG.choice(["random", "aim", "speed"], N)),
        "outcome": RNG.choice(["pass", "fail", "skip", "admit"], N),
        "checks": RNG.integers(0, 9, N),
        "since": pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 200, N), unit="D"),
    }
).assign(passes=lambda frame: RNG.binomial(frame["checks"], 0.7))
RULES = RuleSet(
    (
        Rule("constant", 0.3, Compare("city", "=", "Bern") & Compare("visits", ">=", 2)),
        Rule("ramp", Ramp(column="amount", start=0.5, end=3, at_start=0.1, at_end=0.9)),
        Rule(
            "quantiles",
            Ramp(column="amount", start=0.1, end=0.95, at_start=0.8, at_end=0.2, scale="quantile"),
        ),
        Rule("ready", ReadyMade("suspicion"), Compare("since", ">", "2024-03-01")),
        Rule("ratio", CheckRatio(rule_column="asked_by", outcome_column="outcome", random_rule="random")),
        Rule("record", CheckRecord(checks_column="checks", passes_column="passes")),
        Rule("off", 0.9, Compare("gone", ">", 0), on=False),
    )
)
FITTED = RULES.fit(Table.from_frame(FRAME))
WHOLE = FITTED.apply(FRAME)


@given(st.lists(st.integers(0, N), max_size=8))
@settings(max_examples=25)
def test_any_partition_of_the_rows_gives_the_whole_bit_for_bit(cuts):
    edges = [0, *sorted(cuts), N]
    parts = [FITTED.apply(FRAME.iloc[start:end]) for start, end in pairwise(edges)]

    assert np.concatenate([part.fired for part in parts]).tobytes() == np.ascontiguousarray(WHOLE.fired).tobytes()
    assert np.concatenate([part.belief for part in parts]).tobytes() == np.ascontiguousarray(WHOLE.belief).tobytes()


def test_rows_in_another_order_and_extra_columns_change_nothing():
    order = np.random.default_rng(1).permutation(N)
    shuffled = FRAME.iloc[order].assign(extra=1)[["extra", *FRAME.columns[::-1]]]

    assert (FITTED.apply(shuffled).belief == WHOLE.belief[order]).all()


def test_fitted_rules_survive_json_bit_for_bit():
    copy = FittedRules.from_json(FITTED.to_json())

    assert copy == FITTED
    assert copy.to_json() == FITTED.to_json()
    assert copy.apply(FRAME).belief.tobytes() == WHOLE.belief.tobytes()


def test_only_active_rules_are_kept():
    assert WHOLE.names == FITTED.rules.names == ("constant", "ramp", "quantiles", "ready", "ratio", "record")
    assert "gone" not in FITTED.columns


def test_beliefs_are_shares_and_zero_where_a_rule_is_silent():
    assert ((WHOLE.belief >= 0) & (WHOLE.belief <= 1)).all()
    assert (WHOLE.belief[~WHOLE.fired] == 0).all()


def test_the_callers_frame_is_not_changed():
    before = FRAME.copy(deep=True)

    FITTED.apply(FRAME)

    pd.testing.assert_frame_equal(FRAME, before)


def test_a_missing_column_is_named_with_its_rule():
    with pytest.raises(RuleError, match=r"Rule 'constant' uses column 'city', which is not in the data\."):
        FITTED.apply(FRAME.drop(columns="city"))


def test_no_rows_give_an_empty_matrix():
    assert FITTED.apply(FRAME.iloc[:0]).belief.shape == (0, 6)


def test_a_constant_column_has_quantiles_too():
    """All rows share the middle rank, ½, which lies half-way along the ramp."""
    frame = pd.DataFrame({"x": [7.0, 7.0, 7.0]})
    ramp = Ramp(column="x", start=0, end=1, scale="quantile")

    assert RuleSet((Rule("r", ramp),)).fit(Table.from_frame(frame)).apply(frame).belief.tolist() == [[0.5]] * 3


def damaged(**changes):
    return json.dumps(json.loads(FITTED.to_json()) | changes)


def with_belief(place, **changes):
    beliefs = json.loads(FITTED.to_json())["beliefs"]
    beliefs[place] |= changes
    return damaged(beliefs=beliefs)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", r"The fitted rules lacks the field 'schema_version'\."),
        (damaged(schema_version=9), r"The fitted rules has schema_version 9, but this version reads 1"),
        (damaged(code="x"), r"The fitted rules has an unknown field 'code'\."),
        (damaged(kinds={}), r"their columns do not match their rules"),
        (
            damaged(kinds=dict.fromkeys(FITTED.kinds, "colour")),
            r"kinds.city has an unknown value",
        ),
        (damaged(kinds=dict(FITTED.kinds) | {"more": "number"}), r"their columns do not match their rules"),
        (damaged(beliefs=[]), r"The fitted rules are damaged: their beliefs do not match their rules"),
        (damaged(beliefs=3), r"beliefs must be a list, got 3\."),
        (
            damaged(kinds=dict(FITTED.kinds) | {"visits": "text"}),
            r"Rule 'constant' uses visits ≥ 2, but column 'visits' holds",
        ),
        (
            damaged(kinds=dict(FITTED.kinds) | {"amount": "date"}),
            r"column 'amount', which must hold numbers but holds dates",
        ),
        (with_belief(1, column="visits"), r"their beliefs do not match their rules"),
        (with_belief(0, value=2), r"beliefs\[0\]: value must lie in \[0, 1\], got 2;"),
        (with_belief(0, kind="pickle"), r"beliefs\[0\].kind has an unknown value 'pickle'\."),
        (with_belief(1, knots=[1]), r"beliefs\[1\]: it needs as many beliefs as knots; fit the rules again\."),
        (with_belief(1, knots=[3, 1]), r"beliefs\[1\]: it needs knots in growing order"),
        (with_belief(1, beliefs=[0, 5]), r"beliefs\[1\]: beliefs must lie in \[0, 1\], got 5;"),
        (with_belief(4, values={"aim": 3}), r"beliefs\[4\]: values must lie in \[0, 1\], got 3;"),
        (with_belief(4, values=[]), r"beliefs\[4\].values must be an object, got a list of 0\."),
        (with_belief(5, density=[1]), r"beliefs\[5\]: it needs one density per grid point"),
        (
            with_belief(5, grid=[0.5], density=[0]),
            r"beliefs\[5\]: it needs a density that is not negative and not all 0",
        ),
        (with_belief(5, grid=[0.5], density=["1"]), r"beliefs\[5\].density\[0\] must be a number, got '1'\."),
    ],
)
def test_damaged_fitted_rules_are_refused_in_words(text, message):
    with pytest.raises(RuleError, match=message):
        FittedRules.from_json(text)


def test_a_column_that_comes_twice_is_refused():
    twice = pd.concat([FRAME, FRAME[["city"]]], axis=1)

    with pytest.raises(
        RuleError, match=r"uses column 'city', which is in the data more than once; rename the others\."
    ):
        FITTED.apply(twice)


def test_tables_are_fitted_and_frames_are_judged():
    with pytest.raises(RuleError, match=r"fit needs a Table \(Table\.from_frame\(frame\)\), got DataFrame"):
        RULES.fit(FRAME)
    with pytest.raises(RuleError, match=r"apply needs a pandas DataFrame \(table\.frame\), got Table"):
        FITTED.apply(Table.from_frame(FRAME))
