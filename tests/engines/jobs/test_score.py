"""The scoring job: a stored run scores a stored dataset, and the scored rows are kept beside the run."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest

from spu_core.engines import Job, run_in_process, wait_for
from spu_core.engines.jobs.score import scored_before, start_scoring, stored_scores
from spu_core.engines.stored_runs import stored_bundle
from spu_core.errors import SpuError, WorkspaceError
from spu_core.export import FlagPoint, ScoreReport, Scoring
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
    done = run_in_process(workspace, Job(kind="score", parameters={"run": run, "dataset": dataset}))

    scored = pd.read_parquet(workspace.exports.path(done.result["export"]))
    expected = stored_bundle(workspace, run).predict(load_sample("breast_cancer").frame)

    assert done.result["rows"] == len(scored) == 569
    np.testing.assert_array_equal(scored["score"].to_numpy(), expected)
    assert scored["flagged"].sum() == done.result["flagged"]
    assert workspace.exports.list(run)[0].id == done.result["export"]


def test_a_job_that_names_no_run_is_refused_in_words(trained):
    workspace, _, dataset = trained
    with pytest.raises(WorkspaceError, match="must name its run"):
        run_in_process(workspace, Job(kind="score", parameters={"dataset": dataset}))


def test_an_uploaded_file_is_scored_by_a_worker_that_tells_how_far_it_is(trained):
    workspace, run, _ = trained
    frame = load_sample("breast_cancer").frame.assign(note="x")

    job = start_scoring(workspace, run, io.BytesIO(frame.to_csv(index=False).encode()), "new.csv", "share")
    done = wait_for(workspace, job.id, 600)

    assert done.status == "finished", done.error
    scored = stored_scores(workspace, done.result["export"])
    expected = stored_bundle(workspace, run).score(frame, Scoring(flag_by="share"))
    np.testing.assert_array_equal(pd.read_parquet(scored.path)["score"], expected.frame["score"])
    assert scored.report.notes == expected.report.notes == tuple(done.result["notes"])
    assert scored.report.flag_rate == expected.report.flag_rate
    assert [record.name for record in scored_before(workspace, run)] == ["new.csv, scored"]


def test_a_file_that_does_not_fit_fails_in_words_and_leaves_nothing(trained):
    workspace, run, _ = trained
    upload = workspace.uploads.save(io.BytesIO(b"a,b\n1,2\n"))

    with pytest.raises(SpuError, match="The table lacks"):
        run_in_process(workspace, Job(kind="score", parameters={"run": run, "upload": upload, "name": "new.csv"}))
    assert workspace.jobs.list()[0].error.startswith("The table lacks")
    assert scored_before(workspace, run) == ()


def test_a_report_survives_json_also_with_a_threshold_that_flags_nothing(trained):
    workspace, run, _ = trained
    bundle = stored_bundle(workspace, run)
    for point in (bundle.point, FlagPoint(threshold=np.inf, share=0.0), FlagPoint(threshold=-np.inf, share=1.0)):
        report = bundle.with_point(point).score(load_sample("breast_cancer").frame).report

        again = ScoreReport.from_dict(json.loads(json.dumps(report.to_dict(), allow_nan=False)))

        assert again.notes == report.notes
        assert again.threshold == report.threshold
