"""Guards: data that would make models look better than they are, and what training does about them."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import numpy as np
import pandas as pd

from spu_core.export import bundle_bytes, load_bundle
from spu_core.labels import SoftLabels, assign_soft_labels
from spu_core.rules import RuleMatrix
from spu_core.tables import Table
from spu_core.training import (
    Candidate,
    EvaluationData,
    FoldAssignment,
    Run,
    TrainConfig,
    compare_runs,
    cross_fit,
    make_split,
    recommend,
)
from tests.training.worlds import make_world

QUICK = TrainConfig(folds=3, threads=1)


def copied_noise(copies: int = 4, rows: int = 150, **more):
    """Rows of pure noise that come several times, labels and all; nothing can be learnt from them."""
    rng = np.random.default_rng(0)
    once = pd.DataFrame(rng.normal(size=(rows, 5))).add_prefix("x").assign(label=(rng.random(rows) < 0.3).astype(int))
    frame = pd.concat([once] * copies, ignore_index=True).assign(**more)
    table = Table.from_frame(frame, roles=dict.fromkeys(more, "group"))
    return table, SoftLabels.from_values(frame["label"].to_numpy(dtype=float), frame["label"].to_numpy() == 1)


def test_copies_of_noise_do_not_make_a_model_look_good():
    table, soft_labels = copied_noise()
    forest = Candidate("labeled_vs_rest", {"rounds": 60})
    [run] = cross_fit(table, soft_labels, [forest], QUICK)
    apart = FoldAssignment(np.arange(len(table)) // 200)  # each copy of a row in another fold
    [fooled] = cross_fit(table, soft_labels, [forest], QUICK, split=apart)

    assert run.metrics.known_positive_auc.estimate < 0.65
    assert run.metrics.known_positive_auc.low < 0.5
    assert fooled.metrics.known_positive_auc.estimate > 0.95
    assert "450 of 600 rows repeat an earlier row. Rows that repeat each other are in one fold" in notes_of(run)
    assert "some of them are in another fold: figures are too good" in notes_of(fooled)


def notes_of(run):
    return "\n".join(compare_runs([run]).notes)


def test_near_copies_of_noise_stay_in_one_fold():
    table, soft_labels = copied_noise()
    rng = np.random.default_rng(1)
    numbers = {name: table.frame[name] + 0.01 * rng.normal(size=600) for name in table.features}
    near = Table.from_frame(table.frame.assign(**numbers))
    forest = Candidate("labeled_vs_rest", {"rounds": 60})
    [run] = cross_fit(near, soft_labels, [forest], QUICK)
    apart = FoldAssignment(np.arange(len(table)) // 200)
    [fooled] = cross_fit(near, soft_labels, [forest], QUICK, split=apart)

    fold = make_split(near, soft_labels, QUICK).fold.reshape(4, 150)
    assert (fold == fold[0]).mean() > 0.97
    assert run.metrics.known_positive_auc.estimate < 0.65
    assert fooled.metrics.known_positive_auc.estimate > 0.9
    assert "rows nearly repeat an earlier row" in notes_of(run)


def test_copies_stay_in_one_fold_and_labelled_rows_are_spread_evenly():
    table, soft_labels = copied_noise()
    split = make_split(table, soft_labels, QUICK)

    fold = split.fold.reshape(4, 150)
    assert (fold == fold[0]).all()
    labeled = np.bincount(split.fold[table.is_labeled])
    assert labeled.max() - labeled.min() <= 4
    assert np.ptp(np.bincount(split.fold)) <= 8


def test_copies_count_once_in_an_interval():
    """The interval of four copies is as wide as that of one, not half as wide."""
    table, soft_labels = copied_noise()
    single, single_labels = copied_noise(copies=1)
    [four] = cross_fit(table, soft_labels, ["logistic"], QUICK)
    [one] = cross_fit(single, single_labels, ["logistic"], QUICK)

    ratio = four.metrics.auc_spu.standard_error / one.metrics.auc_spu.standard_error
    assert 0.8 < ratio < 1.25


def test_copies_join_the_groups_of_a_group_column():
    """Rows 0 … 149 have a house each; their copies stand in other houses, two rows each."""
    house = np.concatenate([np.arange(150), 1000 + np.arange(150), 2000 + np.arange(300) // 2])
    table, soft_labels = copied_noise(house=house)
    split = make_split(table, soft_labels, QUICK)

    fold = split.fold.reshape(4, 150)
    assert (fold == fold[0]).all()
    for name in np.unique(house):
        assert np.unique(split.fold[house == name]).size == 1


def test_copies_that_would_join_all_groups_leave_the_groups_as_they_are():
    table, soft_labels = copied_noise(house=np.arange(600) % 7)  # every house holds copies of rows of all others
    split = make_split(table, soft_labels, QUICK)

    for name in range(7):
        assert np.unique(split.fold[np.arange(600) % 7 == name]).size == 1


def test_one_group_that_copies_would_make_too_large_leaves_all_groups_as_they_are():
    """Copies of rows 0 to 99 stand in all of seven houses; those of the others have a house of their own."""
    row = np.arange(600)
    house = np.where(row % 150 < 100, row % 7, 1_000 + row % 150)
    table, soft_labels = copied_noise(house=house)
    split = make_split(table, soft_labels, QUICK)

    assert np.unique(split.fold[house < 7]).size > 1
    for name in np.unique(house):
        assert np.unique(split.fold[house == name]).size == 1


def test_copies_join_small_groups_beside_a_large_one():
    """A fifth of the rows share a house, with all their copies; every other row has a house of its own."""
    row = np.arange(600)
    table, soft_labels = copied_noise(house=np.where(row % 150 < 30, 0, 1_000 + row))
    split = make_split(table, soft_labels, QUICK)

    fold = split.fold.reshape(4, 150)
    assert (fold == fold[0]).all()


def test_the_latest_rows_are_not_judged_by_models_of_their_copies():
    table, soft_labels = copied_noise()
    frame = table.frame.assign(day=pd.date_range("2024-01-01", periods=600, freq="h"))
    dated = Table.from_frame(frame, roles={"day": "time"})
    split = make_split(dated, soft_labels, replace(QUICK, out_of_time=0.2))
    last = list(split.folds())[-1]

    late = set(np.arange(600)[last.score] % 150)
    assert late
    assert not late & set(np.arange(600)[last.train] % 150)


def test_few_distinct_values_can_still_be_split():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(0, 2, (300, 3))).add_prefix("x").assign(label=(rng.random(300) < 0.2).astype(int))
    table = Table.from_frame(frame)
    soft_labels = SoftLabels.from_values(frame["label"].to_numpy(dtype=float), frame["label"].to_numpy() == 1)
    split = make_split(table, soft_labels, QUICK)

    assert split.groups is None
    assert np.ptp(np.bincount(split.fold)) <= 1


def test_rows_without_copies_have_the_folds_they_always_had():
    """The folds of this table as they were before repeated rows were looked for."""
    table, soft_labels = copied_noise(copies=1, rows=30)

    assert table.repeats is None
    fold = "".join(map(str, make_split(table, soft_labels, QUICK).fold))
    assert fold == "001101202222220202211111100010"


def test_a_rule_that_reads_what_was_written_after_confirmation_leaves_the_answer_open():
    """A rule fires on 95 % of the labelled rows and on 5 % of the others, since its column was filled afterwards."""
    rng = np.random.default_rng(0)
    labels = rng.random(2000) < 0.05
    trace = np.where(labels, rng.random(2000) < 0.95, rng.random(2000) < 0.05)
    frame = pd.DataFrame(rng.normal(size=(2000, 3))).add_prefix("x").assign(trace=trace * 1, label=labels * 1)
    matrix = RuleMatrix.from_arrays(["closed"], 0.8 * trace[:, None], columns=["trace"])
    soft_labels = assign_soft_labels(matrix, labels)
    comparison = compare_runs(cross_fit(Table.from_frame(frame), soft_labels, ["rule_score", "elkan_noto"], QUICK))

    found = recommend(comparison)
    assert (found.confidence, found.help_of_rules) == ("provisional", "cannot tell")
    assert "The rules may have decided who was checked" in found.sentence


def drifted(truth=None):
    """Runs judged on the latest rows, whose scores rank confirmed cases above or below the rest."""
    rng = np.random.default_rng(0)
    labels = rng.random(3000) < 0.1
    rule = np.clip(rng.random(3000) * 0.5, 0, 1)
    fold = np.where(np.arange(3000) < 1500, np.arange(3000) % 3, -1)
    evaluation = EvaluationData(np.where(labels, 1.0, rule), labels, rule, fold, fold == -1, truth=truth)

    def run(method, lead):
        score = 1.0 / (1.0 + np.exp(-(2.0 * rule + lead * labels + rng.normal(size=3000))))
        return Run(method, Candidate(method), TrainConfig(out_of_time=0.5), evaluation, score=score).judged_by(
            evaluation
        )

    return run


def test_models_below_chance_never_win_and_the_headline_says_so():
    run = drifted()
    comparison = compare_runs([run("fused", -1.0), run("labeled_vs_rest", -0.6), run("elkan_noto", 0.2)])

    assert set(comparison.below_chance) == {"fused", "labeled_vs_rest"}
    found = recommend(comparison)
    assert found.model == "elkan_noto"
    assert found.among_best == ("elkan_noto",)
    assert found.order[0] == "elkan_noto"
    assert comparison.headline.startswith(
        ("'fused', 'labeled_vs_rest' are worse", "'labeled_vs_rest', 'fused' are worse")
    )
    assert comparison.notes[0] == comparison.headline
    clear = compare_runs([run("fused", -1.0), run("elkan_noto", 2.0)])
    assert "No other model is clearly better than chance" not in clear.headline


def test_where_all_models_are_below_chance_there_is_no_winner_and_no_answer():
    run = drifted()
    comparison = compare_runs([run("fused", -1.0), run("labeled_vs_rest", -1.6), run("rule_score", -0.3)])

    assert comparison.headline.startswith("No model is better than chance: positives are ranked below other rows")
    assert "AUC on confirmed cases 0." in comparison.headline
    found = recommend(comparison)
    assert (found.model, found.confidence, found.help_of_rules) == (None, "cannot tell", "cannot tell")
    assert found.among_best == ()
    assert found.order[-1] == "rule_score"
    assert found.next_step.action == "revise rules"


def test_a_model_that_is_not_better_than_chance_is_only_provisional():
    """'lightgbm' uses the rules and beats labels alone, but only because these are far below chance."""
    run = drifted()
    comparison = compare_runs([run("lightgbm", -0.08), run("fused", -0.1), run("labeled_vs_rest", -1.6)])
    found = recommend(comparison)

    assert comparison.below_chance == ("labeled_vs_rest",)
    assert max(comparison.figures["known_positive_auc"].value.values()) <= 0.5
    assert found.confidence == "provisional"
    assert "better than chance" in found.sentence
    assert "No other model is clearly better" in comparison.headline


def test_the_truth_decides_who_is_below_chance_where_it_is_known():
    labels = np.random.default_rng(0).random(3000) < 0.1
    run = drifted(truth=~labels)
    comparison = compare_runs([run("fused", -1.0)])

    assert comparison.headline is None
    assert comparison.below_chance == ()


def test_models_of_pure_noise_are_not_called_worse_than_chance():
    run = drifted()
    runs = [run(method, 0.0) for method in ("fused", "elkan_noto", "labeled_vs_rest", "two_stage", "soft_bagging")]

    assert min(each.metrics.known_positive_auc.estimate for each in runs) < 0.5
    assert compare_runs(runs).headline is None


def test_random_folds_over_time_are_said_and_out_of_time_is_not():
    table, soft_labels = make_world(200)
    [random] = cross_fit(table, soft_labels, ["rule_score"], QUICK)
    [later] = cross_fit(table, soft_labels, ["rule_score"], replace(QUICK, out_of_time=0.3))
    [timeless] = cross_fit(table.with_roles({"day": "ignore"}), soft_labels, ["rule_score"], QUICK)

    assert "Rows have a time ('day'), but folds are random" in notes_of(random)
    assert "Rows have a time" not in notes_of(later) + notes_of(timeless)


def test_what_is_said_about_the_rows_is_kept_in_a_bundle():
    table, soft_labels = make_world(200)
    [run] = cross_fit(table, soft_labels, ["rule_score"], QUICK)
    data = bundle_bytes(run)
    stored = load_bundle(data, known_hash=sha256(data).hexdigest()).run

    assert stored.evaluation.data_notes == run.evaluation.data_notes != ()
