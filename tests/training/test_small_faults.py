"""Small faults of training that other tests did not notice; each was found by breaking the code at random."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import TrainingError
from spu_core.metrics import Difference, Interval, roc_spu
from spu_core.models import METHODS
from spu_core.models.method import Need
from spu_core.tables import Table
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
    cross_fit,
    cross_fitting,
    recommend,
    review_curve,
    run_band,
    segment_intervals,
    sketch,
    true_aucs,
    why_not,
)
from spu_core.training import fit_pool as pool
from spu_core.training.comparison import PAIRS_NOTE, AuditEvidence
from spu_core.training.cross_fitting import LocalExecutor, executor_for
from spu_core.training.data_advice import advise
from spu_core.training.evaluation import (
    folded_auc,
    interval_of,
    joint_covariance,
    paired_difference,
    share_of,
    simultaneous_intervals,
)
from spu_core.training.fitting import _starting_point
from spu_core.training.record import stored_record
from spu_core.training.rows import _leak_note, assign_folds, prepare_rows
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
    monkeypatch.setattr(os, "sched_getaffinity", lambda own: set(range(0 if own else 6)), raising=False)
    assert [pool.usable_processes(threads) for threads in (1, 2, 4, 8)] == [6, 3, 1, 1]

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


def pool_of(*folds: int) -> pool.FitPool:
    """A pool of two processes with a waiting task for each of these folds."""
    found = object.__new__(pool.FitPool)
    found.folds, found._workers = [0, 1], [SimpleNamespace(given=set()), SimpleNamespace(given={9})]
    found._waiting = list(range(len(folds)))
    found._tasks = {number: SimpleNamespace(fold=fold) for number, fold in enumerate(folds)}
    return found


def test_an_idle_process_takes_tasks_of_others_and_a_busy_one_waits_for_its_own():
    found = pool_of(1, 1)
    assert found._next_for(0, found._workers[0]) == 0
    found = pool_of(0, 0)
    assert found._next_for(1, found._workers[1]) is None


def test_dropped_tasks_are_not_handed_out():
    found = pool_of(0, 1, 0)
    found.drop([1, 2])

    assert found._waiting == [0]


def test_where_processes_cannot_be_forked_one_process_trains(monkeypatch):
    with executor_for(-1, None) as executor:
        assert executor is not None
    monkeypatch.setattr(cross_fitting, "can_fork", lambda: False)
    with executor_for(3, None) as executor:
        assert type(executor) is LocalExecutor


def test_a_refit_reports_its_progress(world, quick):
    [run] = cross_fit(*world, [Candidate("lightgbm", {"rounds": 3})], quick)
    seen = []
    LocalExecutor().refit(run, seen.append)

    assert seen


def test_a_failed_run_takes_over_the_evaluation_and_has_no_true_auc():
    data, other = evaluation(), evaluation(labels=30)
    failed = Run("fused", Candidate("fused"), TrainConfig(), data, error="no memory")
    truth = np.arange(ROWS) < 90

    assert failed.judged_by(other).evaluation is other
    assert list(true_aucs([failed, run_of(data)], truth)) == ["fused"]
    assert true_aucs([failed], truth) == {}


def test_figures_that_a_run_lacks_are_not_in_its_table():
    found = run_of(evaluation()).to_frame()

    assert found["figure"].tolist() == ["AUC_SPU", "AUC on confirmed cases"]


def test_the_influence_of_a_fold_is_its_distance_from_the_mean_over_folds():
    """By definition: a fold of larger AUC moves the mean up, on the side of positives and on that of negatives."""
    data = evaluation()
    score = run_of(data).score + 2.0 * data.is_labeled * (data.fold == 0)
    found = folded_auc(data.soft_label, score, data)
    own = data.fold[found.rows] == 0

    for side in (found.influence.as_positive, found.influence.as_negative):
        assert side[own].mean() == pytest.approx(found.by_fold[0] - found.value)
        assert side.mean() == pytest.approx(0.0, abs=1e-12)


def test_the_share_of_the_ceiling_is_less_certain_where_folds_share_training_rows(monkeypatch):
    data = evaluation()
    folded = folded_auc(data.soft_label, run_of(data).score, data)
    width = []
    for factor in (1.0, 1.4):
        monkeypatch.setattr(type(folded), "factor", lambda *_, factor=factor: factor)
        found = share_of(folded, 0.95)
        width.append(found.high - found.low)

    assert width[1] > 1.2 * width[0]


def test_a_candidate_without_error_does_not_narrow_the_intervals_of_the_others():
    data = evaluation()
    target = data.is_labeled.astype(float)
    aucs = {str(seed): folded_auc(target, run_of(data, seed=seed).score, data) for seed in (1, 2)}
    perfect = folded_auc(target, target, data)

    both, all_three = simultaneous_intervals(aucs), simultaneous_intervals({**aucs, "perfect": perfect})
    assert all_three["1"].high - all_three["1"].low == pytest.approx(both["1"].high - both["1"].low, rel=0.05)
    assert both["1"].high - both["1"].low > 1.05 * np.ptp([(one := interval_of(aucs["1"], 0.95)).low, one.high])


def test_a_method_that_needs_the_share_of_positives_is_allowed_since_it_is_estimated(world):
    needy = [key for key, entry in METHODS.items() if Need.PRIOR in entry.needs and key != "cnn"]

    assert needy
    assert [why_not(key, world[0], has_beliefs=True) for key in needy] == [None] * len(needy)


def test_segments_of_numbers_are_in_the_order_of_numbers():
    data = evaluation()
    names = np.where(np.arange(ROWS) % 2 == 0, "10 to 20", "2 to 10")

    assert list(segment_intervals(run_of(data), pd.Series(names))) == ["2 to 10", "10 to 20"]


def test_a_column_that_gives_the_labels_away_is_noted(world):
    table = world[0]
    almost = table.frame["label"].where(table.frame.index > 2, 1 - table.frame["label"])
    leaking = Table.from_frame(table.frame.assign(closed=almost), roles={**table.roles, "closed": "feature"})

    assert _leak_note(table) is None
    assert "'closed'" in _leak_note(leaking)


def test_random_checks_are_read_from_their_column(world):
    table, soft_labels = world
    found = prepare_rows(table, soft_labels, TrainConfig(random_check_column="seen"))

    assert found.randomly_checked.tolist() == (table.frame["seen"] == 1).tolist()
    assert prepare_rows(table, soft_labels, TrainConfig()).randomly_checked is None


def test_there_may_be_as_many_groups_as_folds():
    groups = np.arange(12) % 3
    fold = assign_folds(np.zeros(12, dtype=int), groups, 3, 0)

    assert len(set(fold)) == 3
    assert all(len(set(fold[groups == group])) == 1 for group in range(3))


def test_the_advice_names_the_time_column(world):
    assert "Column 'day' is a time." in advise(world[0]).seen


def test_a_table_of_another_part_of_a_selection_is_refused():
    with pytest.raises(TrainingError, match="part must be one of 'single', 'path', got 'whole'"):
        selection(None).table("whole")


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

    assert "But confirmed cases are ranked worse (-0.050)" in selection(worse).sentence
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
    [run] = cross_fit(*world, ["logistic"], quick)
    with pytest.raises(ValueError, match="read-only"):
        run.score[0] = 1.0
