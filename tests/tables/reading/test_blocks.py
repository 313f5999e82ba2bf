"""What the parser converts by itself is what the careful way would have given, and codes keep their zeros."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spu_core.tables import Table, read_table
from spu_core.tables.reading import text_tables
from spu_core.tables.reading.repair import CodeCells

ROWS = 3_000
LATE = {
    "nothing": "",
    "a code": "00501",
    "a hexadecimal": "0x1F",
    "a padded code": " 007",
    "a quoted code": '"007"',
    "a fraction": "1.5",
    "a word": "many",
    "a soft mark": "None",
    "a sign": "+7",
    "infinity": "inf",
    "a huge number": "123456789012345678901",
    "a number that a float rounds": "9007199254740993",
    "a thousand": "1 000",
    "true": "true",
}


def read_carefully(content: bytes, monkeypatch: pytest.MonkeyPatch) -> Table:
    with monkeypatch.context() as patch:
        patch.setattr(text_tables, "find_shortcuts", lambda *_: {})
        return read_table(content)


def content_with(late: str, separator: str = ",", decimal: str = ".") -> bytes:
    """Whole numbers, decimals, levels and days with gaps, and one odd cell in each column near the end."""
    rng = np.random.default_rng(0)
    gaps = rng.random(ROWS) < 0.05
    columns = {
        "n": rng.integers(-50, 10_000, ROWS).astype(str),
        "gaps": np.where(gaps, "NA", rng.integers(0, 9, ROWS).astype(str)),
        "x": np.char.replace(rng.normal(size=ROWS).round(3).astype(str), ".", decimal),
        "level": rng.choice(["red", "green", "?"], ROWS),
        "day": (np.datetime64("2024-01-01") + rng.integers(0, 300, ROWS)).astype(str),
        "flag": rng.choice(["true", "false"], ROWS),
    }
    lines = [separator.join(row) for row in zip(*columns.values(), strict=True)]
    lines[-5] = separator.join([late] * len(columns))
    return "\n".join([separator.join(columns), *lines, ""]).encode()


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
@pytest.mark.parametrize(("separator", "decimal"), [(",", "."), (";", ","), ("|", ".")])
def test_a_shortcut_gives_what_the_careful_way_gives(
    late: str, separator: str, decimal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = content_with(late, separator, decimal)
    quick, careful = read_table(content), read_carefully(content, monkeypatch)

    pd.testing.assert_frame_equal(quick.frame, careful.frame)
    assert quick.types == careful.types
    assert {finding.code for finding in quick.findings} == {finding.code for finding in careful.findings}


def test_whole_numbers_with_a_gap_keep_every_digit() -> None:
    lines = "\n".join(f"{n},1" for n in range(ROWS))
    table = read_table(f"n,m\n{lines}\n9007199254740993,1\nNA,1\n".encode())

    assert table.frame["n"].iloc[ROWS] == "9007199254740993"
    assert "huge_integers" in {finding.code for finding in table.findings}


def codes_by_splitting(text: str, separator: str) -> bool:
    """Whether a cell holds figures only, of which the first of several is a zero."""
    cells = re.split(rf"[\n{re.escape(separator)}]", text)
    return any(re.fullmatch(r"0[0-9a-fA-FxX]+", cell.strip(" ").strip('"').strip(" ")) for cell in cells)


@settings(max_examples=300)
@example(text='"00', separator=",", cut=1)  # the quote lies in the piece before
@given(
    text=st.text(alphabet='0017a.x,;|- "\n', max_size=80),
    separator=st.sampled_from([",", ";", "|"]),
    cut=st.integers(min_value=1, max_value=80),
)
def test_no_code_is_missed_wherever_the_file_is_cut(text: str, separator: str, cut: int) -> None:
    cells = CodeCells(separator, '"')
    for piece in (text[:cut].encode(), text[cut:].encode()):
        cells.look_at(piece)

    assert cells.finish() or not codes_by_splitting(text, separator)


def test_plain_numbers_dates_and_rooms_are_no_codes() -> None:
    cells = CodeCells(",", '"')
    cells.look_at(b"0,0.5,-0,05/01/2024,2024-01-01 05:00,Room 05,10,100\n" * 5_000)

    assert not cells.finish()
