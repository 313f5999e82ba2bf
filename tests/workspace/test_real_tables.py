"""Real tables through the workspace: what comes back is what was saved, roles included."""

import pandas as pd
import pytest

from spu_core.tables import Role, Table


@pytest.fixture
def table():
    frame = pd.DataFrame(
        {
            "age": [31.5, None, 47.0, 28.0],
            "city": pd.Series(["Ulm", "Köln", None, "Ulm"], dtype="str"),
            "seen": pd.to_datetime(["2026-01-01", "2026-01-02", None, "2026-01-04"]),
            "confirmed": ["yes", "no", "no", "yes"],
            "fraud": [1, 0, 1, 1],
        }
    )
    roles = {"confirmed": "label", "fraud": "truth", "seen": "time", "city": "ignore"}
    return Table.from_frame(frame, name="claims.csv", roles=roles, positive_values=["yes"])


def test_a_table_comes_back_as_it_was_saved(workspace, table):
    loaded = workspace.datasets.load(workspace.datasets.save(table).id)

    pd.testing.assert_frame_equal(loaded.frame, table.frame)
    assert (loaded.roles, loaded.types) == (table.roles, table.types)
    assert (loaded.positive_values, loaded.truth_values) == (("yes",), table.truth_values)
    assert (loaded.fingerprint, loaded.name) == (table.fingerprint, "claims.csv")


def test_roles_saved_later_come_back_and_share_the_stored_file(workspace, table):
    saved = workspace.datasets.save(table)
    changed = table.with_roles({"city": Role.FEATURE, "fraud": Role.IGNORE}).with_positive_values("no")

    workspace.datasets.save_roles(changed, saved)

    loaded = workspace.datasets.load(saved.id)
    assert loaded.roles == changed.roles
    assert loaded.positive_values == ("no",)
    assert loaded.truth is None
    assert len(list(workspace.files.folder.iterdir())) == 1


def test_a_renamed_dataset_loads_under_its_new_name(workspace, table):
    saved = workspace.datasets.save(table)
    workspace.datasets.rename(saved.id, "claims 2026")

    assert workspace.datasets.load(saved.id).name == "claims 2026"
