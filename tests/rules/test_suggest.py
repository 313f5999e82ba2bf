"""Columns ranked by separation, and suggested rules: real concentrations are found, chance is not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from spu_core.rules import Rule, RuleSet
from spu_core.rules.draft import automatic_name
from spu_core.rules.suggest import FROM_LABELS, _auc, is_from_labels, rank_columns, suggest_rules
from spu_core.tables import Table

COLUMNS = ("amount", "city", "noise", "day")


def claims(rows: int = 4000, seed: int = 0, signal: bool = True) -> Table:
    """Claims above 80 in Bern are confirmed often; nothing else matters."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "amount": rng.uniform(0, 100, rows).round(2),
            "city": rng.choice(["Bern", "Basel", "Chur"], rows),
            "noise": rng.normal(size=rows),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, rows), "D"),
        }
    )
    often = (frame.amount > 80) & (frame.city == "Bern")
    chance = np.where(often, 0.3, 0.01) if signal else 0.03
    return Table.from_frame(frame.assign(label=(rng.random(rows) < chance).astype(int)), roles={"label": "label"})


def test_columns_that_separate_come_first_with_an_interval_and_noise_lies_around_one_half():
    ranked = {each.column: each for each in rank_columns(claims(), COLUMNS)}

    assert set(list(ranked)[:2]) == {"amount", "city"}
    assert ranked["amount"].low > 0.6
    assert max(ranked["noise"].auc, ranked["day"].auc) < ranked["city"].low
    bins = ranked["city"]
    assert dict(zip(bins.names, bins.rows, strict=True)) == claims().frame["city"].value_counts().to_dict()


def test_one_click_on_a_column_drafts_the_range_where_confirmed_cases_are():
    amount = next(each for each in rank_columns(claims(), COLUMNS) if each.column == "amount")

    [condition] = amount.draft.conditions
    low, high = condition.value
    assert 70 < low < 85
    assert high is None
    assert amount.draft.note == FROM_LABELS


def test_the_pair_of_columns_that_belongs_together_is_suggested_first():
    first = suggest_rules(claims(), COLUMNS)[0]

    assert {each.column for each in first.draft.conditions} == {"amount", "city"}
    amount, city = first.draft.conditions
    assert (amount.value, city.value) == ((75.0, None), ("Bern",))
    # A fifth of the rows from 75 on lie below 80; 1 in 15 rows is a claim above 80 in Bern.
    expected = (0.8 * 0.3 + 0.2 * 0.01) / (0.3 / 15 + 0.01 * 14 / 15)
    assert first.low < expected < first.high
    assert first.p_value < 1e-6


def test_where_labels_are_random_hardly_anything_is_suggested(replicates):
    tables = replicates(40, 400)
    wrong = sum(bool(suggest_rules(claims(1500, seed, signal=False), COLUMNS)) for seed in range(tables))

    # At most 5 % of the tables; four standard errors of the simulation are allowed.
    assert wrong <= tables * 0.05 + 4 * np.sqrt(tables * 0.05 * 0.95)


def test_intervals_of_columns_without_information_cover_one_half(replicates):
    tables = replicates(40, 400)
    covered = total = 0
    for seed in range(tables):
        for each in rank_columns(claims(1500, seed, signal=False), COLUMNS):
            covered, total = covered + (each.low <= 0.5 <= each.high), total + 1

    assert covered / total > 0.95 - 4 * np.sqrt(0.95 * 0.05 / total)


def test_rows_of_a_group_count_once():
    # Ten copies of each of 40 rows: by rows, chance looks like proof.
    rng = np.random.default_rng(3)
    few = pd.DataFrame({"x": rng.normal(size=40), "label": (rng.random(40) < 0.3).astype(int), "user_id": range(40)})
    table = Table.from_frame(pd.concat([few] * 10), roles={"label": "label", "user_id": "group"})

    assert suggest_rules(table, ["x"]) == ()


def test_with_too_few_confirmed_cases_nothing_is_said():
    table = Table.from_frame(pd.DataFrame({"x": range(100), "label": [1] * 6 + [0] * 94}), roles={"label": "label"})

    assert rank_columns(table, ["x"]) == suggest_rules(table, ["x"]) == ()


def test_the_area_from_counts_is_that_of_the_rows():
    rng = np.random.default_rng(0)
    score, confirmed = rng.integers(0, 5, 300), rng.random(300) < 0.3
    pairs = score[confirmed][:, None] - score[~confirmed][None, :]
    expected = float(((pairs > 0) + 0.5 * (pairs == 0)).mean())

    counts = [np.bincount(score[side], minlength=5) for side in (confirmed, ~confirmed)]
    assert _auc(np.arange(5.0), *counts)[0] == pytest.approx(expected)


def test_rules_made_from_labels_are_known_by_their_note_while_they_are_on():
    rule = suggest_rules(claims(), COLUMNS)[0].draft.rule()

    assert is_from_labels(RuleSet((rule,)))
    assert not is_from_labels(RuleSet((rule.switched(False), Rule("own", 0.5))))
    assert automatic_name(suggest_rules(claims(), COLUMNS)[0].draft) == rule.name
