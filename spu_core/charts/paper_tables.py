"""A printed table beside ours: a hollow mark for the paper's figure, a dot with its error for ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from spu_core.charts.canvas import canvas, lines_height, name_axis, nothing_to_show, top_legend
from spu_core.charts.theme import LIGHT, Theme
from spu_core.charts.words import decimals, plain, wrapped


@dataclass(frozen=True, slots=True)
class PrintedFigure:
    """One figure of a printed table: what the paper prints, what we found, and its standard error where known."""

    name: str
    paper: float | None
    ours: float
    error: float | None = None
    method: str = ""


def reproduction_chart(figures: Sequence[PrintedFigure], axis: str, *, theme: Theme = LIGHT) -> go.Figure:
    """One line per name: a hollow diamond is the paper's figure, a dot ours with ± 2 standard errors."""
    if not figures:
        return nothing_to_show(theme, "There are no figures to compare yet.")
    names = list(dict.fromkeys(figure.name for figure in figures))
    methods = list(dict.fromkeys(figure.method for figure in figures))
    chart = canvas(theme, _alt(figures, axis), height=lines_height(len(names), 110) + 10 * len(names))
    for place, method in enumerate(methods):
        shown = [figure for figure in figures if figure.method == method]
        rows = [names.index(figure.name) + _offset(place, len(methods)) for figure in shown]
        _add_printed(chart, shown, rows, method, theme.color(place))
        _add_ours(chart, shown, rows, method, theme.color(place))
    name_axis(chart, [wrapped(name) for name in names], theme)
    chart.update_xaxes(title_text=axis, fixedrange=True, nticks=5)
    top_legend(chart)
    return chart


def _add_printed(
    chart: go.Figure, shown: Sequence[PrintedFigure], rows: Sequence[float], method: str, color: str
) -> None:
    known = [(figure, row) for figure, row in zip(shown, rows, strict=True) if figure.paper is not None]
    chart.add_scatter(
        x=[figure.paper for figure, _ in known],
        y=[row for _, row in known],
        mode="markers",
        marker={"symbol": "diamond-open", "size": 9, "color": color, "line": {"width": 1.6}},
        legendgroup=plain(method),
        showlegend=False,
        hovertext=[
            f"<b>{plain(figure.name)}</b><br>{plain(method)}, paper: {decimals(figure.paper)}" for figure, _ in known
        ],
        hoverinfo="text",
    )


def _add_ours(chart: go.Figure, shown: Sequence[PrintedFigure], rows: Sequence[float], method: str, color: str) -> None:
    chart.add_scatter(
        x=[figure.ours for figure in shown],
        y=list(rows),
        mode="markers",
        marker={"size": 9, "color": color},
        error_x={
            "array": [2 * (figure.error or 0.0) for figure in shown],
            "color": color,
            "thickness": 1.6,
            "width": 0,
        },
        name=plain(method),
        legendgroup=plain(method),
        showlegend=bool(method),
        hovertext=[f"<b>{plain(figure.name)}</b><br>{plain(method)}, ours: {_words(figure)}" for figure in shown],
        hoverinfo="text",
    )


def _offset(place: int, count: int) -> float:
    """Methods of one line lie a little apart, so that equal figures stay visible."""
    return 0.0 if count == 1 else 0.5 * (place / (count - 1) - 0.5)


def _words(figure: PrintedFigure) -> str:
    error = "" if figure.error is None else f" ± {figure.error:.4f}"
    return f"{decimals(figure.ours)}{error}"


def _alt(figures: Sequence[PrintedFigure], axis: str) -> str:
    apart = [abs(figure.ours - figure.paper) for figure in figures if figure.paper is not None]
    far = f"; ours lie {decimals(min(apart))} to {decimals(max(apart))} from the paper's" if apart else ""
    return f"{axis}: {len(figures)} figures of ours beside the printed ones{far}."
