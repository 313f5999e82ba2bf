"""Statistics for the encoder: those of parts, merged in any order, fit the encoder of the whole."""

from datetime import date
from functools import reduce
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spu_core.errors import TableError, TrainingError
from spu_core.models import Encoder, EncoderStatistics

NUMBERS = st.floats(-1e12, 1e12) | st.just(float("nan")) | st.sampled_from([2e9, 2e9 + 1, float("inf")])


def some_columns(rows: int):
    return st.fixed_dictionaries(
        {
            "number": st.lists(NUMBERS, min_size=rows, max_size=rows),
            "text": st.lists(st.sampled_from(["a", "b", "c", None]), min_size=rows, max_size=rows),
            "flag": st.lists(st.booleans(), min_size=rows, max_size=rows),
            "code": st.lists(st.integers(0, 4), min_size=rows, max_size=rows),
            "day": st.lists(
                st.dates(date(1900, 1, 1), date(2200, 1, 1)).map(pd.Timestamp) | st.none(), min_size=rows, max_size=rows
            ),
        }
    )


def parts_of(frame: pd.DataFrame, cuts: list[int]) -> list[pd.DataFrame]:
    return [frame.iloc[start:end] for start, end in pairwise([0, *sorted(cuts), len(frame)])]


@settings(max_examples=25)
@given(st.data())
def test_merged_statistics_of_any_parts_in_any_order_fit_the_encoder_of_the_whole(data):
    rows = data.draw(st.integers(1, 30))
    frame = pd.DataFrame(data.draw(some_columns(rows))).astype({"text": "str", "day": "datetime64[us]"})
    cuts = data.draw(st.lists(st.integers(0, rows), max_size=4))
    parts = data.draw(st.permutations(parts_of(frame, cuts)))

    merged = reduce(EncoderStatistics.merge, [EncoderStatistics.of(part, ["code"]) for part in parts])

    assert Encoder().fit_statistics(merged) == Encoder(categories=("code",)).fit(frame)


def test_categories_that_differ_between_parts_get_one_set_of_codes():
    first = pd.DataFrame({"job": pd.Categorical(["pilot", "clerk"])})
    second = pd.DataFrame({"job": pd.Categorical(["nurse", "nurse", "clerk"], categories=["nurse", "clerk"])})

    merged = EncoderStatistics.of(first).merge(EncoderStatistics.of(second))

    assert merged.fitted_columns()[0].levels == ("clerk", "nurse", "pilot")


def test_whole_numbers_in_one_part_and_gaps_in_the_next_are_one_column_of_codes():
    whole = EncoderStatistics.of(pd.DataFrame({"code": [3, 4]}), ["code"])
    gaps = EncoderStatistics.of(pd.DataFrame({"code": [3.0, None]}), ["code"])

    assert whole.merge(gaps).columns[0].levels == {"3": 2, "4": 1}


def test_a_part_without_rows_or_without_values_changes_nothing():
    frame = pd.DataFrame({"age": [1.0, 2.0], "job": ["a", "b"]})
    statistics = EncoderStatistics.of(frame)
    nothing = EncoderStatistics.of(pd.DataFrame({"age": np.empty(0, dtype=object), "job": np.empty(0, dtype=int)}))
    missing = EncoderStatistics.of(pd.DataFrame({"age": [None, None], "job": [None, None]}))

    expected = Encoder().fit(frame)
    for merged in (nothing.merge(statistics), statistics.merge(nothing), missing.merge(statistics)):
        assert Encoder().fit_statistics(merged) == expected


def test_parts_that_do_not_fit_each_other_are_refused_in_words():
    numbers = EncoderStatistics.of(pd.DataFrame({"x": [1, 2]}))
    texts = EncoderStatistics.of(pd.DataFrame({"x": ["a", "b"]}))
    levels = EncoderStatistics.of(pd.DataFrame({"x": pd.Categorical([1, 2])}))
    other = EncoderStatistics.of(pd.DataFrame({"y": [1]}))

    with pytest.raises(TrainingError, match="Column 'x' holds levels in one part of the rows and plain numbers"):
        numbers.merge(levels)
    with pytest.raises(TrainingError, match="Column 'x' holds levels in one part of the rows and plain numbers"):
        numbers.merge(texts)
    with pytest.raises(TableError, match="Column 'x' is in one part of the rows and not in another"):
        numbers.merge(other)
    with pytest.raises(TrainingError, match="no feature column"):
        Encoder().fit_statistics(EncoderStatistics(()))
