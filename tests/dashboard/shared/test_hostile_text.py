"""A script tag, Markdown and LaTeX in names, headers and cells stay text on every page, for screen readers, too."""

from __future__ import annotations

import re

import pytest

from spu_core.rules import Compare, Rule
from spu_core.training import Candidate
from spu_core.workspace import Workspace
from tests.dashboard.rule_drafts import SAVED, some_table
from tests.dashboard.trained import HOSTILE, train_quickly
from tests.live import ROOT

PAGES = [re.sub(r"^\d_|\.py$", "", path.name) for path in sorted((ROOT / "pages").glob("[0-9]_*.py"))]
COLUMN = "http://evil.example www.evil.example ann@evil.example <b>$x^2$</b> :red[col] [z](javascript:alert(1))"


@pytest.fixture(scope="module")
def address(shared_server) -> str:
    """A dataset, rules and runs whose every name is hostile."""
    rules = SAVED.add(Rule(HOSTILE, 0.5, Compare(COLUMN, "in", ["Bern"]), note=HOSTILE))
    with Workspace.open(shared_server.home) as workspace:
        dataset = workspace.datasets.save(some_table(extra=COLUMN), HOSTILE)
        made = workspace.rule_sets.create(HOSTILE, rules.to_json(), HOSTILE)
        named = {"dataset": dataset.id, "rules": made.id}
        train_quickly(workspace, named, [Candidate("logistic", name=HOSTILE), Candidate("rule_score", name=COLUMN)])
    return f"dataset={dataset.id}&rules={made.id}"


@pytest.mark.browser
def test_hostile_text_stays_text_on_every_page(shared_server, open_tab, address):
    views = [*PAGES, *(f"soft_labels?part={part}" for part in ("Analysis", "Versions+and+files"))]
    tab, told, asked = open_tab(shared_server), 0, []
    tab.page.on("dialog", lambda dialog: tab.errors.append("a script ran"))
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.page.on("console", lambda said: tab.errors.append(said.text) if "Content Security" in said.text else None)

    for view in views:
        tab.open(f"{view}{'&' if '?' in view else '?'}{address}")
        assert HOSTILE[:20] in tab.text, view
        assert tab.page.locator("[data-testid=stMarkdown] .katex").count() == 0, view
        assert tab.page.locator("[data-testid=stApp] a[href^='javascript:']").count() == 0, view
        assert tab.page.locator("[data-testid=stApp] img[src='x']").count() == 0, view
        assert tab.page.locator("[data-testid=stApp] a[href*='evil'], [data-testid=stApp] a[href^=mailto]").count() == 0
        assert "An unexpected error occurred" not in tab.text, view
        assert tab.page.locator("[data-testid=stPlotlyChart]:not([role=figure][aria-label])").count() == 0, view
        told += tab.page.locator("[data-testid=stPlotlyChart]").count()
    assert told >= len(views)
    own = (shared_server.url, shared_server.url.replace("http", "ws"), "data:", "blob:")
    assert len(asked) > 10 * len(views)
    assert not [url for url in asked if not url.startswith(own)]
