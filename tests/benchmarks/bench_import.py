"""The time to import the engine against that of what it stands on."""

from __future__ import annotations

import statistics

from tests.benchmarks.harness import BenchRow, cpu_seconds_of


def rows() -> list[BenchRow]:
    codes = {"base": "import pandas, sklearn", "engine": "import spu_core"}
    seconds: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(6):
        for name, code in codes.items():
            seconds[name].append(cpu_seconds_of(code))
    # The first turn fills the disk cache and is left out.
    medians = {name: statistics.median(values[1:]) for name, values in seconds.items()}
    return [BenchRow("import spu_core against pandas and sklearn", medians["engine"] / medians["base"], 1.5, "at most")]
