"""Fits in forked processes: equal to those of one process, with progress and cancel, and no process left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import lightgbm
import numpy as np
import psutil
import pytest

from spu_core.engines.processes.os_processes import wait_until
from spu_core.engines.study import Study
from spu_core.errors import EngineError, TrainingError
from spu_core.models import SoftForest
from spu_core.training import (
    Candidate,
    EarlyStopping,
    TrainConfig,
    TrainingCancelled,
    TrainPlan,
    Tuning,
    cross_fit,
    iter_cross_fit,
)
from spu_core.training.cross_fitting import ProcessExecutor
from spu_core.training.fit_pool import can_fork
from tests.models.conftest import FAST
from tests.training.worlds import make_world

pytestmark = [
    pytest.mark.xdist_group("processes"),
    pytest.mark.skipif(not can_fork(), reason="fits are forked on Linux only"),
]
PATIENCE = 300
LONG = Candidate("lightgbm", {"rounds": 20_000})


def children() -> list[psutil.Process]:
    """The processes that a test started; a browser or server of an earlier test may still run beside them."""
    found = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    return [child for child in found if child.pid not in EARLIER]


EARLIER: set[int] = set()


@pytest.fixture(autouse=True)
def _children_of_earlier_tests():
    EARLIER.clear()
    EARLIER.update(child.pid for child in psutil.Process().children())


def test_the_scores_of_every_method_are_those_of_one_process(world, quick):
    candidates = [Candidate(key, {k: v for k, v in given.items() if k != "threads"}) for key, given in FAST.items()]

    alone = cross_fit(*world, candidates, quick)
    together = cross_fit(*world, candidates, quick, n_jobs=2)

    assert [run.error for run in together] == [None] * len(candidates)
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one.score, other.score), one.name
        assert one.metrics.to_dict() == other.metrics.to_dict()
        assert other.seconds > 0
    assert not children()


def test_early_stopping_and_tuning_are_those_of_one_process(world):
    config = TrainConfig(folds=2, early_stopping=EarlyStopping(patience=3))
    candidates = [
        Candidate("lightgbm", {"rounds": 40, "learning_rate": 0.3}),
        Candidate("logistic", tuning=Tuning(trials=3, folds=2)),
    ]
    plan = TrainPlan(config, tuple(candidates))

    table, soft_labels = world
    alone = cross_fit(table, soft_labels, candidates, config)
    with ProcessExecutor(2, refits=True) as executor:
        together = list(iter_cross_fit(table, soft_labels, candidates, config, executor=executor))
        refits = [executor.refit(run, None) for run in together]

    for one, other, refit in zip(alone, together, refits, strict=True):
        assert np.array_equal(one.score, other.score)
        assert (one.learning_curve, one.rounds, one.tunings) == (other.learning_curve, other.rounds, other.tunings)
        own = one.fit_all()
        assert own.settings == refit.settings
        assert np.array_equal(own.score(table.frame), refit.score(table.frame))
    assert plan.candidates == tuple(candidates)


def test_a_study_gives_the_same_runs_and_refits(world, quick):
    candidates = (Candidate("fused", {"rounds": 15}), Candidate("elkan_noto", {"rounds": 15}), Candidate("rule_score"))
    study = Study(plan=TrainPlan(quick, candidates))
    table, _ = world

    with ProcessExecutor(3, refits=True) as executor:
        together = list(study.run(table, executor=executor))

    for (one, alone), (other, bundle) in zip(study.run(table), together, strict=True):
        assert one.metrics.to_dict() == other.metrics.to_dict()
        assert one.metrics.refined_auc_spu is not None or one.name == "fused"
        kept = [
            np.asarray(each.fitted.model.score_rows(one.data.rows.features, one.data.rows.rule_score))
            for each in (alone, bundle)
        ]
        assert np.array_equal(*kept)


def test_progress_comes_in_the_order_of_one_process(world, quick):
    seen = []
    candidates = [Candidate("lightgbm", {"rounds": 30}), Candidate("labeled_vs_rest", {"rounds": 30})]

    cross_fit(*world, candidates, quick, n_jobs=2, on_progress=seen.append)
    alone = []
    cross_fit(*world, candidates, quick, on_progress=alone.append)

    def losses(reports):
        return [(p.candidate, p.fold, p.iteration, p.training_loss) for p in reports if p.training_loss is not None]

    assert losses(seen) == losses(alone)
    shares = [progress.share for progress in seen]
    assert shares == sorted(shares)


def test_a_failing_candidate_says_the_same_and_the_others_go_on(world, quick):
    candidates = [Candidate("nnpu", {"prior": 1e-4}), Candidate("logistic")]

    alone = cross_fit(*world, candidates, quick)
    together = cross_fit(*world, candidates, quick, n_jobs=2)

    assert alone[0].error == together[0].error
    assert "give a prior above that share" in together[0].error
    assert together[1].error is None


def test_a_cancelled_training_leaves_no_process_and_keeps_its_finished_runs(world, quick):
    finished = []

    with pytest.raises(TrainingCancelled) as caught:
        cross_fit(
            *world,
            [Candidate("rule_score"), LONG],
            quick,
            n_jobs=2,
            on_progress=lambda progress: finished.append(progress.candidate),
            should_stop=lambda: "lightgbm" in finished,
        )

    assert [run.name for run in caught.value.runs] == ["rule_score"]
    assert not children()


def test_a_process_that_is_killed_is_reported_and_no_other_is_left(world, quick):
    def kill(_):
        victims = children()
        if victims:
            os.kill(victims[0].pid, signal.SIGKILL)

    with pytest.raises(EngineError, match=r"A process of the training was killed \(SIGKILL\), perhaps because"):
        cross_fit(*world, [LONG], quick, n_jobs=2, on_progress=kill)

    assert not children()


PARENT = """
import json, psutil
from tests.training.worlds import make_world
from spu_core.training import Candidate, TrainConfig, cross_fit

