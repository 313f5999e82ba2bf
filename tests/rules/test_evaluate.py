from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import Phase, given, seed, settings

from spu_core.rules import OPERATORS, Compare, Rule, RuleSet
from spu_core.rules.beliefs import FrozenConstant
from spu_core.rules.columns import Columns, Kind, kind_of
from spu_core.rules.conditions import holds
from spu_core.rules.operators import for_each_text
from spu_core.rules.rule_set import FittedRules
from tests.rules.strategies import COMPARISONS, CONDITIONS, EVERY_VALUE, KINDS, ROWS, frame_of, holds_for_row

EVERY_COLUMN = Columns(frame_of(EVERY_VALUE), KINDS)


def says_what_its_plain_definition_says(compare):
    for condition in (compare, ~compare):
        expected = [holds_for_row(condition, row) is True for row in EVERY_VALUE]
        assert holds(condition, EVERY_COLUMN).tolist() == expected


@given(COMPARISONS)
@settings(max_examples=200)
def test_every_comparison_says_of_every_value_what_its_plain_definition_says(compare):
    says_what_its_plain_definition_says(compare)


WRONG_TEXT_OPERATORS = {
    "equals": lambda text, wanted: text == wanted,
    "begins with": str.startswith,
    "ignores case": lambda text, wanted: wanted.lower() in text.lower(),
}


@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize("mistake", WRONG_TEXT_OPERATORS)
def test_the_test_above_finds_a_wrong_text_operator_with_any_seed(monkeypatch, mistake, number):
    wrong = replace(OPERATORS["contains"], evaluate=for_each_text(WRONG_TEXT_OPERATORS[mistake]))
    monkeypatch.setitem(OPERATORS, "contains", wrong)
    search = settings(max_examples=200, phases=[Phase.generate], database=None, derandomize=False)

    with pytest.raises(AssertionError):
        seed(number)(search(given(COMPARISONS)(says_what_its_plain_definition_says)))()


@given(CONDITIONS, ROWS)
@settings(max_examples=100)
def test_whole_columns_give_what_a_row_by_row_interpreter_gives(condition, rows):
    expected = [holds_for_row(condition, row) is True for row in rows]

    assert holds(condition, Columns(frame_of(rows), KINDS)).tolist() == expected


@given(CONDITIONS, ROWS)
@settings(max_examples=80)
def test_rows_judged_one_by_one_give_what_they_give_together(condition, rows):
    """Chunks change dtypes and levels; what a row gets must not depend on its neighbours."""
    frame = frame_of(rows)
    fitted = FittedRules(RuleSet((Rule("r", 0.5, condition),)), KINDS, (FrozenConstant(0.5),))
    alone = [fitted.apply(frame.iloc[[i]]).fired[0, 0] for i in range(len(frame))]

    assert fitted.apply(frame).fired[:, 0].tolist() == alone


@pytest.mark.parametrize("column", ["number", "whole", "day", "flag", "text", "level"])
def test_kinds_are_read_off_the_columns(column):
    row = {"number": 1.0, "whole": 1, "day": "2024-01-31", "flag": True, "text": "a", "level": "b"}

    assert kind_of(frame_of([row])[column]) is KINDS[column]


@given(COMPARISONS.filter(lambda compare: compare.operator != "is_missing"))
@settings(max_examples=100)
def test_a_missing_value_fires_neither_a_comparison_nor_its_negation(compare):
    columns = Columns(frame_of([dict.fromkeys(KINDS)]), KINDS)

    assert not holds(compare, columns)[0]
    assert not holds(~compare, columns)[0]


def test_dates_with_a_zone_are_compared_in_utc():
    frame = pd.DataFrame({"day": pd.to_datetime(["2024-01-31T23:30:00-05:00", "2024-01-31T12:00:00-05:00"])})
    columns = Columns(frame, {"day": Kind.DATE})

    assert holds(Compare("day", ">=", "2024-02-01"), columns).tolist() == [True, False]
    assert holds(Compare("day", "=", "2024-01-31T17:00:00+00:00"), columns).tolist() == [False, True]


def test_levels_that_are_whole_numbers_match_with_and_without_decimals():
    """A chunk with a gap turns whole numbers into floats; the level must keep its name."""
    columns = Columns(pd.DataFrame({"code": pd.Series(["7", 7, 7.0, None], dtype=object)}), {"code": Kind.TEXT})

    assert holds(Compare("code", "=", 7), columns).tolist() == [True, True, True, False]


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (
            Kind.NUMBER,
            ["a", "b"],
            "Column 'x' held numbers when the rules were fitted, but now holds str such as 'a'",
        ),
        (Kind.DATE, ["soon"], "Column 'x' held dates when the rules were fitted"),
        (Kind.DATE, [5.0], "Column 'x' held dates when the rules were fitted, but now holds float64"),
        (Kind.FLAG, [0.0, 2.0], "Column 'x' held true and false when the rules were fitted"),
        (Kind.FLAG, ["yes"], "Column 'x' held true and false when the rules were fitted"),
    ],
)
def test_a_column_that_changed_its_kind_is_named(kind, values, message):
    columns = Columns(pd.DataFrame({"x": values}), {"x": kind})

    with pytest.raises(ValueError, match=message):
        columns.is_missing("x")


@pytest.mark.parametrize("kind", list(Kind))
def test_a_chunk_in_which_everything_is_missing_is_read_as_any_kind(kind):
    columns = Columns(pd.DataFrame({"x": pd.Series([None, None], dtype=object)}), {"x": kind})

    assert columns.is_missing("x").all()


@pytest.mark.parametrize(
    ("values", "compare", "expected"),
    [
        ([1, 3, None], Compare("x", ">", 2), [False, True, False]),
        ([True, False, None], Compare("x", "!=", True), [False, True, False]),
        (list(pd.to_datetime(["2024-01-31", None])), Compare("x", "<", "2024-02-01"), [True, False]),
        (["a", None], ~Compare("x", "=", "a"), [False, False]),
    ],
    ids=["numbers", "flags", "dates", "texts"],
)
def test_category_columns_are_compared_by_what_they_hold(values, compare, expected):
    frame = pd.DataFrame({"x": pd.Categorical(values)})

    assert holds(compare, Columns(frame, {"x": kind_of(frame["x"])})).tolist() == expected
