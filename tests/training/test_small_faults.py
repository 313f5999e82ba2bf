"""Small faults of training that other tests did not notice; each was found by breaking the code at random."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from spu_core.errors import TrainingError
from spu_core.metrics import Difference, Interval, roc_spu
from spu_core.training import (
    Candidate,
    ColumnSet,
    EvaluationData,
    FeatureSelection,
    FoldAssignment,
    Run,
    TrainConfig,
    TrainingCancelled,
    compare_runs,
    recommend,
    review_curve,
    run_band,
    sketch,
)
from spu_core.training import fit_pool as pool
from spu_core.training.comparison import PAIRS_NOTE, AuditEvidence
from spu_core.training.evaluation import folded_auc, joint_covariance, paired_difference
from spu_core.training.fitting import _starting_point
from spu_core.training.record import stored_record
from spu_core.training.views import _first_number

ROWS = 600


def evaluation(labels: int = 60, **more) -> EvaluationData:
    rng = np.random.default_rng(0)
    is_labeled = np.arange(ROWS) < labels
    rule = rng.choice([0.1, 0.4], ROWS)
    values = np.where(is_labeled, 1.0, rule)
    return EvaluationData(values, is_labeled, rule, np.arange(ROWS) % 5, np.ones(ROWS, dtype=bool), **more)


def run_of(data: EvaluationData, method: str = "fused", seed: int = 1, strength: float = 1.0) -> Run:
    score = strength * data.is_labeled + np.random.default_rng(seed).normal(size=ROWS)
    return Run(method, Candidate(method), TrainConfig(), data, score=score).judged_by(data)


def test_folds_below_minus_one_are_refused():
    with pytest.raises(TrainingError, match="−1 marks held-out rows"):
        FoldAssignment(np.array([0, 1, -2]))


def test_a_cancelled_training_says_so():
    assert str(TrainingCancelled()) == "The training was cancelled."


@pytest.mark.parametrize("groups", [None, np.arange(ROWS) // 3])
def test_the_joint_covariance_holds_the_squared_errors_of_the_paired_difference(groups):
    data = evaluation(groups=groups)
    first, second = (folded_auc(data.soft_label, run_of(data, seed=seed).score, data) for seed in (1, 2))
    covariance, _ = joint_covariance([first, second])

    variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    assert np.sqrt(variance) == pytest.approx(paired_difference(first, second, 0.95).standard_error, rel=0.02)


def test_a_difference_on_few_positives_has_the_interval_of_students_t():
    data = evaluation(labels=6)
    first, second = (folded_auc(data.is_labeled.astype(float), run_of(data, seed=seed).score, data) for seed in (1, 2))
    found = paired_difference(first, second, 0.95)

    assert found.high - found.low > 2 * 2.2 * found.standard_error


def test_the_figure_of_an_audit_has_the_best_model_first():
    found = AuditEvidence({"a": 0.6, "b": 0.9, "c": 0.7}, np.eye(3), 40.0, 100).figure()

    assert list(found.value) == ["b", "c", "a"]


def test_the_record_knows_the_mean_error_of_the_twin():
    data = evaluation()
    runs = [run_of(data), run_of(data)]
    runs[1] = replace(runs[1], name="twin", candidate=Candidate("fused", name="twin", without_rules=True))
    record = stored_record()
    [place] = record.places(runs)
    scenario = next(each for each in record.scenarios.values() if each.mean[place] != 0.0)

    assert record.error(runs, scenario)[0].tolist() == [scenario.mean[place]]


def test_without_a_valid_yardstick_the_reasons_say_what_decides():
    data = evaluation(labels=5)
    found = recommend(compare_runs([run_of(data), run_of(data, "labeled_vs_rest", 2)]))

    assert found.yardstick == "provisional"
    assert found.reasons[-1] == "Without a valid yardstick, the record of the methods decides."


def test_a_single_model_is_recommended():
    comparison = compare_runs([run_of(evaluation())])

    assert recommend(comparison).model == "fused"
    assert PAIRS_NOTE not in comparison.notes


def test_where_only_the_rules_were_scored_the_next_step_is_to_train_a_model():
    data = evaluation()
    rules = Run("rule_score", Candidate("rule_score"), TrainConfig(), data, score=data.rule_score).judged_by(data)

    assert recommend(compare_runs([rules])).next_step.sentence == "Train a model, such as 'fused'."


def test_processes_follow_the_cores_and_threads(monkeypatch):
    monkeypatch.setattr(pool, "can_fork", lambda: True)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    assert [pool.usable_processes(), pool.usable_processes(2), pool.usable_processes(8)] == [6, 3, 1]

    monkeypatch.setattr(pool, "can_fork", lambda: False)
    assert pool.usable_processes() == 1


def test_a_daemon_does_not_fork(monkeypatch):
    monkeypatch.setattr(multiprocessing, "current_process", lambda: SimpleNamespace(daemon=True))

    assert not pool.can_fork()


@pytest.mark.parametrize(
    ("code", "words"), [(0, "ended (code 0)"), (-9, "was killed (SIGKILL)"), (3, "ended (code 3)")]
)
def test_a_lost_process_says_how_it_ended(code, words):
    process = SimpleNamespace(join=lambda: None, exitcode=code)

    assert words in str(pool._lost(SimpleNamespace(process=process)))


def selection(labels: Difference | None) -> FeatureSelection:
    interval, change = Interval(0.8, 0.7, 0.9, 0.05), Difference(0.0, -0.001, 0.001, 0.0005, 0.95)
    whole = ColumnSet(("a", "b"), {"auc_spu": interval}, {})
    differences = {"auc_spu": change, **({} if labels is None else {"known_positive_auc": labels})}
    return FeatureSelection(
        "auc_spu", "drop", 0.01, whole, (), (ColumnSet(("a",), {"auc_spu": interval}, differences),)
    )


def test_fewer_columns_come_with_a_warning_only_where_confirmed_positives_are_ranked_worse():
    worse = Difference(-0.05, -0.08, -0.02, 0.01, 0.95)
    unclear = Difference(-0.05, -0.12, 0.02, 0.03, 0.95)

    assert "But confirmed positives are ranked worse (-0.050)" in selection(worse).sentence
    assert "But" not in selection(unclear).sentence
    assert "But" not in selection(None).sentence


def test_settings_inside_their_range_are_the_first_trial():
    number, flag = SimpleNamespace(kind="number"), SimpleNamespace(kind="flag")
    space = dict.fromkeys(("low", "inside", "high", "unset"), (number, 1.0, 5.0)) | {"flag": (flag, 0.0, 0.0)}
    given = {"low": 0.5, "inside": 3.0, "high": 6.0, "unset": None, "flag": True}

    assert _starting_point(given, space) == {"inside": 3.0, "flag": True}


def test_a_review_counts_soft_labels_by_weight_and_a_single_confirmed_case():
    weight = np.where(np.arange(ROWS) % 2 == 0, 2.0, 0.5)
    data = evaluation(labels=1, weight=weight)
    found = review_curve(run_of(data))

    assert found.soft_total == pytest.approx((data.soft_label * weight).sum())
    assert found.by_case is not None


def test_a_sketch_of_a_curve_of_two_and_a_half_times_its_points_is_smaller():
    rng = np.random.default_rng(0)
    whole = roc_spu(rng.random(250), rng.random(250))

    assert sketch(whole, 100).fpr.size <= 200 < whole.fpr.size


def test_the_band_has_the_level_of_the_evaluation():
    wide, narrow = (run_band(run_of(evaluation(level=level))) for level in (0.99, 0.8))

    assert (wide.high - wide.low).mean() > 1.2 * (narrow.high - narrow.low).mean()


def test_ranges_come_before_words():
    assert sorted(["other", "10 to 20", "2 to 10", "A"], key=_first_number) == ["2 to 10", "10 to 20", "A", "other"]


def test_scores_of_a_run_cannot_be_changed(world, quick):
    from spu_core.training import cross_fit

    [run] = cross_fit(*world, ["logistic"], quick)
    with pytest.raises(ValueError, match="read-only"):
        run.score[0] = 1.0
