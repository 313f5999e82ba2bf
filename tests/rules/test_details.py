"""Details that the other tests of rules pass over; each was found by breaking the code at random."""

import json

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import RuleError, SpuError
from spu_core.labels import COMBINERS
from spu_core.rules import (
    OPERATORS,
    CheckRecord,
    Compare,
    FittedRules,
    Kind,
    Rule,
    RuleMatrix,
    RuleSet,
    column_choices,
    parse_json,
)
from spu_core.tables import Table

MATRIX = RuleMatrix.from_arrays(
    ["a", "b", "c"], [[0.2, 0.7, 0.0], [0.4, 0.0, 0.9], [0.0, 0.6, 0.3], [0.6, 0.8, 0.7], [0.0, 0.0, 0.5]]
)


@pytest.mark.parametrize("combiner", COMBINERS.values(), ids=COMBINERS)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_more_rule_merged_into_the_others_gives_what_all_of_them_give(combiner, place):
    others = MATRIX.without(MATRIX.names[place])
    memory = None if combiner.memory is None else combiner.memory(others, place)

    merged = combiner.merge(combiner.combine(others), memory, MATRIX.belief_of(place))

    fired = MATRIX.fired[:, place]
    assert merged[fired] == pytest.approx(combiner.combine(MATRIX)[fired])


@pytest.mark.parametrize(
    ("sign", "values", "span"),
    [
        ("between", (1, 5), (1, 5)),
        ("<", (5,), (None, 5)),
        ("<=", (5,), (None, 5)),
        (">", (5,), (5, None)),
        (">=", (5,), (5, None)),
    ],
)
def test_comparisons_with_limits_know_the_range_in_which_they_hold(sign, values, span):
    assert OPERATORS[sign].span(values) == span


def test_the_intervals_of_a_summary_are_those_of_95_percent_unless_said_otherwise():
    is_labeled = [True, False, True, False, False]

    assert MATRIX.summary(is_labeled).equals(MATRIX.summary(is_labeled, level=0.95))
    assert not MATRIX.summary(is_labeled).equals(MATRIX.summary(is_labeled, level=0.5))


@pytest.mark.parametrize(("dtype", "found"), [("int64", "int64"), ("category", "float64")])
def test_numbers_where_dates_were_are_refused(dtype, found):
    dates = pd.DataFrame({"day": pd.to_datetime(["2024-01-01", "2024-03-01"])})
    fitted = RuleSet((Rule("late", 0.5, Compare("day", ">", "2024-02-01")),)).fit(Table.from_frame(dates))

    with pytest.raises(RuleError, match=f"'day' held dates when the rules were fitted, but now holds {found}"):
        fitted.apply(pd.DataFrame({"day": pd.Series([20240101, 20240301], dtype=dtype)}))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True, None], Kind.FLAG),
        ([True, False, None], Kind.FLAG),
        ([True, "yes"], Kind.TEXT),
        ([None, None], Kind.TEXT),
    ],
)
def test_a_column_is_one_of_flags_if_all_that_is_there_is_true_or_false(values, kind):
    frame = pd.DataFrame({"flag": pd.Series(values, dtype=object), "x": np.arange(len(values))})

    assert column_choices(Table.from_frame(frame, roles={"flag": "feature"}), "flag").kind is kind


def test_conditions_may_be_sixteen_levels_deep_and_no_deeper():
    condition = Compare("x", ">", 0)
    for _ in range(15):
        condition = ~condition
    Rule("deep", 0.5, condition)

    with pytest.raises(RuleError, match="nested deeper than 16 levels"):
        Rule("deeper", 0.5, ~condition)


def test_a_list_may_hold_ten_thousand_values_and_no_more():
    assert len(Compare("x", "in", list(range(10_000))).values) == 10_000

    with pytest.raises(RuleError, match="lists 10,001 values, more than the limit of 10,000"):
        Compare("x", "in", list(range(10_001)))


def test_names_stay_readable_in_json():
    assert "große Fälle" in RuleSet((Rule("große Fälle", 0.5),)).to_json()


def test_a_stored_prior_may_exclude_some_chances_to_pass():
    table = Table.from_frame(pd.DataFrame({"checks": [3, 2, 4, 1], "passes": [3, 0, 2, 1]}))
    record = CheckRecord(checks_column="checks", passes_column="passes", penalty=0.1)
    data = json.loads(RuleSet((Rule("record", record),)).fit(table).to_json())
    data["beliefs"][0] |= {"grid": [0.25, 0.75], "density": [0.0, 2.0]}

    belief = FittedRules.from_json(json.dumps(data)).apply(table.frame).belief[:, 0]

    assert belief.tolist() == [0.0, 0.25, 0.25, 0.0]


def test_records_of_many_checks_are_read():
    frame = pd.DataFrame({"checks": [1_000, 1_000, 30], "passes": [1_000, 10, 29]})
    record = CheckRecord(checks_column="checks", passes_column="passes", penalty=0.01)

    belief = RuleSet((Rule("record", record),)).fit(Table.from_frame(frame)).apply(frame).belief[:, 0]

    assert belief[0] == 0.0
    assert belief[1] > 0.9
    assert belief[2] < 0.1


def test_a_rule_set_knows_its_combiners():
    with pytest.raises(RuleError, match=r"combine must be one of 'noisy_or'.*, got 'vote'"):
        RuleSet(combine="vote")


@pytest.mark.parametrize(("belief", "codes"), [(0.49, []), (0.5, ["rule_fires_always"])])
def test_a_rule_that_always_fires_is_named_from_a_belief_of_one_half(belief, codes):
    matrix = RuleMatrix.from_arrays(["a"], np.full((40, 1), belief))

    assert [finding.code for finding in matrix.findings()] == codes


@pytest.mark.parametrize("sign", ["in", "between"])
def test_json_that_lacks_a_list_of_values_is_told_where(sign):
    data = json.loads(RuleSet((Rule("a", 0.5, Compare("x", "=", 1)),)).to_json())
    data["rules"][0]["when"]["operator"] = sign

    with pytest.raises(RuleError, match=r"rules\[0\]\.when: 'x' .* needs .*, got '1'"):
        RuleSet.from_json(json.dumps(data))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("how", ["share", "jaccard"])
def test_the_overlap_with_rules_that_never_fire_is_undefined_without_a_warning(how):
    matrix = RuleMatrix.from_arrays(["a", "never", "nowhere"], [[0.5, 0.0, 0.0], [0.5, 0.0, 0.0]])

    overlaps = matrix.overlaps(how)

    assert np.isnan(overlaps.loc["never", "nowhere"])
    assert overlaps.loc["a", "never"] == 0.0


def test_a_text_may_be_as_long_as_the_limit_and_no_longer():
    assert parse_json("[1]", max_bytes=3) == [1]

    with pytest.raises(SpuError, match="has 3 bytes, more than the limit of 2"):
        parse_json("[1]", max_bytes=2)
