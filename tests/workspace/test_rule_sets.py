"""Versions of rule sets: all kept, undo and redo, and a stale edit told so."""

import pytest

from spu_core.errors import WorkspaceError
from spu_core.workspace import StaleEditError


def test_every_saved_version_is_kept(workspace):
    version = workspace.rule_sets.create("fraud", "one", note="first try")
    for text in ("two", "three"):
        version = workspace.rule_sets.save(version, text)

    assert [saved.text for saved in workspace.rule_sets.history(version.id)] == ["one", "two", "three"]
    assert [saved.is_current for saved in workspace.rule_sets.history(version.id)] == [False, False, True]
    assert workspace.rule_sets.get(version.id, 1).note == "first try"


def test_undo_and_redo_walk_between_versions_and_remove_none(workspace):
    first = workspace.rule_sets.create("fraud", "one")
    second = workspace.rule_sets.save(first, "two")

    undone = workspace.rule_sets.undo(second)
    assert undone.text == "one"
    assert workspace.rule_sets.redo(undone).text == "two"

    branch = workspace.rule_sets.save(workspace.rule_sets.undo(second), "other two")
    assert (branch.number, branch.parent) == (3, 1)
    assert workspace.rule_sets.undo(branch).text == "one"
    assert len(workspace.rule_sets.history(first.id)) == 3


def test_redo_goes_to_the_latest_of_several_edits_of_one_version(workspace):
    version = workspace.rule_sets.create("fraud", "one")
    for text in ("first edit", "second edit", "third edit"):
        edited = workspace.rule_sets.save(version, text)
        version = workspace.rule_sets.undo(edited)

    assert workspace.rule_sets.redo(version).text == "third edit"


def test_there_is_nothing_before_the_first_and_after_the_last(workspace):
    first = workspace.rule_sets.create("fraud", "one")

    with pytest.raises(WorkspaceError, match="Version 1 of rule set 'fraud' is its first; nothing to undo"):
        workspace.rule_sets.undo(first)
    with pytest.raises(WorkspaceError, match="nothing to redo"):
        workspace.rule_sets.redo(first)


def test_an_edit_of_an_old_version_is_told_so_and_overwrites_nothing(workspace):
    opened_in_both_tabs = workspace.rule_sets.create("fraud", "one")
    workspace.rule_sets.save(opened_in_both_tabs, "from the first tab")

    with pytest.raises(StaleEditError, match=r"you edited version 1, version 2 is the saved one\. Nothing was over"):
        workspace.rule_sets.save(opened_in_both_tabs, "from the second tab")
    assert workspace.rule_sets.get(opened_in_both_tabs.id).text == "from the first tab"


def test_a_stale_undo_is_told_so(workspace):
    first = workspace.rule_sets.create("fraud", "one")
    second = workspace.rule_sets.save(first, "two")
    workspace.rule_sets.save(second, "three")

    with pytest.raises(StaleEditError, match="version 3 is the saved one"):
        workspace.rule_sets.undo(second)


def test_a_rule_set_that_was_deleted_meanwhile_is_told_so(workspace):
    version = workspace.rule_sets.create("fraud", "one")
    workspace.delete(workspace.plan_deletion("rule set", version.id))

    with pytest.raises(WorkspaceError, match="This workspace has no rule set 'fraud'"):
        workspace.rule_sets.save(version, "two")


def test_a_changed_text_is_not_taken_for_the_saved_one(workspace):
    version = workspace.rule_sets.create("fraud", "one")
    with workspace.catalogue.transaction() as rows:
        rows.execute("UPDATE rule_set_versions SET text = 'two'")

    with pytest.raises(WorkspaceError, match="The stored rule set 'fraud' is damaged: the text of version 1"):
        workspace.rule_sets.get(version.id)


def test_half_a_character_is_refused_in_words(workspace):
    with pytest.raises(WorkspaceError, match="The text contains an incomplete character"):
        workspace.rule_sets.create("fraud", "\ud800")


def test_a_dataset_opens_its_own_rules_and_those_of_its_runs_but_never_those_of_another(workspace):
    rule_sets = workspace.rule_sets
    rule_sets.create("of nobody", "{}")
    rule_sets.create("of another", "{}", dataset="b" * 24)
    assert rule_sets.newest_of("a" * 24) is None

    first = rule_sets.create("mine", "{}", dataset="a" * 24)
    assert rule_sets.newest_of("a" * 24) == first
    copy = rule_sets.copy(first, "theirs", "b" * 24)
    assert (copy.text, copy.dataset, copy.note) == (first.text, "b" * 24, "copied from mine, version 1")
    assert rule_sets.newest_of("b" * 24) == copy
