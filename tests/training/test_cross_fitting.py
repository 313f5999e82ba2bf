"""Cross-fitting: equal configs give equal bits, one failure stays alone, and a wish to stop is heard."""

from __future__ import annotations

import sys
import threading
import traceback
from dataclasses import replace

import lightgbm
import numpy as np
import pandas as pd
import psutil
import pytest

from spu_core.errors import AssumptionError, TrainingError
from spu_core.metrics import auc_spu_score
from spu_core.models import METHODS, Encoder, TrainingRows
from spu_core.tables import Role, Table
from spu_core.training import (
    Candidate,
    EarlyStopping,
    TrainConfig,
    TrainingCancelled,
    compare_runs,
    cross_fit,
    estimate_class_prior,
    iter_cross_fit,
)
from spu_core.training.fit_pool import reason_of
from tests.training.worlds import make_world

SMALL = {"rounds": 10}


def test_each_row_is_scored_by_a_model_of_the_other_folds(world, quick):
    """Against the plain loop: encode, take the other folds, fit, score."""
    table, soft_labels = world
    run = cross_fit(table, soft_labels, [Candidate("lightgbm", SMALL)], quick)[0]

    features = Encoder().fit(table.frame[list(table.features)]).transform(table.frame[list(table.features)])
    rows = TrainingRows(features, soft_labels.value, soft_labels.is_labeled, rule_columns=("a",))
    expected = np.empty(len(table))
    for fold in range(3):
        model = METHODS["lightgbm"].fit(rows.take(run.fold != fold), {**SMALL, "threads": 1})
        expected[run.fold == fold] = model.score_rows(features.take(run.fold == fold))

    np.testing.assert_array_equal(run.score, expected)


def test_equal_configs_give_equal_bits_in_any_company(world, quick):
    table, soft_labels = world
    alone = cross_fit(table, soft_labels, [Candidate("lightgbm", SMALL)], quick)[0]
    company = [Candidate("fused", SMALL), Candidate("labeled_vs_rest", SMALL), Candidate("lightgbm", SMALL)]
    together = cross_fit(table, soft_labels, company, quick)[2]

    np.testing.assert_array_equal(alone.score, together.score)
    np.testing.assert_array_equal(alone.fit_all().score(table.frame), together.fit_all().score(table.frame))


def test_at_most_seven_functions_of_ours_lie_between_cross_fit_and_the_library(world, quick, monkeypatch):
    table, soft_labels = world
    ours: list[str] = []

    def train(*args, **options):
        frames = traceback.walk_stack(sys._getframe(1))
        names = [frame.f_code.co_name for frame, _ in frames if "/spu_core/" in frame.f_code.co_filename]
        ours[:] = names[: names.index("cross_fit") + 1]
        return library(*args, **options)

    library = lightgbm.train
    monkeypatch.setattr(lightgbm, "train", train)
    cross_fit(table, soft_labels, [Candidate("lightgbm", SMALL)], quick)

    assert ours[0] == "_learn"
    assert len(ours) <= 7, ours


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"table": np.zeros((3, 2))}, "table must be a Table or a frame, got ndarray"),
        ({"soft_labels": 0.5}, r"soft labels must be SoftLabels, got float; use a RuleSet, or a number for each row"),
        ({"config": {"folds": 3}}, "config must be a TrainConfig, got dict"),
        ({"split": np.zeros(3)}, "split must be a FoldAssignment, got ndarray"),
        ({"candidates": [3]}, "A candidate must be a Candidate or the key of a method, got 3"),
    ],
)
def test_a_wrong_argument_is_refused_with_a_hint(world, quick, change, sentence):
    given = {"table": world[0], "soft_labels": world[1], "candidates": ["lightgbm"], "config": quick, **change}

    with pytest.raises(TrainingError, match=sentence):
        cross_fit(**given)


def test_another_seed_gives_other_folds(world, quick):
    table, soft_labels = world
    one, other = (cross_fit(table, soft_labels, ["rule_score"], replace(quick, seed=seed))[0].fold for seed in (0, 1))

    assert not np.array_equal(one, other)


def test_a_failing_candidate_becomes_an_error_row(world, quick):
    table, soft_labels = world
    blind = table.with_roles({"truth": "ignore"})
    runs = cross_fit(blind, soft_labels, ["oracle", Candidate("lightgbm", SMALL)], quick)

    assert [run.name for run in runs] == ["oracle", "lightgbm"]
    assert "The oracle learns from the truth" in runs[0].error
    assert runs[0].score is None
    assert runs[0].metrics is None
    assert runs[1].error is None
    with pytest.raises(TrainingError, match="'oracle' has no scores, since its training failed"):
        runs[0].fit_all()


def test_errors_of_libraries_are_named_and_memory_gets_advice():
    assert reason_of(KeyError("x")) == "KeyError: 'x'"
    assert reason_of(MemoryError()).startswith("There was not enough memory")


