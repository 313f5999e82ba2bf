"""Which runs are shown side by side."""

from __future__ import annotations

from datetime import UTC, datetime

from spu_core.engines.stored_runs import comparable_runs, models_of_same_rules
from spu_core.workspace import RunRecord


def record(token: str, name: str, *, version: int = 1, method: str = "logistic", **config) -> RunRecord:
    return RunRecord(
        id=token,
        name=name,
        dataset="d",
        dataset_fingerprint="f",
        rule_set="r",
        rule_set_version=version,
        candidate_id=None,
        candidate={"method": method},
        job=None,
        file="x",
        scores=None,
        size=1,
        config={"folds": 5, "seed": 0, **config},
        versions={},
        summary={},
        made=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_runs_of_the_same_rules_and_folds_are_compared_and_the_newest_of_each_name_counts():
    records = [
        record("5", "a"),
        record("4", "b"),
        record("3", "a"),
        record("2", "c", seed=1),
        record("1", "d", version=2),
        record("0", "e"),
    ]

    assert comparable_runs(records, 12) == ["5", "4", "0"]
    assert comparable_runs(records, 2) == ["5", "4"]
    assert comparable_runs(records[3:], 12) == ["2"]
    assert comparable_runs([], 12) == []


def test_models_of_the_same_rules_leave_out_what_nobody_may_choose():
    records = [
        record("4", "rules", method="rule_score"),
        record("3", "a"),
        record("2", "oracle", method="oracle"),
        record("1", "b", version=2),
        record("0", "c", seed=7),
    ]

    assert [each.id for each in models_of_same_rules(records, records[4], 8)] == ["0", "3"]
    assert [each.id for each in models_of_same_rules(records, records[0], 1)] == ["4"]
