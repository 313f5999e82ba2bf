"""The class prior before training: near the truth where labels are a random sample, and words where it cannot be."""

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import AssumptionError
from spu_core.tables import Role, Table
from spu_core.training import estimate_class_prior


def people(rows: int, chance: float) -> Table:
    rng = np.random.default_rng(0)
    truth = rng.random(rows) < 0.2
    frame = pd.DataFrame({"x": rng.normal(4.0 * truth), "z": rng.normal(size=rows)})
    frame["label"] = (truth & (rng.random(rows) < chance)).astype(int)
    return Table.from_frame(frame, roles={"label": Role.LABEL}, positive_values=[1])


def test_the_estimate_is_near_the_truth_and_repeats_itself():
    table = people(3_000, 0.4)

    found = estimate_class_prior(table, most_rows=2_000)

    # BBE errs high; well separated classes leave it little room.
    assert 0.17 < found.prior < 0.30
    assert estimate_class_prior(table, most_rows=2_000) == found


def test_without_labelled_rows_there_is_nothing_to_estimate_from():
    table = people(300, 0.4)
    nobody = table.with_roles({"label": Role.IGNORE})

    with pytest.raises(AssumptionError, match="some rows must be confirmed and some not; 0 of 300 are confirmed"):
        estimate_class_prior(nobody)
