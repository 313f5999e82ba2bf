"""Folders of parquet files for tests: any frame, cut anywhere, each file in a form of its own."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq


def mixed_frame(rows: int, seed: int = 0) -> pd.DataFrame:
    """Numbers with and without gaps, levels, flags, dates, ids, a label, a truth: what tables are made of."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    truth = rng.random(rows) < 1 / (1 + np.exp(1.5 - 2 * x))
    frame = pd.DataFrame(
        {
            "user_id": np.arange(rows) * 7 + 3,
            "x": x,
            "visits": rng.integers(0, 50, rows),
            "amount": np.where(rng.random(rows) < 0.1, np.nan, rng.gamma(2.0, 100.0, rows).round(2)),
            "city": rng.choice(["Bern", "Basel", "Chur"], rows, p=[0.6, 0.3, 0.1]),
            "plan": np.where(rng.random(rows) < 0.2, None, rng.choice(["free", "paid"], rows)),
            "member": rng.random(rows) < 0.3,
            "signed_at": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, rows), unit="D"),
            "label": (truth & (rng.random(rows) < 0.4)).astype(int),
            "truth": truth.astype(int),
        }
    )
    return frame.astype({"city": "str", "plan": "str"})


def write_folder(frame: pd.DataFrame, folder: Path, cuts: list[int], *, varied: bool = False) -> Path:
    """The rows of a frame as files cut at these places; `varied` gives every second file other forms and order."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (start, end) in enumerate(pairwise([0, *sorted(cuts), len(frame)])):
        part = frame.iloc[start:end]
        if varied and number % 2:
            part = _in_another_form(part)
        table = pa.Table.from_pandas(part, preserve_index=False)
        pq.write_table(table, folder / f"part-{number:03d}.parquet", row_group_size=9 + (number * 13) % 50)
    return folder


def write_whole(frame: pd.DataFrame, path: Path) -> Path:
    """All rows as one file."""
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path)
    return path


def _in_another_form(part: pd.DataFrame) -> pd.DataFrame:
    """Columns from last to first; texts as categories of the levels that occur here, whole numbers as short ones."""
    changed = part[part.columns[::-1]].copy()
    for name in changed.columns:
        if changed[name].dtype == "str":
            changed[name] = changed[name].astype("category")
        elif changed[name].dtype == "int64" and len(changed) and changed[name].abs().max() < 30_000:
            changed[name] = changed[name].astype("int16")
    return changed
