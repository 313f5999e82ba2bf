"""A CSV of 200 MB through the file chooser: what is shown, how long other pages take, and when it is there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.benchmarks.harness import BenchRow
from tests.live import Tab, open_tab_in, running_server

SIZE = 200_000_000
BLOCK_ROWS = 20_000
PATIENCE = 300.0
BUSY = "[data-testid=stFileUploaderFile], [data-testid=stSpinner], .st-key-data_reading"


def upload_rows(browser: Any, scratch: Path) -> Iterator[BenchRow]:
    """One tab brings the file; another opens a page again and again until the table is shown."""
    path = scratch / "large.csv"
    rows = write_csv(path)
    try:
        with running_server(scratch / "uploads", scratch / "uploads.log") as server:
            here, elsewhere = open_tab_in(browser, server).open("data"), open_tab_in(browser, server).open()
            alone = max(opened(elsewhere) for _ in range(3))
            begun = time.monotonic()
            with here.page.expect_file_chooser() as chooser:
                here.page.locator("[class*=st-key-data_upload_] button").first.click()
            chooser.value.set_files(path)
            shown, waits = watch(here, elsewhere, f"{rows:,}", begun)
            seconds = time.monotonic() - begun
            here.settle()
        yield BenchRow("200 MB chosen, until its table is shown", seconds, 120.0, "at most", "s")
        yield BenchRow("200 MB on the way, different words of progress", len(shown), 3.0, "at least", "")
        yield BenchRow(
            f"200 MB on the way, longest wait elsewhere ({alone:.1f} s else)", max(waits), 5.0, "at most", "s"
        )
    finally:
        path.unlink()


def watch(here: Tab, elsewhere: Tab, wanted: str, begun: float) -> tuple[set[str], list[float]]:
    """The words of progress that were shown, and how long each opening of another page took."""
    shown, waits = set(), []
    while wanted not in here.text:
        assert time.monotonic() - begun < PATIENCE, here.text
        shown.update(" ".join(words.split()) for words in here.page.locator(BUSY).all_inner_texts())
        waits.append(opened(elsewhere))
    return shown, waits


def opened(tab: Tab) -> float:
    before = tab.runs.seconds
    tab.open()
    return tab.runs.seconds - before


def write_csv(path: Path) -> int:
    """Blocks of the same random numbers until the file is large enough; returns the number of rows."""
    rng = np.random.default_rng(0)
    block = pd.DataFrame({f"x{place}": rng.normal(size=BLOCK_ROWS).round(5) for place in range(20)})
    block["label"] = (rng.random(BLOCK_ROWS) < 0.01).astype(int)
    text = block.to_csv(index=False)
    header, _, body = text.partition("\n")
    blocks = -(-SIZE // len(body))
    with path.open("w") as file:
        file.write(header + "\n")
        for _ in range(blocks):
            file.write(body)
    return blocks * BLOCK_ROWS
