"""A training as people watch it: who waits, runs, has finished or failed, and what a second try keeps."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from spu_core.engines import Job, JobContext, run_in_process
from spu_core.engines.jobs.train import TrainingView, add_loss, train, training_jobs
from spu_core.labels import SoftLabels
from spu_core.tables.samples import load_sample
from spu_core.training import Candidate, EarlyStopping, TrainConfig, TrainPlan, cross_fit
from spu_core.workspace import Attempt, JobStatus, Workspace

PLAN = TrainPlan(TrainConfig(), (Candidate("lightgbm"), Candidate("logistic"), Candidate("oracle")))


def job(status=JobStatus.RUNNING, **detail):
    result = {}
    parameters = {"dataset": "d", "plan": PLAN.to_json()}
    return SimpleNamespace(kind="train", status=status, parameters=parameters, detail=detail, result=result)


def states(view):
    return [(state.name, state.state) for state in view.candidates]


def test_candidates_wait_run_finish_and_fail():
    told = {"candidate": "logistic", "place": 2, "candidates": 3, "share": 0.5, "fold": 1, "folds": 5}
    told |= {"step": "training", "iteration": 7, "iterations": 200, "finished": ["lightgbm"]}
    view = TrainingView.of(job(**told))

    assert states(view) == [("lightgbm", "finished"), ("logistic", "running"), ("oracle", "waiting")]
    running = view.candidates[1]
    assert running.share == pytest.approx(0.5)
    assert running.text == "fold 2 of 5, round 7 of 200"

    failed = TrainingView.of(job(JobStatus.CANCELLED, errors=[{"name": "oracle", "error": "No truth."}]))
    assert states(failed) == [("lightgbm", "stopped"), ("logistic", "stopped"), ("oracle", "failed")]
    assert failed.can_restart
    assert not failed.is_active


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"fold": -1, "step": "training"}, "held-out rows"),
        ({"fold": None, "step": "refitting"}, "all rows, refitting"),
        ({"fold": 0, "folds": 2, "step": "tuning, trial 3 of 20"}, "fold 1 of 2, tuning, trial 3 of 20"),
    ],
)
def test_where_a_candidate_is_is_said_in_a_few_words(told, words):
    view = TrainingView.of(job(candidate="lightgbm", place=1, candidates=3, share=0.1, **told))

    assert view.candidates[0].text == words


def test_only_the_trainings_of_a_dataset_are_listed():
    other = SimpleNamespace(kind="simulate", parameters={"dataset": "d"})

    assert [view.job.kind for view in training_jobs([job(), other], "d")] == ["train"]
    assert training_jobs([job()], "another") == ()


def told(iteration: int, loss: float | None, training_loss: float | None = None, step: str = "training"):
    return SimpleNamespace(candidate="a", step=step, iteration=iteration, loss=loss, training_loss=training_loss)


def test_losses_of_each_fit_make_a_curve_of_their_own():
    losses: dict[str, list[list[float]]] = {}
    for iteration, loss in ((1, 0.7), (2, 0.6), (1, 0.8), (2, 0.5)):
        add_loss(losses, told(iteration, loss))
    add_loss(losses, told(1, 0.1, step="refitting"))

    assert losses == {"a": [[0.7, 0.6], [0.8, 0.5]]}


def test_rounds_that_tell_no_loss_lie_on_a_straight_line():
    losses: dict[str, list[list[float]]] = {}
    for iteration, loss in ((1, 0.8), (2, None), (3, 0.6)):
        add_loss(losses, told(iteration, None, loss))

    assert losses == {"a": [[0.8, pytest.approx(0.7), 0.6]]}


def test_boosted_trees_tell_their_training_loss_and_learn_the_same_to_the_bit():
    table = load_sample("breast_cancer")
    labels = SoftLabels.from_values(np.where(table.is_labeled, 1.0, 0.1), table.is_labeled)
    candidates = [Candidate("lightgbm", {"rounds": 40}), Candidate("xgboost", {"rounds": 40}), Candidate("logistic")]
    config = TrainConfig(folds=2, threads=1)
    losses: dict[str, list[list[float]]] = {}

    watched = cross_fit(table, labels, candidates, config, on_progress=lambda progress: add_loss(losses, progress))
    alone = cross_fit(table, labels, candidates, config)

    assert set(losses) == {"lightgbm", "xgboost"}
    for fits in losses.values():
        assert [len(fit) for fit in fits] == [40, 40]
        assert all(later < earlier for fit in fits for earlier, later in pairwise(fit))
    assert all((one.score == other.score).all() for one, other in zip(watched, alone, strict=True))
    assert not any(run.learning_curve for run in watched), "what is stored with a run is held out"


class SecondTry(JobContext):
    """A context that does not mind that its job is over."""

    def progress(self, share, message, detail=None):
        pass


def test_a_job_keeps_its_learning_curves_and_a_second_try_keeps_its_runs(tmp_path):
    with Workspace.open(tmp_path) as workspace:
        dataset = workspace.datasets.save(load_sample("breast_cancer"))
        config = TrainConfig(folds=2, threads=1, early_stopping=EarlyStopping(patience=3))
        plan = TrainPlan(config, (Candidate("labeled_vs_rest", {"rounds": 5}), Candidate("logistic")))
        parameters = {"dataset": dataset.id, "plan": plan.to_json(), "refine": False}
        done = run_in_process(workspace, Job(kind="train", parameters=parameters))
        assert [len(fit) for fit in TrainingView.of(done).losses["labeled_vs_rest"]] == [5, 5]

        workspace.runs.rename(done.result["runs"][0], "renamed meanwhile")
        again = train(SecondTry(workspace, done, Attempt(done.id, done.attempt)))

        assert again["runs"] == done.result["runs"]
        assert len(workspace.runs.list()) == 2
