"""Every source of the class prior beside the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from spu_core.charts.lines import Line, whisker_chart
from spu_core.charts.theme import LIGHT, Theme
from spu_core.charts.words import interval, listed, percent, plain

if TYPE_CHECKING:
    from spu_core.trust.prior import PriorReport, Source

_COLORS = {"BBE": "model", "Elkan–Noto": "model", "E[S]": "belief", "Audit": "text", "Truth": "text"}


def prior_chart(report: PriorReport, *, theme: Theme = LIGHT) -> go.Figure:
    """One line per source: a dot for an estimate, a line for a range, both for an estimate with bounds."""
    lines = [_line(source, theme) for source in report.sources]
    said = listed((f"{source.name} {source.text}" for source in report.sources), 6)
    figure = whisker_chart(lines, theme, f"Share of positives by source: {said}.", "share of positives π")
    figure.update_xaxes(tickformat=".0%", rangemode="tozero")
    return figure


def _line(source: Source, theme: Theme) -> Line:
    bounds = "" if source.low is None or source.prior is None else f" ({interval(source.low, source.high, percent)})"
    hover = f"<b>{plain(source.name)}</b><br>{source.text}{bounds}<br>{plain(source.words)}"
    color = getattr(theme, _COLORS.get(source.name, "text"))
    return Line(source.name, source.prior, hover, source.text, color, source.low, source.high)
