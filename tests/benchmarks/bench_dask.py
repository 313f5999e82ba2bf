"""What Dask costs on one machine: the same training in one process and by two workers, start of the workers included.

CPU is that of all processes together, wall time that of the caller; each training has a process of its own. Two
trainings of one candidate are measured: a *short* one, two folds of 50 rounds, in which the start weighs most, and that
of the *defaults*. The default size says whether the machinery works; `SPU_SLOW=1` measures at 1e6 rows × 30 columns,
for which the goal stands.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from spu_core.engines.processes.job_queue import thread_variables
from tests.benchmarks.bench_scale import RULES, write_rows, write_whole
from tests.benchmarks.harness import BenchRow

ROWS = 1_000_000 if os.environ.get("SPU_SLOW") == "1" else 100_000
PARTS = ("folder", "table")
TRAININGS = {"short": ({"rounds": 50}, {"folds": 2}), "defaults": ({}, {})}
TURNS = {"short": 3, "defaults": 1}

# A script, since worker processes import what they were started from.
_SCRIPT = """
import json, sys, time
import psutil
from spu_core.engines.executors import Engine, open_executor
from spu_core.labels import soft_labels_for
from spu_core.rules import RuleSet
from spu_core.tables import open_folder, read_table
from spu_core.training import Candidate, TrainConfig, iter_cross_fit

def main():
    start, (engine, rules, training) = time.monotonic(), sys.argv[1:]
    settings, config = json.loads(training)
    table = {table}
    candidates = [Candidate("lightgbm", settings)]
    with open_executor(Engine(engine), table) as executor:
        soft_labels = executor.label(table, RuleSet.from_json(rules).fit(table))
        (run,) = iter_cross_fit(table, soft_labels, candidates, TrainConfig(threads=2, **config), executor=executor)
        assert run.error is None, run.error
        own = psutil.Process()
        times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    cpu = sum(each.user + each.system for each in times)
    print(json.dumps({{"auc": run.metrics.auc_spu.estimate, "cpu": cpu, "wall": time.monotonic() - start}}))

if __name__ == "__main__":
    main()
"""


def rows(*parts: str) -> list[BenchRow]:
    """Ratios of Dask to one process: a folder, whose boosters workers fit together; a table, each fit a task."""
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        tables = {
            "folder": f"open_folder({str(write_rows(Path(scratch), ROWS))!r})",
            "table": f"read_table({str(write_whole(Path(scratch), ROWS))!r})",
        }
        for part in parts or PARTS:
            script = Path(scratch) / f"{part}.py"
            script.write_text(_SCRIPT.format(table=tables[part]))
            for training in TRAININGS:
                found += _ratios(script, part, training)
    return found


def _ratios(script: Path, part: str, training: str) -> list[BenchRow]:
    """Both engines in turns; medians over the turns."""
    measured: dict[str, list[dict[str, float]]] = {"here": [], "dask": []}
    for _ in range(TURNS[training]):
        for engine, runs in measured.items():
            runs.append(_train(script, engine, training))
            print(f"{part}, {training}, {engine}: {runs[-1]}", flush=True)
    here, there = (
        {kind: statistics.median(run[kind] for run in runs) for kind in runs[0]} for runs in measured.values()
    )
    named = f"{part} of {ROWS:,} rows, {training}"
    costs = [BenchRow(f"{named}: {kind} of Dask", there[kind] / here[kind], 1.5, "at most") for kind in ("cpu", "wall")]
    return [*costs, BenchRow(f"{named}: AUC_SPU apart", abs(there["auc"] - here["auc"]), 0.003, "at most", "")]


def _train(script: Path, engine: str, training: str) -> dict[str, float]:
    command = [sys.executable, str(script), engine, RULES.to_json(), json.dumps(TRAININGS[training])]
    environment = {**os.environ, **thread_variables(2), "OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if result.returncode:
        raise RuntimeError(result.stderr[-2_000:])
    return json.loads(result.stdout.splitlines()[-1])
