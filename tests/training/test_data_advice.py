"""Advice before a training, for each combination of labels, rules and truth."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from spu_core.labels import SoftLabels
from spu_core.tables import Role, Table
from spu_core.training.data_advice import advise

POSITIVES_UNKNOWN = "How many of the other rows are positive."
RULES_UNKNOWN = "Whether the rules are right."
NOT_BY_CHANCE = "Whether other cases look like the confirmed ones, which were not found by chance."


def table_of(labels: int, *, truth: bool = False) -> Table:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.permutation(100), "label": (np.arange(100) < labels).astype(int)})
    roles = {"label": Role.LABEL} if labels else {"label": Role.IGNORE}
    if truth:
        frame["real"] = (np.arange(100) < 40).astype(int)
        roles["real"] = Role.TRUTH
    return Table.from_frame(frame, roles=roles)


def soft_labels_of(table: Table) -> SoftLabels:
    """Rules that fire on every second row, confirmed or not."""
    rule_score = np.where(np.arange(100) % 2 == 0, 0.5, 0.0)
    labels = np.asarray(table.is_labeled, dtype=bool)
    return SoftLabels(np.where(labels, 1.0, rule_score), rule_score, labels)


@pytest.mark.parametrize(
    ("labels", "rules", "method", "words"),
    [
        (10, True, "fused", "confirmed cases and rules"),
        (10, False, "fused", "Without rules it learns from confirmed cases only"),
        (0, True, "lightgbm", "there are no confirmed cases"),
        (0, False, None, "Nothing can be trained yet"),
    ],
)
def test_the_method_to_begin_with_follows_from_labels_and_rules(labels, rules, method, words):
    table = table_of(labels)
    found = advise(table, soft_labels_of(table) if rules else None)

    assert found.method == method
    assert words in found.reasons[0]


@pytest.mark.parametrize(
    ("truth", "rules", "origin", "expected"),
    [
        (False, False, "chance", [POSITIVES_UNKNOWN]),
        (False, True, "chance", [POSITIVES_UNKNOWN, RULES_UNKNOWN]),
        (False, False, "rules", [NOT_BY_CHANCE, POSITIVES_UNKNOWN]),
        (True, True, "other", [NOT_BY_CHANCE]),
        (True, False, "chance", []),
    ],
)
def test_what_a_table_cannot_tell_follows_from_truth_rules_and_origin(truth, rules, origin, expected):
    table = table_of(10, truth=truth)
    found = advise(table, soft_labels_of(table) if rules else None, origin=origin)

    assert list(found.unknown) == expected


def test_an_unknown_origin_is_asked_for():
    first = advise(table_of(10)).unknown[0]

    assert first.startswith("How the confirmed cases were found; say it with --origin")


@pytest.mark.parametrize(
    ("labels", "truth", "origin", "words"),
    [
        (20, False, "chance", "Compare models by AUC on confirmed cases"),
        (19, False, "chance", "No figure of this table decides"),
        (20, False, "unknown", "No figure of this table decides"),
        (20, True, "unknown", "Compare models by true AUC"),
    ],
)
def test_twenty_cases_found_by_chance_are_a_yardstick_and_the_truth_always_is(labels, truth, origin, words):
    assert advise(table_of(labels, truth=truth), origin=origin).yardstick.startswith(words)
