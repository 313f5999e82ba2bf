"""Every page and part of the anti-cheat sample (8,000 rows, six trained candidates): seconds until it is complete.

*Complete* is from the click until the run has ended and all is drawn, the pause of the browser included in which it
holds back clicks. The first visit fills the caches of the server, the second finds them full, as for other analysts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from spu_core.tables.samples import load_sample, load_sample_rules
from spu_core.training import SHORTLIST, Candidate
from spu_core.workspace import Workspace
from tests.benchmarks.harness import BenchRow, process_of
from tests.dashboard.trained import train_quickly
from tests.live import Tab, open_tab_in, running_server

FIRST_SECONDS, SECONDS = 1.5, 1.0
Click = Callable[[Tab], None]


def _page(name: str) -> Click:
    return lambda tab: tab.page.locator("section[data-testid=stSidebar]").get_by_role("link", name=name).click()


def _tab(name: str) -> Click:
    return lambda tab: tab.page.get_by_role("tab", name=name, exact=True).click()


def _section(name: str) -> Click:
    return lambda tab: tab.page.get_by_role("radio", name=name, exact=True).click()


CLICKS: dict[str, Click] = {
    "Data": _page("Data"),
    "Soft labels": _page("Soft labels"),
    **{f"Soft labels, {name}": _tab(name) for name in ("Analysis", "Explain a row", "Audit", "Versions and files")},
    "Train": _page("Train"),
    "Compare": _page("Compare"),
    **{f"Compare, {name}": _tab(name) for name in ("Differences", "Costs", "Calibration", "Scores", "Segments")},
    "Trust": _page("Trust"),
    **{
        f"Trust, {name}": _section(name)
        for name in ("Outcomes", "Rules and labels", "Wrong rules", "How many cases?", "What-if map")
    },
    "Export": _page("Export"),
    **{f"Export, {name}": _tab(name) for name in ("Score a new file", "Import")},
    "Paper": _page("Paper"),
    "Start": _page("Start"),
}


def click_rows(browser: Any, scratch: Path) -> Iterator[BenchRow]:
    """Seconds of each click, at the first visit and at the second in a session of its own."""
    home = scratch / "clicks"
    query = _prepare(home)
    with running_server(home, scratch / "clicks.log") as server:
        for visit, limit in (("first visit", FIRST_SECONDS), ("again", SECONDS)):
            tab = open_tab_in(browser, server).open(f"?{query}")
            for name, click in CLICKS.items():
                process = process_of(server)
                begun, used = time.perf_counter(), sum(process.cpu_times()[:2])
                click(tab)
                tab.settle()
                waited, used = time.perf_counter() - begun, sum(process.cpu_times()[:2]) - used
                yield BenchRow(f"{name}, {visit} (CPU of the server {used:.2f} s)", waited, limit, "at most", "s")
            tab.page.context.close()


def _prepare(home: Path) -> str:
    with Workspace.open(home) as workspace:
        dataset = workspace.datasets.save(load_sample("anti_cheat"), "Anti-cheat game")
        rules = workspace.rule_sets.create("Anti-cheat game", load_sample_rules("anti_cheat"), dataset=dataset.id)
        address = {"dataset": dataset.id, "rules": rules.id}
        train_quickly(workspace, address, tuple(Candidate(key) for key in SHORTLIST))
    return "&".join(f"{key}={token}" for key, token in address.items())
