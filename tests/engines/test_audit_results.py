"""Stored audits: found again by run and rules, verdicts kept once, and a list that remembers what was said."""

import numpy as np
import pandas as pd
import pytest

from spu_core.engines.audit_results import keep_verdicts, save_audit
from spu_core.trust import AuditPlan, Population, plan_audit, read_verdicts
from spu_core.workspace import Workspace
from tests.workspace.fakes import FakeTable, draft_of, writes


@pytest.fixture
def stored(tmp_path):
    with Workspace.open(tmp_path / "home") as workspace:
        rules = workspace.rule_sets.create("fraud", "{}")
        run = workspace.runs.save(draft_of(workspace.datasets.save(FakeTable()), rules), writes(b"run"))
        yield workspace, run, rules


def plan():
    return plan_audit(Population.of(np.linspace(0, 1, 200), np.linspace(0, 1, 200), threshold=0.9), 30, "precision")


def reading(drawn, word="yes", reviewer="ann"):
    return read_verdicts(pd.DataFrame({"row": drawn.rows[:4], "verdict": word, "reviewer": reviewer}), drawn)


def test_an_audit_is_found_by_its_run_and_the_rules_it_was_drawn_by(stored):
    workspace, run, rules = stored
    audit = save_audit(workspace, run, plan(), rules)

    assert audit.name == "30 checks for Precision"
    assert AuditPlan.from_json(audit.plan) == plan()
    assert workspace.audits.list(run.id) == (audit,)
    assert (audit.rule_set, audit.rule_set_version) == (rules.id, rules.number)


def test_the_same_list_twice_is_kept_once_and_a_second_thought_beside_the_first(stored):
    workspace, run, rules = stored
    audit = save_audit(workspace, run, plan(), rules)

    assert keep_verdicts(workspace, audit, reading(plan())) == 4
    assert keep_verdicts(workspace, audit, reading(plan())) == 0
    assert keep_verdicts(workspace, audit, reading(plan(), "no")) == 4
    assert keep_verdicts(workspace, audit, reading(plan(), "no", "bob")) == 4
    assert len(workspace.audits.history(audit.id)) == 12
    assert {item.verdict for item in workspace.audits.verdicts(audit.id)} == {"negative"}


def test_a_note_that_was_added_later_is_kept_too(stored):
    workspace, run, rules = stored
    audit, drawn = save_audit(workspace, run, plan(), rules), plan()
    frame = pd.DataFrame({"row": drawn.rows[:2], "verdict": "yes", "reviewer": "ann"})
    keep_verdicts(workspace, audit, read_verdicts(frame, drawn))

    assert keep_verdicts(workspace, audit, read_verdicts(frame.assign(note=["twin account", ""]), drawn)) == 1
    assert {item.note for item in workspace.audits.verdicts(audit.id)} == {"twin account", ""}


def test_a_list_without_notes_erases_none(stored):
    workspace, run, rules = stored
    audit, drawn = save_audit(workspace, run, plan(), rules), plan()
    frame = pd.DataFrame({"row": drawn.rows[:2], "verdict": "yes", "reviewer": "ann", "note": ["twin account", ""]})
    keep_verdicts(workspace, audit, read_verdicts(frame, drawn))

    assert keep_verdicts(workspace, audit, read_verdicts(frame.drop(columns="note"), drawn)) == 0
    assert {item.note for item in workspace.audits.verdicts(audit.id)} == {"twin account", ""}
    assert keep_verdicts(workspace, audit, read_verdicts(frame.assign(verdict="no", note=""), drawn)) == 2
