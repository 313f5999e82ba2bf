"""Tuning: seeded, bounded, inside the training rows, and marked where time cut it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import optuna
import pytest
import rich.progress

from spu_core.errors import TrainingError
from spu_core.labels import SoftLabels
from spu_core.models import Progress, Setting
from spu_core.training import Candidate, TrainingCancelled, Tuning, cross_fit, make_split
from spu_core.training.fitting import (
    CandidateFitter,
    ProgressRange,
    Reporter,
    TrainProgress,
    _Search,
    _usual_range,
    progress_shown,
    search_space,
)
from spu_core.training.rows import prepare_rows
from tests.training.worlds import make_world

RANGES = {"num_leaves": (2, 8), "learning_rate": (0.01, 0.3)}


def tuned(**more):
    fixed = {"rounds": 8, "min_child_samples": 10, "reg_lambda": 1.0, "colsample_bytree": 1.0, "subsample": 1.0}
    return Candidate("lightgbm", fixed, tuning=Tuning(**{"trials": 4, "folds": 2, "ranges": RANGES, **more}))


def test_tuning_chooses_anew_in_every_fold_and_is_repeated_to_the_bit(world, quick):
    table, soft_labels = world
    one, two = (cross_fit(table, soft_labels, [tuned()], quick)[0] for _ in range(2))

    assert len(one.tunings) == 3
    assert (one.score == two.score).all()
    assert one.tunings == two.tunings
    for report in one.tunings:
        assert set(report.settings) == {"num_leaves", "learning_rate"}
        assert len(report.trials) == 4
        finished = [value for _, value in report.trials if value is not None]
        assert report.value == max(finished)
        assert not report.is_cut


def test_the_refit_is_tuned_on_all_rows(world, quick):
    table, soft_labels = world
    fitted = cross_fit(table, soft_labels, [tuned()], quick)[0].fit_all()

    assert fitted.tuning is not None
    assert {name: fitted.settings[name] for name in RANGES} == dict(fitted.tuning.settings)


def test_known_positive_auc_can_be_the_objective(world, quick):
    table, soft_labels = world
    run = cross_fit(table, soft_labels, [tuned(objective="known_positive_auc")], quick)[0]

    assert run.error is None
    assert run.tunings[0].objective == "known_positive_auc"


def test_a_time_budget_cuts_the_search_and_marks_the_run(world, quick):
    table, soft_labels = world
    run = cross_fit(table, soft_labels, [tuned(trials=10_000, seconds=0.05)], quick)[0]

    assert run.error is None
    assert run.is_cut
    assert len(run.tunings[0].trials) < 10_000


def test_a_tuning_can_be_cancelled(world, quick):
    table, soft_labels = world
    calls = iter(range(10**6))
    with pytest.raises(TrainingCancelled):
        cross_fit(table, soft_labels, [tuned(trials=1000)], quick, should_stop=lambda: next(calls) > 30)

    assert next(calls) < 40


def test_optuna_keeps_its_own_loudness(world, quick):
    table, soft_labels = world
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    cross_fit(table, soft_labels, [tuned(trials=1)], quick)

    assert optuna.logging.get_verbosity() == optuna.logging.WARNING


def test_only_free_settings_are_searched_within_usual_ranges():
    candidate = Candidate("lightgbm", {"learning_rate": 0.1}, tuning=Tuning(ranges={"rounds": (10, 20)}))
    space = search_space(candidate)

    assert "learning_rate" not in space
    assert space["rounds"][1:] == (10, 20)
    assert space["num_leaves"][1:] == (4, 128)
    network = search_space(Candidate("neural_net", tuning=Tuning()))
    assert network["learning_rate"][1] < 0.002 < network["learning_rate"][2]


@pytest.mark.parametrize(
    ("candidate", "sentence"),
    [
        (Candidate("rule_score", tuning=Tuning()), "'rule_score tuned' has no free setting to tune"),
        (Candidate("lightgbm", tuning=Tuning(ranges={"leaves": (2, 3)})), "tuning.ranges names 'leaves'"),
        (Candidate("lightgbm", tuning=Tuning(ranges={"rounds": (0, 3)})), "rounds must be a whole number from 1"),
    ],
)
def test_what_cannot_be_tuned_becomes_an_error_row(world, quick, candidate, sentence):
    table, soft_labels = world
    run = cross_fit(table, soft_labels, [candidate], quick)[0]

    assert sentence in run.error


def test_a_search_space_that_is_wrong_is_named():
    with pytest.raises(TrainingError, match=r"must be \(low, high\)"):
        Tuning(ranges={"rounds": (1, 2, 3)})


def test_a_setting_that_is_misspelled_or_no_number_is_refused_with_the_nearest_number():
    for name, words in (("round", "Did you mean 'rounds'"), ("learner", "Did you mean 'learning_rate'")):
        with pytest.raises(TrainingError, match=rf"names '{name}', which cannot be tuned. {words}"):
            search_space(Candidate("two_stage", tuning=Tuning(ranges={name: (1, 2)})))


def test_a_range_of_a_single_value_is_allowed():
    space = search_space(Candidate("lightgbm", tuning=Tuning(ranges={"rounds": (50, 50)})))

    assert space["rounds"][1:] == (50, 50)


def test_a_default_beyond_the_usual_range_is_searched_around_within_the_limits_of_the_setting():
    found = _usual_range(Setting(name="hidden", default=1000, help="", low=1, high=4000))

    assert found == (100.0, 4000)


def test_a_trial_that_is_behind_the_others_is_given_up_after_its_first_fold(monkeypatch):
    fitted = []
    monkeypatch.setattr(_Search, "_fold_value", lambda *_: fitted.append(1) or 0.5)
    trial = SimpleNamespace(number=0, report=lambda *_: None, should_prune=lambda: True)
    search = _Search(Tuning(trials=2, folds=3), None, None, ProgressRange(), {}, None)

    with pytest.raises(optuna.TrialPruned):
        search.value_of(trial)
    assert len(fitted) == 1


def test_progress_carries_the_training_loss():
    seen = []
    Reporter(["a"], 3, on_progress=seen.append).report(0.5, "fitting", Progress(1, 2, training_loss=0.3))

    assert (seen[0].training_loss, seen[0].share) == (0.3, 0.5)


def test_a_bar_appears_after_two_seconds_and_is_full_at_the_end(monkeypatch):
    seen = []

    class Bar(rich.progress.Progress):
        def start(self):
            seen.append("shown")

        def stop(self):
            seen.append(self.tasks[0].percentage)

    monkeypatch.setattr(rich.progress, "Progress", Bar)
    at = TrainProgress("a", 1, 1, 0, 3, "fitting", 1, 2, None, 0.5, 1.9, None)
    with progress_shown(True) as show:
        show(at)
        assert seen == []
        show(replace(at, seconds=2.0, share=1.0))

    assert seen == ["shown", 100.0]


def test_a_search_sees_only_the_rows_it_is_given(quick):
    config = replace(quick, hold_out=0.3)
    table, soft_labels = make_world(200)
    split = make_split(table, soft_labels, config)
    value = soft_labels.value.copy()
    value[split.held_out & ~soft_labels.is_labeled] = 0.5
    changed = SoftLabels(value, soft_labels.rule_score, soft_labels.is_labeled, soft_labels.rule_columns)

    fitter = CandidateFitter(tuned(), config, Reporter(["x"], 1))
    kept, other = (
        fitter.tuned(prepare_rows(table, labels, config, split).rows.take(~split.held_out), ProgressRange())[1]
        for labels in (soft_labels, changed)
    )

    assert kept == other


@pytest.mark.parametrize(
    ("finished", "share", "left"),
    [
        # 5 of 20 seconds are spent, and each of three candidates to come takes as long.
        ((), 0.25, 15 + 3 * 20),
        ((), 0.01, None),
        # Those before took 4 and 8 seconds; one is to come, which takes the mean of all three.
        ((4.0, 8.0), 0.25, 15 + (4 + 8 + 20) / 3),
        # Too early to tell: this one takes as long as the mean of those before, 6 seconds.
        ((4.0, 8.0), 0.01, 1 + 6),
        # It took longer already.
        ((1.0, 2.0), 0.01, 0 + (1 + 2 + 5) / 3),
    ],
)
def test_the_time_left_is_foreseen_from_this_candidate_and_those_before(finished, share, left, monkeypatch):
    seen = []
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    reporter = Reporter(list("abcd"), 1, seen.append, finished_seconds=list(finished), started=100.0)
    reporter.begin(len(finished))
    monkeypatch.setattr("time.monotonic", lambda: 105.0)

    reporter.report(share, "training")

    assert seen[0].seconds == 5.0
    assert seen[0].seconds_left == (None if left is None else pytest.approx(left))
