"""Make the screenshots of the documentation anew: `python docs/make_screenshots.py [FOLDER]`.

A dashboard is started on an empty workspace, the breast-cancer sample is trained in it, and every page is opened in
a real Chromium, light and dark.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from spu_core.engines import Job, run_here
from spu_core.tables.samples import load_sample, load_sample_rules
from spu_core.training import Candidate, TrainConfig, TrainPlan
from spu_core.workspace import Workspace
from tests.live import NO_BROWSER, find_browser, open_tab_in, running_browser, running_server

SAMPLE = "anti_cheat"
METHODS = ("fused", "lightgbm", "logistic", "labeled_vs_rest", "weighted_elkan_noto", "rule_score")
PAGES = ("", "data", "soft_labels", "train", "compare", "trust", "export", "paper")
SIZE = {"width": 1440, "height": 1000}


def main(folder: Path) -> None:
    browser_path = find_browser()
    if browser_path is None:
        sys.exit(NO_BROWSER)
    with tempfile.TemporaryDirectory() as scratch, running_browser(browser_path) as browser:
        home = Path(scratch) / "home"
        query = _prepare(home)
        with running_server(home, Path(scratch) / "server.log") as server:
            for dark in (False, True):
                for page in PAGES:
                    if page and not list((Path(__file__).parents[1] / "pages").glob(f"?_{page}.py")):
                        continue
                    tab = open_tab_in(browser, server, dark=dark, **SIZE).open(f"{page}?{query}")
                    tab.page.wait_for_timeout(1500)
                    tab.settle()
                    assert "Something went wrong" not in tab.text, tab.text
                    name = f"{page or 'start'}{'-dark' if dark else ''}.png"
                    tab.page.screenshot(path=folder / name)
                    tab.page.context.close()
                    print(folder / name)


def _prepare(home: Path) -> str:
    """A workspace with a sample, its rules and trained candidates; returns the address that opens them."""
    with Workspace.open(home) as workspace:
        dataset = workspace.datasets.save(load_sample(SAMPLE), "Anti-cheat game")
        rules = workspace.rule_sets.create("Anti-cheat game", load_sample_rules(SAMPLE))
        plan = TrainPlan(TrainConfig(), tuple(Candidate(method) for method in METHODS))
        named = {"dataset": dataset.id, "rule_set": rules.id, "rule_set_version": 1, "plan": plan.to_json()}
        done = run_here(workspace, Job(kind="train", parameters=named, title="six candidates"))
        assert done.status == "finished", done.error
    return f"dataset={dataset.id}&rules={rules.id}"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "screenshots")
