"""Reviewing one row at a time: no row for two reviewers unless planned, undo, and nothing lost."""

from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spu_core.errors import WorkspaceError
from spu_core.workspace import Workspace
from tests.workspace.fakes import FakeTable, draft_of, writes

ROWS = (7, 3, 9, 1)


def make_audit(workspace) -> str:
    dataset = workspace.datasets.save(FakeTable())
    run = workspace.runs.save(draft_of(dataset, workspace.rule_sets.create("fraud", "{}")), writes(b"run"))
    return workspace.audits.save(run.id, "{}").id


@pytest.fixture
def audit(workspace):
    return make_audit(workspace)


def standing(workspace, audit):
    return [(item.row, item.reviewer, item.verdict) for item in workspace.audits.verdicts(audit)]


def test_two_reviewers_never_have_the_same_row_open(workspace, audit):
    reviews = workspace.reviews
    assert reviews.open_next(audit, "ann", ROWS) == 7
    assert reviews.open_next(audit, "bob", ROWS) == 3
    reviews.answer(audit, 7, "ann", "positive", "clear case")
    assert reviews.open_next(audit, "ann", ROWS) == 9

    assert standing(workspace, audit) == [(7, "ann", "positive")]
    assert workspace.audits.verdicts(audit)[0].note == "clear case"


def test_a_refreshed_page_shows_the_same_row_again(workspace, audit):
    assert [workspace.reviews.open_next(audit, "ann", ROWS) for _ in range(3)] == [7, 7, 7]


def test_rows_planned_for_double_review_are_shown_to_two_reviewers_and_to_no_third(workspace, audit):
    workspace.reviews.set(audit, twice=1, columns=["age"])
    opened = [workspace.reviews.open_next(audit, name, ROWS) for name in ("ann", "bob", "cid")]

    assert opened == [7, 7, 3]
    workspace.reviews.answer(audit, 7, "ann", "positive")
    state = workspace.reviews.state(audit, ROWS)
    assert (state.done, state.second) == (0, 1)
    workspace.reviews.answer(audit, 7, "bob", "negative")
    assert workspace.reviews.state(audit, ROWS).done == 1
    assert workspace.reviews.settings(audit).columns == ["age"]


def test_a_skipped_row_goes_to_others_and_comes_back_last(workspace, audit):
    reviews = workspace.reviews
    reviews.skip(audit, reviews.open_next(audit, "ann", ROWS), "ann")
    order = []
    while (row := reviews.open_next(audit, "ann", ROWS)) is not None:
        order.append(row)
        reviews.answer(audit, row, "ann", "unsure")
    assert order == [3, 9, 1, 7]

    second = make_audit(workspace)
    reviews.skip(second, reviews.open_next(second, "ann", ROWS), "ann")
    assert reviews.open_next(second, "bob", ROWS) == 7


def test_undo_takes_verdicts_back_one_by_one_and_opens_their_rows(workspace, audit):
    reviews = workspace.reviews
    for verdict in ("positive", "negative"):
        reviews.answer(audit, reviews.open_next(audit, "ann", ROWS), "ann", verdict)
    dataset = workspace.audits.get(audit).dataset
    before = workspace.audits.state(dataset)

    assert reviews.undo(audit, "ann") == 3
    assert workspace.audits.state(dataset) > before
    assert reviews.open_next(audit, "ann", ROWS) == 3
    assert reviews.open_next(audit, "bob", ROWS) == 9
    assert reviews.undo(audit, "ann") == 7
    assert reviews.undo(audit, "ann") is None
    assert standing(workspace, audit) == []
    assert len(workspace.audits.history(audit)) == 2


def test_the_row_of_a_reviewer_who_left_can_be_taken_over_and_their_late_answer_is_refused(workspace, audit):
    reviews = workspace.reviews
    for name in ("ann", "bob"):
        reviews.open_next(audit, name, ROWS[:2])
    reviews.answer(audit, 3, "bob", "negative")
    assert reviews.open_next(audit, "bob", ROWS[:2]) is None
    assert reviews.state(audit, ROWS[:2]).holders("bob") == ("ann",)

    reviews.take_over(audit, "ann")
    assert reviews.open_next(audit, "bob", ROWS[:2]) == 7
    with pytest.raises(WorkspaceError, match="Row 7 is no longer open for ann"):
        reviews.answer(audit, 7, "ann", "positive")
    reviews.answer(audit, 7, "bob", "negative")
    assert [row for row, _, _ in standing(workspace, audit)] == [3, 7]


def test_a_second_click_stores_nothing_twice(workspace, audit):
    row = workspace.reviews.open_next(audit, "ann", ROWS)
    workspace.reviews.answer(audit, row, "ann", "positive")
    with pytest.raises(WorkspaceError, match="answered in another window"):
        workspace.reviews.answer(audit, row, "ann", "positive")
    assert len(workspace.audits.history(audit)) == 1


def test_unknown_audits_and_verdicts_are_refused(workspace, audit):
    with pytest.raises(WorkspaceError, match="audit"):
        workspace.reviews.open_next("nobody", "ann", ROWS)
    with pytest.raises(WorkspaceError, match="audit"):
        workspace.reviews.set("nobody", twice=0, columns=())
    workspace.reviews.open_next(audit, "ann", ROWS)
    with pytest.raises(WorkspaceError, match="verdict must be one of"):
        workspace.reviews.answer(audit, 7, "ann", "guilty")


def test_reviewers_in_several_connections_share_a_list_without_meeting(workspace, audit):
    """Three connections at once: every row gets exactly its planned number of verdicts."""
    listed = tuple(range(30))
    workspace.reviews.set(audit, twice=5, columns=())

    def work(name):
        with Workspace.open(workspace.folder) as own:
            while (row := own.reviews.open_next(audit, name, listed)) is not None:
                own.reviews.answer(audit, row, name, "negative")

    threads = [Thread(target=work, args=(name,)) for name in ("ann", "bob", "cid")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    counts = [sum(item.row == row for item in workspace.audits.verdicts(audit)) for row in listed]
    assert counts == [2] * 5 + [1] * 25


@settings(max_examples=25)
@given(
    acts=st.lists(st.tuples(st.sampled_from(["ann", "bob"]), st.sampled_from(["answer", "skip", "undo"])), max_size=25)
)
def test_whatever_two_reviewers_do_open_rows_differ_and_verdicts_are_single(tmp_path_factory, acts):
    with Workspace.open(tmp_path_factory.mktemp("home")) as workspace:
        audit, reviews = make_audit(workspace), workspace.reviews
        for name, act in acts:
            row = reviews.open_next(audit, name, ROWS)
            if act == "undo":
                reviews.undo(audit, name)
            elif row is not None and act == "skip":
                reviews.skip(audit, row, name)
            elif row is not None:
                reviews.answer(audit, row, name, "positive")
            state = reviews.state(audit, ROWS)
            assert len(set(state.opened.values())) == len(state.opened)
            assert all(len(names) == 1 for names in state.reviewers.values())
            assert not set(state.opened.values()) & set(state.reviewers)
