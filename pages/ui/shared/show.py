"""How results are shown: charts in the theme of the viewer, findings with their advice, words with their meaning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.ui.shared.glossary import GLOSSARY
from pages.ui.shared.text import plain
from spu_core.charts import DARK, LIGHT, Theme, alt_text
from spu_core.tables import Finding, Severity

_ICONS = {
    Severity.INFO: ":material/info:",
    Severity.WARNING: ":material/warning:",
    Severity.ERROR: ":material/error:",
}
BadgeColor = Literal["red", "orange", "blue", "green", "gray"]
_IMAGE = {"format": "svg", "filename": "spu-studio"}
_CONFIG = {
    "displaylogo": False,
    "modeBarButtonsToRemove": ["lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d", "pan2d", "zoom2d", "select2d"],
    "toImageButtonOptions": _IMAGE,
}


def theme() -> Theme:
    """The chart theme that goes with the viewer's."""
    return DARK if st.context.theme.type == "dark" else LIGHT


def show_chart(figure: go.Figure, key: str, *, image: str = "svg", told: bool = False, **options: Any) -> Any:
    """A chart that screen readers can tell, also in sight where `told`; its camera button saves an SVG or PNG."""
    config = _CONFIG if image == "svg" else {**_CONFIG, "toImageButtonOptions": {**_IMAGE, "format": image, "scale": 2}}
    words = alt_text(figure)
    shown = st.plotly_chart(figure, theme=None, key=key, config=config, alt=words, **options)
    if told:
        st.caption(plain(words))
    return shown


def show_findings(findings: Iterable[Finding]) -> None:
    """Findings, the gravest first, each with what to do."""
    order = [Severity.ERROR, Severity.WARNING, Severity.INFO]
    for finding in sorted(findings, key=lambda each: order.index(each.severity)):
        box = {Severity.ERROR: st.error, Severity.WARNING: st.warning, Severity.INFO: st.info}[finding.severity]
        box(f"**{plain(finding.message)}** {plain(finding.advice)}", icon=_ICONS[finding.severity])


def show_figure(card: DeltaGenerator, title: str, value: str, note: str, *, about: str | None = None) -> None:
    """A figure in a card of its own: the note stands below it without an arrow, `about` is a word of the glossary."""
    told = None if about is None else meaning(about)
    card.metric(title, value, note, help=told, delta_color="off", delta_arrow="off", border=True)


def meaning(word: str) -> str:
    """What a technical word means, for the `help=` of whatever shows it."""
    return GLOSSARY[word].words


def explain_words(*words: str) -> None:
    """The meaning of the words of a page, with their formulas one click away."""
    with st.popover("What do these words mean?", icon=":material/help:"):
        for word in words:
            entry = GLOSSARY[word]
            st.markdown(f"**{entry.title}.** {entry.words}")
            if entry.formula:
                st.latex(entry.formula)
