"""What the rule editor offers of a column must be what comparisons take."""

import pandas as pd
import pytest

from spu_core.errors import RuleError
from spu_core.rules import CheckRatio, CheckRecord, Compare, Kind, Rule, RuleSet, column_choices, from_checks
from spu_core.rules.draft import with_bars_of_all
from spu_core.tables import Table
from spu_core.tables.samples import load_sample

FRAME = pd.DataFrame(
    {
        "count": [1, 2, 3, 3],
        "size": [0.5, None, 2.0, 3.0],
        "flag": [True, False, True, True],
        "city": ["Bern", "Basel", "Bern", None],
        "grade": pd.Categorical([1, 2, 1, 1]),
        "day": pd.to_datetime(["2024-01-01", "2024-01-02", None, "2024-01-04"]),
        "label": [1, 0, 0, 0],
    }
)
TABLE = Table.from_frame(FRAME)


@pytest.mark.parametrize("column", ["flag", "city", "grade"])
def test_every_offered_level_can_be_compared_with(column):
    choices = column_choices(TABLE, column)

    for level, positives, rest in zip(choices.levels, choices.positives, choices.rest, strict=True):
        rule = Rule("rule", 0.5, Compare(column, "in", [level]))
        fired = RuleSet((rule,)).fit(TABLE).apply(FRAME).fired[:, 0]
        assert fired.sum() == positives + rest
        assert (fired & TABLE.is_labeled).sum() == positives


@pytest.mark.parametrize(("column", "kind", "is_whole"), [("count", Kind.NUMBER, True), ("size", Kind.NUMBER, False)])
def test_numbers_are_offered_as_a_histogram(column, kind, is_whole):
    choices = column_choices(TABLE, column)

    assert (choices.kind, choices.is_whole, choices.levels) == (kind, is_whole, ())
    assert choices.histogram.count.sum() + choices.missing == len(TABLE)


def test_dates_are_offered_in_nanoseconds():
    choices = column_choices(TABLE, "day")

    assert (choices.kind, choices.missing) == (Kind.DATE, 1)
    assert choices.histogram.edge[0] <= pd.Timestamp("2024-01-01").value


def test_checks_in_columns_say_what_the_fitted_rule_will():
    table = load_sample("anti_cheat")
    names = {"rule_column": "last_check_rule", "outcome_column": "last_check_outcome"}
    belief = CheckRatio(**names, random_rule="random", failed=("fail",))
    frozen = RuleSet((Rule("checks", belief),)).fit(table).beliefs[0]

    ratios = from_checks(belief, table)

    assert dict(zip(ratios.names, ratios.value.tolist(), strict=True)) == frozen.values


def test_columns_that_hold_no_checks_are_refused_in_words():
    with pytest.raises(RuleError, match="which must hold numbers but holds texts"):
        from_checks(CheckRecord(checks_column="city", passes_column="count"), TABLE)
    with pytest.raises(RuleError, match="uses column 'cities', which is not in the data"):
        from_checks(CheckRecord(checks_column="cities", passes_column="count"), TABLE)


def test_a_histogram_of_a_sample_gives_way_to_that_of_all_rows_and_levels_stay():
    sample, profile = Table.from_frame(FRAME[:2]), TABLE.profile()

    count, city, day = (
        with_bars_of_all(column_choices(sample, name), profile.column(name)) for name in ("count", "city", "day")
    )

    assert (count.rows, count.histogram.count.sum()) == (4, 4)
    assert (day.rows, day.missing) == (4, 1)
    assert (city.rows, city.levels) == (2, ("Bern", "Basel"))
