"""Stored results are read without the code that computed them."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = """
import sys
{statement}
print(*[name for name in sys.modules if name.startswith(("spu_core.experiments.runners", "lightgbm", "torch"))])
"""


def loaded_by(statement: str) -> list[str]:
    command = [sys.executable, "-c", LOADED.format(statement=statement)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize(
    "statement",
    [
        "from spu_core.experiments import EXPERIMENTS, stored_result; stored_result('table1').to_text()",
        "from spu_core.experiments import stored_result; from spu_core.experiments.figures import figures_of;"
        "[figure.of(stored_result('theorems')) for figure in figures_of(stored_result('theorems')).values()]",
        "import pages.ui.paper.results, pages.ui.paper.rerun",
        "from typer.testing import CliRunner; from spu_core.cli import app;"
        "assert CliRunner().invoke(app, ['paper', 'table3']).exit_code == 0",
    ],
    ids=["a stored result", "its figures", "the Paper page", "spu paper without --run"],
)
def test_no_runner_is_loaded_for(statement):
    assert loaded_by(statement) == []


def test_computing_an_experiment_loads_its_runner():
    """Without this, the test above would pass if runners had moved elsewhere."""
    statement = "from spu_core.experiments import EXPERIMENTS, stored_result as stored;"
    statement += "EXPERIMENTS['table3'].claims({table.name: table for table in stored('table3').tables})"

    assert "spu_core.experiments.runners.table3" in loaded_by(statement)
