"""What every page shares: its title, the steps in the sidebar, and the address that survives a refresh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from pages.ui.steps import STEPS, Step

BRAND = "SPU Studio"
KEPT_IN_ADDRESS = ("dataset", "rules", "run")

# Inline, so that it needs no file beside the page: a curve that bends towards the upper left corner.
LOGO = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 230 48" height="48">
<defs><linearGradient id="g" x1="0" y1="0" x2="1" y2="1"><stop offset="0" stop-color="#0F5F5A"/>
<stop offset="1" stop-color="#5FC2B3"/></linearGradient></defs>
<rect x="2" y="6" width="36" height="36" rx="9" fill="url(#g)"/>
<path d="M8 36 C10 20 16 14 32 12" fill="none" stroke="#F0B35A" stroke-width="3.4" stroke-linecap="round"/>
<text x="50" y="33" font-family="Georgia, 'Source Serif 4', serif" font-size="25" fill="#E6E2D6">SPU Studio</text>
</svg>"""


@dataclass(frozen=True)
class Page:
    """The open page: what its address says."""

    title: str
    query: Mapping[str, str]


def open_page(title: str, promise: str) -> Page:
    """Draw the frame of a page; every page calls this first."""
    name = title if title == BRAND else f"{title} · {BRAND}"
    st.set_page_config(page_title=name, page_icon=":material/show_chart:", layout="wide")
    st.logo(LOGO, size="large", link=None)
    page = Page(title, {key: st.query_params[key] for key in KEPT_IN_ADDRESS if key in st.query_params})
    with st.sidebar:
        _draw_steps(page)
    st.title(title, anchor=False)
    st.caption(promise)
    return page


def _draw_steps(page: Page) -> None:
    st.page_link("app.py", label="Start", icon=":material/home:", query_params=page.query)
    _draw_section("Data", STEPS[:2], page)
    _draw_section("Models", STEPS[2:4], page)
    _draw_section("Use", STEPS[4:], page)


def _draw_section(title: str, steps: tuple[Step, ...], page: Page) -> None:
    st.caption(title)
    for step in steps:
        st.page_link(
            step.file if step.is_open else "app.py",
            label=step.title,
            icon=step.icon,
            disabled=not step.is_open,
            query_params=page.query,
        )
