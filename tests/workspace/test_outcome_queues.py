"""Queues, outcomes and lineage: kept whole, never changed, gone only with their dataset."""

import sqlite3

import pytest

from spu_core.errors import SpuError, WorkspaceError
from spu_core.workspace import CheckOutcome, QueueEntry, Workspace, schema
from tests.workspace.fakes import FakeTable

ENTRIES = (QueueEntry(3, "ann", "model", 0.9, 0.2, "devices = 5"), QueueEntry(7, "bob", "random", None, 0.0, ""))


@pytest.fixture
def dataset(workspace):
    return workspace.datasets.save(FakeTable())


@pytest.fixture
def queue(workspace, dataset):
    return workspace.queues.save(dataset.id, "week 1", {"budget": 2}, ENTRIES)


def test_a_queue_comes_back_as_it_was_saved(workspace, dataset, queue):
    assert workspace.queues.list(dataset.id) == (queue,)
    assert workspace.queues.entries(queue.id) == ENTRIES
    assert queue.plan == {"budget": 2}


def test_a_second_outcome_stands_and_the_first_is_still_there(workspace, dataset, queue):
    workspace.queues.record(queue.id, [CheckOutcome(3, "failed", "2026-03-01"), CheckOutcome(7, "passed")])
    workspace.queues.record(queue.id, [CheckOutcome(3, "admitted", "2026-03-02")])

    assert [(each.row, each.detail["outcome"]) for each in workspace.queues.outcomes(queue.id)] == [
        (3, "admitted"),
        (7, "passed"),
    ]
    assert [each.detail["outcome"] for each in workspace.queues.history(queue.id)] == ["failed", "passed", "admitted"]
    assert [each.is_positive for each in workspace.outcomes.list(dataset.id)] == [True, False]


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (CheckOutcome(4, "passed"), "Row 4 is not in queue 'week 1'"),
        (CheckOutcome(3, "maybe"), "outcome must be one of 'admitted', 'failed', 'passed', got 'maybe'"),
    ],
)
def test_one_bad_outcome_keeps_all_of_them_out(workspace, queue, outcome, message):
    with pytest.raises(SpuError, match=message):
        workspace.queues.record(queue.id, [CheckOutcome(7, "passed"), outcome])

    assert workspace.queues.history(queue.id) == ()


@pytest.mark.parametrize("table", ["outcomes", "queues", "queue_entries", "feedbacks"])
def test_nothing_recorded_can_be_changed_even_by_hand(workspace, dataset, queue, table):
    workspace.queues.record(queue.id, [CheckOutcome(7, "passed")])
    workspace.feedbacks.save(dataset.id, "next", {})

    with (
        sqlite3.connect(workspace.catalogue.path) as rows,
        pytest.raises(sqlite3.IntegrityError, match="never changed"),
    ):
        rows.execute(f"UPDATE {table} SET rowid = rowid + 100")


def test_lineage_leads_from_a_dataset_to_all_it_was_made_from(workspace):
    workspace.feedbacks.save("first", "second", {"queues": ["q"]})
    workspace.feedbacks.save("second", "third", {})

    assert workspace.feedbacks.family("third") == ("third", "second", "first")
    assert workspace.feedbacks.made_of("second").detail == {"queues": ["q"]}
    assert workspace.feedbacks.made_of("first") is None


def test_deleting_a_dataset_says_that_its_queues_go_and_its_lineage_stays(workspace, dataset, queue):
    workspace.queues.record(queue.id, [CheckOutcome(7, "passed")])
    workspace.feedbacks.save(dataset.id, "next", {})

    plan = workspace.plan_deletion("dataset", dataset.id)
    assert dict(plan.takes) == {"check outcome": 1, "review queue": 1}
    workspace.delete(plan)
    assert workspace.queues.list(dataset.id) == ()
    assert len(workspace.feedbacks.list()) == 1


def test_what_is_not_there_is_said(workspace):
    with pytest.raises(WorkspaceError, match="no queue 'nobody'"):
        workspace.queues.record("nobody", [])
    with pytest.raises(WorkspaceError, match="no dataset 'nobody'"):
        workspace.queues.save("nobody", "week 1", {}, ())


def test_a_workspace_from_before_queues_is_brought_up_to_date(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:2])
        with Workspace.open(tmp_path) as old:
            old.jobs.add("token", "self_test", "kept", {}, {})

    with Workspace.open(tmp_path) as new:
        assert [job.title for job in new.jobs.list()] == ["kept"]
        assert new.queues.list("any") == ()
