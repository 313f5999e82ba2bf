"""Reading an upload as a job: copied at once, read here or in a worker, kept with its profile, read differently."""

from __future__ import annotations

import io
from datetime import timedelta

import numpy as np
import pytest

from spu_core.engines import cancel, run_in_process, wait_for
from spu_core.engines.jobs import Job
from spu_core.engines.jobs import read as reading_module
from spu_core.engines.jobs.read import import_file, profile_of, read_again, reading_of
from spu_core.errors import WorkspaceError
from spu_core.tables import Dialect, Table, read_table
from spu_core.tables.profiles import profile_from_json, profile_to_json
from spu_core.tables.samples import load_sample
from spu_core.workspace import JobStatus

CSV = b"id,amount,fraud\n" + b"".join(b"%d,%d,%d\n" % (row, row * 7 % 100, row % 10 == 0) for row in range(200))


def uploads(workspace) -> list[str]:
    return sorted(path.name for path in (workspace.folder / "uploads").glob("*"))


def test_a_small_file_is_read_while_one_waits(workspace):
    done = import_file(workspace, io.BytesIO(CSV), "sales.csv")

    assert done.status is JobStatus.FINISHED
    record = workspace.datasets.get(done.result["dataset"])
    assert (record.name, record.n_rows, record.n_columns) == ("sales.csv", 200, 3)
    assert workspace.datasets.load(record.id).fingerprint == read_table(CSV, name="sales.csv").fingerprint


def test_a_large_file_is_read_by_a_worker_that_tells_its_progress(workspace, monkeypatch):
    monkeypatch.setattr(reading_module, "SMALL", 100)
    begun = import_file(workspace, io.BytesIO(CSV), "sales.csv")

    assert not begun.status.is_over
    done = wait_for(workspace, begun.id, 600)
    assert done.status is JobStatus.FINISHED, done.error
    assert done.result["rows"] == 200
    assert done.message.startswith("looking at")


def test_a_reading_can_be_cancelled(workspace, monkeypatch):
    monkeypatch.setattr(reading_module, "SMALL", 100)
    begun = import_file(workspace, io.BytesIO(CSV * 1000), "sales.csv")

    cancel(workspace, begun.id)
    assert wait_for(workspace, begun.id, 600).status is JobStatus.CANCELLED
    assert workspace.datasets.list() == ()


def test_a_file_that_is_no_table_leaves_its_sentence(workspace):
    failed = import_file(workspace, io.BytesIO(b"<!DOCTYPE html><html></html>"), "login.csv")

    assert failed.status is JobStatus.FAILED
    assert "HTML" in failed.error


def test_the_same_upload_is_read_differently(workspace):
    first = import_file(workspace, io.BytesIO(b"a;b\n1,5;2\n2,5;3\n"), "odd.csv")
    second = read_again(workspace, first, Dialect(separator=","))

    tables = [workspace.datasets.load(job.result["dataset"]) for job in (first, second)]
    assert [list(table.frame.columns) for table in tables] == [["a", "b"], ["column_1", "column_2"]]
    assert reading_of(workspace, second.result["dataset"]).id == second.id
    assert len(uploads(workspace)) == 1


def test_an_upload_goes_with_its_dataset(workspace):
    done = import_file(workspace, io.BytesIO(CSV), "sales.csv")
    assert len(uploads(workspace)) == 1

    workspace.delete(workspace.plan_deletion("dataset", done.result["dataset"]))

    assert uploads(workspace) == []
    assert list((workspace.folder / "derived").glob("*")) == []
    assert reading_of(workspace, done.result["dataset"]) is None


def test_an_upload_goes_after_a_day(workspace):
    done = import_file(workspace, io.BytesIO(CSV), "sales.csv")
    now = workspace.clock()
    object.__setattr__(workspace.jobs, "clock", lambda: now + timedelta(hours=25))
    import_file(workspace, io.BytesIO(CSV + b"9,9,9\n"), "other.csv")

    assert done.parameters["upload"] not in uploads(workspace)
    assert len(uploads(workspace)) == 1


@pytest.mark.parametrize("token", ["../../etc/passwd", "0" * 24, ""])
def test_only_uploads_of_this_workspace_are_read(workspace, token):
    with pytest.raises(WorkspaceError, match="has no upload"):
        run_in_process(workspace, Job(kind="read", parameters={"upload": token, "name": "x"}))


def test_a_dialect_is_not_anything(workspace):
    token = workspace.uploads.save(io.BytesIO(CSV))
    with pytest.raises(WorkspaceError, match="got 'comma'"):
        run_in_process(workspace, Job(kind="read", parameters={"upload": token, "dialect": "comma"}))


def test_the_profile_is_kept_with_the_dataset(workspace, monkeypatch):
    done = import_file(workspace, io.BytesIO(CSV), "sales.csv")
    record = workspace.datasets.get(done.result["dataset"])
    table = workspace.datasets.load(record.id)

    def fail(_):
        raise AssertionError("the profile was made again")

    made = table.profile()
    monkeypatch.setattr(Table, "profile", fail)
    kept = profile_of(workspace, record, table)
    assert profile_to_json(kept) == profile_to_json(made)


def test_another_role_makes_another_profile(workspace):
    done = import_file(workspace, io.BytesIO(CSV), "sales.csv")
    record = workspace.datasets.get(done.result["dataset"])
    changed = workspace.datasets.load(record.id).with_roles({"amount": "ignore"})
    later = workspace.datasets.save_roles(changed, record)

    assert profile_of(workspace, later, changed).column("amount").role == "ignore"
    assert [path.name for path in (workspace.folder / "derived").glob("*")] == [f"{record.id}-2-profile_3.json"]


def test_a_damaged_profile_is_made_again(workspace):
    done = import_file(workspace, io.BytesIO(CSV), "sales.csv")
    record = workspace.datasets.get(done.result["dataset"])
    [path] = (workspace.folder / "derived").glob("*")
    path.write_text('{"rows": 7')

    assert profile_of(workspace, record, workspace.datasets.load(record.id)).rows == 200


@pytest.mark.parametrize("name", ["anti_cheat", "breast_cancer"])
def test_a_profile_survives_as_text(name):
    profile = load_sample(name).profile()
    again = profile_from_json(profile_to_json(profile))

    assert again.to_frame().equals(profile.to_frame())
    assert again.findings == profile.findings
    for before, after in zip(profile.columns, again.columns, strict=True):
        assert (before.quantiles, before.top_levels) == (after.quantiles, after.top_levels)
        if before.histogram is not None:
            for part in ("edge", "count", "labeled", "label_rate"):
                np.testing.assert_array_equal(getattr(before.histogram, part), getattr(after.histogram, part))
