"""Lines that would damage others are found as they stream by, whatever the size of the file."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path

import pytest

from spu_core.errors import TableError
from spu_core.tables import ReadLimits, read_table
from spu_core.tables.reading.blocks import TextPlan
from spu_core.tables.reading.reading_report import Dialect
from spu_core.tables.reading.repair import faulty_lines, scan_rows, without_lines


def plan_of(content: bytes) -> TextPlan:
    dialect = Dialect(separator=",", quote='"', decimal=".", thousands="")
    return TextPlan("file", io.BytesIO(content), 0, 0, ("a", "b"), dialect, ReadLimits())


def faults(content: bytes) -> dict[int, str]:
    plan = plan_of(content)
    return {item.line: item.reason for item in faulty_lines(plan, "a,b\n", scan_rows(plan, "a,b\n")).listed}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'1,"two\nlines"\n3,4\n', {}),
        (b'1,"three\n\nlines"\n3,4\n', {}),
        (b'1,"he said ""no""\nand left"\n3,4\n', {}),
        (b'1,5" pipe\n3,4\n', {}),
        (b'1,"open\n3,4\n5,6\n', {1: "opens a quote that is never closed"}),
        (b'1,2\n"3,open\n5,6\n"7,open\n8,9\n', {2: "opens a quote", 4: "opens a quote"}),
        (b"1,2\na,b\n3,4\n", {2: "repeats the header"}),
        (b"1,2\n3,4\nTotal,6\n\n", {3: "sums up the rows above"}),
        (b"Total,2\n3,4\n", {}),
        (b'1,"' + b"x\n" * 600 + b'"\n3,4\n', {1: "opens a quote", 601: "opens a quote"}),
        (b'1,"open\n3,"two\nlines"\n5,6\n', {1: "opens a quote"}),
    ],
    ids=range(11),
)
def test_faulty_lines_are_found_by_number(content: bytes, expected: dict[int, str]) -> None:
    found = faults(content)

    assert set(found) == set(expected)
    assert all(expected[line] in reason for line, reason in found.items())


def test_lines_that_are_left_out_leave_the_others_their_numbers() -> None:
    plan = plan_of(b'1,2\r\n"3,open\r\n5,6\r\n')
    rest = without_lines(plan, faulty_lines(plan, "", scan_rows(plan, "")))
    rest.stream.seek(0)

    assert rest.stream.read() == b"1,2\r\n\r\n5,6\r\n"


def test_a_repair_holds_no_more_than_a_record(tmp_path: Path) -> None:
    """Ten megabytes of rows, one in three with a line break and one in three with an open quote."""
    path = tmp_path / "long.csv"
    path.write_bytes((b'1,"two\nlines ' + b"x" * 1_000 + b'"\n"5,open\n3,4\n') * 10_000)
    with path.open("rb") as stream:
        plan = TextPlan("file", stream, 0, 0, ("a", "b"), plan_of(b"").dialect, ReadLimits())
        scan = scan_rows(plan, "a,b\n")
        tracemalloc.start()
        found = faulty_lines(plan, "a,b\n", scan)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    assert len(found) == 10_000
    assert len(found.listed) == 1_000
    assert peak < 4 * 1024**2


def test_cells_with_line_breaks_are_read_beside_an_open_quote() -> None:
    rows = b'1,"two\nlines"\n3,four\n' * 500
    table = read_table(b"a,b\n" + rows + b'5,"open\n' + rows)

    assert len(table) == 2_000
    assert [item.line for item in table.reading.rejected] == [1_502]
    assert table.frame["b"].iloc[0] == "two\nlines"


@pytest.mark.parametrize(
    ("content", "limits", "message"),
    [
        (b"a,b\n1,short\n2," + b"x" * 200 + b"\n", {"cell_bytes": 100}, "has a cell of 200 bytes in column 'b'"),
        (b'a,b\n1,2\n3,"' + b"x" * 5_000_000 + b'"\n4,5\n', {}, "holds a record of more than 4,194,304 bytes"),
        (b"a,b\n1,2\n" + b"x" * 9_000_000, {}, "holds a record of more than 4,194,304 bytes"),
        (b'a,b\n1,2\n3,"' + b"x" * 9_000_000, {}, "holds a record of more than 4,194,304 bytes"),
        (b"a,b\n1,2\n" + b"\n" * 50, {"rows": 20}, "has more than 20 rows"),
    ],
    ids=["long cell", "long quoted cell", "no line end", "no closing quote", "blank lines"],
)
def test_what_is_too_long_is_refused(content: bytes, limits: dict[str, int], message: str) -> None:
    with pytest.raises(TableError, match=message):
        read_table(content, limits=ReadLimits(**limits))


def test_a_longer_cell_is_read_when_the_limit_is_raised() -> None:
    content = b'a,b\n1,2\n3,"' + b"x" * 5_000_000 + b'"\n4,5\n'
    table = read_table(content, limits=ReadLimits(cell_bytes=6_000_000))

    assert len(table.frame["b"].iloc[1]) == 5_000_000
