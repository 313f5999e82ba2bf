"""Stored files: one copy per content, damage named, deleted at the sweep."""

import os

import pytest

from spu_core.errors import WorkspaceError
from spu_core.workspace import collect_garbage
from spu_core.workspace.disk import locked
from tests.workspace.fakes import FakeTable, draft_of


def file_of(workspace, dataset):
    return workspace.files.folder / f"{dataset.file}.parquet"


def test_the_same_content_twice_is_one_copy(workspace):
    first = workspace.datasets.save(FakeTable(b"same", "january"))
    again = workspace.datasets.save(FakeTable(b"same", "january"))
    renamed = workspace.datasets.save(FakeTable(b"same", "copy of january"))

    assert again == first
    assert renamed.id != first.id
    assert renamed.file == first.file
    assert len(list(workspace.files.folder.iterdir())) == 1
    assert workspace.size == 4


def test_the_last_user_of_a_copy_takes_it_along(workspace):
    first = workspace.datasets.save(FakeTable(b"same", "january"))
    second = workspace.datasets.save(FakeTable(b"same", "copy"))

    workspace.delete(workspace.plan_deletion("dataset", first.id))
    assert workspace.datasets.path(second.id).read_bytes() == b"same"

    workspace.delete(workspace.plan_deletion("dataset", second.id))
    assert list(workspace.files.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda path: path.write_bytes(b"sAme"), "the bytes of its file .* have changed"),
        (lambda path: os.truncate(path, 2), "has 2 bytes instead of 4"),
        (lambda path: path.unlink(), "is missing"),
    ],
    ids=["flipped bit", "truncated", "deleted"],
)
def test_a_damaged_file_is_named_and_the_others_stay_usable(workspace, harm, words):
    bad = workspace.datasets.save(FakeTable(b"same", "the bad one"))
    good = workspace.datasets.save(FakeTable(b"good", "the good one"))
    harm(file_of(workspace, bad))

    with pytest.raises(WorkspaceError, match=f"The stored dataset 'the bad one' is damaged: .*{words}"):
        workspace.datasets.path(bad.id)
    assert workspace.datasets.path(good.id).read_bytes() == b"good"


def test_saving_a_damaged_dataset_again_heals_it(workspace):
    dataset = workspace.datasets.save(FakeTable(b"same", "january"))
    file_of(workspace, dataset).write_bytes(b"lost")

    healed = workspace.datasets.save(FakeTable(b"same", "january"))

    assert healed.id == dataset.id
    assert workspace.datasets.path(dataset.id).read_bytes() == b"same"


def test_a_writer_that_fails_leaves_nothing(workspace):
    dataset = workspace.datasets.save(FakeTable())

    def writer(path):
        path.write_bytes(b"half")
        raise RuntimeError("the model would not be written")

    with pytest.raises(RuntimeError, match="would not be written"):
        workspace.runs.save(draft_of(dataset), writer)
    assert workspace.runs.list() == ()
    assert list(workspace.files.drafts.iterdir()) == []


def test_the_sweep_waits_for_those_who_save(workspace):
    (workspace.files.drafts / "being-written").write_bytes(b"half")

    with locked(workspace.folder / "writing.lock", shared=True):
        assert workspace.files.sweep() == 0
    assert workspace.files.sweep() == 4


def test_files_that_no_row_names_are_kept_until_somebody_asks(workspace):
    (workspace.files.folder / "0123.zip").write_bytes(b"perhaps the only copy")

    assert workspace.files.sweep() == 0
    assert collect_garbage(workspace) == 21
    assert list(workspace.files.folder.iterdir()) == []
