"""The dashboard in a real browser: 1e6 × 30 rows beside 1e4, bytes on the wire, memory of sessions, first page, load.

*Waited* is from what the browser asks until the last answer of the run has reached it, *CPU* the server's own seconds,
which a busy machine disturbs less. Bytes are those of the websocket.
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spu_core.engines import Job, run_in_process
from spu_core.training import Candidate, TrainConfig, TrainPlan
from spu_core.workspace import Workspace
from tests.benchmarks import watched
from tests.benchmarks.bench_rules_page import RULES, some_table
from tests.benchmarks.clicks import click_rows
from tests.benchmarks.gestures import GESTURES
from tests.benchmarks.harness import BenchRow, process_of
from tests.benchmarks.load import load_rows, memory_rows
from tests.benchmarks.upload import upload_rows
from tests.live import APP, NO_BROWSER, Server, Tab, find_browser, open_tab_in, running_browser, running_server

SMALL, LARGE = 10_000, 1_000_000
PAGES = ("data", "soft_labels", "train", "compare")
WARM_SESSIONS, IDLE_SESSIONS = 4, 16
BALLAST = 5_000_000
TURNS = 4


def rows(*chosen: str) -> Iterator[BenchRow]:
    path = find_browser()
    if path is None:
        sys.exit(NO_BROWSER)
    wanted = chosen or PARTS
    with tempfile.TemporaryDirectory() as scratch, running_browser(path) as browser:
        if any(name in wanted for name in WITH_TABLES):
            home = Path(scratch) / "home"
            links = {count: kept(home, count) for count in (SMALL, LARGE)}
            for name, measure in WITH_SERVER.items():
                if name in wanted:
                    with running_server(home, Path(scratch) / "server.log") as server:
                        yield from measure(browser, server, links)
            if "sessions" in wanted:
                yield from session_rows(browser, home, links[LARGE])
        for name, alone in ALONE.items():
            if name in wanted:
                yield from alone(browser, Path(scratch))


def kept(home: Path, count: int) -> str:
    """A dataset with rules and a run; returns the address that opens them."""
    with Workspace.open(home) as workspace:
        dataset = workspace.datasets.save(some_table(count), f"{count} rows")
        rules = workspace.rule_sets.create(f"{count} rows", RULES.to_json())
        plan = TrainPlan(TrainConfig(folds=2), (Candidate("rule_score"),))
        named = {"dataset": dataset.id, "rule_set": rules.id, "rule_set_version": 1, "refine": False}
        done = run_in_process(workspace, Job(kind="train", parameters={**named, "plan": plan.to_json()}))
        assert done.status == "finished", done.error
    return f"?dataset={dataset.id}&rules={rules.id}"


class Wire:
    """Bytes that the server sent to a tab, and the largest single message."""

    def __init__(self, tab: Tab) -> None:
        self.sizes: list[int] = []
        tab.page.on("websocket", lambda socket: socket.on("framereceived", self._count))

    def _count(self, payload: Any) -> None:
        self.sizes.append(len(payload))


@contextmanager
def cpu_of(server: Server) -> Iterator[Callable[[], float]]:
    process = process_of(server)
    before = sum(process.cpu_times()[:2])
    yield lambda: sum(process.cpu_times()[:2]) - before


def page_rows(browser: Any, server: Server, links: dict[int, str]) -> Iterator[BenchRow]:
    """Each page opened anew on both tables, with warm caches; and what it sends."""
    for page in PAGES:
        seconds: dict[int, list[float]] = {SMALL: [], LARGE: []}
        wires: dict[int, Wire] = {}
        for turn in range(TURNS):
            for count, link in links.items():
                tab = open_tab_in(browser, server)
                wires[count] = Wire(tab)
                with cpu_of(server) as used:
                    tab.open(page + link)
                if turn:  # the first visit fills the caches
                    seconds[count].append(used())
                tab.page.context.close()
        ratio = statistics.median(seconds[LARGE]) / statistics.median(seconds[SMALL])
        yield BenchRow(f"{page}: opened, CPU: 1e6 rows against 1e4", ratio, 3.0, "at most")
        sent = wires[LARGE]
        yield BenchRow(f"{page}: largest message with 1e6 rows", max(sent.sizes) / 1e3, 150.0, "at most", "kB")
        more = sum(sent.sizes) / sum(wires[SMALL].sizes)
        yield BenchRow(f"{page}: bytes: 1e6 rows against 1e4", more, 2.0, "at most")


def gesture_rows(browser: Any, server: Server, links: dict[int, str]) -> Iterator[BenchRow]:
    """The same gestures on both tables, in turns: how long the browser waits, and what it costs the server."""
    tabs = {count: open_tab_in(browser, server).open(f"soft_labels{link}") for count, link in links.items()}
    for name, gesture in GESTURES.items():
        waited: dict[int, list[float]] = {SMALL: [], LARGE: []}
        worked: dict[int, list[float]] = {SMALL: [], LARGE: []}
        for turn in range(TURNS):
            for count, tab in tabs.items():
                for prepare in gesture.before:
                    prepare(tab, turn)
                    tab.settle()
                before = tab.runs.seconds
                with cpu_of(server) as used:
                    gesture.act(tab, turn)
                    tab.settle()
                waited[count].append(tab.runs.seconds - before)
                worked[count].append(used())
                assert waited[count][-1] > 0, f"{name} did nothing"
        for what, seconds in (("waited", waited), ("CPU", worked)):
            small, large = (statistics.median(seconds[count][1:]) for count in (SMALL, LARGE))
            named = f"rules, {name}, {what}: 1e6 rows ({large:.2f} s) against 1e4"
            yield BenchRow(named, large / small, 3.0, "at most")


def session_rows(browser: Any, home: Path, link: str) -> Iterator[BenchRow]:
    """What one more idle session costs, once the shared tables are loaded: the slope over sessions that stay open.

    The measure is tried first on sessions that carry a known ballast: it must find that again.
    """
    slopes = {}
    for ballast in (0, BALLAST):
        answer, log = home.with_name(f"held-{ballast}"), home.with_name(f"watched-{ballast}.log")
        settings = watched.environment(home, answer, ballast)
        with running_server(home, log, command=watched.COMMAND, **settings) as server:
            slopes[ballast] = slope_of([*bytes_held(browser, server, answer, link)][WARM_SESSIONS:])
    each, error = slopes[0]
    found = (slopes[BALLAST][0] - each) / 1e6
    yield BenchRow(
        f"sessions: found of a ballast of {BALLAST / 1e6:g} MB", found, 0.9 * BALLAST / 1e6, "at least", "MB"
    )
    named = f"memory of an idle session, {each / 1e6:.2f} MB with two standard errors"
    yield BenchRow(named, (each + 2 * error) / 1e6, 3.0, "at most", "MB")


def bytes_held(browser: Any, server: Server, answer: Path, link: str) -> Iterator[int]:
    """What the server holds after each further session, which has seen every page and then stays idle."""
    process = process_of(server)
    for _ in range(WARM_SESSIONS + IDLE_SESSIONS):
        tab = open_tab_in(browser, server).open("data" + link)
        for page in ("Soft labels", "Train", "Compare"):  # by links: a page that is loaded anew is another session
            tab.page.locator("section[data-testid=stSidebar]").get_by_role("link", name=page).click()
            tab.settle()
        yield watched.ask(process, answer)


def slope_of(values: Sequence[float]) -> tuple[float, float]:
    """(growth per step, its standard error) of a straight line through the values."""
    places = range(len(values))
    line = statistics.linear_regression(places, values)
    rest = [value - line.intercept - line.slope * place for place, value in zip(places, values, strict=True)]
    spread = sum((place - statistics.fmean(places)) ** 2 for place in places)
    return line.slope, math.sqrt(sum(each**2 for each in rest) / (len(values) - 2) / spread)


def start_rows(browser: Any, scratch: Path) -> Iterator[BenchRow]:
    """The first page of a fresh server beside Streamlit's own hello, in turns."""
    found: dict[str, list[dict[str, float]]] = {OURS: [], HELLO: []}
    for turn in range(2 * TURNS):
        command = (OURS, HELLO)[turn % 2]
        with running_server(scratch / f"empty{turn}", scratch / f"start{turn}.log", command=command) as server:
            found[command].append(first_page(browser, server))
    for what in ("waited", "CPU"):
        ours, hello = (statistics.median(each[what] for each in found[command]) for command in (OURS, HELLO))
        named = f"first page after the start, {what}: ours ({ours:.2f} s) against hello"
        yield BenchRow(named, ours / hello, 2.0, "at most")


def first_page(browser: Any, server: Server) -> dict[str, float]:
    """Seconds that the browser waits for the first page of a cold server, and the server's CPU seconds."""
    tab = open_tab_in(browser, server)
    with cpu_of(server) as used:
        tab.open()
    tab.page.context.close()
    return {"waited": tab.runs.seconds, "CPU": used()}


OURS, HELLO = APP, "-m streamlit hello --server.headless true --server.address 127.0.0.1 --server.port"
WITH_SERVER = {"pages": page_rows, "gestures": gesture_rows}
WITH_TABLES = (*WITH_SERVER, "sessions")
ALONE = {"start": start_rows, "upload": upload_rows, "load": load_rows, "memory": memory_rows, "clicks": click_rows}
PARTS = (*WITH_TABLES, *ALONE)
