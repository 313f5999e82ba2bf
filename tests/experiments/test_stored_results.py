"""What is shipped with the program is complete, and its words follow from its own figures."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from spu_core.errors import SpuError, WorkspaceError
from spu_core.experiments import EXPERIMENTS, catalog, stored_result
from spu_core.experiments.catalog import ResultTable, markdown_table

RESULTS = files("spu_core.experiments") / "results"
STORED = sorted(name for name in EXPERIMENTS if (RESULTS / f"{name}.json").is_file())
TABLES = {
    "table1": {"paper", "readings", "honest"},
    "table3": {"ratios", "differences"},
    "selection": {"ranks", "differences"},
    "features": {"choices", "ranks"},
    "discussion": {"aucs", "map"},
}


@pytest.mark.parametrize("name", STORED)
def test_verdicts_follow_from_the_stored_figures(name):
    """Claims are recomputed from the rows, so that words cannot drift from figures."""
    result = stored_result(name)

    assert result.name == name
    assert EXPERIMENTS[name].claims({table.name: table for table in result.tables}) == result.claims


@pytest.mark.parametrize("name", STORED)
def test_stored_results_say_where_they_come_from(name):
    made = stored_result(name).provenance

    assert re.fullmatch(r"[0-9a-f]{40}", made.commit), "stored results come from a commit without changes"
    assert made.settings["scale"] == "full"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", made.made_on)
    assert {"numpy", "python", "scikit-learn"} <= set(made.versions)


@pytest.mark.parametrize("name", STORED)
def test_stored_results_tell_no_secrets_of_the_computer(name):
    text = stored_result(name).to_json()

    assert not re.search(r"/(home|work|tmp|opt|root|Users)/", text)


@pytest.mark.parametrize("name", [name for name in STORED if name in TABLES])
def test_every_figure_over_seeds_has_its_standard_error(name):
    result = stored_result(name)

    assert {table.name for table in result.tables} == TABLES[name]
    for table in result.tables:
        for row in table.records():
            count = row.get("seeds", row.get("worlds"))
            assert count >= (10 if name == "table3" else 5)
            errors = [row[column] for column in row if column.startswith("SE")]
            assert all(error is not None for error in errors) or row.get("chosen by") == "random choice"


def printed_beside_ours() -> ResultTable:
    """Every number of the paper's three tables beside ours, from the stored results; differences are ours − printed."""
    rows = []
    for row in stored_result("table1").table("paper").records():
        place = f"{row['data']}, {row['model']}"
        rows += [
            ("1", place, name, row[f"printed {name}"], row[name], row[error])
            for name, error in (("result", "SE"), ("baseline", "SE of baseline"))
        ]
    for row in stored_result("table2").table("auc").records():
        if row["training images"] == "all":
            place = f"{row['images']} {{{row['positive classes']}}}"
            rows.append(("2", place, row["method"], row["paper"], row["ours"], row["SE"]))
    for row in stored_result("table3").table("ratios").records():
        if (row["admission tilt"], row["exposure"]) == (0.25, 1.0) and row["printed pass %"] is not None:
            rows += [
                ("3", row["method"], name, row[f"printed {name}"], row[name], row[error])
                for name, error in (("surrender %", "SE"), ("pass %", "SE of pass"))
            ]
    columns = ("table", "row", "figure", "printed", "ours", "SE", "difference")
    return ResultTable(
        "printed", "All printed numbers beside ours", columns, tuple((*row, row[4] - row[3]) for row in rows)
    )


def test_the_document_shows_all_thirty_printed_numbers_as_they_are_stored():
    table = printed_beside_ours()
    document = (Path(__file__).parents[2] / "docs" / "reproduction.md").read_text(encoding="utf-8")

    assert len(table.rows) == 30
    assert markdown_table(table) in document, "paste markdown_table(printed_beside_ours()) into the document"


needs_table1 = pytest.mark.skipif("table1" not in STORED, reason="no result of Table 1 is stored")


@needs_table1
def test_table_1_compares_with_what_the_paper_prints():
    shown = {
        (row["data"].split(" (")[0], row["model"]): (row["printed result"], row["printed baseline"])
        for row in stored_result("table1").table("paper").records()
    }

    assert shown == {
        ("Diabetes", "XGB"): (0.721, 0.694),
        ("Diabetes", "LGBM"): (0.728, 0.700),
        ("Adult", "XGB"): (0.834, 0.829),
        ("Adult", "LGBM"): (0.863, 0.833),
        ("Breast Cancer", "XGB"): (0.934, 0.885),
        ("Breast Cancer", "LGBM"): (0.910, 0.876),
    }


@needs_table1
def test_no_gain_of_table_1_is_left_after_the_correction_for_shared_rows():
    """t = 5.0 becomes 2.7 on Adult with LightGBM, where 2.78 is needed; 5.9 and 6.4 become 1.3 and 1.4."""
    rows = stored_result("table1").table("paper").records()
    won = [row for row in rows if row["over seeds"] == "better"]

    assert [(row["data"], row["model"]) for row in won] == [
        ("Adult", "LGBM"),
        ("Breast Cancer", "XGB"),
        ("Breast Cancer", "LGBM"),
    ]
    assert [round(row["gain"] / row["SE of gain"], 1) for row in won] == [5.0, 5.9, 6.4]
    assert [round(row["gain"] / row["corrected SE"], 1) for row in won] == [2.7, 1.3, 1.4]
    assert {row["corrected"] for row in rows} == {"no clear difference"}


@needs_table1
def test_means_in_table_1_are_those_of_its_seeds():
    result = stored_result("table1")
    for row in result.table("paper").records():
        seeds = result.series["paper"][f"{row['trial']}, closest found, {row['model']}"]
        assert row["result"] == pytest.approx(sum(seeds["result"]) / len(seeds["result"]))
        assert row["gain"] == pytest.approx(row["result"] - row["baseline"])


def test_an_unknown_experiment_and_a_missing_result_say_the_way_out(monkeypatch, tmp_path):
    with pytest.raises(SpuError, match=r"There is no experiment 'table4'\. Did you mean"):
        stored_result("table4")
    monkeypatch.setattr(catalog, "files", lambda package: tmp_path)
    with pytest.raises(WorkspaceError, match=r"No result of 'table1' is stored .* spu paper table1 --run"):
        stored_result("table1")
