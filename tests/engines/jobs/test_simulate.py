"""The job that simulates a table into the workspace."""

import pytest

from spu_core.engines import Job, run_in_process
from spu_core.errors import WorkspaceError


@pytest.mark.parametrize(
    ("simulator", "settings"),
    [
        ("ads", {"users": 300, "seed": 1}),
        ("anti_cheat", {"players": 2000, "days": 10}),
        ("breast_cancer", {"seed": 2}),
        ("medical", {"patients": 300, "stages_ill": [0.1, 0.3, 0.6]}),
    ],
)
def test_a_simulated_table_becomes_a_dataset(workspace, simulator, settings):
    done = run_in_process(
        workspace,
        Job(kind="simulate", parameters={"simulator": simulator, "settings": settings, "name": "mine"}),
    )

    table = workspace.datasets.load(done.result["dataset"])
    assert (len(table), table.name) == (done.result["rows"], "mine")
    assert table.truth is not None


def test_an_unknown_simulator_or_setting_is_named(workspace):
    with pytest.raises(WorkspaceError, match="simulator must be one of 'ads', 'anti_cheat'"):
        run_in_process(workspace, Job(kind="simulate", parameters={"simulator": "weather"}))
    with pytest.raises(WorkspaceError, match=r"The simulator has an unknown field 'user'\. Did you mean 'users'\?"):
        run_in_process(workspace, Job(kind="simulate", parameters={"simulator": "ads", "settings": {"user": 3}}))
