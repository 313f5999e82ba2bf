"""Candidates × folds as tasks of a cluster: the same scores as here, to the bit."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from spu_core import RuleSet, TrainConfig, cross_fit, soft_labels_for
from spu_core.engines.executors import Deadline
from spu_core.engines.executors.dask_tasks import DaskTaskExecutor
from spu_core.errors import EngineError
from spu_core.tables.samples import load_sample, load_sample_rules
from spu_core.training import Candidate, TrainingCancelled, iter_cross_fit

pytestmark = pytest.mark.xdist_group("cluster")

FAST = {"rounds": 20}
CANDIDATES = (
    Candidate("lightgbm", settings=FAST),
    Candidate("xgboost", settings=FAST),
    Candidate("labeled_vs_rest", settings=FAST),
    Candidate("fused", settings=FAST),
)
CONFIG = TrainConfig(folds=3, threads=1)


@pytest.fixture(scope="module")
def work():
    table = load_sample("breast_cancer")
    return table, soft_labels_for(table, RuleSet.from_json(load_sample_rules("breast_cancer")))


def on(cluster, work, candidates=CANDIDATES, **options):
    return list(iter_cross_fit(*work, candidates, CONFIG, executor=DaskTaskExecutor(cluster), **options))


def test_scores_and_figures_are_those_of_this_process(cluster, work):
    there, here = on(cluster, work), cross_fit(*work, CANDIDATES, CONFIG)

    assert [run.name for run in there] == [run.name for run in here]
    for remote, local in zip(there, here, strict=True):
        np.testing.assert_array_equal(remote.score, local.score)
        assert remote.metrics.auc_spu == local.metrics.auc_spu


def test_a_candidate_that_fails_is_a_row_with_an_error(cluster, work):
    table, soft_labels = work
    unlabelled = replace(soft_labels, is_labeled=np.zeros(len(table), dtype=bool))

    failed, fine = on(cluster, (table, unlabelled), [Candidate("labeled_vs_rest"), CANDIDATES[0]])

    assert "no row is labelled" in failed.error
    assert fine.error is None


def test_a_worker_killed_in_the_middle_costs_nothing_but_time(cluster, work):
    slow = [Candidate("lightgbm", settings={"rounds": 400})]
    process = next(iter(cluster.client.run(os.getpid).values()))
    killed = []

    def kill_once(progress):
        if not killed:
            killed.append(os.kill(process, signal.SIGKILL))

    (run,) = on(cluster, work, slow, on_progress=kill_once)

    assert killed
    assert run.error is None
    np.testing.assert_array_equal(run.score, cross_fit(*work, slow, CONFIG)[0].score)


def test_a_caller_can_stop_it(cluster, work):
    with pytest.raises(TrainingCancelled):
        on(cluster, work, should_stop=lambda: True)


def test_a_fit_has_a_time_limit_and_its_workers_are_free_afterwards(cluster, work):
    slow = [Candidate("lightgbm", settings={"rounds": 20_000})]
    impatient = replace(cluster, deadline=Deadline(seconds=1))

    with pytest.raises(EngineError, match=r"^A fit of lightgbm was interrupted: it took longer than 1 seconds\."):
        on(impatient, work, slow)

    (run,) = on(cluster, work, CANDIDATES[:1])
    assert run.error is None
