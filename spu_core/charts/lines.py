"""Charts with one line per name: dots with whiskers, and bars, with their values at the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from spu_core.charts.canvas import MOST_LINES, canvas, lines_height, name_axis, value_column
from spu_core.charts.theme import Theme
from spu_core.charts.words import count, wrapped


@dataclass(frozen=True, slots=True)
class Line:
    """One name with its estimate, None where there is only a range; `hover` and `value` are ready text.

    `name` is raw unless `is_safe`.
    """

    name: str
    estimate: float | None
    hover: str
    value: str
    color: str
    low: float | None = None
    high: float | None = None
    is_safe: bool = False

    @property
    def tick(self) -> str:
        return self.name if self.is_safe else wrapped(self.name)


def whisker_chart(lines: Sequence[Line], theme: Theme, alt: str, axis: str) -> go.Figure:
    """A dot with its interval on each line, or a thick line for a range without an estimate."""
    shown = lines[:MOST_LINES]
    figure = canvas(theme, alt, height=lines_height(len(shown), 72))
    for color in dict.fromkeys(line.color for line in shown):
        placed = [(y, line) for y, line in enumerate(shown) if line.color == color]
        _add_whiskers(figure, [(y, line) for y, line in placed if line.estimate is not None], color)
        _add_ranges(figure, [(y, line) for y, line in placed if line.estimate is None])
    return _finish(figure, shown, len(lines), theme, axis)


def bar_chart(lines: Sequence[Line], theme: Theme, alt: str, axis: str) -> go.Figure:
    """A bar on each line, with a thin whisker where there is an interval."""
    shown = lines[:MOST_LINES]
    figure = canvas(theme, alt, height=lines_height(len(shown), 72), bargap=0.42)
    figure.add_bar(
        x=[line.estimate for line in shown],
        y=list(range(len(shown))),
        orientation="h",
        marker={"color": [line.color for line in shown], "line": {"width": 0}, "cornerradius": 3},
        error_x=_errors(shown, theme.text, 1.2),
        hovertext=[line.hover for line in shown],
        hoverinfo="text",
        showlegend=False,
    )
    return _finish(figure, shown, len(lines), theme, axis)


def _add_whiskers(figure: go.Figure, placed: Sequence[tuple[int, Line]], color: str) -> None:
    lines = [line for _, line in placed]
    if not lines:
        return
    figure.add_scatter(
        x=[line.estimate for line in lines],
        y=[y for y, _ in placed],
        mode="markers",
        marker={"size": 10, "color": color},
        error_x=_errors(lines, color, 2.0),
        hovertext=[line.hover for line in lines],
        hoverinfo="text",
        showlegend=False,
    )


def _add_ranges(figure: go.Figure, placed: Sequence[tuple[int, Line]]) -> None:
    for y, line in placed:
        figure.add_scatter(
            x=[line.low, line.high],
            y=[y, y],
            mode="lines",
            line={"color": line.color, "width": 5},
            hovertext=line.hover,
            hoverinfo="text",
            showlegend=False,
        )


def _errors(lines: Sequence[Line], color: str, thickness: float) -> dict[str, Any] | None:
    if all(line.low is None for line in lines):
        return None
    return {
        "type": "data",
        "symmetric": False,
        "array": [_reach(line.estimate, line.high) for line in lines],
        "arrayminus": [_reach(line.low, line.estimate) for line in lines],
        "color": color,
        "thickness": thickness,
        "width": 0,
    }


def _reach(low: float | None, high: float | None) -> float:
    return 0.0 if low is None or high is None else high - low


def _finish(figure: go.Figure, shown: Sequence[Line], lines: int, theme: Theme, axis: str) -> go.Figure:
    name_axis(figure, [line.tick for line in shown], theme)
    value_column(figure, [line.value for line in shown], theme)
    more = f" ({count(lines - len(shown))} more not shown)" if lines > len(shown) else ""
    figure.update_xaxes(title_text=f"{axis}{more}", fixedrange=True, nticks=6)
    return figure
