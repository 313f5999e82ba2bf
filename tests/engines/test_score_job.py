"""The scoring job: a stored run scores a stored dataset, and the scored rows are kept beside the run."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from spu_core.engines import Job, run_here
from spu_core.engines.stored import stored_bundle
from spu_core.errors import WorkspaceError
from spu_core.tables.samples import load_sample
from spu_core.workspace import Workspace
from tests.dashboard.trained import bring_sample, train_quickly


@pytest.fixture
def trained(tmp_path):
    with Workspace.open(tmp_path / "home") as workspace:
        address = bring_sample(workspace)
        yield workspace, train_quickly(workspace, address)[0], address["dataset"]


def test_a_stored_dataset_is_scored_as_the_bundle_scores_it(trained):
    workspace, run, dataset = trained
    done = run_here(workspace, Job(kind="score", parameters={"run": run, "dataset": dataset}))

    scored = pd.read_parquet(workspace.exports.path(done.result["export"]))
    expected = stored_bundle(workspace, run).predict(load_sample("breast_cancer").frame)

    assert done.result["rows"] == len(scored) == 569
    np.testing.assert_array_equal(scored["score"].to_numpy(), expected)
    assert scored["flagged"].sum() == done.result["flagged"]
    assert workspace.exports.list(run)[0].id == done.result["export"]


def test_a_job_that_names_no_run_is_refused_in_words(trained):
    workspace, _, dataset = trained
    with pytest.raises(WorkspaceError, match="must name its run"):
        run_here(workspace, Job(kind="score", parameters={"dataset": dataset}))