def tell(progress):
    print(json.dumps([child.pid for child in psutil.Process().children()]), flush=True)

cross_fit(*make_world(), [Candidate("lightgbm", {"rounds": 20_000})], TrainConfig(folds=3), n_jobs=2, on_progress=tell)
"""


def test_processes_end_with_a_parent_that_is_killed():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        started = json.loads(parent.stdout.readline())
        parent.kill()

    assert len(started) == 2
    assert wait_until(lambda: not any(map(psutil.pid_exists, started)), PATIENCE)


def test_fits_with_threads_do_not_wait_for_threads_that_the_fork_has_lost(quick):
    rows = np.random.default_rng(0).normal(size=(2000, 3))
    two = {"num_threads": 2, "verbosity": -1, "objective": "regression"}
    lightgbm.train(two, lightgbm.Dataset(rows, label=rows[:, 0]), 1)
    table, soft_labels = make_world(20_000)

    runs = cross_fit(
        table, soft_labels, [Candidate("lightgbm", {"rounds": 1})], TrainConfig(folds=2, threads=2), n_jobs=2
    )

    assert runs[0].error is None


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, True, "2"])
def test_a_number_of_processes_that_is_none_is_refused(world, n_jobs):
    with pytest.raises(TrainingError, match=r"n_jobs must be a whole number of at least 1, or -1"):
        cross_fit(*world, ["rule_score"], n_jobs=n_jobs)


def test_equal_fits_are_done_once(world, quick, monkeypatch):
    calls = []
    train = lightgbm.train
    monkeypatch.setattr(lightgbm, "train", lambda *given, **named: calls.append(given) or train(*given, **named))
    ten = {"rounds": 10}

    def fits(*candidates):
        calls.clear()
        runs = cross_fit(*world, candidates, quick)
        return len(calls), [run.score for run in runs]

    rest, (of_rest,) = fits(Candidate("labeled_vs_rest", ten))
    elkan, (of_elkan,) = fits(Candidate("elkan_noto", ten))
    both, of_both = fits(Candidate("labeled_vs_rest", ten), Candidate("elkan_noto", ten))
    assert (rest, elkan, both) == (3, 15, 15)
    assert np.array_equal(of_both[0], of_rest)
    assert np.array_equal(of_both[1], of_elkan)

    # Per fold: four label trees, four rule trees and the refit; the twin repeats the label trees and forests.
    forests = []
    grow = SoftForest._grow
    monkeypatch.setattr(SoftForest, "_grow", lambda *given: forests.append(given) or grow(*given))
    fused, twin = Candidate("fused", ten), Candidate("fused", ten, without_rules=True)
    _, (of_twin,) = fits(twin)
    forests.clear()
    twins, of_twins = fits(fused, twin)
    assert (twins, len(forests)) == (3 * (9 + 1), 3 * 4)
    assert np.array_equal(of_twins[1], of_twin)


def test_other_rows_targets_weights_or_settings_are_other_fits(world, quick, monkeypatch):
    calls = []
    train = lightgbm.train
    monkeypatch.setattr(lightgbm, "train", lambda *given, **named: calls.append(given) or train(*given, **named))
    five = {"rounds": 5}
    candidates = [
        Candidate("labeled_vs_rest", five),
        Candidate("labeled_vs_rest", {**five, "num_leaves": 5}),
        Candidate("labeled_vs_rest", {**five, "subsample": 0.5}),
        Candidate("labeled_vs_rest", {**five, "subsample": 0.5, "seed": 3}),
        Candidate("labeled_vs_rest", {**five, "keep_rule_columns": False}),
        Candidate("soft_as_positive", five),
    ]

    cross_fit(*world, candidates, quick)

    assert len(calls) == 3 * len(candidates)
