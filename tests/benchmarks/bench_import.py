"""The time to import the engine, and to start the command line, against that of what they stand on."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Mapping
from unittest import mock

from tests.benchmarks.harness import BenchRow, cpu_seconds_of

COMMAND = "import sys; sys.argv[1:] = {words!r}; from spu_core.__main__ import main; main()"


def medians(codes: Mapping[str, str]) -> dict[str, float]:
    """Median CPU seconds of each program; they take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(6):
        for name, code in codes.items():
            seconds[name].append(cpu_seconds_of(code))
    # The first turn fills the disk cache and writes the bytecode; it is left out.
    return {name: statistics.median(values[1:]) for name, values in seconds.items()}


def completion(words: str) -> str:
    asked = {"_SPU_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    return f"import os; os.environ.update({asked!r}); {COMMAND.format(words=[])}"


def rows() -> list[BenchRow]:
    codes = {
        "base": "import pandas, sklearn",
        "engine": "import spu_core",
        "typer": "import typer",
        "spu --version": COMMAND.format(words=["--version"]),
        "spu --help": COMMAND.format(words=["--help"]),
        "completion of a command": completion("spu tra"),
        "completion of an option": completion("spu train study.json --sch"),
        "completion of a method": completion("spu plan rows.csv --method light"),
    }
    # As in an installation: modules are compiled once, also where the environment forbids it.
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, PYTHONPYCACHEPREFIX=folder):
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        seconds = medians(codes)
    measured = [
        BenchRow("import spu_core against pandas, sklearn", seconds["engine"] / seconds["base"], 1.5, "at most")
    ]
    for name in list(codes)[3:]:
        measured.append(BenchRow(f"{name} against import typer", seconds[name] / seconds["typer"], 3.0, "at most"))
    return measured
