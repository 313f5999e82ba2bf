"""The selection-bias map: an uneven look is found, an even one is left alone, few labels say nothing."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import hypergeom, norm

from spu_core.errors import AssumptionError
from spu_core.labels import assign_soft_labels
from spu_core.rules import RuleMatrix
from spu_core.tables import Table
from spu_core.trust import selection_bias


def case(seed=0, *, bias=1.0, rate=0.15, size=3000):
    """Suspected rows confirmed with a chance that grows with suspicion, and `bias` times as often in the north."""
    rng = np.random.default_rng(seed)
    suspicion = rng.choice([0.0, 0.3, 0.6, 0.9], size)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 12, size),
            "region": rng.choice(["north", "south"], size),
            "flag": rng.random(size) < 0.2,
        }
    )
    frame.loc[:50, "age"] = np.nan
    chance = rate * suspicion * np.where(frame["region"] == "north", bias, 1.0)
    labels = rng.random(size) < chance
    frame["label"] = labels.astype(int)
    table = Table.from_frame(frame, roles={"label": "label"})
    return table, assign_soft_labels(RuleMatrix.from_arrays(["rule"], suspicion[:, None]), labels)


def test_where_people_looked_more_closely_is_found():
    found = selection_bias(*case(bias=4.0))
    worst = found.biased.iloc[0]
    assert worst["column"] == "region"
    assert {"north", "south"} == set(found.biased["part"])
    north = found.cells[found.cells["part"] == "north"].iloc[0]
    assert north["ratio"] == pytest.approx(1.6, abs=0.2)  # four of five confirmed among half of the rows
    assert found.sentence.startswith("2 parts of columns have more or fewer")
    assert " expected (" in found.sentence


def test_an_even_look_is_left_alone_in_most_worlds():
    """Holm keeps the chance of any false finding in a world near .05; 5 or more of 20 has a chance of .0026."""
    assert sum(not selection_bias(*case(seed)).biased.empty for seed in range(20)) <= 4


def test_expected_numbers_add_up_to_those_found():
    cells = selection_bias(*case()).cells
    for _, part in cells.groupby("column"):
        assert part["expected"].sum() == pytest.approx(part["found"].sum(), rel=1e-9)


def test_few_labels_say_nothing():
    found = selection_bias(*case(rate=0.001, bias=1.0))
    assert "too few to find a selection bias" in found.sentence


def test_missing_values_are_a_part_of_their_own():
    assert "missing" in set(selection_bias(*case(rate=0.9)).cells["part"])


def test_without_labels_or_rules_there_is_nothing_to_compare():
    table, labels = case()
    none = assign_soft_labels(labels.matrix, np.zeros(len(table), bool))
    with pytest.raises(AssumptionError, match="No row is a confirmed case"):
        selection_bias(table, none)
    silent = assign_soft_labels(RuleMatrix.from_arrays(["r"], np.zeros((len(table), 1))), labels.is_labeled)
    with pytest.raises(AssumptionError, match="No rule fires on any row"):
        selection_bias(table, silent)


def test_one_set_of_equal_rule_scores_has_the_spread_of_drawing_without_replacement():
    north, labels = np.arange(200) < 80, np.zeros(200, dtype=bool)
    labels[:20] = labels[-10:] = True
    frame = pd.DataFrame({"region": np.where(north, "north", "south"), "label": labels.astype(int)})
    soft_labels = assign_soft_labels(RuleMatrix.from_arrays(["rule"], np.full((200, 1), 0.5)), labels)
    cells = selection_bias(Table.from_frame(frame, roles={"label": "label"}), soft_labels).cells.set_index("part")

    drawn = hypergeom(200, 30, 80)
    cell, reach = cells.loc["north"], norm.ppf(0.975) * drawn.std()
    assert (cell["found"], cell["expected"]) == (20, pytest.approx(drawn.mean()))
    assert (cell["low"], cell["high"]) == pytest.approx(((20 - reach) / drawn.mean(), (20 + reach) / drawn.mean()))
