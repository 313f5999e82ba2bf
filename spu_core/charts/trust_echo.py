"""The echo check as a chart: how much of the rules' ranking a model repeats, and what it knows beyond them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from spu_core.charts.canvas import reference_line
from spu_core.charts.lines import Line, whisker_chart
from spu_core.charts.theme import LIGHT, Theme
from spu_core.charts.words import decimals, interval, percent, plain

if TYPE_CHECKING:
    from spu_core.metrics import Interval
    from spu_core.trust.echo import EchoReport


def echo_chart(report: EchoReport, *, theme: Theme = LIGHT) -> go.Figure:
    """Two pairs of lines, with and without the rule columns: the share repeated, and the AUC beyond the rules."""
    pairs = [
        ("repeats, columns kept", report.reproduced, theme.belief, percent),
        ("repeats, columns dropped", report.reproduced_without, theme.belief, percent),
        ("beyond, columns kept", report.beyond, theme.model, decimals),
        ("beyond, columns dropped", report.beyond_without, theme.model, decimals),
    ]
    lines = [_line(name, found, color, write) for name, found, color, write in pairs if found is not None]
    figure = whisker_chart(lines, theme, report.sentence, "share repeated · AUC beyond")
    reference_line(figure, 0.5, "½: knows nothing beyond", theme.muted)
    lowest = min(0.0, *(found.estimate for _, found, _, _ in pairs if found is not None))
    figure.update_xaxes(range=[lowest, 1.02], tickformat=".1f")
    return figure


def _line(name: str, found: Interval, color: str, write: object) -> Line:
    value = write(found.estimate)  # type: ignore[operator]
    hover = f"<b>{plain(name)}</b><br>{value} ({interval(found.low, found.high, write)})"
    return Line(name, found.estimate, hover, value, color, found.low, found.high, is_safe=True)
