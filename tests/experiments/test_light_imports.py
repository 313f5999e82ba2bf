"""Stored results are read without the code that computed them."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("spu_core.experiments.runners", "lightgbm", "torch")
# In one process, one after the other: what none has loaded so far, the last did not load either.
STATEMENTS = {
    "a stored result": "from spu_core.experiments import EXPERIMENTS, stored_result; stored_result('table1').to_text()",
    "its figures": "from spu_core.experiments.figures import figures_of; stored = stored_result('theorems');"
    "[figure.of(stored) for figure in figures_of(stored).values()]",
    "spu paper without --run": "from typer.testing import CliRunner; from spu_core.cli import app;"
    "assert CliRunner().invoke(app, ['paper', 'table3']).exit_code == 0",
    "the Paper page": "import pages.ui.paper.results",
    "an experiment": "EXPERIMENTS['table3'].claims({table.name: table for table in stored_result('table3').tables})",
}


def test_a_runner_is_loaded_for_an_experiment_and_for_nothing_before_it():
    code = "import sys\n" + "\n".join(
        f"{statement}\nprint({name!r}, *[each for each in sys.modules if each.startswith({HEAVY!r})], sep=';')"
        for name, statement in STATEMENTS.items()
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = {name: modules for name, *modules in (line.split(";") for line in said.splitlines())}

    assert list(loaded) == list(STATEMENTS)
    assert "spu_core.experiments.runners.table3" in loaded.pop("an experiment")
    assert not any(loaded.values()), loaded
