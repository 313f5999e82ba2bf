"""Details that the other tests of training pass over; each was found by breaking the code at random."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from spu_core.engines.training_cost import TrainEstimate, estimate_training
from spu_core.errors import TrainingError
from spu_core.labels import SoftLabels
from spu_core.metrics import auc_spu_ceiling, roc_spu
from spu_core.models.methods.fused import FOREST
from spu_core.tables import Table
from spu_core.training import (
    Candidate,
    EarlyStopping,
    FoldAssignment,
    TrainConfig,
    TrainPlan,
    Tuning,
    compare_runs,
    cross_fit,
    make_split,
    permutation_importance,
    segment_table,
    segment_values,
    sketch,
)
from spu_core.training.fitting import CandidateFitter, ProgressRange, Reporter
from spu_core.training.rows import prepare_rows

# A million cells: 50,000 rows of 20 columns. Five folds train on 0.8 of them, and the refit on all.
MILLION = (50_000, 20)


def tune(table, soft_labels, candidate, config=None, on_progress=None):
    """Search the settings of a candidate once, on all rows."""
    config = config or TrainConfig(threads=1)
    fitter = CandidateFitter(candidate, config, Reporter([candidate.name], 1, on_progress))
    return fitter.tuned(prepare_rows(table, soft_labels, config).rows, ProgressRange())[1]


@pytest.fixture(scope="module")
def runs(world):
    table, soft_labels = world
    candidates = [Candidate("lightgbm", {"rounds": 20, "keep_rule_columns": True}), "logistic"]
    return cross_fit(table, soft_labels, candidates, TrainConfig(folds=3, threads=1))


def forest_seconds(cells: float) -> float:
    """The seconds of a forest of fused: 1.8 ms and 130 ms for a million cells a tree."""
    return 0.02 + FOREST["rounds"] * (1.8e-3 + 0.13 * cells)


@pytest.mark.parametrize(
    ("candidate", "seconds"),
    [
        # 100 rounds of 1 ms and 10 ms for a million cells, and 20 ms to begin: 0.92 s in a fold, 1.12 s on all rows.
        (Candidate("lightgbm", {"rounds": 100}), 5 * 0.92 + 1.12),
        # Six tenths of 10 trials on two inner folds, each on half of the rows: 6.24 s in a fold; on all rows 7.44 s.
        (Candidate("lightgbm", {"rounds": 100}, tuning=Tuning(trials=10, folds=2)), 5 * (6.24 + 0.92) + 6.24 + 1.12),
        (Candidate("lightgbm", {"rounds": 100}, tuning=Tuning(trials=10, folds=2, seconds=1)), 5 * 1.92 + 1 + 1.12),
        # One solution: 30 ms and 350 ms for a million cells.
        (Candidate("logistic"), 5 * (0.02 + 0.03 + 0.35 * 0.8) + 0.02 + 0.03 + 0.35),
        # Nothing to fit.
        (Candidate("rule_score"), 5 * (0.01 + 0.01 * 0.8) + 0.02),
        # A model for each of its four folds, and one more.
        (Candidate("elkan_noto", {"rounds": 100}), 5 * (5 * 0.92) + 5 * 1.12),
        # Twenty bags of small trees: 0.2 ms and 4.3 ms a round.
        (
            Candidate("bagging_pu", {"rounds": 10, "bags": 20}),
            5 * 20 * (0.02 + 10 * (2e-4 + 4.3e-3 * 0.8)) + 20 * (0.02 + 10 * 4.5e-3),
        ),
        (
            Candidate("bagging_pu", {"learner": "logistic", "bags": 2}),
            5 * 2 * (0.02 + 0.03 + 0.35 * 0.8) + 2 * (0.02 + 0.03 + 0.35),
        ),
        # Seventeen fits of small trees, and a forest in each of the four inner folds.
        (
            Candidate("fused", {"rounds": 10}),
            5 * (17 * (0.02 + 10 * (2e-4 + 4.3e-3 * 0.8)) + 4 * forest_seconds(0.8))
            + 17 * (0.02 + 0.045)
            + 4 * forest_seconds(1.0),
        ),
        # Fifty turns, each a little quicker than a fit.
        (Candidate("sar_em"), 5 * 40 * (0.05 + 0.35 * 0.8) + 40 * 0.4),
    ],
    ids=lambda value: value.name if isinstance(value, Candidate) else "",
)
def test_the_estimated_seconds_of_a_candidate_add_up(candidate, seconds):
    found = estimate_training(*MILLION, [candidate], TrainConfig(), refine=False)

    assert found.by_candidate == {candidate.name: pytest.approx(seconds)}
    assert found.seconds == pytest.approx(3.0 + seconds)


@pytest.mark.parametrize(
    ("learner", "fixed", "growing"),
    [
        ("xgboost", 1.5e-3, 1e-2),
        ("neural_net", 1.5e-3, 0.12),
        ("extra_trees", 1.8e-3, 0.13),
        ("nearest_neighbors", 3e-2, 3.0),
    ],
)
def test_each_learner_has_its_own_seconds_for_a_round_and_for_a_million_cells(learner, fixed, growing):
    candidate = Candidate(learner)
    rounds = candidate.entry.complete({}).get("rounds", 1)

    found = estimate_training(*MILLION, [candidate], TrainConfig(), refine=False).by_candidate[learner]

    assert found == pytest.approx(5 * (0.02 + rounds * (fixed + 0.8 * growing)) + 0.02 + rounds * (fixed + growing))


def test_held_out_rows_and_refined_labels_cost_more_fits():
    candidate, small_trees = Candidate("lightgbm", {"rounds": 100}), 0.02 + 80 * 4.5e-3
    held_out = estimate_training(*MILLION, [candidate], TrainConfig(hold_out=0.2))

    assert held_out.by_candidate["lightgbm"] == pytest.approx(6 * 0.92 + 1.12)
    refining = 17 * small_trees + 4 * forest_seconds(1.0)
    assert held_out.seconds == pytest.approx(3.0 + refining + 6 * 0.92 + 1.12)
    assert held_out.memory == pytest.approx(260e6 + 3.2 * 8 * 1e6 + 200 * 50_000)


@pytest.mark.parametrize(
    ("seconds", "memory", "words"),
    [
        (1, 4e8, "about 5 seconds and 400 MB"),
        (20, 1e9, "10 to 40 seconds and 1.0 GB"),
        (54, 2.26e9, "25 seconds to 2 minutes and 2.3 GB"),
        (130, 9.99e8, "1 to 4 minutes and 999 MB"),
        (5_400, 4e8, "45 minutes to 3.0 hours and 400 MB"),
        (10_800, 4e8, "1.5 to 6.0 hours and 400 MB"),
    ],
)
def test_an_estimate_is_said_as_roughly_as_it_is_known(seconds, memory, words):
    assert TrainEstimate(seconds, {}, memory).text == words


@pytest.mark.parametrize("share", [0.1, 0.25, 0.8])
def test_the_held_out_share_is_the_share_that_was_asked_for(world, share):
    table, soft_labels = world

    assert make_split(table, soft_labels, TrainConfig(hold_out=share)).held_out.sum() == share * len(table)


def test_a_threshold_flags_what_lies_above_it(world, runs):
    segments = pd.Series(np.arange(len(world[0])) % 2).astype(str)
    score = np.sort(runs[1].score)

    flagged = segment_table(runs[1], segments, score[-3])

    assert (flagged["flagged_share"] * flagged["rows"]).sum() == 2
    assert flagged["rows"].tolist() == [200, 200]


def test_settings_of_many_magnitudes_are_searched_on_a_logarithmic_scale(world):
    """On a linear scale between 0.0001 and 1000, a value below 1 would turn up once in a thousand trials."""
    candidate = Candidate("logistic", tuning=Tuning(trials=8, folds=2))

    trials = tune(*world, candidate, TrainConfig(threads=1)).trials

    assert sum(settings["ridge"] < 1 for settings, _ in trials[1:]) >= 2


def test_a_shuffled_column_is_put_back_before_the_next_one(runs):
    importance = permutation_importance(runs[0], repeats=3).set_index("column")["importance"]

    assert importance["a"] > 0.1
    assert importance[["d", "job"]].abs().max() < 0.03


def test_weights_count_before_and_after_a_column_is_shuffled(world):
    """A column that differs in one row costs nearly nothing, whatever the rows weigh."""
    table, soft_labels = world
    frame = table.frame.assign(weight=np.where(table.frame["b"] > 0, 5.0, 1.0), one=np.arange(len(table)) == 7)
    roles = {**table.roles, "weight": "weight", "one": "feature"}
    weighted = Table.from_frame(frame, roles=roles)
    [run] = cross_fit(weighted, soft_labels, [Candidate("logistic")], TrainConfig(folds=2, threads=1))

    importance = permutation_importance(run, repeats=2).set_index("column")["importance"]

    assert importance["one"] == pytest.approx(0.0, abs=0.005)


def test_rows_with_weights_have_the_ceiling_of_their_weights(world):
    table, soft_labels = world
    weight = np.where(soft_labels.value > 0.3, 5.0, 1.0)
    weighted = Table.from_frame(table.frame.assign(weight=weight), roles={**table.roles, "weight": "weight"})

    [run] = cross_fit(weighted, soft_labels, ["logistic"], TrainConfig(folds=2, threads=1))

    assert run.metrics.ceiling == pytest.approx(auc_spu_ceiling(soft_labels.value, sample_weight=weight))
    assert run.metrics.ceiling != pytest.approx(auc_spu_ceiling(soft_labels.value), abs=0.01)


def test_segments_keep_the_row_names_of_their_column():
    numbers = pd.Series([4.0, 3.0, 2.0, 1.0, None], index=[10, 3, 7, 1, 2])

    assert segment_values(numbers).to_dict() == {
        10: "3.25 to 4",
        3: "2.5 to 3.25",
        7: "1.75 to 2.5",
        1: "1 to 1.75",
        2: "missing",
    }


def test_configs_and_plans_are_written_with_a_line_for_each_field():
    assert '\n  "folds": 5,\n' in TrainConfig().to_json()


def test_the_progress_of_a_search_never_falls(world):
    shares = []
    candidate = Candidate("logistic", tuning=Tuning(trials=3, folds=2))

    tune(*world, candidate, TrainConfig(threads=1), on_progress=lambda progress: shares.append(progress.share))

    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(0.5)  # the other half is for the fit with the settings found


def test_a_candidate_without_rules_is_given_no_rule_score(world):
    table, soft_labels = world
    [run] = cross_fit(
        table, soft_labels, [Candidate("rule_score", without_rules=True)], TrainConfig(folds=2, threads=1)
    )

    assert (run.score == run.score[0]).all()


def test_notes_under_a_comparison_are_sentences(runs):
    notes = compare_runs(runs).notes

    assert notes
    assert not [note for note in notes if "None" in note or "was cut by its time budget" in note]


def test_every_point_of_a_sketched_curve_is_one_of_the_whole_curve():
    rng = np.random.default_rng(0)
    whole = roc_spu(rng.random(30_000), rng.random(30_000))
    threshold = dict(zip(whole.flagged[1:], whole.score, strict=True))

    few = sketch(whole)

    assert few.fpr.size < whole.fpr.size
    assert (few.flagged[0], few.flagged[-1]) == (0, 30_000)
    assert [threshold[flagged] for flagged in few.flagged[1:]] == few.score.tolist()


def test_folds_cannot_be_changed_afterwards():
    split = FoldAssignment(np.array([0, 1, 0, 1]))

    with pytest.raises(ValueError, match="read-only"):
        split.fold[0] = 1


def test_broken_json_is_told_by_what_it_should_be():
    with pytest.raises(TrainingError, match="The training config is not valid JSON at line 1"):
        TrainConfig.from_json("{")
    with pytest.raises(TrainingError, match="The training plan is not valid JSON at line 1"):
        TrainPlan.from_json("{")


def test_ranges_of_a_search_are_named():
    with pytest.raises(TrainingError, match=r"tuning.ranges must map settings to \(low, high\), got \[1, 2\]"):
        Tuning(ranges=[1, 2])


def test_a_search_can_go_by_confirmed_positives_alone():
    """Column x finds the confirmed cases; beliefs of the other rows are noise, so AUC_SPU has a low ceiling."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    soft_labels = SoftLabels.from_values(0.6 * rng.random(300), x > 1.2)
    frame = pd.DataFrame({"x": x, "y": rng.random(300), "label": (x > 1.2).astype(int)})
    table = Table.from_frame(frame, roles={"label": "label"})
    value = {}
    for objective in ("auc_spu", "known_positive_auc"):
        tuning = Tuning(trials=1, folds=2, objective=objective)
        value[objective] = tune(table, soft_labels, Candidate("logistic", tuning=tuning)).value

    assert value["auc_spu"] < auc_spu_ceiling(soft_labels.value) < 0.85
    assert value["known_positive_auc"] > 0.9


def test_a_search_prints_nothing(world, capfd):
    tune(*world, Candidate("logistic", tuning=Tuning(trials=1, folds=2)), TrainConfig(threads=1))

    assert capfd.readouterr() == ("", "")


def test_a_candidate_that_failed_still_knows_its_rows(world):
    table, soft_labels = world
    without_labels = SoftLabels.from_values(soft_labels.rule_score, np.zeros(len(table), dtype=bool))

    [run] = cross_fit(table, without_labels, ["labeled_vs_rest"], TrainConfig(folds=2, threads=1))

    assert run.error
    assert run.need_data().split.fold.tolist() == run.fold.tolist()


def test_at_most_half_of_the_rows_may_stop_a_training():
    assert EarlyStopping(share=0.5).share == 0.5

    with pytest.raises(TrainingError, match=r"must be at most 0\.5"):
        EarlyStopping(share=0.51)