def test_runs_stream_as_they_finish(world, quick):
    table, soft_labels = world
    seen = []
    stream = iter_cross_fit(
        table, soft_labels, ["rule_score", Candidate("lightgbm", SMALL)], quick, on_progress=seen.append
    )

    first = next(stream)

    assert first.name == "rule_score"
    assert {progress.candidate for progress in seen} == {"rule_score"}
    assert next(stream).name == "lightgbm"


def test_progress_names_candidate_fold_and_iteration_and_never_goes_back(world, quick):
    table, soft_labels = world
    seen = []
    candidates = [Candidate("lightgbm", SMALL), Candidate("fused", {"rounds": 5})]
    cross_fit(table, soft_labels, candidates, quick, on_progress=seen.append)

    rounds = [(p.fold, p.iteration) for p in seen if p.candidate == "lightgbm" and p.iteration]
    assert rounds == [(fold, iteration) for fold in range(3) for iteration in range(1, 11)]
    shares = [progress.share for progress in seen]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert seen[-1].seconds_left == pytest.approx(0.0, abs=0.05)
    assert all(progress.seconds_left is None or progress.seconds_left >= -1e-9 for progress in seen)


def test_cancelling_is_heard_inside_a_fit_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table, soft_labels = make_world(3000)
    slow = Candidate("lightgbm", {"rounds": 20_000}, "slow")
    config = TrainConfig(folds=2, threads=1)
    cross_fit(table, soft_labels, [Candidate("lightgbm", SMALL)], config)
    threads, children = threading.active_count(), psutil.Process().children()
    seen = []

    with pytest.raises(TrainingCancelled) as cancelled:
        cross_fit(
            table,
            soft_labels,
            ["rule_score", slow],
            config,
            on_progress=seen.append,
            should_stop=lambda: any(progress.candidate == "slow" and progress.iteration for progress in seen[-1:]),
        )

    assert 0 < seen[-1].iteration < 20_000
    assert [run.name for run in cancelled.value.runs] == ["rule_score"]
    assert threading.active_count() == threads
    assert psutil.Process().children() == children
    assert list(tmp_path.iterdir()) == []


SLOW = {
    "lightgbm": {"rounds": 20_000},
    "xgboost": {"rounds": 20_000},
    "neural_net": {"rounds": 1, "batch_rows": 1, "hidden": 512},
    "extra_trees": {"rounds": 500},
    "nearest_neighbors": {"neighbors": 500},
    "fused": {"rounds": 5_000},
}


@pytest.mark.parametrize("key", SLOW)
def test_a_wish_to_stop_is_heard_inside_long_fits_and_while_scoring(key):
    """The caller is asked again and again before the first of two fits, or the scoring by it, has ended."""
    table, soft_labels = make_world(20_000 if key == "nearest_neighbors" else 4_000)
    asked, seen = iter(range(10**6)), []

    with pytest.raises(TrainingCancelled):
        cross_fit(
            table,
            soft_labels,
            [Candidate(key, SLOW[key])],
            TrainConfig(folds=2, threads=1),
            on_progress=seen.append,
            should_stop=lambda: next(asked) >= 4,
        )

    assert {progress.fold for progress in seen} <= {0}
    if key != "nearest_neighbors":  # they learn at once and score slowly
        assert "scoring" not in {progress.step for progress in seen}


@pytest.mark.parametrize("key", ["fused", "neural_net", "xgboost", "two_stage", "bagging_pu", "sar_em"])
def test_every_kind_of_method_hears_the_wish_to_stop(key, world, quick):
    table, soft_labels = world
    calls = iter(range(10**6))

    with pytest.raises(TrainingCancelled):
        cross_fit(table, soft_labels, [key], quick, should_stop=lambda: next(calls) >= 3)

    assert next(calls) <= 5


def test_what_the_caller_raises_is_not_taken_for_a_failing_candidate(world, quick):
    table, soft_labels = world

    def broken(progress):
        raise RuntimeError("the page is gone")

    with pytest.raises(RuntimeError, match="the page is gone"):
        cross_fit(table, soft_labels, ["lightgbm"], quick, on_progress=broken)


def test_early_stopping_keeps_few_rounds_and_the_refit_takes_their_median(world, quick):
    table, soft_labels = world
    config = replace(quick, early_stopping=EarlyStopping(patience=5))
    run = cross_fit(table, soft_labels, [Candidate("lightgbm", {"rounds": 300})], config)[0]

    fitted = run.fit_all()

    assert len(run.rounds) == 3
    assert max(run.rounds) < 300
    assert fitted.settings["rounds"] == sorted(run.rounds)[1]
    for curve, rounds in zip(run.learning_curve, run.rounds, strict=True):
        assert int(np.argmin(curve)) + 1 == rounds


UNSTOPPED = [Candidate("extra_trees", SMALL), "nearest_neighbors", "logistic", Candidate("fused", SMALL), "rule_score"]


