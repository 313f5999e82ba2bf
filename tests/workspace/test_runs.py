"""Runs with their lineage, and what people add to them."""

import hashlib
from datetime import UTC, datetime

import pytest

from spu_core.errors import WorkspaceError
from spu_core.versions import library_versions
from spu_core.workspace import Outcome, RunDraft, StaleEditError, Threshold, Workspace
from spu_core.workspace.workspace import progress_of
from tests.workspace.fakes import FakeTable, draft_of, writes


@pytest.fixture
def dataset(workspace):
    return workspace.datasets.save(FakeTable(name="claims.csv"))


@pytest.fixture
def run(workspace, dataset):
    return workspace.runs.save(draft_of(dataset, name="champion"), writes(b"run"))


def test_a_run_says_where_it_comes_from(workspace, dataset):
    rules = workspace.rule_sets.create("fraud", "the rules then")
    run = workspace.runs.save(draft_of(dataset, rules), writes(b"run"))
    workspace.rule_sets.save(rules, "the rules now")

    lineage = workspace.lineage(run.id)

    assert workspace.rule_sets.get(run.rule_set, run.rule_set_version).text == "the rules then"
    assert lineage.dataset.fingerprint == run.dataset_fingerprint
    assert str(lineage) == (
        f"run on 'claims.csv' ({dataset.fingerprint[:12]}), rule set 'fraud' version 1, spu-studio 0.1.0"
    )


def test_the_engine_versions_name_this_program_and_its_libraries():
    versions = library_versions()

    assert {"spu-studio", "python", "numpy", "pandas", "scikit-learn"} <= set(versions)


def test_a_run_on_a_deleted_dataset_or_rule_set_is_refused(workspace, dataset):
    with pytest.raises(WorkspaceError, match="has no dataset 'gone'"):
        workspace.runs.save(RunDraft(name="x", dataset="gone", candidate={}), writes(b"run"))
    lost = RunDraft(name="x", dataset=dataset.id, candidate={}, rule_set="gone", rule_set_version=1)
    with pytest.raises(WorkspaceError, match="has no rule set 'gone'"):
        workspace.runs.save(lost, writes(b"run"))
    with pytest.raises(WorkspaceError, match="together with its version, or neither"):
        RunDraft(name="x", dataset=dataset.id, candidate={}, rule_set="some")
    assert list(workspace.files.folder.glob("*.zip")) == []


def test_a_run_survives_the_loss_of_its_job(workspace, dataset):
    draft = RunDraft(name="x", dataset=dataset.id, candidate={"rounds": 10}, job="no")

    assert workspace.runs.save(draft, writes(b"run")).job is None


def test_a_metric_that_is_not_a_number_does_not_cost_the_run(workspace, dataset):
    draft = RunDraft(name="x", dataset=dataset.id, candidate={}, summary={"auc": float("nan"), "n": 3})

    assert workspace.runs.save(draft, writes(b"run")).summary == {"auc": None, "n": 3}


def test_a_summary_of_strange_things_is_refused_by_name(workspace, dataset):
    draft = RunDraft(name="x", dataset=dataset.id, candidate={}, summary={"models": [object()]})

    with pytest.raises(WorkspaceError, match=r"summary.models\[0\] must be made of text, numbers"):
        workspace.runs.save(draft, writes(b"run"))


def test_lists_are_in_the_order_of_saving_even_when_the_clock_jumps_back(tmp_path):
    hours = iter(range(20, 0, -1))
    with Workspace.open(tmp_path, clock=lambda: datetime(2026, 1, 1, next(hours), tzinfo=UTC)) as workspace:
        for name in ("first", "second", "third"):
            workspace.rule_sets.create(name, "{}")

        assert [rules.name for rules in workspace.rule_sets.list()] == ["third", "second", "first"]


def test_operating_points_and_exports_belong_to_a_run(workspace, run):
    workspace.thresholds.save(run.id, Threshold("one percent", 0.9, 0.01))
    workspace.thresholds.save(run.id, Threshold("five percent", 0.7, 0.05), {"expected": 120})
    export = workspace.exports.save(run.id, "model", "onnx", writes(b"model"))

    assert [point.flagged_share for point in workspace.thresholds.list(run.id)] == [0.05, 0.01]
    assert workspace.exports.path(export.id).read_bytes() == b"model"
    assert workspace.exports.list(run.id) == (export,)
    with pytest.raises(WorkspaceError, match="has no run 'gone'"):
        workspace.thresholds.save("gone", Threshold("x", 0.5, 0.5))
    with pytest.raises(WorkspaceError, match="has no run 'gone'"):
        workspace.exports.save("gone", "model", "onnx", writes(b"model"))
    with pytest.raises(WorkspaceError, match=r"flagged_share must lie in \[0, 1\], got 1.5"):
        Threshold("x", 0.5, 1.5)


