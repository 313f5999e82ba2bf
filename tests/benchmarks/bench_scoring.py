"""Scoring with a bundle against the booster's own predict, and memory while short and long files stream through.

The usual sizes take a minute or two; SPU_SLOW=1 adds five million rows.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from spu_core.export import Bundle, FlagPoint, ModelDetails, Scoring, save_bundle
from spu_core.labels import SoftLabels
from spu_core.tables import Role, Table
from spu_core.training import Candidate, TrainConfig, cross_fit
from tests.benchmarks.harness import BenchRow, alternate, peak_memory_of

SLOW = os.environ.get("SPU_SLOW") == "1"
ROWS = 1_000_000 if SLOW else 200_000
NUMBERS, LEVELS = 12, 3
PART = 200_000
SIZES = (200_000, 1_000_000, 5_000_000) if SLOW else (200_000, 1_000_000)
# A rank is a statement about all rows: the score of each is kept, and mapped into memory.
BYTES_PER_ROW = 8
STREAM = """
from spu_core.export import Scoring, load_bundle
from spu_core.export.archive import digest
path = {bundle!r}
bundle = load_bundle(path, known_hash=digest(open(path, "rb").read()))
bundle.score_file({source!r}, {target!r}, Scoring(reasons=0))
"""


def rows() -> list[BenchRow]:
    bundle = _bundle()
    return [*_throughput(bundle), *_memory(bundle)]


def _throughput(bundle: Bundle) -> list[BenchRow]:
    frame = _frame(ROWS, seed=1)
    model = bundle.fitted.model
    matrix = bundle.features(frame).select(model.active_).matrix
    seconds = alternate(
        {
            "booster": lambda: model.booster_.predict(matrix, num_threads=model.threads),
            "predict": lambda: bundle.predict(frame),
            "score": lambda: bundle.score(frame, Scoring(reasons=0)),
        },
        repeats=3,
    )
    return [
        BenchRow(
            f"{ROWS:,} rows: bundle.predict over booster", seconds["booster"] / seconds["predict"], 0.8, "at least"
        ),
        BenchRow(f"{ROWS:,} rows: bundle.score over booster", seconds["booster"] / seconds["score"], 0.8, "at least"),
    ]


def _memory(bundle: Bundle) -> list[BenchRow]:
    """Peak memory of a fresh process for long files over that for a short one, without the scores: 1 is flat."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        save_bundle(bundle, place / "model.spu")
        return [row for suffix in ("csv", "parquet") for row in _growth(place, suffix)]


def _growth(place: Path, suffix: str) -> list[BenchRow]:
    short, *longer = (_peak(place, suffix, count) - BYTES_PER_ROW * count for count in SIZES)
    name = f"over {SIZES[0]:,} rows ({suffix}), but for {BYTES_PER_ROW} bytes a row"
    return [
        BenchRow(f"memory, {count:,} {name}", peak / short, 1.2, "at most")
        for count, peak in zip(SIZES[1:], longer, strict=True)
    ]


def _peak(place: Path, suffix: str, count: int) -> int:
    source = place / f"rows.{suffix}"
    _write(source, count)
    names = {"bundle": str(place / "model.spu"), "source": str(source), "target": str(place / f"scored.{suffix}")}
    return peak_memory_of(STREAM.format(**names))


def _write(path: Path, count: int) -> None:
    import pyarrow as pa
    import pyarrow.csv as arrow_csv
    import pyarrow.parquet as parquet

    part = pa.Table.from_pandas(_frame(PART, seed=2), preserve_index=False)
    write = arrow_csv.CSVWriter if path.suffix == ".csv" else parquet.ParquetWriter
    with write(str(path), part.schema) as writer:
        for _ in range(count // part.num_rows):
            writer.write_table(part)


def _frame(count: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    numbers = {f"n{place}": rng.normal(size=count).round(4) for place in range(NUMBERS)}
    levels = {f"c{place}": pd.Categorical(rng.choice(np.array(list("abcdefgh")), count)) for place in range(LEVELS)}
    return pd.DataFrame({"id": np.arange(count), **numbers, **levels})


def _bundle() -> Bundle:
    frame = _frame(20_000, seed=0)
    belief = 1 / (1 + np.exp(-(frame["n0"] + frame["n1"] * (frame["c0"] == "a"))))
    table = Table.from_frame(frame, roles={"id": Role.ID})
    soft_labels = SoftLabels.from_values(belief.to_numpy(), np.zeros(len(frame), dtype=bool))
    candidate = Candidate("lightgbm", {"rounds": 200})
    [run] = cross_fit(table, soft_labels, [candidate], TrainConfig(folds=2))
    return Bundle.of(run, details=ModelDetails.of(table), point=FlagPoint(threshold=0.9, share=0.05))
