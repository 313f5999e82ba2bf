"""In a real Chromium: charts draw without errors, and hostile names appear letter by letter."""

from __future__ import annotations

import pytest

from spu_core import charts
from tests.charts import gallery
from tests.charts.gallery import EXAMPLES, LIGHT
from tests.charts.test_text import HOSTILE
from tests.live import PAGE_PATIENCE

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(browser):
    opened = browser.new_page(viewport={"width": 700, "height": 600})
    opened.set_default_timeout(PAGE_PATIENCE)
    yield opened
    opened.close()


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
            charts.leaderboard_chart({"AUC_SPU": {name: gallery.INTERVALS["MLP"]}}),
        ]
    )
    assert problems == []
    assert page.locator(".plotly-graph-div svg a").count() == 0
    assert page.locator(".annotation-text", has_text=name).count() == 1
    assert page.locator(".ytick", has_text=name).count() == 1


def test_dragging_across_the_brush_reports_the_range(drawn):
    page, _ = drawn([charts.brush_chart(gallery.DAYS, "days", rules=gallery.BANDS)])
    page.evaluate(
        "document.querySelector('.plotly-graph-div').on('plotly_selected', event => { window.range = event.range })"
    )
    area = page.locator(".nsewdrag").first.bounding_box()
    page.mouse.move(area["x"] + 0.25 * area["width"], area["y"] + 60)
    page.mouse.down()
    page.mouse.move(area["x"] + 0.5 * area["width"], area["y"] + 90, steps=8)
    page.mouse.up()
    page.wait_for_function("window.range")

    low, high = charts.selected_range({"box": [page.evaluate("window.range")]}, gallery.DAYS)
    first, last = charts.brush_chart(gallery.DAYS, "days").layout.xaxis.range
    assert low == pytest.approx(first + 0.25 * (last - first), rel=0.05)
    assert high == pytest.approx(first + 0.5 * (last - first), rel=0.05)


def test_clicking_a_curve_reports_the_threshold_of_that_point(drawn):
    curve = gallery.CURVES["MLP"]
    page, _ = drawn([charts.roc_chart({"MLP": curve}, gallery.CEILING)])
    page.evaluate(
        """document.querySelector('.plotly-graph-div').on('plotly_selected', event => {
            const {x, y, customdata} = event.points[0];
            window.point = {x, y, customdata: Object.assign({}, customdata)};
        })"""
    )
    area = page.locator(".nsewdrag").first.bounding_box()
    tpr = curve.at_fpr(0.3).tpr
    x, y = area["x"] + 0.3 * area["width"], area["y"] + (1 - tpr / 1.065) * area["height"]
    page.mouse.move(x - 3, y)
    page.mouse.move(x, y, steps=3)
    page.mouse.click(x, y)
    page.wait_for_function("window.point")

    point = page.evaluate("window.point")
    chosen = curve.at_threshold(charts.clicked_threshold(point))
    assert chosen.fpr == pytest.approx(point["x"], abs=1e-6)
    assert chosen.fpr == pytest.approx(0.3, abs=0.03)