def test_the_champion_is_the_run_chosen_last_and_goes_with_it(workspace, dataset, run):
    other = workspace.runs.save(draft_of(dataset, name="other"), writes(b"other run"))
    assert workspace.thresholds.champion(dataset.id) is None

    first = workspace.thresholds.save_champion(run.id, Threshold("two percent", 0.8, 0.02))
    chosen = workspace.thresholds.save_champion(other.id, Threshold("one percent", 0.9, 0.01), {"by": "budget"})
    workspace.thresholds.save(run.id, Threshold("five percent", 0.7, 0.05))

    assert workspace.thresholds.champion(dataset.id) == chosen
    assert chosen.detail == {"by": "budget", "before": first.id, "is_champion": True}
    assert workspace.thresholds.champion("other dataset") is None
    workspace.delete(workspace.plan_deletion("run", other.id))
    assert workspace.thresholds.champion(dataset.id).run == run.id


def test_a_chosen_model_has_a_history_and_can_be_undone_down_to_nothing(workspace, dataset, run):
    other = workspace.runs.save(draft_of(dataset, name="other"), writes(b"other run"))
    thresholds = workspace.thresholds
    first = thresholds.save_champion(run.id, Threshold("two percent", 0.8, 0.02), {"by": "ann"})
    moved = thresholds.save_champion(run.id, Threshold("five percent", 0.7, 0.05), {"by": "bob"})
    thresholds.undo(moved, "ann")
    thresholds.undo(moved, "ann")  # a double click undoes one choice

    assert thresholds.champion(dataset.id) == first
    assert [point.id for point in thresholds.list(run.id)] == [first.id]
    chosen = thresholds.save_champion(other.id, Threshold("one percent", 0.9, 0.01), {"by": "bob"})
    shown = [
        (change.new.id, None if change.old is None else change.old.id, change.by, change.undone is not None)
        for change in thresholds.history(dataset.id)
    ]
    assert shown == [
        (chosen.id, first.id, "bob", False),
        (moved.id, first.id, "bob", True),
        (first.id, None, "ann", False),
    ]
    thresholds.undo(chosen, "ann")
    thresholds.undo(first, "ann")
    assert thresholds.champion(dataset.id) is None
    assert progress_of(workspace, dataset.id).champion is None
    assert thresholds.history("other dataset") == ()


def test_a_run_knows_the_hash_of_its_file(workspace, run):
    assert workspace.runs.sha256(run.id) == hashlib.sha256(b"run").hexdigest()


def test_the_last_outcome_of_a_row_stands_and_history_is_kept(workspace, dataset):
    workspace.outcomes.add(dataset.id, [Outcome(3, True, {"chosen": "at random"}), Outcome(5, False)])
    workspace.outcomes.add(dataset.id, [Outcome(3, False)])

    assert [(item.row, item.is_positive) for item in workspace.outcomes.list(dataset.id)] == [
        (3, False),
        (5, False),
    ]
    assert [item.row for item in workspace.outcomes.history(dataset.id)] == [3, 5, 3]


def test_an_outcome_outside_the_table_refuses_the_whole_batch(workspace, dataset):
    with pytest.raises(WorkspaceError, match="Row 10 was checked, but the dataset has rows 0 to 9"):
        workspace.outcomes.add(dataset.id, [Outcome(3, True), Outcome(10, True)])
    assert workspace.outcomes.list(dataset.id) == ()


def test_roles_tell_a_stale_edit(workspace, dataset):
    newer = workspace.datasets.save_roles(FakeTable(roles={"age": "ignore"}), dataset)
    assert newer.roles == {"age": "ignore"}
    with pytest.raises(StaleEditError, match=r"The dataset 'claims\.csv' was changed elsewhere: you edited version 1"):
        workspace.datasets.save_roles(FakeTable(), dataset)


def test_names_can_be_changed(workspace, dataset, run):
    assert workspace.datasets.rename(dataset.id, "claims 2026").name == "claims 2026"
    assert workspace.runs.rename(run.id, "old champion").name == "old champion"
    assert [item.id for item in workspace.runs.list(dataset.id)] == [run.id]
    assert workspace.runs.list("other") == ()


def test_the_plan_says_what_goes_along_and_the_deed_is_the_plan(workspace, dataset, run):
    workspace.thresholds.save(run.id, Threshold("one percent", 0.9, 0.01))
    workspace.exports.save(run.id, "model", "onnx", writes(b"model"))
    workspace.outcomes.add(dataset.id, [Outcome(1, True), Outcome(2, True)])

    plan = workspace.plan_deletion("dataset", dataset.id)

    assert str(plan) == (
        "Deletes dataset 'claims.csv' with 1 run, 1 threshold, 1 export, 2 check outcomes; frees 12 bytes."
    )
    assert workspace.runs.list() == (run,)  # a plan changes nothing
    before = workspace.size
    workspace.delete(plan)
    assert before - workspace.size == plan.freed
    assert list(workspace.files.folder.iterdir()) == []


def test_a_plan_that_has_become_untrue_is_not_carried_out(workspace, dataset, run):
    plan = workspace.plan_deletion("dataset", dataset.id)
    workspace.runs.save(draft_of(dataset), writes(b"later run"))

    with pytest.raises(StaleEditError, match=r"has changed since you looked, so nothing was deleted\. Now it would be"):
        workspace.delete(plan)
    assert len(workspace.runs.list()) == 2


def test_only_known_kinds_can_be_deleted(workspace):
    with pytest.raises(WorkspaceError, match="kind must be one of 'dataset', 'rule set'"):
        workspace.plan_deletion("files; DROP TABLE files", "x")
