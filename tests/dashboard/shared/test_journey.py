"""The journey of a newcomer: from the start page to an exported model, clicking what is offered."""

from __future__ import annotations

import pytest

from spu_core.export import load_bundle
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
