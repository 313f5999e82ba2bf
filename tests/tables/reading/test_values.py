"""Dates far away, such as the 9999-12-31 that stands for "for ever" in many tables, work like any others."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from spu_core import read_table
from spu_core.models import Encoder
from spu_core.rules import column_choices
from spu_core.tables.reading.values import day_of, moment_bits, stamp_of, stamps

CSV = "id,until,amount,fraud\n" + "".join(
    f"{row},{'9999-12-31' if row % 5 == 0 else f'2024-01-{1 + row % 28:02d}'},{row % 7},{int(row % 9 == 0)}\n"
    for row in range(200)
)


def test_a_table_with_a_date_that_means_for_ever_can_be_read_profiled_and_encoded():
    table = read_table(CSV.encode(), name="contracts.csv").with_roles({"until": "feature"})

    profile = table.profile()
    encoded = Encoder().fit(table.frame[["until"]]).transform(table.frame[["until"]]).matrix[:, 0]

    assert profile.column("until").histogram is not None
    assert table.fingerprint
    assert column_choices(table, "until") is not None
    assert encoded[0] - encoded[1] == pytest.approx(
        (np.datetime64("9999-12-31") - np.datetime64("2024-01-02")).astype(int)
    )


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_unit_that_dates_are_stored_in_does_not_show(unit):
    values = pd.Series(pd.to_datetime(["2024-03-01 12:30:01", None])).dt.as_unit(unit)

    assert stamps(values)[0] == stamp_of("2024-03-01 12:30:01")
    assert np.isnan(stamps(values)[1])
    np.testing.assert_array_equal(moment_bits(values), values.dt.as_unit("ns").astype("int64"))


def test_days_and_stamps_go_there_and_back():
    assert day_of(stamp_of("9999-12-31 23:59:59")) == "9999-12-31"
