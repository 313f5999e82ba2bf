"""Boosters fitted by several workers together: the model of one process, up to the noise of a fit."""

from __future__ import annotations

import socket

import numpy as np
import pytest

from spu_core import auc_spu_score
from spu_core.engines.executors import open_cluster
from spu_core.engines.executors.dask_boosters import Chunk, Schema, fit_together
from spu_core.errors import EngineError, TrainingError
from spu_core.models import Features
from spu_core.models.columns import Column, Family
from spu_core.models.learners import LEARNERS
from tests.engines.executors.killing import killing_one

pytestmark = pytest.mark.xdist_group("cluster")

LEVELS = ("a", "b", "c", "d")
COLUMNS = (Column("x", Family.NUMBER), Column("noise", Family.NUMBER), Column("kind", Family.TEXT, True, 0.0, LEVELS))
SCHEMA = Schema(COLUMNS, np.arange(3))


def world(rows: int, seed: int = 0):
    """Rows whose soft label depends on a number and, much more, on a category."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(rows, 3)).astype(np.float32)
    matrix[:, 2] = rng.integers(1, 5, rows)
    logit = matrix[:, 0] + np.array([0.0, 2.0, -2.0, 1.0, -1.0])[matrix[:, 2].astype(int)]
    return matrix, 1 / (1 + np.exp(-logit))


def chunks_of(cluster, matrix, target, cuts):
    """The rows, cut at these places, one piece on each worker in turn."""
    chunks, workers = [], cluster.workers
    pieces = zip(np.split(matrix, cuts), np.split(target, cuts), strict=True)
    for number, (rows, wanted) in enumerate(pieces):
        piece = (rows, wanted, np.ones(len(rows)))
        future = cluster.client.scatter(piece, workers=[workers[number % len(workers)]], hash=False)
        chunks.append(Chunk(future, len(rows), float(wanted.sum()), float(len(rows))))
    return chunks


@pytest.mark.parametrize("learner", ["lightgbm", "xgboost"])
def test_workers_together_learn_what_one_process_learns(cluster, learner):
    matrix, target = world(4000)
    fresh, wanted = world(4000, seed=1)
    local = LEARNERS[learner](rounds=40).fit_rows(Features.of(matrix, COLUMNS), target)

    together = fit_together(
        cluster, LEARNERS[learner](rounds=40), chunks_of(cluster, matrix, target, [2000]), SCHEMA, "A"
    )

    figures = [auc_spu_score(wanted, model.score_rows(Features.of(fresh, COLUMNS))) for model in (local, together)]
    assert figures[1] == pytest.approx(figures[0], abs=0.003)
    assert figures[1] > auc_spu_score(wanted, fresh[:, 0]) + 0.05, "the category was not understood"
    assert together.rounds_ == 40


@pytest.mark.parametrize(
    "cuts", [[], [0, 300], [300, 300]], ids=["one partition", "first empty", "one in the middle empty"]
)
@pytest.mark.parametrize("learner", ["lightgbm", "xgboost"])
def test_one_partition_and_empty_ones_are_no_special_case(cluster, learner, cuts):
    matrix, target = world(600)

    model = fit_together(
        cluster, LEARNERS[learner](rounds=10), chunks_of(cluster, matrix, target, cuts), SCHEMA, "A fit"
    )

    score = model.score_rows(Features.of(matrix, COLUMNS))
    assert auc_spu_score(target, score) > 0.7


def test_no_row_at_all_is_said(cluster):
    matrix, target = world(4)

    with pytest.raises(TrainingError, match="Fold 3 has no row to learn from"):
        fit_together(cluster, LEARNERS["lightgbm"](), chunks_of(cluster, matrix[:0], target[:0], []), SCHEMA, "Fold 3")


def test_learners_that_cannot_be_shared_are_refused(cluster):
    chunks = chunks_of(cluster, *world(10), [])

    with pytest.raises(TrainingError, match=r"cannot be fitted by several workers together; use lightgbm or xgboost"):
        fit_together(cluster, LEARNERS["logistic"](), chunks, SCHEMA, "A fit")


def fit(cluster, learner, rounds):
    chunks = chunks_of(cluster, *world(4000), [2000])
    return fit_together(cluster, LEARNERS[learner](rounds=rounds), chunks, SCHEMA, "Fold 1")


def lose_a_worker(cluster, learner):
    """A worker is killed in the middle of a fit: it is named, and the cluster fits again."""
    fit(cluster, learner, rounds=2)

    with killing_one(cluster) as victim, pytest.raises(EngineError) as caught:
        fit(cluster, learner, rounds=20_000)

    assert str(caught.value).startswith(
        f"Fold 1 was interrupted: the worker {victim} was lost. Its workers were restarted"
    )
    assert len(cluster.workers) == 2
    assert fit(cluster, learner, rounds=2).rounds_ == 2


def test_a_worker_killed_in_the_middle_of_a_fit_is_named_and_the_cluster_fits_again(cluster):
    lose_a_worker(cluster, "xgboost")


def test_workers_of_a_foreign_scheduler_are_restarted_after_a_loss(cluster):
    with open_cluster(cluster.client.scheduler.address) as joined:
        lose_a_worker(joined, "lightgbm")


def test_a_port_that_is_taken_gets_a_sentence_and_the_cluster_fits_again(cluster, monkeypatch):
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(
            "lightgbm.dask._assign_open_ports_to_workers",
            lambda *, client, workers: ({}, dict.fromkeys(workers, port)),
        )
        with pytest.raises(
            EngineError, match=rf"^Fold 1 was interrupted: LightGBM failed on the workers \(.*{port}.*restarted"
        ):
            fit(cluster, "lightgbm", rounds=2)

    monkeypatch.undo()
    assert fit(cluster, "lightgbm", rounds=2).rounds_ == 2
