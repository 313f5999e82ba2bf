"""A result keeps its figures through JSON, refuses what it did not write, and reads well in a terminal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spu_core.errors import SpuError, WorkspaceError
from spu_core.experiments import Claim, ExperimentResult, Provenance, ResultTable

CELLS = st.one_of(
    st.none(), st.text(max_size=5), st.integers(-(10**9), 10**9), st.floats(allow_nan=False, allow_infinity=False)
)


def result_of(*tables: ResultTable, **more) -> ExperimentResult:
    made = {
        "name": "table1",
        "title": "A title",
        "tables": tables,
        "claims": (Claim("The paper says so.", "holds", "It does by 0.1."),),
        "choices": ("Nothing was chosen.",),
        "provenance": Provenance("a" * 40, {"numpy": "2"}, {"seeds": 5}, 60.0, "2026-01-01"),
        "series": {"line": [1, 2.5], "name": {"inner": [None, "x"]}},
    }
    return ExperimentResult(**{**made, **more})


TABLE = ResultTable(
    "auc", "AUC", ("data", "AUC", "SE"), (("adult", 0.8632, 0.00241), ("bank|2", None, None)), "A note."
)


@settings(max_examples=40)
@given(st.lists(st.tuples(CELLS, CELLS), max_size=6))
def test_a_result_comes_back_from_json_equal_to_the_last_bit(rows):
    result = result_of(ResultTable("any", "Any", ("one", "two"), tuple(rows)))

    assert ExperimentResult.from_json(result.to_json()) == result


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value: value.pop("claims"), "lacks the field 'claims'"),
        (lambda value: value.update(more=1), "has an unknown field 'more'"),
        (lambda value: value.update(schema=2), "schema 2, but this version reads 1"),
        (lambda value: value.update(title=3), "title must be text, got 3"),
        (lambda value: value["tables"][0]["rows"].append(5), r"tables\[0\].rows\[2\] must be a list, got 5"),
        (
            lambda value: value["tables"][0]["rows"][0].__setitem__(1, True),
            r"tables\[0\].rows\[0\]\[1\] must be text or a number, got True",
        ),
        (lambda value: value["choices"].append(1), r"choices\[1\] must be text, got 1"),
    ],
)
def test_json_that_we_did_not_write_is_refused_in_a_sentence(change, message):
    value = json.loads(result_of(TABLE).to_json())
    change(value)

    with pytest.raises(WorkspaceError, match=message):
        ExperimentResult.from_json(json.dumps(value))


def test_a_row_of_the_wrong_width_and_an_unknown_verdict_are_refused():
    with pytest.raises(SpuError, match="Row 0 of table 't' has 1 cells, but the table has 2 columns"):
        ResultTable("t", "T", ("a", "b"), ((1,),))
    with pytest.raises(SpuError, match=r"A verdict must be one of 'holds', .* got 'maybe'"):
        Claim("x", "maybe", "y")
    with pytest.raises(SpuError, match="has no table 'x'; it has 'auc'"):
        result_of(TABLE).table("x")


def test_figures_that_json_cannot_say_are_refused_when_written():
    with pytest.raises(WorkspaceError, match=r"result.series.line\[0\] holds nan, which JSON cannot represent"):
        result_of(series={"line": [float("nan")]}).to_json()


def test_a_terminal_sees_tables_claims_choices_and_where_they_come_from():
    text = result_of(TABLE).to_text()

    assert "adult   0.863  0.0024" in text
    assert "[holds] The paper says so. It does by 0.1." in text
    assert "- Nothing was chosen." in text
    assert "Made on 2026-01-01 by commit aaaaaaaaaaaa in 1.0 minutes (seeds 5)." in text
    assert max(map(len, text.splitlines())) <= 110


def test_markdown_escapes_what_would_break_its_tables():
    text = result_of(TABLE).to_markdown()

    assert "| data | AUC | SE |" in text
    assert "| bank\\|2 | – | – |" in text
    assert "- **holds**: The paper says so." in text


def test_a_table_answers_by_column_and_as_a_frame():
    assert TABLE.column("AUC") == (0.8632, None)
    assert TABLE.frame().shape == (2, 3)
    assert TABLE.records()[0]["SE"] == 0.00241
