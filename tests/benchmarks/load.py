"""Twenty analysts at once: websocket clients that open one page after another, beside the same on a bare page.

Each client thinks for a while between two pages. *Waited* is from the request until the script has finished, *CPU* the
server's own seconds for each rerun. A bare page is what Streamlit itself costs; both are measured in the same run.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from spu_core.engines import Job, cancel, start_worker
from spu_core.tables.samples import load_sample, load_sample_rules
from spu_core.training import SHORTLIST, Candidate, TrainConfig, TrainPlan
from spu_core.workspace import Workspace
from tests.benchmarks.harness import BenchRow, process_of
from tests.dashboard.trained import train_quickly
from tests.live import Server, running_server

ANALYSTS, THINK_SECONDS, VISITS = 20, 3.0, 9
MINUTES, WARM_MINUTES = 10.0, 2.0
PAGES = ("", "data", "soft_labels", "train", "compare", "trust", "export", "paper")
# A page that sends fewer was not shown.
FEWEST_ELEMENTS = 3
BARE = "-m streamlit run {home} --server.headless true --server.address 127.0.0.1 --server.port"
BARE_PAGE = """import streamlit as st
st.title("Bare")
st.slider("A", 0, 10)
st.write("Nothing else is here.")
"""


@dataclass(frozen=True)
class Load:
    """What the analysts waited, and the server's CPU seconds for each rerun."""

    waited: list[float]
    cpu: float
    errors: int

    @property
    def p95(self) -> float:
        return statistics.quantiles(self.waited, n=20)[-1]


def load_rows(browser: Any, scratch: Path) -> Iterator[BenchRow]:
    """Ratios of p95 and CPU to a bare page, on a quiet server and beside a training."""
    home, bare_page = scratch / "load", scratch / "bare.py"
    bare_page.write_text(BARE_PAGE)
    query = _prepare(home)
    for beside in (False, True):
        with running_server(home, scratch / "load.log") as server, _training(home, query, wanted=beside):
            ours = _measure(server, PAGES, "&".join(f"{key}={token}" for key, token in query.items()))
        with (
            running_server(bare_page, scratch / "bare.log", command=BARE) as server,
            _training(home, query, wanted=beside),
        ):
            bare = _measure(server, ("",), "")
        where = ", beside a training" if beside else ""
        words = f"{ANALYSTS} analysts{where}"
        yield BenchRow(f"{words}: p95 ({ours.p95:.2f} s) against a bare page", ours.p95 / bare.p95, 1.2, "at most")
        yield BenchRow(
            f"{words}: CPU ({1e3 * ours.cpu:.0f} ms) against a bare page", ours.cpu / bare.cpu, 0.9, "at most"
        )
        yield BenchRow(f"{words}: errors", float(ours.errors), 0.0, "at most", "")


def memory_rows(browser: Any, scratch: Path) -> Iterator[BenchRow]:
    """What the server holds after ten minutes of twenty analysts, against two minutes: caches are full by then."""
    home = scratch / "memory"
    query = "&".join(f"{key}={token}" for key, token in _prepare(home).items())
    visits = round(60 * MINUTES / THINK_SECONDS)
    with running_server(home, scratch / "memory.log") as server, ThreadPoolExecutor(1) as beside:
        process, begun, held = process_of(server), time.monotonic(), []
        load = beside.submit(asyncio.run, _all_visits(server.url, PAGES, query, visits))
        while not load.done():
            time.sleep(1)
            if time.monotonic() - begun > 60 * WARM_MINUTES:
                held.append(process.memory_info().rss)
        errors = sum(error for _, error in load.result())
    tenth = len(held) // 10
    early, late = (statistics.median(part) for part in (held[:tenth], held[-tenth:]))
    words = f"{ANALYSTS} analysts, {len(load.result())} visits: memory at the end ({late / 1e6:.0f} MB)"
    yield BenchRow(f"{words} against {WARM_MINUTES:g} minutes", late / early, 1.05, "at most")
    yield BenchRow(f"{ANALYSTS} analysts for {MINUTES:g} minutes: errors", float(errors), 0.0, "at most", "")


def _prepare(home: Path) -> dict[str, str]:
    with Workspace.open(home) as workspace:
        dataset = workspace.datasets.save(load_sample("anti_cheat"), "Anti-cheat game")
        rules = workspace.rule_sets.create("Anti-cheat game", load_sample_rules("anti_cheat"))
        query = {"dataset": dataset.id, "rules": rules.id}
        train_quickly(workspace, query)
    return query


@contextmanager
def _training(home: Path, query: dict[str, str], *, wanted: bool) -> Iterator[None]:
    """A training that runs meanwhile, in a process of its own."""
    if not wanted:
        yield
        return
    plan = TrainPlan(TrainConfig(folds=10), tuple(Candidate(key) for key in SHORTLIST))
    named = {"dataset": query["dataset"], "rule_set": query["rules"], "rule_set_version": 1, "plan": plan.to_json()}
    with Workspace.open(home) as workspace:
        job = start_worker(workspace, Job(kind="train", parameters=named))
        try:
            yield
        finally:
            cancel(workspace, job.id)


def _measure(server: Server, pages: tuple[str, ...], query: str) -> Load:
    process = process_of(server)
    with ThreadPoolExecutor(1) as beside:  # Playwright keeps an event loop in this thread
        first = _visit(server.url, pages, query, place=0, visits=len(pages), think=0.0)
        beside.submit(asyncio.run, first).result()  # fills the caches
        before = sum(process.cpu_times()[:2])
        found = beside.submit(asyncio.run, _all_visits(server.url, pages, query, VISITS)).result()
        used = sum(process.cpu_times()[:2]) - before
    waited = [seconds for seconds, _ in found]
    return Load(waited, used / len(waited), sum(error for _, error in found))


async def _all_visits(url: str, pages: tuple[str, ...], query: str, visits: int) -> list[tuple[float, bool]]:
    clients = [_visit(url, pages, query, place, visits, THINK_SECONDS) for place in range(ANALYSTS)]
    return [each for found in await asyncio.gather(*clients) for each in found]


async def _visit(
    url: str, pages: tuple[str, ...], query: str, place: int, visits: int, think: float
) -> list[tuple[float, bool]]:
    """One analyst: opens pages in turn, and waits for each; (seconds, whether it failed) for each."""
    found = []
    await asyncio.sleep(think * place / ANALYSTS)
    address = f"{url.replace('http', 'ws', 1)}/_stcore/stream"
    async with websockets.connect(address, subprotocols=["streamlit"], max_size=None, origin=url) as socket:
        for visit in range(visits):
            message = BackMsg()
            message.rerun_script.query_string = query
            message.rerun_script.page_name = pages[(place + visit) % len(pages)]
            begun, failed, shown = time.perf_counter(), False, 0
            await socket.send(message.SerializeToString())
            while True:
                answer = ForwardMsg.FromString(await asyncio.wait_for(socket.recv(), 120))
                shown += answer.WhichOneof("type") in ("delta", "ref_hash")
                failed |= answer.delta.new_element.HasField("exception")
                if answer.WhichOneof("type") == "script_finished":
                    break
            found.append((time.perf_counter() - begun, failed or shown < FEWEST_ELEMENTS))
            await asyncio.sleep(think)
    return found
