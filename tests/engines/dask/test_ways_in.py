"""A cluster reached from a training job and from the command line."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from spu_core import cli
from spu_core.engines import Job, run_here
from spu_core.engines.dask import workers
from spu_core.errors import EngineError
from spu_core.export import load_bundle
from spu_core.tables.samples import load_sample, load_sample_rules
from spu_core.training import Candidate, TrainConfig, TrainPlan
from spu_core.workspace import JobStatus, Workspace
from tests.engines.dask.killing import killing_all

PLAN = TrainPlan(TrainConfig(folds=3, threads=1), (Candidate("lightgbm", {"rounds": 10}),))


def training(workspace, **parameters):
    dataset = workspace.datasets.save(load_sample("breast_cancer"))
    rules = workspace.rule_sets.create("cancer", load_sample_rules("breast_cancer"))
    given = {"dataset": dataset.id, "rule_set": rules.id, "plan": PLAN.to_json(), "refine": False}
    return Job(kind="train", parameters=given | parameters)


def test_a_job_trains_on_the_cluster_that_it_names(cluster, tmp_path):
    with Workspace.open(tmp_path) as workspace:
        there = run_here(workspace, training(workspace, engine="dask", scheduler=cluster.client.scheduler.address))
        here = run_here(workspace, training(workspace))

        scores = [load_bundle(workspace.runs.path(done.result["runs"][0])).run.score for done in (there, here)]
    np.testing.assert_array_equal(*scores)


def test_a_job_whose_scheduler_is_gone_is_marked_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "_CONNECT_PATIENCE", 1.0)
    with Workspace.open(tmp_path) as workspace:
        with pytest.raises(EngineError, match="No Dask scheduler answers"):
            run_here(workspace, training(workspace, engine="dask", scheduler="tcp://127.0.0.1:9"))

        (job,) = workspace.jobs.list()
    assert job.status == JobStatus.INTERRUPTED
    assert "No Dask scheduler answers at 'tcp://127.0.0.1:9'" in job.error


def test_a_job_whose_workers_all_die_is_marked_interrupted_and_the_next_one_works(cluster, tmp_path):
    slow = TrainPlan(PLAN.config, (Candidate("lightgbm", {"rounds": 20_000}),)).to_json()
    address = {"engine": "dask", "scheduler": cluster.client.scheduler.address}
    with Workspace.open(tmp_path) as workspace:
        with killing_all(cluster), pytest.raises(EngineError, match="all workers that held the rows were lost"):
            run_here(workspace, training(workspace, plan=slow, **address))
        (job,) = workspace.jobs.list()
        again = run_here(workspace, training(workspace, **address))

    assert job.status == JobStatus.INTERRUPTED
    assert job.error.startswith("A fit of lightgbm was interrupted: ")
    assert again.status == JobStatus.FINISHED
    assert len(again.result["runs"]) == 1


def test_commands_train_and_score_folders_on_a_cluster(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPU_DASK_SCHEDULER", cluster.client.scheduler.address)
    frame = load_sample("breast_cancer").frame
    for name, rows in {"a": frame[:300], "b": frame[300:]}.items():
        (tmp_path / "cells").mkdir(exist_ok=True)
        rows.to_parquet(tmp_path / "cells" / f"{name}.parquet")
    (tmp_path / "rules.json").write_text(load_sample_rules("breast_cancer"))

    def spu(*words):
        done = CliRunner().invoke(cli.app, [*words, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    spu("plan", "cells", "-o", "study.json", "--rules", "rules.json", "--method", "lightgbm", "--folds", "3")
    trained = spu("train", "study.json", "--data", "cells", "-o", "models", "--engine", "dask")
    report = spu("score", trained["bundles"][0], "cells", "-o", "scores", "--engine", "dask")

    assert trained["errors"] == {}
    assert report["rows"] == len(frame)
    assert len(pd.read_parquet(tmp_path / "scores" / "b.parquet")) == len(frame) - 300
