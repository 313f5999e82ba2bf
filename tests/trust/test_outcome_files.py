"""Files of outcomes: read strictly, strangers listed, open checks counted, spreadsheets forgiven."""

import pandas as pd
import pytest

from spu_core.errors import TableError
from spu_core.trust import read_outcomes

ROWS = {"ann": 3, "12": 5, "=cmd()": 8, "0007": 9}


def read(text, **options):
    import io

    return read_outcomes(pd.read_csv(io.StringIO(text), **options), ROWS)


def test_every_word_for_an_outcome_means_one_of_three():
    found = read("user,outcome\nann,Admitted\n12,SKIP\n=cmd(),pass\n")

    assert [(line.row, line.outcome) for line in found.lines] == [(3, "admitted"), (5, "failed"), (8, "passed")]


def test_columns_may_be_called_id_and_result_and_days_are_dates():
    found = read("ID,Result,Date\nann,failed,31 March 2026\n12,passed,\n", dtype=str)

    assert [line.day for line in found.lines] == ["2026-03-31", ""]


def test_the_apostrophe_of_a_safe_spreadsheet_is_no_other_user():
    assert read("user,outcome\n'=cmd(),passed\n").lines[0].row == 8


def test_a_whole_number_that_a_spreadsheet_wrote_with_a_point_is_the_same_user():
    assert read("user,outcome\n12.0,passed\n").lines[0].row == 5


def test_strangers_are_listed_and_open_lines_counted():
    found = read("user,outcome\nann,\nzoe,passed\nbob,failed\n")

    assert (found.lines, found.unknown, found.open) == ((), ("zoe", "bob"), 1)
    assert found.sentence.endswith("1 lines have none yet; 2 names are not in this queue: 'zoe', 'bob'.")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,outcome\nann,passed\n", "has no column 'user'; its columns are 'name', 'outcome'"),
        ("user,verdict\nann,passed\n", "has no column 'outcome'"),
        (
            "user,outcome\nann,passed\n12,guilty\n",
            "Line 3 has the unknown outcome 'guilty'; use one of confirmed, failed",
        ),
        ("user,outcome\nann,passed\nann,failed\n", "User 'ann' is in lines 2 and 3"),
        ("user,outcome,day\nann,passed,someday\n", "Line 2 has the day 'someday', which is not a date"),
    ],
)
def test_what_would_falsify_the_ratios_is_refused(text, message):
    with pytest.raises(TableError, match=message):
        read(text)
