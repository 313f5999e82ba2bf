"""No page has a serious barrier that axe-core finds, in light and dark.

axe-core is a tool for tests and is not shipped: `npm pack axe-core`, unpack it, and name its `axe.min.js` in SPU_AXE.
With SPU_SLOW=1 every page and part is looked at in both lights; otherwise two of them. Each is looked at on a desktop
and on a phone.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spu_core.workspace import Workspace
from tests.dashboard.trained import bring_sample, train_quickly
from tests.live import open_tab_in, running_server

AXE = os.environ.get("SPU_AXE", "")
PAGES = ("", "data", "soft_labels", "train", "compare", "trust", "export", "paper")
PARTS = (
    *(
        f"soft_labels?part={part}"
        for part in ("Analysis", "Explain a row", "Audit", "From checks", "Versions and files")
    ),
    *(f"trust?section={section}" for section in ("outcomes", "echo", "sensitivity", "prior", "what-if")),
    *(f"export?export_part={part}" for part in ("Score a new file", "Import")),
)
SHOWN = (*PAGES, *PARTS) if os.environ.get("SPU_SLOW") else ("compare", "paper")
LIGHTS = (False, True) if os.environ.get("SPU_SLOW") else (False,)
# Streamlit writes primary buttons in white on the primary colour, and chosen segments and slider values in it. On
# a dark background no colour has a contrast of 4.5 in both; ours has it for the latter, and at least this for buttons.
LEAST_ON_BUTTONS = 3.3
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not AXE, reason="needs axe-core: set SPU_AXE to its axe.min.js"),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A dashboard with a trained sample, and the address that opens it."""
    folder = tmp_path_factory.mktemp("axe")
    with Workspace.open(folder / "home") as workspace:
        address = bring_sample(workspace)
        train_quickly(workspace, address)
    with running_server(folder / "home", folder / "server.log") as server:
        yield server, "&".join(f"{key}={token}" for key, token in address.items())


def serious(found, *, dark: bool) -> list[str]:
    """Serious and critical barriers in words: what, where, and the element."""
    return [
        f"{each['id']} ({each['help']}) at {node['target']}: {node['html'][:200]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
        if not (dark and is_primary_button(node))
    ]


def is_primary_button(node) -> bool:
    """Whether the only fault is the contrast of white text on the primary colour, and not too low."""
    contrast = [each["data"] for each in node["any"] if each["id"] == "color-contrast"]
    return bool(contrast) and all(
        each["fgColor"] == "#ffffff" and each["contrastRatio"] >= LEAST_ON_BUTTONS for each in contrast
    )


@pytest.mark.parametrize("dark", LIGHTS)
@pytest.mark.parametrize("page", SHOWN)
def test_axe_finds_no_serious_barrier(browser, served, page, dark):
    server, query = served
    tab = open_tab_in(browser, server, dark=dark)
    try:
        tab.open(f"{page}{'&' if '?' in page else '?'}{query}")
        tab.page.evaluate(Path(AXE).read_text())
        found = look(tab, dark=dark)
        tab.page.set_viewport_size({"width": 390, "height": 844})
        tab.settle()
        found += look(tab, dark=dark)
    finally:
        tab.page.context.close()

    assert found == []


def look(tab, *, dark: bool) -> list[str]:
    """What axe finds on the page as it stands."""
    return serious(tab.page.evaluate("axe.run(document, {resultTypes: ['violations']})"), dark=dark)
