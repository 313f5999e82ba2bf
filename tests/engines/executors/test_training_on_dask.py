"""A cluster reached from a training job and from the command line."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from spu_core import RuleSet, cli
from spu_core.engines import Job, run_in_process
from spu_core.engines.executors import dask_workers
from spu_core.engines.study import Study
from spu_core.errors import EngineError
from spu_core.tables import open_folder
from spu_core.tables.samples import load_sample, load_sample_rules
from spu_core.training import Candidate, TrainConfig, TrainPlan
from spu_core.workspace import JobStatus, Workspace
from spu_core.workspace.home import VARIABLE
from tests.engines.executors.killing import killing_all, killing_one
from tests.export.examples import known

pytestmark = pytest.mark.xdist_group("cluster")

PLAN = TrainPlan(TrainConfig(folds=3, threads=1), (Candidate("lightgbm", {"rounds": 5, "num_leaves": 4}),))


def training(workspace, **parameters):
    dataset = workspace.datasets.save(load_sample("breast_cancer", truth=True))
    rules = workspace.rule_sets.create("cancer", load_sample_rules("breast_cancer"))
    given = {"dataset": dataset.id, "rule_set": rules.id, "plan": PLAN.to_json(), "refine": False}
    return Job(kind="train", parameters=given | parameters)


def test_a_job_trains_on_the_cluster_that_it_names(cluster, tmp_path):
    with Workspace.open(tmp_path) as workspace:
        there = run_in_process(
            workspace, training(workspace, engine="dask", scheduler=cluster.client.scheduler.address)
        )
        here = run_in_process(workspace, training(workspace))

        scores = [known(workspace.runs.path(done.result["runs"][0])).run.score for done in (there, here)]
    np.testing.assert_array_equal(*scores)


def test_a_job_whose_scheduler_is_gone_is_marked_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(dask_workers, "_CONNECT_SECONDS", 1.0)
    with Workspace.open(tmp_path) as workspace:
        with pytest.raises(EngineError, match="No Dask scheduler answers"):
            run_in_process(workspace, training(workspace, engine="dask", scheduler="tcp://127.0.0.1:9"))

        (job,) = workspace.jobs.list()
    assert job.status == JobStatus.INTERRUPTED
    assert "No Dask scheduler answers at 'tcp://127.0.0.1:9'" in job.error


SLOW = TrainPlan(
    PLAN.config, tuple(Candidate(method, {"rounds": 20_000}) for method in ("xgboost", "lightgbm"))
).to_json()


def test_a_job_whose_workers_all_die_is_marked_interrupted_and_the_next_one_works(cluster, tmp_path):
    address = {"engine": "dask", "scheduler": cluster.client.scheduler.address}
    with Workspace.open(tmp_path) as workspace:
        with killing_all(cluster), pytest.raises(EngineError, match=r" was interrupted: (all workers that|the worker)"):
            run_in_process(workspace, training(workspace, plan=SLOW, **address))
        (job,) = workspace.jobs.list()
        again = run_in_process(workspace, training(workspace, **address))

    assert job.status == JobStatus.INTERRUPTED
    assert " was interrupted: " in job.error
    assert len(again.result["runs"]) == 1


def test_a_job_on_a_folder_that_loses_a_worker_is_marked_interrupted_and_the_next_one_works(
    cluster, tmp_path, monkeypatch
):
    cells = tmp_path / "tables" / "cells"
    monkeypatch.setenv(VARIABLE, str(cells.parent))
    write_cells(cells)
    address = {"engine": "dask", "scheduler": cluster.client.scheduler.address}
    with Workspace.open(tmp_path / "home") as workspace:
        registered = run_in_process(workspace, Job(kind="register", parameters={"folder": str(cells)}))
        folder = {"dataset": registered.result["dataset"], **address}
        with killing_one(cluster), pytest.raises(EngineError, match=r" was interrupted: the worker .* was lost"):
            run_in_process(workspace, training(workspace, plan=SLOW, **folder))
        job = next(job for job in workspace.jobs.list() if job.kind == "train")
        again = run_in_process(workspace, training(workspace, **folder))

    assert job.status == JobStatus.INTERRUPTED
    assert len(again.result["runs"]) == 1


def write_cells(folder):
    frame = load_sample("breast_cancer", truth=True).frame
    folder.mkdir(parents=True)
    frame[:300].to_parquet(folder / "a.parquet")
    frame[300:].to_parquet(folder / "b.parquet")
    return frame


def test_commands_train_and_score_folders_on_a_cluster(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPU_DASK_SCHEDULER", cluster.client.scheduler.address)
    frame = write_cells(tmp_path / "cells")
    rules = RuleSet.from_json(load_sample_rules("breast_cancer"))
    study = Study.of(open_folder(tmp_path / "cells"), rules, PLAN, refine=False)
    (tmp_path / "study.json").write_text(study.to_json())

    def spu(*words):
        done = CliRunner().invoke(cli.app, [*words, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    trained = spu("train", "study.json", "--data", "cells", "-o", "models", "--engine", "dask")
    report = spu("score", trained["bundles"][0], "cells", "-o", "scores", "--engine", "dask")

    assert trained["errors"] == {}
    assert report["rows"] == len(frame)
    assert len(pd.read_parquet(tmp_path / "scores" / "b.parquet")) == len(frame) - 300
