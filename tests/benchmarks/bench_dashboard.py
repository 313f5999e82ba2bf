"""The dashboard in a real browser: 1e6 × 30 rows beside 1e4, bytes on the wire, memory of sessions, the first page.

Times are the server's CPU seconds, since those of a browser measure the machine. Bytes are those of the websocket.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from spu_core.engines import Job, run_here
from spu_core.training import Candidate, TrainConfig, TrainPlan
from spu_core.workspace import Workspace
from tests.benchmarks.bench_rules_page import RULES, some_table
from tests.benchmarks.harness import BenchRow
from tests.live import NO_BROWSER, Server, Tab, find_browser, open_tab_in, running_browser, running_server

SMALL, LARGE = 10_000, 1_000_000
LARGEST_CHART = 150_000
PAGES = ("data", "soft_labels", "train", "compare")
IDLE_SESSIONS = 8
TURNS = 4


def rows() -> list[BenchRow]:
    path = find_browser()
    if path is None:
        sys.exit(NO_BROWSER)
    with tempfile.TemporaryDirectory() as scratch, running_browser(path) as browser:
        home = Path(scratch) / "home"
        links = {count: kept(home, count) for count in (SMALL, LARGE)}
        with running_server(home, Path(scratch) / "server.log") as server:
            found = [*page_rows(browser, server, links), *interaction_rows(browser, server, links)]
            found += session_rows(browser, server, links)
        return found + start_rows(browser, Path(scratch))


def kept(home: Path, count: int) -> str:
    """A dataset with rules and a run; returns the address that opens them."""
    with Workspace.open(home) as workspace:
        dataset = workspace.datasets.save(some_table(count), f"{count} rows")
        rules = workspace.rule_sets.create(f"{count} rows", RULES.to_json())
        plan = TrainPlan(TrainConfig(folds=2), (Candidate("rule_score"),))
        named = {"dataset": dataset.id, "rule_set": rules.id, "rule_set_version": 1, "refine": False}
        done = run_here(workspace, Job(kind="train", parameters={**named, "plan": plan.to_json()}))
        assert done.status == "finished", done.error
    return f"?dataset={dataset.id}&rules={rules.id}"


class Wire:
    """Bytes that the server sent to a tab, and the largest single message."""

    def __init__(self, tab: Tab) -> None:
        self.sizes: list[int] = []
        tab.page.on("websocket", lambda socket: socket.on("framereceived", self._count))

    def _count(self, payload: Any) -> None:
        self.sizes.append(len(payload))


def process_of(server: Server) -> psutil.Process:
    """The process that serves: the one that listens on the port."""
    port = int(server.url.rsplit(":", 1)[1])
    listening = [each for each in psutil.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
    return psutil.Process(next(each.pid for each in listening if each.laddr.port == port))


@contextmanager
def cpu_of(server: Server) -> Iterator[Callable[[], float]]:
    process = process_of(server)
    before = sum(process.cpu_times()[:2])
    yield lambda: sum(process.cpu_times()[:2]) - before


def page_rows(browser: Any, server: Server, links: dict[int, str]) -> list[BenchRow]:
    """Each page opened anew on both tables, with warm caches; and what it sends."""
    found = []
    for page in PAGES:
        seconds: dict[int, list[float]] = {SMALL: [], LARGE: []}
        wires: dict[int, Wire] = {}
        for turn in range(TURNS):
            for count, link in links.items():
                tab = open_tab_in(browser, server)
                wires[count] = Wire(tab)
                with cpu_of(server) as used:
                    tab.open(page + link)
                    tab.page.wait_for_timeout(500)
                    tab.settle()
                if turn:  # the first visit fills the caches
                    seconds[count].append(used())
                tab.page.context.close()
        ratio = statistics.median(seconds[LARGE]) / statistics.median(seconds[SMALL])
        found.append(BenchRow(f"{page}: opened with 1e6 rows against 1e4", ratio, 3.0, "at most"))
        sent = wires[LARGE]
        found.append(BenchRow(f"{page}: largest message with 1e6 rows", max(sent.sizes) / 1e3, 150.0, "at most", "kB"))
        more = sum(sent.sizes) / sum(wires[SMALL].sizes)
        found.append(BenchRow(f"{page}: bytes with 1e6 rows against 1e4", more, 2.0, "at most"))
    return found


def interaction_rows(browser: Any, server: Server, links: dict[int, str]) -> list[BenchRow]:
    """The same gestures on both tables; each gesture is new, so that no cache answers it."""
    tabs = {count: open_tab_in(browser, server).open(f"soft_labels{link}") for count, link in links.items()}
    found = []
    for name, act in GESTURES.items():
        seconds: dict[int, list[float]] = {SMALL: [], LARGE: []}
        for turn in range(TURNS):
            for count, tab in tabs.items():
                with cpu_of(server) as used:
                    act(tab, turn)
                    tab.page.wait_for_timeout(200)
                    tab.settle()
                seconds[count].append(used())
        ratio = statistics.median(seconds[LARGE][1:]) / statistics.median(seconds[SMALL][1:])
        found.append(BenchRow(f"rules in the browser, {name}: 1e6 rows against 1e4", ratio, 3.0, "at most"))
    return found


def brush(tab: Tab, turn: int) -> None:
    area = tab.page.locator("[class*=st-key-rule_][class*=_chart] .nsewdrag").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    middle, start = box["y"] + box["height"] / 2, box["x"] + (0.1 + 0.05 * turn) * box["width"]
    tab.page.mouse.move(start, middle)
    tab.page.mouse.down()
    tab.page.mouse.move(start + 0.3 * box["width"], middle, steps=8)
    tab.page.mouse.up()


def believe(tab: Tab, turn: int) -> None:
    slider = tab.page.locator("[class*=st-key-rule_][class*=_belief] input[type=range]").first
    slider.focus()
    slider.press("ArrowLeft")


def switch(tab: Tab, turn: int) -> None:
    tab.page.locator("[class*=st-key-soft_][class*=_0_on] label").first.click()


GESTURES: dict[str, Callable[[Tab, int], None]] = {"a brush": brush, "a belief": believe, "a switched rule": switch}


def session_rows(browser: Any, server: Server, links: dict[int, str]) -> list[BenchRow]:
    """What one more idle session costs, once the shared tables are loaded."""
    process = process_of(server)
    open_tab_in(browser, server).open(f"soft_labels{links[LARGE]}")
    before = process.memory_info().rss
    for _ in range(IDLE_SESSIONS):
        open_tab_in(browser, server).open(f"soft_labels{links[LARGE]}")
    each = (process.memory_info().rss - before) / IDLE_SESSIONS
    return [BenchRow("memory of an idle session", each / 1e6, 3.0, "at most", "MB")]


def start_rows(browser: Any, scratch: Path) -> list[BenchRow]:
    """The first page of a fresh server beside Streamlit's own hello."""
    ours, hello = [], []
    for turn in range(3):
        with running_server(scratch / f"empty{turn}", scratch / "ours.log") as server:
            ours.append(first_page(browser, server))
        with running_server(scratch / f"empty{turn}", scratch / "hello.log", command=HELLO) as server:
            hello.append(first_page(browser, server))
    ratio = statistics.median(ours) / statistics.median(hello)
    return [BenchRow("first page after the start against streamlit hello", ratio, 2.0, "at most")]


HELLO = "-m streamlit hello --server.headless true --server.address 127.0.0.1 --server.port"


def first_page(browser: Any, server: Server) -> float:
    tab = open_tab_in(browser, server)
    with cpu_of(server) as used:
        tab.open()
    tab.page.context.close()
    return used()
