"""`spu serve` against `Bundle.score` in process: batches of 1,000 rows, and single rows.

A server in a thread and its client share the process, so the CPU time of both is counted.
"""

from __future__ import annotations

import http.client
import json
import statistics
import threading
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import uvicorn

from spu_core.export import Bundle
from spu_core.export.service import make_app
from tests.benchmarks.harness import BenchRow, alternate
from tests.export.examples import example, make_frame
from tests.live import free_address

BATCH = 1_000
SINGLE = 200


def rows() -> list[BenchRow]:
    found = []
    for method in ("lightgbm", "fused"):
        bundle = example(method).bundle
        _, port = free_address()
        server = uvicorn.Server(uvicorn.Config(make_app(bundle), port=port, log_level="error"))
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            found += _measure(method, bundle, port)
        finally:
            server.should_exit = True
            thread.join()
    return found


def _measure(method: str, bundle: Bundle, port: int) -> list[BenchRow]:
    batch, single = make_frame(BATCH, seed=5), make_frame(1, seed=6)
    seconds = alternate({"score": lambda: bundle.score(batch), "serve": _caller(port, batch)}, repeats=11)
    call = _caller(port, single)
    waits: dict[str, list[float]] = {"score": [], "serve": []}
    for _ in range(SINGLE):
        for name, work in (("score", lambda: bundle.score(single)), ("serve", call)):
            start = time.perf_counter()
            work()
            waits[name].append(time.perf_counter() - start)
    slow = float(np.quantile(waits["serve"], 0.95)) / statistics.median(waits["score"])
    return [
        BenchRow(
            f"{method}, {BATCH:,} rows: Bundle.score over POST /score",
            seconds["score"] / seconds["serve"],
            0.5,
            "at least",
        ),
        BenchRow(f"{method}, one row: p95 of POST /score over Bundle.score", slow, 10.0, "at most"),
    ]


def _caller(port: int, frame: pd.DataFrame) -> Callable[[], bytes]:
    dated = frame.assign(when=frame["when"].dt.strftime("%Y-%m-%d"))
    body = json.dumps({"rows": json.loads(dated.to_json(orient="records"))})
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def call() -> bytes:
        connection.request("POST", "/score", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = answer.read()
        assert answer.status == 200, data
        return data

    return call
