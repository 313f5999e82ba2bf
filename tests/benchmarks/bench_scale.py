"""Out of core against in memory: peak memory, CPU and AUC_SPU in fresh processes; and how costs grow with the rows.

`python -m tests.benchmarks.bench_scale [lightgbm xgboost rules scoring metrics]` measures the parts that are named and
prints each figure at once. The default size says whether the machinery works; `SPU_SLOW=1` measures at 5e6 × 30 and
grows from 1e5 to 1e7 rows. `SPU_BENCH_DATA` names a folder where generated rows are kept for the next part.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from spu_core.engines.processes.job_queue import thread_variables
from spu_core.export import Bundle, save_bundle
from spu_core.labels import soft_labels_for
from spu_core.metrics import auc_spu_score
from spu_core.rules import Compare, Ramp, Rule, RuleSet
from spu_core.tables import Table
from spu_core.training import Candidate, TrainConfig, cross_fit

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parent))
from tests.benchmarks.harness import BenchRow, alternate, print_table  # noqa: E402

SLOW = os.environ.get("SPU_SLOW") == "1"
ROWS = 5_000_000 if SLOW else 200_000
SIZES = (100_000, 1_000_000, 10_000_000) if SLOW else (20_000, 200_000)
FILE_ROWS = 250_000
ROUNDS = 20
RULES = RuleSet(
    (
        Rule("high", 0.5, Compare("x0", ">", 1.0)),
        Rule("blue", 0.2, Compare("c0", "=", "blue")),
        Rule("steep", Ramp(column="x1", start=0.5, end=0.99, at_end=0.6, scale="quantile")),
    )
)

_START = """
import json, resource, sys, time
from pathlib import Path
from spu_core.labels import soft_labels_for
from spu_core.rules import RuleSet
from spu_core.tables import open_folder, read_table
from spu_core.training import Candidate, TrainConfig, cross_fit
rules = RuleSet.from_json({rules!r})
"""
_TRAIN = """
table = {table}
soft_labels = soft_labels_for(table, rules)
run = cross_fit(table, soft_labels, [Candidate({method!r}, {{"rounds": {rounds}}})], TrainConfig(folds=2, threads=2))[0]
assert run.error is None, run.error
found = {{"auc": run.metrics.auc_spu.estimate}}
"""
_LABEL = """
folder = open_folder({folder!r})
start = time.process_time()
found = {{"mean": soft_labels_for(folder, rules).mean}}
found["seconds"] = time.process_time() - start
"""
_SCORE = """
from spu_core.export import Scoring, load_bundle
bundle, folder = load_bundle({bundle!r}), open_folder({folder!r})
start = time.process_time()
found = {{"rows": bundle.score_file(folder, {target!r}, Scoring(reasons=0)).rows}}
found["seconds"] = time.process_time() - start
"""
_END = """
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
status = Path("/proc/self/status")
if status.exists():  # a child's ru_maxrss starts at what its parent held; this one starts at nothing
    peak = next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) * 1024
