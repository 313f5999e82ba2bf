"""Feature selection by figures that need no truth: noise goes, what is needed stays, and the figures are honest."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from spu_core import FeatureSelection, SoftLabels, Table, TrainConfig, compare_auc_spu, cross_fit, select_features
from spu_core.errors import TrainingError
from spu_core.metrics import Difference
from spu_core.training import Candidate, ColumnSet, TrainingCancelled
from spu_core.training.feature_selection import ColumnSets
from tests.training.worlds import make_world

LINEAR = Candidate("logistic")
QUICK = TrainConfig(folds=3)


def noisy_world(rows=900, seed=0):
    """Two columns say who is positive, three say nothing."""
    rng = np.random.default_rng(seed)
    truth = rng.random(rows) < 0.3
    x = rng.normal(size=(rows, 5))
    x[:, :2] += 1.5 * truth[:, None]
    frame = pd.DataFrame(x, columns=["one", "two", "n1", "n2", "n3"])
    frame["label"] = (truth & (rng.random(rows) < 0.4)).astype(int)
    table = Table.from_frame(frame, roles={"label": "label"})
    soft = np.clip(0.1 + 0.5 * truth + 0.1 * rng.normal(size=rows), 0, 1)
    return table, SoftLabels.from_values(soft, table.is_labeled)


@pytest.mark.parametrize("direction", ["drop", "add"])
@pytest.mark.parametrize("metric", ["auc_spu", "known_positive_auc", "refined_auc_spu"])
def test_noise_is_left_out_and_what_is_needed_is_kept(direction, metric):
    found = select_features(*noisy_world(), LINEAR, QUICK, metric=metric, direction=direction, margin=0.02)

    assert {"one", "two"} <= set(found.chosen.columns)
    assert set(found.dropped) <= {"n1", "n2", "n3"}
    assert found.dropped
    assert {each.changed for each in found.single[-3:] if direction == "add"} <= {"n1", "n2", "n3"}
    assert found.sentence.startswith(f"{len(found.chosen.columns)} of 5 columns are enough: ")


def test_figures_and_differences_are_those_of_the_same_training_by_hand():
    table, soft_labels = noisy_world()
    found = select_features(table, soft_labels, LINEAR, QUICK)
    left_out = next(each for each in found.single if each.changed == "two")
    split = cross_fit(table, soft_labels, [LINEAR], QUICK)[0]
    without = cross_fit(table.with_roles({"two": "ignore"}), soft_labels, [LINEAR], QUICK)[0]

    assert left_out.columns == ("one", "n1", "n2", "n3")
    assert found.all_columns.figures["auc_spu"] == split.metrics.auc_spu
    assert left_out.figures["auc_spu"] == without.metrics.auc_spu
    assert left_out.figures["known_positive_auc"] == without.metrics.known_positive_auc
    change = left_out.differences["auc_spu"]
    pooled = compare_auc_spu(soft_labels.value, without.score, split.score)
    assert change.estimate == pytest.approx(pooled.estimate, abs=0.005)
    assert change.high < 0


def test_a_set_is_recommended_only_if_its_loss_is_shown_to_be_small():
    def of(columns, low):
        return ColumnSet(columns, {}, {"auc_spu": Difference(0.0, low, 0.01, 0.002)})

    whole = ColumnSet(("a", "b", "c"), {}, {})
    path = (of(("a", "b"), -0.004), of(("a",), -0.03))
    assert FeatureSelection("auc_spu", "drop", 0.005, whole, (), path).chosen is path[0]
    assert FeatureSelection("auc_spu", "drop", 0.05, whole, (), path).dropped == ("b", "c")
    unsure = FeatureSelection("auc_spu", "drop", 0.001, whole, (), path)
    assert unsure.chosen is whole
    assert unsure.sentence == "Keep all 3 columns: no smaller set is shown to lose less than 0.001 in AUC_SPU."


def test_a_loss_among_confirmed_positives_is_said():
    worse = {"auc_spu": Difference(0.0, -0.001, 0.001, 0.0), "known_positive_auc": Difference(-0.1, -0.2, -0.05, 0.03)}
    found = FeatureSelection(
        "auc_spu", "drop", 0.005, ColumnSet(("a", "b"), {}, {}), (), (ColumnSet(("a",), {}, worse),)
    )

    assert "But confirmed cases are ranked worse (-0.100)" in found.sentence


def test_only_columns_that_the_candidate_sees_take_part():
    world = make_world()
    seen = select_features(*world, LINEAR, QUICK).all_columns.columns
    assert "a" not in seen, "the rules read it"
    kept = select_features(*world, Candidate("labeled_vs_rest", {"learner": "logistic"}), QUICK)
    assert set(kept.all_columns.columns) == {*seen, "a"}


def test_a_selection_can_be_stored_and_read():
    found = select_features(*noisy_world(300), LINEAR, TrainConfig(folds=2))
    again = FeatureSelection.from_dict(found.to_dict())

    assert again.sentence == found.sentence
    pd.testing.assert_frame_equal(again.table("single"), found.table("single"))
    pd.testing.assert_frame_equal(again.table(), found.table())
    assert list(found.table().columns[:3]) == ["column", "columns", "names"]


def test_what_cannot_be_selected_is_refused_in_words():
    table, soft_labels = noisy_world(120)
    with pytest.raises(TrainingError, match="metric must be one of"):
        select_features(table, soft_labels, metric="auc")
    with pytest.raises(TrainingError, match="direction must be one of"):
        select_features(table, soft_labels, direction="both")
    with pytest.raises(TrainingError, match="There is no AUC_SPU on refined soft labels for 'fused'"):
        select_features(table, soft_labels, Candidate("fused", {"rounds": 2}), QUICK, metric="refined_auc_spu")
    one = table.with_roles(dict.fromkeys(["two", "n1", "n2", "n3"], "ignore"))
    with pytest.raises(TrainingError, match="sees 1 columns; features can be selected among 2 to 200"):
        select_features(one, soft_labels)


def test_progress_rises_to_the_end_and_can_cancel():
    shares = []
    select_features(
        *noisy_world(300), LINEAR, TrainConfig(folds=2), on_progress=lambda share, words: shares.append(share)
    )
    assert shares == sorted(shares)
    assert 0.9 < shares[-1] <= 1.0

    def stop(share, words):
        raise TrainingCancelled

    with pytest.raises(TrainingCancelled):
        select_features(*noisy_world(300), LINEAR, QUICK, on_progress=stop)


def test_progress_of_a_second_metric_never_passes_the_end():
    seen, sets = [], object.__new__(ColumnSets)
    sets.columns, sets._steps, sets._aucs = ("a", "b"), 3, {frozenset(name): {} for name in "cdefg"}
    sets.on_progress = lambda share, words: seen.append((share, words))
    sets._cross_fitted = lambda columns, tell: tell(SimpleNamespace(share=0.5))
    sets._fitted(["a"])

    assert seen == [(1.0, "1 of 2 columns")]
