"""Figures of results, a rerun beside the stored one, and the job that runs it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spu_core.charts import DARK, alt_text, check_flow_chart
from spu_core.engines import Job, run_in_process
from spu_core.errors import SpuError, WorkspaceError
from spu_core.experiments import EXPERIMENTS, ExperimentResult, ExperimentSettings, catalog, stored_result
from spu_core.experiments.catalog import KIND, compare_figures, compare_verdicts, result_of
from spu_core.experiments.figures import FIGURES, figures_of
from spu_core.experiments.runners.theorems import run
from spu_core.workspace import JobStatus, Workspace

STORED = [
    name for name in EXPERIMENTS if (catalog.files("spu_core.experiments") / "results" / f"{name}.json").is_file()
]


@pytest.fixture(scope="module")
def theorem_4() -> ExperimentResult:
    return run(ExperimentSettings(scale="smoke"), parts=["theorem4"])


@pytest.mark.parametrize("name", STORED)
def test_every_stored_result_has_its_figures_in_every_view(name):
    result = stored_result(name)
    figures = figures_of(result)

    assert set(figures) == set(FIGURES[name])
    for figure in figures.values():
        for view in figure.choices(result) or (None,):
            assert len(alt_text(figure.of(result, view))) > 20
            assert figure.of(result, view, theme=DARK).layout.height >= 140
        assert figure.caption.endswith(".")


def test_a_part_has_its_own_figures_only(theorem_4):
    assert set(figures_of(theorem_4)) == {"theorem4", "figure1"}


def test_figure_4_says_where_the_printed_bound_fails(theorem_4):
    figure = figures_of(theorem_4)["theorem4"]

    assert "exceeds the printed bound" in alt_text(figure.of(theorem_4, "0.98"))
    assert "stays below the printed bound" in alt_text(figure.of(theorem_4, "0.5"))


def test_figure_2_draws_a_stage_that_only_renames_its_players_once():
    flow = {"players": 5, "cheaters": 1}
    flows = [
        {"from": "All", "to": "Picked", **flow},
        {"from": "All", "to": "Never", **flow},
        {"from": "Picked", "to": "Admit", **flow},
        {"from": "Picked", "to": "Pass", **flow},
        {"from": "Admit", "to": "Banned", **flow},
    ]
    (drawn,) = check_flow_chart(flows).data

    assert [label.split("<br>")[:-1] for label in drawn.node.label] == [
        ["All"],
        ["Picked"],
        ["Never"],
        ["Admit", "Banned"],
        ["Pass"],
    ]
    assert len(drawn.link.value) == 4


def test_equal_results_differ_nowhere_and_a_change_shows_in_its_row(theorem_4):
    same = compare_figures(theorem_4, theorem_4)
    (table,) = theorem_4.tables
    first = list(table.rows[0])
    first[2] += 0.5
    changed = replace(theorem_4, tables=(replace(table, rows=(tuple(first), *table.rows[1:])),))

    assert set(same.column("now − stored")) == {0.0}
    moved = [row for row in compare_figures(theorem_4, changed).records() if row["now − stored"]]
    assert [(row["row"], row["figure"]) for row in moved] == [("0.05", "AUC lost")]
    assert moved[0]["now − stored"] == pytest.approx(0.5)
    assert compare_verdicts(theorem_4, theorem_4).rows[0][1:] == ("holds partly", "holds partly")


def test_rows_that_only_one_result_has_are_left_out(theorem_4):
    (table,) = theorem_4.tables
    shorter = replace(theorem_4, tables=(replace(table, rows=table.rows[:2]),), claims=())

    assert {row["row"] for row in compare_figures(shorter, theorem_4).records()} == {"0.05", "0.1"}
    assert compare_verdicts(shorter, theorem_4).rows[0][1] is None


@pytest.fixture
def workspace(tmp_path):
    with Workspace.open(tmp_path / "home") as opened:
        yield opened


def test_a_job_runs_a_part_and_keeps_its_result(workspace, theorem_4):
    parameters = {"experiment": "theorems", "part": "theorem4", "scale": "smoke"}

    done = run_in_process(workspace, Job(kind=KIND, parameters=parameters))

    assert done.status is JobStatus.FINISHED
    assert result_of(done.result).tables == theorem_4.tables


def test_a_job_refuses_what_does_not_exist(workspace):
    for parameters, words in (
        ({"experiment": "table9"}, "There is no experiment 'table9'"),
        ({"experiment": "theorems", "part": "theorem9"}, "part must be one of"),
        ({"experiment": "table3", "part": "first"}, "Experiment 'table3' has no parts; run all of it"),
        ({"experiment": "theorems", "scale": "huge"}, "scale must be one of"),
    ):
        with pytest.raises(SpuError, match=words):
            run_in_process(workspace, Job(kind=KIND, parameters=parameters))
    with pytest.raises(WorkspaceError, match="holds no result of an experiment"):
        result_of({})
