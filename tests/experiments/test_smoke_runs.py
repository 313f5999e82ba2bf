"""Each experiment runs at its smallest size, on small tables where the real ones are large."""

from __future__ import annotations

import numpy as np
import pytest

from spu_core.experiments import EXPERIMENTS, ExperimentResult, ExperimentSettings, stored_result
from spu_core.experiments.runners import discussion as discussion_module
from spu_core.experiments.runners import table1 as table1_module
from spu_core.experiments.runners.discussion import uneven_labels
from spu_core.experiments.runners.model_selection import CONFIGURATIONS, rank_correlation, regret
from spu_core.experiments.runners.table3 import METHODS, judge_flagged
from spu_core.tables.simulators import AntiCheatConfig, AntiCheatWorld
from tests.experiments.tables import load_small

SMOKE = ExperimentSettings(scale="smoke")


@pytest.fixture
def small_data(monkeypatch):
    for module in (table1_module, discussion_module):
        monkeypatch.setattr(module, "load_uci", load_small)
    monkeypatch.delenv("SPU_DATA", raising=False)


def check(result: ExperimentResult) -> None:
    """What holds for every result: it survives JSON, its claims follow from its tables, and the stored one is alike."""
    stored = {table.name: (table.columns, table.note) for table in stored_result(result.name).tables}
    assert {table.name: (table.columns, table.note) for table in result.tables} == stored
    assert result.choices == stored_result(result.name).choices
    assert ExperimentResult.from_json(result.to_json()) == result
    assert EXPERIMENTS[result.name].claims({table.name: table for table in result.tables}) == result.claims
    assert result.choices
    assert result.provenance.settings["scale"] == "smoke"


def test_table_1_runs_in_both_modes(small_data):
    shares = []
    result = EXPERIMENTS["table1"].run(SMOKE, lambda share, words: shares.append(share))

    check(result)
    assert [table.name for table in result.tables] == ["paper", "readings", "honest"]
    assert len(result.table("paper").rows) == 6
    assert shares == sorted(shares)
    assert "Oracle, LightGBM" in result.table("honest").column("method")
    assert result.provenance.settings["data"]["adult"] == "small adult"


def test_table_3_plays_two_scenarios():
    result = EXPERIMENTS["table3"].run(SMOKE)

    check(result)
    assert {row["admission tilt"] for row in result.table("ratios").records()} == {0.25, 0.8}
    assert set(result.table("ratios").column("method")) == set(METHODS)


def test_selection_ranks_at_least_twenty_configurations():
    result = EXPERIMENTS["selection"].run(ExperimentSettings(scale="smoke", seeds=2))

    check(result)
    assert min(result.table("ranks").column("count")) >= 20
    assert len(result.series["Breast Cancer"]["true AUC"]) == len(CONFIGURATIONS)


def test_features_are_selected_by_each_figure_among_noise():
    result = EXPERIMENTS["features"].run(SMOKE)

    check(result)
    for row in result.table("choices").records():
        assert 1 <= row["chosen"] <= row["columns"] == 8
        assert 0 <= row["noise dropped"] <= 1
    assert set(result.table("ranks").column("figure")) == set(result.table("choices").column("chosen by"))
    assert EXPERIMENTS["features"].run(SMOKE).tables == result.tables


def test_the_discussion_maps_target_against_feature(small_data):
    result = EXPERIMENTS["discussion"].run(SMOKE)

    check(result)
    assert set(result.table("map").column("winner")) <= {"target", "feature", "undecided"}
    for row in result.table("map").records():
        cell = result.series[f"{row['rules']}, {row['labels']} labels, bias {row['bias']:g}"]
        gaps = np.subtract(cell["soft label as target"], cell["soft label as feature"])
        assert row["target − feature"] == pytest.approx(gaps.mean())


def test_flagging_the_true_cheaters_gives_their_own_chances():
    """5 % of players flagged by the truth itself are all cheaters: they pass with 10 % and admit with 4 %."""
    fresh = AntiCheatWorld(AntiCheatConfig(seed=1)).draw(20_000, seed=5)
    perfect = judge_flagged(fresh, fresh.truth.astype(float))
    blind = judge_flagged(fresh, np.random.default_rng(0).random(20_000))

    # 1,000 flagged players; 0.02 is more than four standard errors of either mean.
    assert perfect.auc == 1.0
    assert perfect.passed == pytest.approx(0.10, abs=0.02)
    assert perfect.surrender == pytest.approx(0.04, abs=0.005)
    assert blind.passed > 0.7
    assert blind.surrender < 0.006


def test_uneven_labels_prefer_the_young_and_only_positives():
    rng, age = np.random.default_rng(0), np.linspace(20, 80, 4000)
    positive = np.arange(4000) % 2 == 0
    even, uneven = (uneven_labels(positive, age, 200, bias, rng) for bias in (0.0, 2.0))

    assert even.sum() == uneven.sum() == 200
    assert not (uneven & ~positive).any()
    # Sd of age is 17.3, so the mean of 200 even draws varies by 1.2.
    assert age[even].mean() == pytest.approx(50, abs=5)
    assert age[uneven].mean() < 40


def test_rank_correlation_and_regret_by_hand():
    assert rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([9.0, 5.0, 1.0])) == pytest.approx(-1.0)
    assert rank_correlation(np.array([1.0, 1.0, 1.0]), np.array([9.0, 5.0, 1.0])) == 0.0
    assert regret(np.array([0.1, 0.9, 0.5]), np.array([0.8, 0.6, 0.9])) == pytest.approx(0.3)
