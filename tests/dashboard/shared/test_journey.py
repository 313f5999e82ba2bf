"""The journey of a newcomer: from the start page to an exported model, clicking what is offered, or without a mouse."""

from __future__ import annotations

import random

import pytest

from spu_core.export import load_bundle
from spu_core.workspace import Workspace
from tests.live import WORKER_PATIENCE

pytestmark = pytest.mark.browser


def test_a_newcomer_gets_from_the_start_page_to_an_exported_model_by_what_is_offered(start_server, open_tab, tmp_path):
    tab = open_tab(start_server(), height=1400).open()

    tab.page.get_by_role("link", name="Upload data").click()
    tab.page.get_by_role("button", name="Breast cancer").click()
    tab.page.get_by_role("heading", name="What was read").wait_for()
    tab.settle()
    tab.page.locator("section[data-testid=stSidebar]").get_by_role("link", name="Soft labels").click()
    tab.settle()
    tab.page.get_by_role("link", name="Train candidates").click()
    tab.settle()
    tab.page.get_by_role("button", name="Train 6 candidates").click()
    tab.page.get_by_role("link", name="Compare them").wait_for(timeout=WORKER_PATIENCE)
    tab.page.get_by_role("link", name="Compare them").click()
    tab.page.get_by_text("Recommended model").wait_for()
    tab.settle()
    tab.page.get_by_role("button", name="Use this model").click()
    tab.page.get_by_text("In use:").wait_for()
    tab.page.locator("section[data-testid=stSidebar]").get_by_role("link", name="Export").click()
    tab.settle()
    tab.page.get_by_role("button", name="Prepare").first.click()
    with tab.page.expect_download() as download:
        tab.page.get_by_role("button", name="Download").first.click()
    download.value.save_as(tmp_path / "model.spu")

    assert load_bundle(tmp_path / "model.spu").facts.rows == 569


MOST_KEYS = 150


class Keyboard:
    """Somebody who has no mouse: goes from control to control with Tab, and presses what has the focus."""

    def __init__(self, tab) -> None:
        self.tab, self.page = tab, tab.page

    def go_to(self, control):
        """Press Tab until the control, or something inside it, has the focus."""
        control.first.wait_for()
        for _ in range(MOST_KEYS):
            if control.first.evaluate("each => each.contains(document.activeElement)"):
                return self.page.keyboard
            self.page.keyboard.press("Tab")
        raise AssertionError(f"no key leads to {control}")

    def press(self, role: str, name: str, **where) -> None:
        inside = where.get("inside", self.page)
        self.go_to(inside.get_by_role(role, name=name)).press("Enter")
        self.tab.settle()

    def open_step(self, name: str) -> None:
        self.press("link", name, inside=self.page.locator("section[data-testid=stSidebar]"))


def test_the_whole_way_from_a_file_to_an_exported_model_works_without_a_mouse(start_server, open_tab, tmp_path):
    drawn = random.Random(0)
    rows = [(100 * drawn.random(), 10 * drawn.random()) for _ in range(400)]
    lines = [f"{amount:.2f},{delay:.2f},{int(amount > 70 and delay > 5)}" for amount, delay in rows]
    (tmp_path / "claims.csv").write_text("\n".join(["amount,delay,is_fraud", *lines]))
    server = start_server()
    tab = open_tab(server, height=1400).open("data")
    keys = Keyboard(tab)

    with tab.page.expect_file_chooser() as chooser:
        keys.go_to(tab.page.locator("[data-testid=stFileUploader] button")).press("Enter")
    chooser.value.set_files(tmp_path / "claims.csv")
    tab.page.get_by_text("claims.csv").first.wait_for()
    tab.settle()
    keys.open_step("Soft labels")
    keys.go_to(tab.page.get_by_label("From", exact=True)).type("60")
    tab.page.keyboard.press("Enter")
    tab.settle()
    keys.go_to(tab.page.locator(".st-key-soft_save button")).press("Enter")
    tab.page.get_by_text("Rules (1)").wait_for()
    tab.settle()
    keys.open_step("Train")
    keys.press("radio", "Quick look")
    keys.press("button", "Train 2 candidates")
    tab.page.get_by_role("link", name="Compare them").wait_for(timeout=WORKER_PATIENCE)
    tab.settle()
    keys.press("link", "Compare them")
    keys.press("button", "Use this model")
    tab.page.get_by_text("In use:").wait_for()
    tab.settle()
    keys.open_step("Export")
    keys.press("button", "Prepare")
    with tab.page.expect_download() as download:
        keys.go_to(tab.page.get_by_role("button", name="Download")).press("Enter")
    download.value.save_as(tmp_path / "model.spu")

    assert load_bundle(tmp_path / "model.spu").facts.rows == 400
    with Workspace.open(server.home) as workspace:
        assert len(workspace.thresholds.history(workspace.datasets.list()[0].id)) == 1
