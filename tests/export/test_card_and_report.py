"""Card and report tell what must be told, carry everything they need, and show data as text."""

from __future__ import annotations

import base64
import re
import zlib
from html.parser import HTMLParser

import pytest

from spu_core.export import Bundle, FlagPoint, ModelDetails, model_card, model_card_html, report_html
from spu_core.training import compare_runs, recommend
from tests.export.examples import example
from tests.live import PAGE_PATIENCE

HOSTILE = '<script>alert(1)</script> **bold** [x](javascript:alert(1)) $x$ | "q"\n# heading'


class Tags(HTMLParser):
    """Every tag with its attributes, and the text between tags outside scripts and styles."""

    def __init__(self, page: str):
        super().__init__()
        self.tags, self.text, self._silent = [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._silent = tag in ("script", "style")

    def handle_endtag(self, tag):
        self._silent = False

    def handle_data(self, data):
        if not self._silent:
            self.text.append(data)


@pytest.fixture(scope="module")
def comparison():
    return compare_runs([example(method).run for method in ("lightgbm", "fused", "labeled_vs_rest")])


@pytest.fixture(scope="module")
def report(comparison):
    return report_html(comparison, hostile_bundle(), title=HOSTILE)


def hostile_bundle() -> Bundle:
    found = example("lightgbm")
    words = dict.fromkeys(("purpose", "licence", "contact", "chosen_because", "data_name"), HOSTILE)
    details = ModelDetails(**words, history=(HOSTILE,))
    return Bundle.of(found.run, fitted=found.fitted, label_rules=found.label_rules, details=details)


def test_the_card_tells_purpose_data_rules_figures_limits_and_use(comparison):
    found = example("lightgbm")
    words = {"purpose": "Find cheats.", "licence": "internal", "contact": "risk team", "history": ("v1", "v2")}
    details = ModelDetails.of(found.table, chosen_because="Simplest of the best.", **words)
    bundle = found.bundle.with_details(details).with_point(FlagPoint(threshold=0.4, share=0.05))

    card = model_card(bundle, comparison)

    for part in (
        "Find cheats.",
        "Licence: internal",
        "400 rows",
        "amount &gt; 1.5 → 0.60",
        "Simplest of the best.",
        "above 0.4",
        "5.00%",
        "about 50.0 of every 1,000",
        "ceiling",
        "not a calibrated probability",
        "spu score",
        "- v1\n- v2",
        "labeled\\_vs\\_rest",
        found.table.fingerprint,
    ):
        assert part in card, part
    assert re.search(r"AUC\\_SPU \| 0\.\d{4} \(0\.\d{4} to 0\.\d{4}\)", card)


def test_the_card_warns_of_a_model_that_holds_rows_and_of_the_oracle():
    assert "contains training rows" in model_card(example("nearest_neighbors").bundle)
    assert "must not be used" in model_card(example("oracle").bundle)


def test_hostile_words_stay_text_in_markdown():
    card = model_card(hostile_bundle())

    assert "<script" not in card
    assert "](javascript" not in card.replace("\\](", "")
    assert "\n# heading" not in card
    assert "\\*\\*bold\\*\\*" in card


def test_hostile_words_stay_text_in_html():
    page = Tags(model_card_html(hostile_bundle()))

    assert not [tag for tag, _ in page.tags if tag == "script"]
    assert any("<script>alert(1)</script>" in text for text in page.text)
    assert not [attrs for _, attrs in page.tags if any(name.startswith("on") for name in attrs)]


def test_the_report_gives_every_sentence_of_the_recommendation(comparison, report):
    text = " ".join(" ".join(Tags(report).text).split())

    for sentence in recommend(comparison).sentences:
        assert sentence in text


def test_the_report_has_the_charts_and_the_library_once(report):
    page = Tags(report)

    assert len([tag for tag, _ in page.tags if tag == "figure"]) == 7
    assert "Recommended model" in report
    assert "Cannot tell whether the rules help" in report
    packed = re.search(r'id="spu-packed">([^<]*)</script>', report)[1].replace(",", "<")
    script = zlib.decompressobj(wbits=31).decompress(base64.b85decode(packed)).decode()
    assert script.count("plotly.js v") == 1
    assert script.count("Plotly.newPlot(") >= 7
    assert len(report.encode()) < 2_000_000


@pytest.mark.browser
def test_the_report_draws_its_charts_in_a_browser_without_a_network(report, browser, tmp_path):
    (tmp_path / "report.html").write_text(report, encoding="utf-8")
    page = browser.new_page()
    page.set_default_timeout(PAGE_PATIENCE)
    problems, asked = [], []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))

    page.goto((tmp_path / "report.html").as_uri())
    page.wait_for_function("document.querySelectorAll('figure .main-svg').length >= 7")

    assert problems == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    page.close()


def test_the_report_asks_for_nothing_outside_itself(report):
    page = Tags(report)

    assert not [attrs for tag, attrs in page.tags if "src" in attrs or (tag == "link" and "href" in attrs)]
    policy = next(attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy


def test_hostile_words_stay_text_in_the_report(report):
    page = Tags(report)

    scripts = [tag for tag, _ in page.tags if tag == "script"]
    # The packed library with the charts, and the script that unpacks it; none from the data.
    assert "<script>alert(1)</script>" not in report
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in report
    assert len(scripts) == 2


def test_a_report_of_one_run_says_that_nothing_can_be_compared():
    page = report_html(compare_runs([example("lightgbm").run]))

    assert "There is only one candidate, so nothing can be compared." in page


def test_the_card_begins_with_what_must_be_known():
    found = example("lightgbm")
    bundle = found.bundle.with_point(FlagPoint(threshold=0.4, share=0.05))

    start = model_card(bundle).split("## Purpose")[0]

    estimate = found.run.metrics.auc_spu.estimate
    assert f"AUC\\_SPU {estimate:.4f} (" in start
    assert "of what these soft labels allow" in start
    assert "trained on 400 rows" in start
    assert "Flags about 50.0 of every 1,000 rows" in start


def test_pages_follow_a_dark_screen_and_break_long_words():
    page = model_card_html(example("lightgbm").bundle)

    assert "prefers-color-scheme:dark" in page
    assert "overflow-wrap:anywhere" in page
