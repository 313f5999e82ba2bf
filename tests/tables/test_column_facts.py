"""Facts of a column that merge over parts: types and roles as the whole column gives them."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from spu_core.tables import open_folder, read_table
from spu_core.tables.folders import ColumnFacts
from tests.tables.folders import write_folder, write_whole

ROWS = 60
ODD = {
    "all missing": [None] * ROWS,
    "constant": ["a"] * ROWS,
    "free text": [f"word {n} and more" for n in range(ROWS)],
    "ids": [f"u{n}" for n in range(ROWS)],
    "repeated ids": [f"u{n // 2}" for n in range(ROWS)],
    "flags with gaps": [True, None, False] * 20,
    "huge": [2**60 + n for n in range(ROWS)],
    "whole with gaps": [1, None, 3] * 20,
    "few numbers": [0.0, -0.0, 1.5] * 20,
    "infinite": [float("inf"), 1.0, -2.0] * 20,
    "sparse date": [pd.Timestamp("2024-03-01"), *[pd.NaT] * 3] * 15,
    "shares": np.linspace(0, 1, ROWS),
}
NAMES = ["thing", "user_id", "label", "truth", "soft_label", "sample_weight", "group", "event_date"]


@pytest.mark.parametrize("kind", ODD)
def test_odd_columns_get_the_types_and_roles_of_the_whole_under_any_name(tmp_path, kind):
    frame = pd.DataFrame({name: pd.Series(ODD[kind]) for name in NAMES}).assign(x=np.arange(float(ROWS)))
    problems = []
    for read in (
        lambda: open_folder(write_folder(frame, tmp_path / "f", [7, 31])),
        lambda: read_table(write_whole(frame, tmp_path / "whole.parquet")),
    ):
        try:
            found = read()
            problems.append((dict(found.types), dict(found.roles), found.positive_values, found.truth_values))
        except ValueError as problem:
            problems.append(str(problem).split("'")[0])

    assert problems[0] == problems[1]


@pytest.mark.parametrize("name", ["user_id", "thing"])
def test_distinct_texts_and_ids_are_counted_exactly_over_parts(name):
    facts = {True: ColumnFacts.empty(name, pa.int64(), 100), False: ColumnFacts.empty(name, pa.string(), 100)}
    for start in range(0, 9_000, 3_000):
        numbers = np.arange(start, start + 3_500)  # 500 values of each part come again in the next one
        for is_number, held in facts.items():
            values = pa.array(numbers if is_number else [f"u{number}" for number in numbers])
            facts[is_number] = held.add(values)

    assert facts[False].distinct == 9_500
    assert facts[True].distinct == (9_500 if name == "user_id" else 0)
    assert not facts[True].all_differ
    assert (facts[True].low, facts[True].high, facts[True].rows) == (0, 9_499, 10_500)
