"""The profile of a folder is the profile of the same table in memory."""

import numpy as np
import pytest

from spu_core.tables import open_folder
from tests.tables.folders import mixed_frame, write_folder


@pytest.mark.parametrize("cuts", [[], [37, 37, 120]], ids=["one file", "cut"])
def test_a_profile_does_not_depend_on_where_the_rows_lie(tmp_path, cuts):
    folder = open_folder(write_folder(mixed_frame(200), tmp_path / "f", cuts, varied=True))

    ours, theirs = folder.profile(), folder.read().profile()

    assert (ours.rows, ours.labeled) == (theirs.rows, theirs.labeled)
    assert [finding.message for finding in ours.findings] == [finding.message for finding in theirs.findings]
    for one, other in zip(ours.columns, theirs.columns, strict=True):
        for name in ("name", "type", "role", "rows", "missing", "distinct", "quantiles", "top_levels"):
            assert getattr(one, name) == getattr(other, name), (one.name, name)
        if other.histogram is None:
            assert one.histogram is None
            continue
        for name in ("edge", "count", "labeled"):
            assert np.array_equal(getattr(one.histogram, name), getattr(other.histogram, name)), (one.name, name)
