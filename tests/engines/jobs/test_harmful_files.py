"""Small files that ask for much: read by a worker with limits, refused in words, while this process stays as it was.

A sample; `tests/slow/test_bombs_in_the_dashboard.py` brings all of them to a running dashboard.
"""

import io

import psutil
import pytest

from spu_core.engines import JobLimits, cancel, wait_for
from spu_core.engines.jobs.read import import_file, is_read_at_once, read_limits, read_without_storing
from spu_core.errors import TableError, WorkspaceError
from spu_core.tables import read_table
from spu_core.tables.reading import file_reader
from spu_core.workspace import JobStatus
from tests.tables.bombs import BOMBS, constants, row, text, workbook

PATIENCE = 600.0
TEXT = b"id,amount\n" + b"1,2\n" * 50
SHEET = workbook([row(1, text("A1", "user"), text("B1", "outcome")), row(2, text("A2", "ann"), text("B2", "passed"))])


def resident() -> int:
    return int(psutil.Process().memory_info().rss)


@pytest.mark.xdist_group("processes")
def test_bombs_are_read_apart_and_end_in_words(workspace):
    made = {name: BOMBS[name]() for name in ("one long entity, often.xlsx", "lists.parquet")}
    before = resident()

    begun = [import_file(workspace, io.BytesIO(data), name) for name, data in made.items()]

    assert not any(job.status is JobStatus.FINISHED for job in begun)
    refused, read = (wait_for(workspace, job.id, PATIENCE) for job in begun)
    assert "defines XML entities" in refused.error
    assert read.result["rows"] == 10  # the lists are left out, and never unpacked
    assert resident() - before < 200_000_000


def test_cells_that_a_sheet_leaves_empty_count_and_so_do_values_that_a_parquet_file_repeats(monkeypatch):
    monkeypatch.setattr(file_reader, "MOST_CELLS", 300_000)
    for rows in (
        (row(n, text(f"NTO{n}", "x")) for n in range(1, 40)),
        (row(n, f'<c r="NTO{n}"/>') for n in range(1, 40)),
        (row(n, text(f"{'NTO' if n == 5 else 'B'}{n}", "x")) for n in range(1, 40)),
    ):
        with pytest.raises(TableError, match="more than 300,000 cells, empty ones included"):
            read_table(workbook(rows), name="sparse.xlsx")
    monkeypatch.setattr(file_reader, "EXPANSION_FREE", 1_000_000)
    with pytest.raises(TableError, match="grows more than 1,000-fold when read"):
        read_table(constants(2_000_000, 2), name="constants.parquet")
    assert len(read_table(constants(20_000, 2), name="few.parquet")) == 20_000


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("entities behind a comment.xlsx", "defines XML entities"),
        ("entities behind a long comment.xlsx", "defines XML entities"),
        ("entities in shared strings.xlsx", "defines XML entities"),
        ("entities in a picture.xlsx", "defines XML entities"),
        ("entities in UTF-16.xlsx", "XML that is not UTF-8"),
        ("entities in EBCDIC.xlsx", "XML that is not UTF-8"),
        ("many gaps of rows.xlsx", "more than 1,048,576 rows"),
        ("parts.xlsx", "parts; a workbook has a few dozen"),
        ("distinct texts.parquet", "has texts that grow more than 200-fold when read"),
    ],
)
def test_what_no_honest_program_writes_is_refused(name, told):
    with pytest.raises(TableError, match=told):
        read_table(BOMBS[name](), name=name)


def test_only_small_plain_text_is_read_in_this_process(monkeypatch):
    assert is_read_at_once(io.BytesIO(TEXT))
    assert is_read_at_once(io.BytesIO(b"%PDF-1.7"))  # refused by its first bytes
    assert not is_read_at_once(io.BytesIO(SHEET))
    assert not is_read_at_once(io.BytesIO(BOMBS["lists.parquet"]()))
    assert not is_read_at_once(io.BytesIO(b"\x1f\x8b\x08"))
    assert not is_read_at_once(io.BytesIO(TEXT * 40_000))


def test_limits_of_reading_follow_the_size_and_can_be_set(monkeypatch):
    assert read_limits(1000) == JobLimits(memory=2_000_000_000, processor_seconds=120.0, seconds=1200.0)
    assert read_limits(400_000_000) == JobLimits(memory=4_000_000_000, processor_seconds=400.0, seconds=4000.0)
    monkeypatch.setenv("SPU_READ_MEMORY", "3e9")
    monkeypatch.setenv("SPU_READ_SECONDS", "30")
    assert read_limits(1000) == JobLimits(memory=3_000_000_000, processor_seconds=30.0, seconds=300.0)
    monkeypatch.setenv("SPU_READ_SECONDS", "a minute")
    with pytest.raises(WorkspaceError, match="SPU_READ_SECONDS must be a positive number, got 'a minute'"):
        read_limits(1000)


@pytest.mark.xdist_group("processes")
def test_a_file_that_is_not_stored_is_read_in_a_child_process_too(monkeypatch):
    assert read_without_storing(io.BytesIO(TEXT), "log.csv").frame.shape == (50, 2)
    assert read_without_storing(io.BytesIO(SHEET), "log.xlsx").frame.to_dict("list") == {
        "user": ["ann"],
        "outcome": ["passed"],
    }
    with pytest.raises(TableError, match="defines XML entities"):
        read_without_storing(io.BytesIO(BOMBS["entities.xlsx"]()), "log.xlsx")
    monkeypatch.setenv("SPU_READ_MEMORY", "3e8")
    with pytest.raises(TableError, match=r"could not be read within 300\.0 MB of memory and 120 seconds"):
        read_without_storing(io.BytesIO(workbook([row(1, text("A1", "x" * 200_000_000))])), "log.xlsx")


@pytest.mark.xdist_group("processes")
def test_a_worker_that_gets_no_memory_or_time_says_so_and_one_that_is_cancelled_is_gone(workspace, monkeypatch):
    rows = workbook(row(n, text(f"A{n}", f"x{n}")) for n in range(1, 60_001))
    monkeypatch.setenv("SPU_READ_SECONDS", "0.5")
    slow = import_file(workspace, io.BytesIO(rows), "slow.xlsx")
    monkeypatch.setenv("SPU_READ_SECONDS", "600")
    stopped = import_file(workspace, io.BytesIO(rows), "cancelled.xlsx")

    cancel(workspace, stopped.id)
    assert wait_for(workspace, stopped.id, PATIENCE).status is JobStatus.CANCELLED
    ended = wait_for(workspace, slow.id, PATIENCE)
    assert (ended.status, ended.error[:26]) in (
        (JobStatus.FAILED, "Stopped after its limit of"),  # 0.5 seconds of processor time
        (JobStatus.FAILED, "Stopped after its time lim"),  # or ten times that by the clock of a busy machine
    )
    assert workspace.datasets.list() == ()
