"""Sensitivity: AUC_SPU under shifted beliefs equals judging anew, and a clear winner stays one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spu_core.errors import TrainingError
from spu_core.labels import SoftLabels, assign_soft_labels
from spu_core.rules import RuleMatrix
from spu_core.training import Candidate, TrainConfig, TrainingCancelled, cross_fit, runs_on
from spu_core.trust import (
    Sensitivity,
    belief_sensitivity,
    rule_influence,
    shifted_labels,
)
from spu_core.trust.sensitivity import _with_fault
from tests.training.worlds import make_world

CONFIG = TrainConfig(folds=3, threads=1)


@pytest.fixture(scope="module")
def trained():
    table, soft_labels = make_world(400)
    runs = cross_fit(table, soft_labels, ["rule_score", Candidate("lightgbm", {"rounds": 10}), "logistic"], CONFIG)
    return table, soft_labels, runs


def test_each_draw_equals_judging_the_runs_anew(trained):
    _, soft_labels, runs = trained
    found = belief_sensitivity(runs, soft_labels, draws=3, seed=5)

    for draw, shifted in enumerate(shifted_labels(soft_labels, draws=3, spread=0.5, seed=5)):
        anew = [run.metrics.auc_spu.estimate for run in runs_on(runs, shifted)]
        np.testing.assert_allclose(found.auc[draw], anew, rtol=1e-10)


def test_weights_are_counted_too(trained):
    table, soft_labels, _ = trained
    frame = table.frame.assign(weight=np.random.default_rng(0).random(len(table)) + 0.1)
    weighted = type(table).from_frame(frame, roles={**table.roles, "weight": "weight"})
    runs = cross_fit(weighted, soft_labels, ["rule_score", "logistic"], CONFIG)
    found = belief_sensitivity(runs, soft_labels, draws=1, seed=1)
    shifted = next(shifted_labels(soft_labels, draws=1, spread=0.5, seed=1))

    anew = [run.metrics.auc_spu.estimate for run in runs_on(runs, shifted)]
    np.testing.assert_allclose(found.auc[0], anew, rtol=1e-10)


def test_a_clear_winner_stays_best_and_bands_hold_the_middle(trained):
    _, soft_labels, runs = trained
    found = belief_sensitivity(runs, soft_labels, draws=50, wrong=0.0)

    assert found.stays_best["rule_score"] == 1.0
    assert sum(found.stays_best.values()) == pytest.approx(1.0)
    table = found.table
    assert ((table["low"] <= table["median"]) & (table["median"] <= table["high"])).all()
    assert found.sentence == ("'rule_score' has the highest AUC_SPU in 100% of 50 random changes of your beliefs.")


@pytest.fixture(scope="module")
def with_knower(trained):
    """The same runs, and one that knows the labels and nothing of the rules."""
    _, soft_labels, runs = trained
    score = soft_labels.is_labeled + 0.3 * np.random.default_rng(0).normal(size=400)
    return soft_labels, [*runs, replace(runs[0], name="knower", score=score).judged_by(runs[0].evaluation)]


def test_the_rules_alone_do_not_stay_best_where_a_rule_is_wrong(with_knower):
    """A shift of its belief can never turn a rule round, so the rules alone would win on their own S in every draw."""
    soft_labels, runs = with_knower
    stays = {
        wrong: belief_sensitivity(runs, soft_labels, draws=50, wrong=wrong).stays_best["rule_score"]
        for wrong in (0.0, 0.2, 1.0)
    }

    assert stays[0.0] == 1.0
    assert stays[1.0] < 0.9
    assert stays[1.0] < stays[0.2] < 1.0
    sentence = belief_sensitivity(runs, soft_labels, draws=5).sentence
    assert sentence.endswith(" In 20% of the draws one rule is left out or reversed.")


def test_a_wrong_rule_is_left_out_or_believes_in_the_other_rows():
    matrix = RuleMatrix.from_arrays(["a", "b"], [[0.6, 0.0], [0.6, 0.2], [0.0, 0.2], [0.0, 0.0], [0.0, 0.0]])
    dropped, turned = _with_fault(matrix, 0, "dropped"), _with_fault(matrix, 0, "reversed")

    assert dropped.belief_of(0).tolist() == [0.0] * 5
    assert turned.belief_of(0).tolist() == pytest.approx([0.0, 0.0, 0.4, 0.4, 0.4])
    for changed in (dropped, turned):
        assert changed.belief_of(1).tolist() == matrix.belief_of(1).tolist()


def test_the_only_rule_is_not_left_out_where_no_row_is_labelled():
    matrix = RuleMatrix.from_arrays(["a"], np.where(np.arange(10) < 3, 0.5, 0.0)[:, None])
    soft_labels = assign_soft_labels(matrix, np.zeros(10, dtype=bool))

    for shifted in shifted_labels(soft_labels, draws=20, spread=0.1, wrong=1.0):
        assert np.ptp(shifted.value) > 0.0


def test_who_would_lead_without_a_rule_and_with_it_reversed_is_told(with_knower):
    soft_labels, runs = with_knower
    found = rule_influence(runs, soft_labels)
    place = soft_labels.matrix.names.index("far")
    turned = assign_soft_labels(_with_fault(soft_labels.matrix, place, "reversed"), soft_labels.is_labeled)
    anew = {run.name: run.metrics.auc_spu.estimate for run in runs_on(runs, turned)}

    assert found.table.set_index("rule")["leads_reversed"]["far"] == max(anew, key=anew.get) != found.leader
    assert "leaving out or reversing only 'far'" in found.sentence


def test_ties_are_shared():
    found = Sensitivity(("a", "b"), np.array([[0.7, 0.7], [0.8, 0.6]]), 0.5)

    assert found.stays_best == {"a": 0.75, "b": 0.25}
    assert found.sentence.startswith("'a' has the highest AUC_SPU in 75%")


def test_the_table_holds_the_middle_and_the_outer_twentieths_of_the_draws():
    auc = np.column_stack([np.linspace(0.5, 0.9, 41), np.linspace(0.6, 0.7, 41)])
    table = Sensitivity(("a", "b"), auc, 0.5).table

    assert table[["low", "median", "high"]].to_numpy() == pytest.approx(
        np.array([[0.52, 0.7, 0.88], [0.605, 0.65, 0.695]])
    )


def test_the_run_that_stays_best_most_often_comes_first():
    table = Sensitivity(("a", "b"), np.array([[0.6, 0.7], [0.6, 0.8]]), 0.5).table

    assert (table.index.tolist(), table["name"].tolist()) == ([0, 1], ["b", "a"])


def test_a_floor_stays_below_shifted_beliefs():
    matrix = RuleMatrix.from_arrays(["rule"], np.array([[0.6], [0.0], [0.0]]))
    soft_labels = assign_soft_labels(matrix, np.array([False, False, True]), floor=0.1)

    for shifted in shifted_labels(soft_labels, draws=3, spread=1.0, wrong=0.0):
        assert shifted.value[1] == 0.1
        assert shifted.floor == 0.1


def test_labels_and_silence_are_not_shifted(trained):
    _, soft_labels, _ = trained
    for shifted in shifted_labels(soft_labels, draws=3, spread=1.0, wrong=0.0):
        assert (shifted.value[soft_labels.is_labeled] == 1.0).all()
        silent = ~soft_labels.matrix.fired.any(axis=1) & ~soft_labels.is_labeled
        assert (shifted.value[silent] == 0.0).all()
        assert not np.array_equal(shifted.value, soft_labels.value)


def test_what_cannot_be_shifted_says_why(trained):
    _, soft_labels, runs = trained
    ready = SoftLabels.from_values(soft_labels.rule_score, soft_labels.is_labeled)
    with pytest.raises(TrainingError, match="are ready-made values"):
        belief_sensitivity(runs, ready)
    with pytest.raises(TrainingError, match="spread must be above 0"):
        belief_sensitivity(runs, soft_labels, spread=0.0)
    with pytest.raises(TrainingCancelled, match="was cancelled"):
        belief_sensitivity(runs, soft_labels, should_stop=lambda: True)


def test_each_rule_is_shifted_alone_and_the_most_influential_comes_first(trained):
    _, soft_labels, runs = trained
    found = rule_influence(runs, soft_labels, shift=1.0)
    now = {run.name: run.metrics.auc_spu.estimate for run in runs}

    assert sorted(found.table["rule"]) == sorted(soft_labels.matrix.names)
    assert found.table["change"].is_monotonic_decreasing
    assert found.leader == max(now, key=now.get)
    assert found.table["now"].iloc[0] == pytest.approx(max(now.values()))
    assert f"Rule {found.table['rule'].iloc[0]!r} matters most" in found.sentence


def test_rules_that_cannot_be_shifted_are_said_so(trained):
    _, soft_labels, runs = trained
    ready_made = SoftLabels.from_values(soft_labels.value, soft_labels.is_labeled)
    with pytest.raises(TrainingError, match="are ready-made values"):
        rule_influence(runs, ready_made)
    with pytest.raises(TrainingError, match="shift must be above 0, got 0"):
        rule_influence(runs, soft_labels, shift=0)
    with pytest.raises(TrainingError, match="No run has scores"):
        rule_influence([], soft_labels)
