"""Audits and verdicts: kept with their lineage, never overwritten, gone only with their run."""

import sqlite3

import pytest

from spu_core.errors import SpuError, WorkspaceError
from spu_core.workspace import Workspace, schema
from tests.workspace.fakes import FakeTable, draft_of, writes


@pytest.fixture
def run(workspace):
    dataset = workspace.datasets.save(FakeTable())
    rules = workspace.rule_sets.create("fraud", "{}")
    return workspace.runs.save(draft_of(dataset, rules), writes(b"run"))


def test_an_audit_knows_the_run_the_data_and_the_rules_it_was_drawn_by(workspace, run):
    audit = workspace.audits.save(run.id, '{"n": 3}', name="spring", rules=(run.rule_set, 1))

    assert (audit.run, audit.dataset, audit.rule_set, audit.rule_set_version) == (run.id, run.dataset, run.rule_set, 1)
    assert workspace.audits.list(run.id) == (audit,)
    assert audit.plan == '{"n": 3}'


def test_both_reviewers_are_kept_and_a_second_thought_stands_beside_the_first(workspace, run):
    audit = workspace.audits.save(run.id, "{}")
    workspace.audits.add_verdicts(audit.id, [(4, "ann", "positive", ""), (4, "bob", "negative", "looks fine")])
    workspace.audits.add_verdicts(audit.id, [(4, "ann", "unsure", "second look")])

    standing = [(item.row, item.reviewer, item.verdict) for item in workspace.audits.verdicts(audit.id)]
    assert standing == [(4, "ann", "unsure"), (4, "bob", "negative")]
    assert [item.verdict for item in workspace.audits.history(audit.id)] == ["positive", "negative", "unsure"]


def test_one_bad_verdict_keeps_all_of_them_out(workspace, run):
    audit = workspace.audits.save(run.id, "{}")

    with pytest.raises(SpuError, match="verdict must be one of 'positive', 'negative', 'unsure', got 'maybe'"):
        workspace.audits.add_verdicts(audit.id, [(1, "ann", "positive", ""), (2, "ann", "maybe", "")])

    assert workspace.audits.history(audit.id) == ()


@pytest.mark.parametrize("act", ["save", "get", "add"])
def test_what_is_not_there_is_said(workspace, act):
    actions = {
        "save": lambda: workspace.audits.save("nobody", "{}"),
        "get": lambda: workspace.audits.get("nobody"),
        "add": lambda: workspace.audits.add_verdicts("nobody", []),
    }
    with pytest.raises(WorkspaceError, match=r"This workspace has no (run|audit) 'nobody'"):
        actions[act]()


def test_a_plan_that_is_no_json_is_refused(workspace, run):
    with pytest.raises(WorkspaceError, match="must be JSON text"):
        workspace.audits.save(run.id, "{")


def test_verdicts_stay_with_the_dataset_when_the_run_is_deleted(workspace, run):
    audit = workspace.audits.save(run.id, "{}")
    workspace.audits.add_verdicts(audit.id, [(1, "ann", "positive", "")])

    plan = workspace.plan_deletion("run", run.id)
    assert dict(plan.takes) == {}
    workspace.delete(plan)
    [kept] = workspace.audits.of_dataset(run.dataset)
    assert (kept.id, kept.run, len(workspace.audits.verdicts(kept.id))) == (audit.id, None, 1)


def test_deleting_a_dataset_says_that_its_audits_go_too(workspace, run):
    audit = workspace.audits.save(run.id, "{}")
    workspace.audits.add_verdicts(audit.id, [(1, "ann", "positive", "")])

    plan = workspace.plan_deletion("dataset", run.dataset)
    assert dict(plan.takes) == {"run": 1, "audit": 1, "verdict": 1}
    workspace.delete(plan)
    assert workspace.audits.of_dataset(run.dataset) == ()


def test_the_state_of_a_dataset_changes_with_every_verdict(workspace, run):
    audit = workspace.audits.save(run.id, "{}")
    before = workspace.audits.state(run.dataset)
    workspace.audits.add_verdicts(audit.id, [(1, "ann", "positive", "")])

    assert before == 0
    assert workspace.audits.state(run.dataset) > before


def test_audits_of_a_run_become_audits_of_its_dataset(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:5])
        with Workspace.open(tmp_path) as old:
            run = old.runs.save(draft_of(old.datasets.save(FakeTable())), writes(b"run"))
            audit = old.audits.save(run.id, "{}", name="first")
            old.audits.add_verdicts(audit.id, [(1, "ann", "positive", "sure"), (2, "bob", "negative", "")])
            history = old.audits.history(audit.id)

    with Workspace.open(tmp_path) as new:
        assert new.audits.of_dataset(run.dataset) == (audit,)
        assert new.audits.history(audit.id) == history


def test_a_workspace_from_before_audits_is_brought_up_to_date(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
        with Workspace.open(tmp_path) as old, old.catalogue.transaction() as rows:
            rows.execute(
                "INSERT INTO rule_sets (id, name, current, made) VALUES ('r', 'kept', 1, '2026-01-01T00:00:00')"
            )
            rows.execute(
                "INSERT INTO rule_set_versions (rule_set, number, text, sha256, note, made) "
                "VALUES ('r', 1, '{}', '', '', '2026-01-01T00:00:00')"
            )

    with Workspace.open(tmp_path) as new:
        assert [rules.name for rules in new.rule_sets.list()] == ["kept"]
        assert new.audits.list("any") == ()
    with sqlite3.connect(tmp_path / "catalogue.sqlite") as rows:
        assert rows.execute("PRAGMA user_version").fetchone()[0] == schema.known_version()
