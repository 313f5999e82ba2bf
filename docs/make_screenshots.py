"""Make the screenshots of the documentation anew: `python docs/make_screenshots.py [FOLDER]`.

A dashboard is started on an empty workspace, the anti-cheat sample is trained in it, and every page that exists is
opened in a real Chromium, some also dark and as narrow as a phone. A page that fails is named at the end.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from spu_core.engines import Job, run_here
from spu_core.models import METHODS
from spu_core.tables.samples import load_sample, load_sample_rules
from spu_core.training import Candidate, TrainConfig, TrainPlan
from spu_core.workspace import Workspace
from tests.live import NO_BROWSER, ROOT, Server, find_browser, open_tab_in, running_browser, running_server

SAMPLE = "anti_cheat"
CANDIDATES = ("fused", "lightgbm", "logistic", "labeled_vs_rest", "weighted_elkan_noto", "rule_score")
PAGES = ("", "data", "soft_labels", "train", "compare", "trust", "export", "paper")
DARK = NARROW = ("soft_labels", "compare")
WIDE_SIZE, NARROW_SIZE = {"width": 1440, "height": 1000}, {"width": 390, "height": 844}


@dataclass(frozen=True)
class Shot:
    """One picture: which page, how it looks, and what its file is called."""

    page: str
    dark: bool = False
    narrow: bool = False

    @property
    def file(self) -> str:
        return f"{self.page or 'start'}{'-narrow' * self.narrow}{'-dark' * self.dark}.png"

    def take(self, browser: Any, server: Server, query: str, folder: Path) -> None:
        tab = open_tab_in(browser, server, dark=self.dark, **(NARROW_SIZE if self.narrow else WIDE_SIZE))
        try:
            tab.open(f"{self.page}?{query}")
            tab.page.wait_for_timeout(1500)
            tab.settle()
            assert "An unexpected error occurred" not in tab.text, tab.text
            tab.page.screenshot(path=folder / self.file)
        finally:
            tab.page.context.close()


def main(folder: Path) -> None:
    browser_path = find_browser()
    if browser_path is None:
        sys.exit(NO_BROWSER)
    failed = []
    with tempfile.TemporaryDirectory() as scratch, running_browser(browser_path) as browser:
        home = Path(scratch) / "home"
        query = prepare(home)
        with running_server(home, Path(scratch) / "server.log") as server:
            for shot in shots():
                try:
                    shot.take(browser, server, query, folder)
                    print(folder / shot.file)
                except Exception as problem:
                    # One page that cannot be shown is no reason to go without the others.
                    failed.append(f"{shot.file}: {str(problem).splitlines()[0]}")
    if failed:
        sys.exit("Some pages could not be shown:\n" + "\n".join(failed))


def shots() -> Iterator[Shot]:
    """Every page that exists, and some of them in other lights and sizes."""
    there = [page for page in PAGES if not page or list((ROOT / "pages").glob(f"?_{page}.py"))]
    yield from (Shot(page) for page in there)
    yield from (Shot(page, dark=True) for page in there if page in DARK)
    yield from (Shot(page, narrow=True) for page in there if page in NARROW)


def prepare(home: Path) -> str:
    """A workspace with a sample, its rules and trained candidates; returns the address that opens them."""
    with Workspace.open(home) as workspace:
        dataset = workspace.datasets.save(load_sample(SAMPLE), "Anti-cheat game")
        rules = workspace.rule_sets.create("Anti-cheat game", load_sample_rules(SAMPLE), dataset=dataset.id)
        plan = TrainPlan(TrainConfig(), tuple(Candidate(key, name=METHODS[key].title) for key in CANDIDATES))
        named = {"dataset": dataset.id, "rule_set": rules.id, "rule_set_version": 1, "plan": plan.to_json()}
        done = run_here(workspace, Job(kind="train", parameters=named, title="six candidates"))
        assert done.status == "finished", done.error
    return f"dataset={dataset.id}&rules={rules.id}"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "screenshots")
