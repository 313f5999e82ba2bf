"""In a real Chromium: charts draw without errors, and hostile names appear letter by letter."""

from __future__ import annotations

import os

import pytest

from spu_core import charts
from tests.charts import gallery
from tests.charts.gallery import EXAMPLES, LIGHT
from tests.charts.test_text import HOSTILE

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = os.environ.get("SPU_CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not os.path.exists(CHROMIUM), reason="no Chromium; name one in SPU_CHROMIUM"),
]


@pytest.fixture(scope="module")
def page():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser.new_page(viewport={"width": 700, "height": 600})
        browser.close()


@pytest.fixture
def drawn(page, tmp_path):
    """Draw figures on one page; returns the page and the errors it reported."""

    def draw(figures):
        problems = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        parts = [figure.to_html(full_html=False, include_plotlyjs=place == 0) for place, figure in enumerate(figures)]
        path = tmp_path / "page.html"
        path.write_text("<!doctype html><meta charset=utf-8>" + "".join(parts), encoding="utf-8")
        page.goto(path.as_uri())
        page.wait_for_function(f"document.querySelectorAll('.main-svg').length >= {len(figures)}")
        return page, problems

    return draw


def test_every_chart_draws_without_an_error(drawn):
    page, problems = drawn([example(LIGHT) for example in EXAMPLES.values()])
    assert problems == []
    assert page.locator(".plotly-graph-div .main-svg").count() >= len(EXAMPLES)


def test_hostile_names_are_shown_letter_by_letter(drawn):
    name = HOSTILE[:22]
    page, problems = drawn(
        [
            charts.roc_chart({name: gallery.CURVES["MLP"]}, gallery.CEILING),
            charts.leaderboard_chart({name: gallery.INTERVALS["MLP"]}),
        ]
    )
    assert problems == []
    assert page.locator(".plotly-graph-div svg a").count() == 0
    assert page.locator(".legendtext", has_text=name).count() == 1
    assert page.locator(".ytick", has_text=name).count() == 1
