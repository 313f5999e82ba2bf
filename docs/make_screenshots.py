"""Make the pictures of the documentation anew: `python docs/make_screenshots.py [FOLDER]`.

A dashboard is started on an empty workspace, the anti-cheat sample is trained in it, and every page is opened in a real
Chromium: Soft labels with a range chosen, Export with the recommended model in use, some pages also dark and as narrow
as a phone. `brush.webp` is a short animation of brushing a rule, and `check-*.png` show rows checked by
hand. A page that fails is named at the end.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from spu_core.engines import Job, run_in_process
from spu_core.engines.audit_results import checked_rows, save_audit
from spu_core.engines.stored_runs import recommended_run, stored_bundle
from spu_core.models import METHODS
from spu_core.tables.samples import load_sample, load_sample_rules, sample_truth
from spu_core.training import Candidate, TrainConfig, TrainPlan, with_twins
from spu_core.trust import AuditPlan, Population, draw_audit
from spu_core.workspace import Workspace
from tests.live import NO_BROWSER, ROOT, Server, find_browser, open_tab_in, running_browser, running_server

SAMPLE = "anti_cheat"
CANDIDATES = ("fused", "lightgbm", "logistic", "labeled_vs_rest", "weighted_elkan_noto", "rule_score")
PAGES = ("", "data", "soft_labels", "train", "compare", "trust", "export", "paper")
DARK = NARROW = ("soft_labels", "compare")
CHECKS = 400
FRAMES, FRAME_SECONDS, LAST_SECONDS, BRUSH_WIDTH = 14, 0.12, 2.5, 900
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
            if self.page == "soft_labels" and not self.narrow:
                list(brush(tab))
                tab.page.evaluate("window.scrollTo(0, 0)")
            assert "An unexpected error occurred" not in tab.text, tab.text
            tab.page.screenshot(path=folder / self.file)
            if self == Shot("compare"):
                tab.page.get_by_role("button", name="Use this model").first.click()
                tab.settle()
        finally:
            tab.page.context.close()


def brush(tab: Any) -> Iterator[Any]:
    """Drag across the upper end of the histogram, a step at a time."""
    area = tab.page.locator("[class*=st-key-rule_][class*=_chart] .nsewdrag").first
    area.wait_for()
    box = area.bounding_box()
    middle, start, end = (box["y"] + box["height"] / 2, *(box["x"] + box["width"] * share for share in (0.42, 0.97)))
    tab.page.mouse.move(start, middle)
    tab.page.mouse.down()
    for step in range(1, FRAMES + 1):
        tab.page.mouse.move(start + (end - start) * step / FRAMES, middle)
        yield step
    tab.page.mouse.up()
    tab.page.wait_for_timeout(1500)
    tab.settle()
    yield None


def animate_brush(browser: Any, server: Server, query: str, folder: Path) -> None:
    """`brush.webp`: how a range of the histogram becomes the draft of a rule."""
    tab = open_tab_in(browser, server, width=1280, height=860)
    try:
        tab.open(f"soft_labels?{query}")
        tab.page.wait_for_timeout(1500)
        tab.settle()
        shots = [Image.open(io.BytesIO(tab.page.screenshot())) for _ in brush(tab)]
    finally:
        tab.page.context.close()
    small = [shot.convert("RGB").resize((BRUSH_WIDTH, BRUSH_WIDTH * shot.height // shot.width)) for shot in shots]
    seconds = [FRAME_SECONDS] * (len(small) - 1) + [LAST_SECONDS]
    times = [int(1000 * each) for each in seconds]
    small[0].save(folder / "brush.webp", save_all=True, append_images=small[1:], duration=times, loop=0, quality=70)


def show_review(browser: Any, server: Server, query: str, folder: Path, home: Path) -> None:
    """`check-*.png`: rows are drawn, reviewed and counted, and the recommendation uses them."""
    tab = open_tab_in(browser, server, width=1280, height=900)
    page = tab.page
    try:
        tab.open(f"trust?{query}")
        checks = page.get_by_role("spinbutton", name="Rows you can check")
        checks.fill(str(CHECKS))
        checks.press("Enter")
        tab.settle()
        _picture(tab, folder / "check-plan.png")
        page.locator(".st-key-trust_draw button").click()
        tab.settle()
        page.get_by_role("textbox", name="Enter your name").fill("ann")
        page.get_by_role("textbox", name="Enter your name").press("Enter")
        page.get_by_text("of the table").first.wait_for()
        tab.settle()
        _picture(tab, folder / "check-review.png")
        _answer_by_truth(home)
        tab.open(f"trust?{query}&step=result")
        _picture(tab, folder / "check-result.png")
        tab.open(f"compare?{query}")
        _picture(tab, folder / "check-recommendation.png")
        tab.open(f"trust?{query}&section=sensitivity")
        _picture(tab, folder / "check-wrong-rules.png")
    finally:
        page.context.close()


def _picture(tab: Any, file: Path) -> None:
    tab.page.wait_for_timeout(1500)
    tab.settle()
    assert "An unexpected error occurred" not in tab.text, tab.text
    tab.page.screenshot(path=file)
    print(file)


def _answer_by_truth(home: Path) -> None:
    """Check all rows that are drawn, and a second batch that these verdicts direct."""
    truth = sample_truth(SAMPLE)
    with Workspace.open(home) as workspace:
        (dataset,) = workspace.datasets.list()
        record = recommended_run(workspace, workspace.runs.list(dataset.id), dataset.origin)
        assert record is not None
        (first,) = workspace.audits.of_dataset(dataset.id)
        _answer(workspace, first, truth)
        run = stored_bundle(workspace, record.id).run
        checked = checked_rows(workspace, dataset)
        plan = draw_audit(Population.of_run(run), CHECKS // 2, checked=checked, table_rows=dataset.n_rows, seed=1)
        _answer(workspace, save_audit(workspace, record, plan, None), truth)


def _answer(workspace: Workspace, audit: Any, truth: Any) -> None:
    rows = AuditPlan.from_json(audit.plan).rows
    given = [(row, "ann", "positive" if truth[row] else "negative", "") for row in rows]
    workspace.audits.add_verdicts(audit.id, given)


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
            animate_brush(browser, server, query, folder)
            show_review(browser, server, query, folder, home)
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
        plan = TrainPlan(
            TrainConfig(), with_twins(tuple(Candidate(key, name=METHODS[key].title) for key in CANDIDATES))
        )
        named = {"dataset": dataset.id, "rule_set": rules.id, "rule_set_version": 1, "plan": plan.to_json()}
        done = run_in_process(workspace, Job(kind="train", parameters=named, title="six candidates"))
        assert done.status == "finished", done.error
    return f"dataset={dataset.id}&rules={rules.id}"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "screenshots")