print(json.dumps({**found, "peak": peak, "cpu": time.process_time()}))
"""


def rows() -> list[BenchRow]:
    """Every figure of every part."""
    return list(measured(PARTS))


def measured(parts: Iterable[str]) -> Iterator[BenchRow]:
    """The figures of these parts, each as soon as it is known."""
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(os.environ.get("SPU_BENCH_DATA") or scratch)
        for part in parts:
            yield from PARTS[part](data)


def training_rows(data: Path, method: str) -> Iterator[BenchRow]:
    """One cross-fit of two folds, from a folder and from memory, each in a process of its own."""
    folder, whole = write_rows(data, ROWS), write_whole(data, ROWS)
    size = f"{ROWS:.0e} × 30".replace("e+0", "e")
    memory = measure(_TRAIN.format(table=f"read_table({str(whole)!r})", method=method, rounds=ROUNDS))
    files = measure(_TRAIN.format(table=f"open_folder({str(folder)!r})", method=method, rounds=ROUNDS))
    print(f"     {method} in memory {memory}\n     {method} from files {files}", flush=True)
    if SLOW:
        yield BenchRow(f"{method} {size}, peak memory out of core", files["peak"] / memory["peak"], 0.35, "at most")
    yield BenchRow(f"{method} {size}, CPU out of core", files["cpu"] / memory["cpu"], 1.3, "at most")
    yield BenchRow(f"{method} {size}, AUC_SPU apart", abs(files["auc"] - memory["auc"]), 0.002, "at most", "")


def rule_rows(data: Path) -> Iterator[BenchRow]:
    """Fitting rules on a folder and labelling all its rows: linear, and a few bytes a row."""
    return growth_rows("rules", lambda size: _LABEL.format(folder=str(write_rows(data, size))))


def scoring_rows(data: Path) -> Iterator[BenchRow]:
    """Scoring a folder by a small bundle into one file: linear, with flat memory."""
    data.mkdir(parents=True, exist_ok=True)
    save_bundle(_small_bundle(), data / "model.spu")
    paths = {"bundle": str(data / "model.spu"), "target": str(data / "scored.parquet")}
    return growth_rows("scoring", lambda size: _SCORE.format(folder=str(write_rows(data, size)), **paths))


def growth_rows(what: str, code: Callable[[int], str]) -> Iterator[BenchRow]:
    """CPU of ten times the rows against ten times the CPU, and the bytes that one more row takes."""
    found = {}
    for size in SIZES:
        found[size] = measure(code(size))
        print(f"     {what} {size:.0e}: {found[size]}", flush=True)
    for small, large in pairwise(SIZES):
        growth = found[large]["seconds"] / found[small]["seconds"] / (large / small)
        yield BenchRow(f"{what} {small:.0e} → {large:.0e}, CPU against linear", growth, 1.2, "at most")
    if SLOW:  # below a million rows the buffers of one batch would be all that is seen
        small, large = SIZES[-2:]
        per_row = (found[large]["peak"] - found[small]["peak"]) / (large - small)
        yield BenchRow(f"{what}, memory for one more row", per_row, 40.0, "at most", "bytes")


def metric_rows(data: Path) -> Iterator[BenchRow]:
    """AUC_SPU is one sort: N log N."""
    rng = np.random.default_rng(0)
    soft_label, score = rng.random(SIZES[-1]), rng.random(SIZES[-1])
    calls = {str(size): lambda size=size: auc_spu_score(soft_label[:size], score[:size]) for size in SIZES}
    seconds = alternate(calls, repeats=5)
    print(f"     AUC_SPU, CPU seconds: {seconds}", flush=True)
    for small, large in pairwise(SIZES):
        expected = large * math.log(large) / (small * math.log(small))
        growth = seconds[str(large)] / seconds[str(small)] / expected
        yield BenchRow(f"AUC_SPU {small:.0e} → {large:.0e}, CPU against N log N", growth, 1.5, "at most")


PARTS: dict[str, Callable[[Path], Iterator[BenchRow]]] = {
    "lightgbm": partial(training_rows, method="lightgbm"),
    "xgboost": partial(training_rows, method="xgboost"),
    "rules": rule_rows,
    "scoring": scoring_rows,
    "metrics": metric_rows,
}


def measure(code: str) -> dict[str, float]:
    """What a fresh process with our own constant code found, its peak of memory, and its CPU seconds."""
    whole = _START.format(rules=RULES.to_json()) + code + _END
    # Waiting threads sleep, as in a worker: else what else runs on the machine would decide the CPU seconds.
    environment = {**os.environ, **thread_variables(2), "OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=False, env=environment)
    if result.returncode:
        raise RuntimeError(result.stderr[-2_000:])
    return json.loads(result.stdout.splitlines()[-1])


def write_rows(data: Path, count: int) -> Path:
    """Thirty feature columns and a label as files of a folder; those of an earlier part are used again."""
    folder = data / f"rows-{count}"
    if folder.exists():
        return folder
    draft = data / f"writing-{count}"
    draft.mkdir(parents=True)
    for number, start in enumerate(range(0, count, FILE_ROWS)):
        table = pa.Table.from_pandas(make_rows(min(FILE_ROWS, count - start), seed=number), preserve_index=False)
        pq.write_table(table, draft / f"part-{number:04d}.parquet")
    return draft.rename(folder)


def write_whole(data: Path, count: int) -> Path:
    """The same rows in one file."""
    one = data / f"rows-{count}.parquet"
    if not one.exists():
        draft = one.with_suffix(".writing")
        parts = sorted(write_rows(data, count).iterdir())
        with pq.ParquetWriter(draft, pq.read_schema(parts[0])) as writer:
            for part in parts:
                writer.write_table(pq.read_table(part))
        draft.rename(one)
    return one


def make_rows(count: int, seed: int) -> pd.DataFrame:
    """Numbers, whole numbers and levels; the label depends on some of them."""
    rng = np.random.default_rng(seed)
    columns: dict[str, object] = {f"x{n}": rng.normal(size=count) for n in range(24)}
    columns |= {f"n{n}": rng.integers(0, 100, count) for n in range(3)}
    columns |= {f"c{n}": rng.choice(["red", "green", "blue", "black"], count) for n in range(3)}
    frame = pd.DataFrame(columns)
    chance = 1 / (1 + np.exp(3 - frame["x0"] - frame["x2"] * frame["x3"] - 0.5 * (frame["c1"] == "red")))
    return frame.assign(label=(rng.random(count) < 0.5 * chance).astype(int))


def _small_bundle() -> Bundle:
    table = Table.from_frame(make_rows(20_000, seed=0))
    candidates = [Candidate("lightgbm", {"rounds": ROUNDS})]
    return Bundle.of(cross_fit(table, soft_labels_for(table, RULES), candidates, TrainConfig(folds=2))[0])


def main(parts: list[str]) -> None:
    """Print the figures of the parts that are named, each as soon as it is measured."""
    unknown = sorted(set(parts) - set(PARTS))
    if unknown:
        sys.exit(f"No part named {', '.join(unknown)}. Known: {', '.join(PARTS)}.")
    for row in measured(parts or PARTS):
        print_table([row])
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
