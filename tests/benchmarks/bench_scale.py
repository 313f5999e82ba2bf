"""Out of core against in memory: peak memory, CPU and AUC_SPU in fresh processes; and how costs grow with the rows.

The default size says whether the machinery works; `SPU_SLOW=1` measures at 5e6 × 30 and grows up to 1e7 rows.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from spu_core.labels import soft_labels_for
from spu_core.metrics import auc_spu_score
from spu_core.rules import Compare, Ramp, Rule, RuleSet
from spu_core.tables import open_folder

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parent))
from tests.benchmarks.harness import BenchRow, alternate  # noqa: E402

SLOW = os.environ.get("SPU_SLOW") == "1"
ROWS = 5_000_000 if SLOW else 200_000
SMALL, LARGE = (1_000_000, 10_000_000) if SLOW else (100_000, 1_000_000)
FILE_ROWS = 250_000
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
run = cross_fit(table, soft_labels, [Candidate({method!r}, {{"rounds": 20}})], TrainConfig(folds=2, threads=2))[0]
assert run.error is None, run.error
found = {{"auc": run.metrics.auc_spu.estimate}}
"""
_LABEL = """
folder = open_folder({folder!r})
found = {{"mean": soft_labels_for(folder, rules).mean}}
"""
_END = """
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps({**found, "peak": peak, "cpu": time.process_time()}))
"""


def rows() -> list[BenchRow]:
    """Ratios of out-of-core to in-memory training, and growth of rules, scoring and metrics."""
    with tempfile.TemporaryDirectory() as scratch:
        return [*training_rows(Path(scratch)), *growth_rows(Path(scratch)), *metric_rows()]


def training_rows(scratch: Path) -> list[BenchRow]:
    """One cross-fit of two folds, from a folder and from memory, each in a process of its own."""
    folder, whole = write_rows(scratch / "rows", ROWS)
    size = f"{ROWS:.0e} × 30".replace("e+0", "e")
    found = []
    for method in ("lightgbm", "xgboost"):
        memory = measure(_TRAIN.format(table=f"read_table({str(whole)!r})", method=method))
        files = measure(_TRAIN.format(table=f"open_folder({str(folder)!r})", method=method))
        print(f"{method} in memory {memory}, out of core {files}", flush=True)
        found += [
            BenchRow(f"{method} {size}, peak memory out of core", files["peak"] / memory["peak"], 0.35, "at most"),
            BenchRow(f"{method} {size}, CPU out of core", files["cpu"] / memory["cpu"], 1.3, "at most"),
            BenchRow(f"{method} {size}, AUC_SPU apart", abs(files["auc"] - memory["auc"]), 0.002, "at most", ""),
        ]
    return found


def growth_rows(scratch: Path) -> list[BenchRow]:
    """Ten times the rows against ten times the cost: 1 is linear."""
    small, _ = write_rows(scratch / "small", SMALL, whole=False)
    large, _ = write_rows(scratch / "large", LARGE, whole=False)
    label = {path: measure(_LABEL.format(folder=str(path))) for path in (small, large)}
    seconds = {path: _labelling_seconds(path) for path in (small, large)}
    per_row = (label[large]["peak"] - label[small]["peak"]) / (LARGE - SMALL)
    times = LARGE / SMALL
    return [
        BenchRow(
            f"rules {SMALL:.0e} → {LARGE:.0e}, CPU against linear",
            seconds[large] / seconds[small] / times,
            1.2,
            "at most",
        ),
        BenchRow("opening and labelling a folder, memory for one more row", per_row, 40.0, "at most", "bytes"),
        BenchRow("scoring, CPU against linear", _scoring_growth(), 1.2, "at most"),
    ]


def metric_rows() -> list[BenchRow]:
    """AUC_SPU is one sort: N log N."""
    small, large = (1_000_000, 10_000_000) if SLOW else (100_000, 1_000_000)
    rng = np.random.default_rng(0)
    soft_label, score = rng.random(large), rng.random(large)
    seconds = alternate(
        {
            "small": lambda: auc_spu_score(soft_label[:small], score[:small]),
            "large": lambda: auc_spu_score(soft_label, score),
        },
        repeats=3,
    )
    expected = large * math.log(large) / (small * math.log(small))
    return [BenchRow("AUC_SPU, CPU against N log N", seconds["large"] / seconds["small"] / expected, 1.5, "at most")]


def measure(code: str) -> dict[str, float]:
    """What a fresh process with our own constant code found, its peak of memory, and its CPU seconds."""
    whole = _START.format(rules=RULES.to_json()) + code + _END
    result = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(result.stderr[-2_000:])
    return json.loads(result.stdout.splitlines()[-1])


def write_rows(folder: Path, count: int, *, whole: bool = True) -> tuple[Path, Path]:
    """Thirty feature columns and a label as files of a folder, and as one file beside it."""
    folder.mkdir()
    one = folder.with_suffix(".parquet")
    writer = None
    for number, start in enumerate(range(0, count, FILE_ROWS)):
        table = pa.Table.from_pandas(make_rows(min(FILE_ROWS, count - start), seed=number), preserve_index=False)
        pq.write_table(table, folder / f"part-{number:04d}.parquet")
        if whole:
            writer = writer or pq.ParquetWriter(one, table.schema)
            writer.write_table(table)
    if writer is not None:
        writer.close()
    return folder, one


def make_rows(count: int, seed: int) -> pd.DataFrame:
    """Numbers, whole numbers and levels; the label depends on some of them."""
    rng = np.random.default_rng(seed)
    columns: dict[str, object] = {f"x{n}": rng.normal(size=count) for n in range(24)}
    columns |= {f"n{n}": rng.integers(0, 100, count) for n in range(3)}
    columns |= {f"c{n}": rng.choice(["red", "green", "blue", "black"], count) for n in range(3)}
    frame = pd.DataFrame(columns)
    chance = 1 / (1 + np.exp(3 - frame["x0"] - frame["x2"] * frame["x3"] - 0.5 * (frame["c1"] == "red")))
    return frame.assign(label=(rng.random(count) < 0.5 * chance).astype(int))


def _labelling_seconds(path: Path) -> float:
    folder = open_folder(path)
    start = time.process_time()
    soft_labels_for(folder, RULES)
    return time.process_time() - start


def _scoring_growth() -> float:
    """Scoring from file to file by a small bundle, ten times the rows against ten times the CPU."""
    from spu_core.export import Bundle, Scoring
    from spu_core.tables import Table
    from spu_core.training import Candidate, TrainConfig, cross_fit

    table = Table.from_frame(make_rows(20_000, seed=0))
    run = cross_fit(table, soft_labels_for(table, RULES), [Candidate("lightgbm", {"rounds": 20})], TrainConfig(folds=2))
    bundle = Bundle.of(run[0])
    small, large = (100_000, 1_000_000) if SLOW else (20_000, 200_000)
    with tempfile.TemporaryDirectory() as scratch:
        paths = {size: write_rows(Path(scratch) / str(size), size)[1] for size in (small, large)}
        target = Path(scratch) / "scored.parquet"
        plain = Scoring(reasons=0)
        seconds = alternate(
            {str(size): lambda path=path: bundle.score_file(path, target, plain) for size, path in paths.items()},
            repeats=1,
        )
    return seconds[str(large)] / seconds[str(small)] / (large / small)
