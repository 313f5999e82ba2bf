"""No exported cell runs in a spreadsheet; numbers stay numbers."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spu_core.export import safe_frame, to_csv
from spu_core.tables.spreadsheet import is_dangerous, safe_text
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
]


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
