"""Limits hold while files stream in, and bombs stop in seconds within an address-space limit."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spu_core.errors import TableError
from spu_core.tables import ReadLimits, read_table
from spu_core.tables.reading import blocks


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"bytes": 10}, "has 28 bytes; the limit is 10"),
        ({"rows": 2}, "has more than 2 rows, which is the limit"),
        ({"columns": 1}, "has 2 columns; the limit is 1"),
    ],
)
def test_a_file_beyond_a_limit_is_refused(limits: dict[str, int], message: str) -> None:
    with pytest.raises(TableError, match=message):
        read_table(b"a,bbbb\n1,22222\n3,44444\n5,66\n", limits=ReadLimits(**limits))


def test_a_file_object_is_stopped_at_the_limit() -> None:
    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return b"1,2\n" * 1000

    with pytest.raises(TableError, match=r"more than 100,000 bytes"):
        read_table(Endless(), limits=ReadLimits(bytes=100_000))


def test_a_column_with_more_levels_than_the_limit_is_text() -> None:
    content = b"c,n\n" + b"".join(b"word %d,1\n" % (n % 60) for n in range(300))

    assert read_table(content, limits=ReadLimits(levels=50)).types["c"] == "text"
    assert read_table(content, limits=ReadLimits(levels=60)).types["c"] == "category"


@pytest.mark.parametrize(("name", "value"), [("rows", 0), ("bytes", -1), ("columns", 1.5)])
def test_limits_are_whole_and_positive(name: str, value: float) -> None:
    with pytest.raises(TableError, match=f"The limit '{name}' must be a whole number"):
        ReadLimits(**{name: value})  # type: ignore[arg-type]


def gzip_bomb(path: Path) -> None:
    """Three gigabytes of rows in three megabytes, as many small members of one file."""
    path.write_bytes(gzip.compress(b"a,b\n") + gzip.compress(b"1,2\n" * 250_000) * 3_000)


def excel_bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
        with archive.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as member:
            for _ in range(430):
                member.write(b" " * 1_000_000)


def parquet_bomb(path: Path) -> None:
    """One long text, repeated: a few kilobytes that would be gigabytes as strings."""
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 200_000, pa.int32()), pa.array(["x" * 100_000]))
    pq.write_table(pa.table({"a": column, "n": pa.array(range(200_000))}), path, compression="zstd")


def excel_with_far_cell(path: Path) -> None:
    """One cell at the far corner of a sheet, which a reader that trusts it would fill up to."""
    from openpyxl import Workbook

    book = Workbook()
    book.active["A1"], book.active["XFD200000"] = "a", 1
    book.save(path)


BOMBS = {
    "gzip": (gzip_bomb, "it was stopped as a decompression bomb"),
    "excel": (excel_bomb, "bytes of Excel XML; the limit is"),
    "parquet": (parquet_bomb, "read 200000"),
    "far cell": (excel_with_far_cell, "columns; the limit is"),
}
CHILD = """
import resource, sys
import openpyxl
import spu_core.tables
resource.setrlimit(resource.RLIMIT_AS, (4 * 1024**3, 4 * 1024**3))
resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
from spu_core.errors import TableError
for path in sys.argv[1:]:
    try:
        answer = f"read {len(spu_core.tables.read_table(path))}"
    except TableError as error:
        answer = f"refused: {error}"
    print(answer)
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The answer to each bomb; one child process reads all, with 4 GB of address space and two minutes of processor
    time."""
    folder = tmp_path_factory.mktemp("bombs")
    for name, (make, _) in BOMBS.items():
        make(folder / f"{name}.csv")
    paths = [str(folder / f"{name}.csv") for name in BOMBS]
    result = subprocess.run([sys.executable, "-c", CHILD, *paths], capture_output=True, text=True, check=True)
    return dict(zip(BOMBS, result.stdout.splitlines(), strict=True))


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_stops_early(bomb: str, answers: dict[str, str]) -> None:
    assert BOMBS[bomb][1] in answers[bomb]


def test_a_small_gzip_that_grows_much_is_still_read() -> None:
    """Repetitive data compress well; only growth beyond the free part is suspicious."""
    content = gzip.compress(b"a,b\n" + b"1,2\n" * 1_000_000)

    assert len(read_table(content)) == 1_000_000


def test_many_columns_are_read() -> None:
    frame = pd.DataFrame([range(1_000)] * 3, columns=[f"c{n}" for n in range(1_000)])

    assert read_table(frame.to_csv(index=False).encode()).frame.shape == (3, 1_000)


def test_a_header_longer_than_the_sample_is_read() -> None:
    names = ["a long question asked in full? " * 9 + str(n) for n in range(1_200)]
    content = "\n".join([",".join(names), *[",".join(["1.5"] * len(names))] * 12, ""]).encode()
    table = read_table(content)

    assert table.frame.shape == (12, 1_200)
    assert table.reading.rejected_rows == 0


def test_a_long_cell_of_a_parquet_file_is_refused() -> None:
    target = io.BytesIO()
    pd.DataFrame({"a": ["x" * 300, "y"], "n": [1, 2]}).to_parquet(target)

    with pytest.raises(TableError, match="has a cell of 300 bytes in column 'a'; the limit is 100"):
        read_table(target.getvalue(), limits=ReadLimits(cell_bytes=100))


def test_a_file_of_blank_lines_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "MOST_BLANK_LINES", 500_000)
    with pytest.raises(TableError, match="more than 500,000 blank lines"):
        read_table(b"a,b\n1,2\n" + b"\n" * 900_000)
