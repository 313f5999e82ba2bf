"""No exported cell runs in a spreadsheet; numbers stay numbers."""

from __future__ import annotations

import io
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import load_workbook

from spu_core.tables import read_table
from spu_core.tables.spreadsheet import is_dangerous, safe_frame, safe_text, to_csv, write_csv
from tests.export.examples import example, make_frame

FORMULAS = [
    "=1+1",
    "+1+cmd|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    '=HYPERLINK("http://evil.example","x")',
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "   =1+1",
    "\u00a0=1+1",
    "＝1+1",
    "|calc",
    "\ufeff=1+1",
    "\u200b=1+1",
    "\u2060 \u200d+1+1",
    "\u00ad@SUM(A1)",
    "\x0b=1+1",
    "\x1f=1+1",
]
# Each would start a new row with a formula for a reader that ends lines at CR.
TORN = ["hello\r=1+1", "a\r\n=1+1", "x\n=1+1", 'say "hi"\r=1+1', "\r=1+1", "a,b\r@SUM(A1)"]


def rows_ended_at_cr(text: str) -> list[list[str]]:
    """Cells as a spreadsheet sees them that ends a row at CR, at LF and at both; quotes hold a cell together."""
    rows, cells, cell, quoted = [], [], "", False
    for letter in re.sub("\r\n", "\n", text):
        if letter == '"':
            quoted = not quoted
        elif letter == "," and not quoted:
            cells, cell = [*cells, cell], ""
        elif letter in "\r\n" and not quoted:
            rows, cells, cell = [*rows, [*cells, cell]], [], ""
        else:
            cell += letter
    return [*rows, [*cells, cell]] if cells or cell else rows


@pytest.mark.parametrize("formula", FORMULAS)
def test_formulas_become_text_in_cells_and_headers(formula):
    safe = safe_frame(pd.DataFrame({formula: [formula], "plain": ["a"]}))

    assert safe.iloc[0, 0] == "'" + formula
    assert safe.columns[0] == "'" + formula
    assert safe.iloc[0, 1] == "a"


@pytest.mark.parametrize("number", ["-1", "+1.5", "-1e-5", " -3", "-0,5"])
def test_numbers_written_as_text_stay_as_they_are(number):
    assert safe_text(number) == number


def test_number_columns_are_untouched_and_read_back_as_numbers():
    frame = pd.DataFrame({"a": [-1, 2], "b": [-1.5, np.nan], "c": [True, False], "t": ["=x", None]})

    back = pd.read_csv(io.StringIO(to_csv(frame)))

    assert back["a"].tolist() == [-1, 2]
    assert back["b"].iloc[0] == -1.5
    assert back["c"].tolist() == [True, False]
    assert back["t"].iloc[0] == "'=x"


def test_a_raw_export_is_offered_by_name():
    assert to_csv(pd.DataFrame({"t": ["=x"]}), raw=True) == "t\n=x\n"


@pytest.mark.parametrize("raw", [False, True])
def test_a_line_break_in_a_cell_never_starts_a_row(raw, tmp_path):
    frame = pd.DataFrame({"a": TORN, "n": range(len(TORN)), "c\r=x": pd.Categorical(TORN), "gap": None})

    write_csv(frame, tmp_path / "written.csv", raw=raw)

    with open(tmp_path / "written.csv", newline="", encoding="utf-8") as stream:
        for text in (to_csv(frame, raw=raw), stream.read()):
            rows = rows_ended_at_cr(text)
            assert [len(row) for row in rows] == [4] * (1 + len(TORN))
            assert [row[1] for row in rows[1:]] == [str(number) for number in range(len(TORN))]
            assert raw or not [cell for row in rows for cell in row if is_dangerous(cell)]
    back = read_table(tmp_path / "written.csv")
    assert (back.reading.rows, back.reading.rejected_rows) == (len(TORN), 0)


def test_torn_cells_stay_whole_in_scored_rows_and_in_every_file_that_leaves(tmp_path):
    bundle = example("fused").bundle
    frame = make_frame(40, seed=5)
    frame["id"] = "hello\r=1+1 " + frame["id"]

    bundle.score_file(frame, tmp_path / "safe.csv")

    with open(tmp_path / "safe.csv", newline="", encoding="utf-8") as stream:
        rows = rows_ended_at_cr(stream.read())
    assert len(rows) == 41
    assert not [cell for row in rows for cell in row if cell.startswith("=")]


@given(st.text())
def test_nothing_that_is_written_starts_like_a_formula(text):
    safe = safe_text(text)

    assert safe == text or safe == "'" + text
    assert not is_dangerous(safe)


def test_hostile_ids_and_levels_are_neutralised_in_scored_rows(tmp_path):
    bundle = example("fused").bundle
    frame = make_frame(40, seed=5)
    frame["id"] = "=cmd|' /C calc'!A" + frame["id"]

    bundle.score_file(frame, tmp_path / "safe.csv")
    bundle.score_file(frame, tmp_path / "raw.csv", raw=True)

    assert pd.read_csv(tmp_path / "safe.csv")["id"].str.startswith("'=cmd").all()
    assert pd.read_csv(tmp_path / "raw.csv")["id"].str.startswith("=cmd").all()
    scores = pd.read_csv(tmp_path / "safe.csv")["score"]
    np.testing.assert_array_equal(scores, bundle.predict(frame))


@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed; the parser above stands in.")
def test_libreoffice_sees_the_same_rows_and_no_formula(tmp_path):
    hostile, scored = pd.DataFrame({"a": [*TORN, *FORMULAS]}), make_frame(40, seed=5)
    scored["id"] = "=1+1\r=2+2 " + scored["id"]
    write_csv(hostile, tmp_path / "raw.csv", raw=True)
    write_csv(hostile, tmp_path / "written.csv")
    example("fused").bundle.score_file(scored, tmp_path / "scored.csv")

    cells = {name: cells_in_libreoffice(tmp_path, name) for name in ("raw", "written", "scored")}

    # The formulas that it runs where nothing is done about them, so that this test could fail.
    assert {"=1+1", '=HYPERLINK("http://evil.example","x")'} <= {cell.value for cell in formulas(cells["raw"])}
    assert [len(cells[name]) for name in ("written", "scored")] == [1 + len(TORN) + len(FORMULAS), 1 + 40]
    assert not formulas(cells["written"]) + formulas(cells["scored"])


def cells_in_libreoffice(folder, name):
    """The rows of a CSV file as LibreOffice has read them."""
    profile = f"-env:UserInstallation=file://{folder}/profile"
    command = ["soffice", profile, "--headless", "--convert-to", "xlsx", "--outdir", str(folder), f"{name}.csv"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    return list(load_workbook(folder / f"{name}.xlsx").active.iter_rows())


def formulas(rows):
    return [cell for row in rows for cell in row if cell.data_type == "f"]
