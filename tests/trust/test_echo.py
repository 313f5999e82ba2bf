"""The echo check: a model on the rule columns repeats the rules; one with knowledge of its own does not."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import TrainingError
from spu_core.labels import SoftLabels
from spu_core.tables import Table
from spu_core.training import Candidate, TrainConfig
from spu_core.trust import EchoReport, beyond_rules, echo_check
from spu_core.trust.echo import train_pair

CONFIG = TrainConfig(folds=3, threads=1)


def world(informed):
    """Rules read column a. Labels follow the rule alone, or column b as well where `informed`."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=1500), rng.normal(size=1500)
    rule = np.where(a > 1, 0.8, np.where(a > 0, 0.3, 0.05))
    chance = 0.3 * rule * (2.0 * (b > 0) if informed else 1.0)
    labels = rng.random(1500) < chance
    frame = pd.DataFrame({"a": a, "b": b, "c": rng.normal(size=1500), "label": labels.astype(int)})
    return Table.from_frame(frame, roles={"label": "label"}), SoftLabels.from_values(rule, labels, ("a",))


def test_a_model_of_the_rule_column_is_called_an_echo():
    report = echo_check(*world(informed=False), Candidate("lightgbm", {"rounds": 30}), CONFIG)

    assert report.is_echo
    assert report.reproduced.estimate > 0.9
    assert abs(report.reproduced_without.estimate) < 0.2
    assert report.lost > 0.2
    assert "it is an echo" in report.sentence
    assert report.rows == 1500
    assert EchoReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report


def test_a_model_that_knows_more_than_the_rules_is_not():
    report = echo_check(*world(informed=True), Candidate("labeled_vs_rest", {"rounds": 30}), CONFIG)

    assert not report.is_echo
    assert report.beyond.low > 0.5
    assert "It adds information to the rules" in report.sentence


def test_the_rules_themselves_add_nothing_to_the_rules():
    report = echo_check(*world(informed=False), "rule_score", CONFIG)

    assert report.reproduced.estimate == pytest.approx(1.0, abs=0.01)
    assert report.beyond.estimate == pytest.approx(0.5)


def test_without_rule_columns_there_is_nothing_to_check():
    table, soft_labels = world(informed=False)
    for columns, sentence in (((), "read no feature column"), (("a", "b", "c"), "read every feature column")):
        other = SoftLabels.from_values(soft_labels.rule_score, soft_labels.is_labeled, columns)
        with pytest.raises(TrainingError, match=sentence):
            echo_check(table, other, "lightgbm", CONFIG)


def test_beyond_equals_the_pair_count_within_levels_of_the_rules():
    run, _ = train_pair(*world(informed=True), Candidate("lightgbm", {"rounds": 10}), CONFIG)
    evaluation, wins = run.evaluation, []
    for row in np.flatnonzero(evaluation.is_labeled):
        same = (
            (evaluation.rule_score == evaluation.rule_score[row])
            & (evaluation.fold == evaluation.fold[row])
            & ~evaluation.is_labeled
        )
        others = run.score[same]
        wins.append(np.mean((run.score[row] > others) + 0.5 * (run.score[row] == others)))

    assert beyond_rules(run).estimate == pytest.approx(np.mean(wins))