@pytest.mark.parametrize("candidate", UNSTOPPED, ids=lambda candidate: getattr(candidate, "name", candidate))
def test_methods_that_cannot_stop_early_train_in_full_and_say_so(candidate, world, quick):
    """In full: on all rows of a part, none set aside for a stop that never comes."""
    table, soft_labels = world
    plain = cross_fit(table, soft_labels, [candidate], quick)[0]
    asked = cross_fit(table, soft_labels, [candidate], replace(quick, early_stopping=EarlyStopping()))[0]

    np.testing.assert_array_equal(asked.score, plain.score)
    assert asked.learning_curve == ()
    assert plain.stopping_note is None
    assert asked.stopping_note.startswith(f"{asked.name} cannot be stopped early: ")
    assert asked.stopping_note.endswith("It was trained in full.")
    assert f"{asked.name!r}: {asked.stopping_note}" in compare_runs([asked]).notes


def test_a_method_that_is_stopped_early_has_no_note(world, quick):
    table, soft_labels = world
    config = replace(quick, early_stopping=EarlyStopping(patience=5))

    assert cross_fit(table, soft_labels, [Candidate("lightgbm", SMALL)], config)[0].stopping_note is None


def test_rule_columns_are_dropped_by_soft_label_methods_and_kept_by_baselines(world, quick):
    table, soft_labels = world

    def reads_rule_column(key, config):
        run = cross_fit(table, soft_labels, [Candidate(key, SMALL)], config)[0]
        return 0 in run.fit_all().model.active_

    assert not reads_rule_column("lightgbm", quick)
    assert reads_rule_column("labeled_vs_rest", quick)
    assert reads_rule_column("lightgbm", replace(quick, rule_columns="kept"))
    assert not reads_rule_column("labeled_vs_rest", replace(quick, rule_columns="dropped"))


def test_a_candidate_without_rules_equals_one_on_labels_alone(world, quick):
    table, soft_labels = world
    blind, plain = cross_fit(
        table,
        soft_labels,
        [
            Candidate("lightgbm", {**SMALL, "keep_rule_columns": True}, without_rules=True),
            Candidate("labeled_vs_rest", SMALL),
        ],
        quick,
    )

    np.testing.assert_array_equal(blind.score, plain.score)


def test_out_of_time_judges_the_later_rows_only(world, quick):
    table, soft_labels = world
    run = cross_fit(table, soft_labels, [Candidate("lightgbm", SMALL)], replace(quick, out_of_time=0.25))[0]
    late = run.fold == -1

    assert run.metrics.rows == late.sum() == 100
    assert run.metrics.auc_spu.estimate == pytest.approx(auc_spu_score(soft_labels.value[late], run.score[late]))
    assert run.held_out_metrics is None


def test_a_random_hold_out_stays_out_of_the_leaderboard(world, quick):
    table, soft_labels = world
    run = cross_fit(table, soft_labels, [Candidate("lightgbm", SMALL)], replace(quick, hold_out=0.25))[0]
    rows = run.fold == -1

    assert run.metrics.rows == (~rows).sum()
    assert run.held_out_metrics.rows == rows.sum()
    assert np.isfinite(run.score).all()


def test_weights_and_groups_of_the_table_are_used(quick):
    table, soft_labels = make_world(300, house="group")
    frame = table.frame.assign(weight=np.where(table.frame["b"] > 0, 2.0, 1.0))
    weighted = type(table).from_frame(frame, roles={**table.roles, "weight": "weight"})
    plain = cross_fit(table, soft_labels, [Candidate("lightgbm", SMALL)], quick)[0]
    run = cross_fit(weighted, soft_labels, [Candidate("lightgbm", SMALL)], quick)[0]

    assert not np.array_equal(plain.score, run.score)
    for house in np.unique(table.groups):
        assert np.unique(run.fold[table.groups == house]).size == 1


def people(rows: int, chance: float) -> Table:
    rng = np.random.default_rng(0)
    truth = rng.random(rows) < 0.2
    frame = pd.DataFrame({"x": rng.normal(4.0 * truth), "z": rng.normal(size=rows)})
    frame["label"] = (truth & (rng.random(rows) < chance)).astype(int)
    return Table.from_frame(frame, roles={"label": Role.LABEL}, positive_values=[1])


def test_the_estimate_is_near_the_truth_and_repeats_itself():
    table = people(3_000, 0.4)

    found = estimate_class_prior(table, most_rows=2_000)

    # BBE errs high; well separated classes leave it little room.
    assert 0.17 < found.prior < 0.30
    assert estimate_class_prior(table, most_rows=2_000) == found


def test_without_labelled_rows_there_is_nothing_to_estimate_from():
    table = people(300, 0.4)
    nobody = table.with_roles({"label": Role.IGNORE})

    with pytest.raises(AssumptionError, match="some rows must be confirmed and some not; 0 of 300 are confirmed"):
        estimate_class_prior(nobody)
