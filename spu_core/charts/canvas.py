"""What all charts share: the empty figure, axes, legends, and charts with one line per name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from spu_core.charts.text_format import count, one_line, plain, wrapped
from spu_core.charts.theme import TEXT_SIZE, Theme

# More lines are not readable, and each makes the figure larger.
MOST_LINES = 40
LINE_HEIGHT = 30
SECOND_LINE = 8
ENTRY_HEIGHT = 14


def canvas(theme: Theme, alt: str, *, height: int = 340, **layout: Any) -> go.Figure:
    """An empty figure with the look of the theme and its alt text."""
    figure = go.Figure()
    # A constant revision keeps the zoom when the data change.
    figure.update_layout(
        template=theme.template, height=height, meta={"alt": one_line(alt)}, uirevision="spu", **layout
    )
    return figure


def alt_text(figure: go.Figure) -> str:
    """The alternative text of a chart, one or two sentences; escape it before using it in HTML.

    >>> from spu_core.charts.theme import LIGHT
    >>> alt_text(canvas(LIGHT, "Two curves."))
    'Two curves.'
    """
    return str((figure.layout.meta or {}).get("alt", ""))


def nothing_to_show(theme: Theme, sentence: str) -> go.Figure:
    """An empty chart with the reason why it is empty."""
    figure = canvas(theme, sentence, height=140)
    figure.update_xaxes(visible=False).update_yaxes(visible=False)
    figure.add_annotation(
        text=plain(sentence), x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False, font={"color": theme.muted}
    )
    return figure


def lines_height(lines: int, extra: int = 64) -> int:
    """The height of a chart with one line per name."""
    return max(lines, 2) * LINE_HEIGHT + extra


def name_axis(figure: go.Figure, names: Sequence[str], theme: Theme, **axis: Any) -> None:
    """Names down the left side, first on top; `names` must be escaped already.

    Positions are numbers, so that names that are equal, look like dates or are cut to the same text stay separate
    lines. The chart grows where names take two lines.
    """
    if any("<br>" in name for name in names):
        figure.update_layout(height=figure.layout.height + SECOND_LINE * len(names))
    figure.update_yaxes(
        tickmode="array",
        tickvals=list(range(len(names))),
        ticktext=list(names),
        range=[len(names) - 0.4, -0.6],
        tickfont={"color": theme.text, "size": TEXT_SIZE},
        showgrid=False,
        fixedrange=True,
        **axis,
    )


def value_column(figure: go.Figure, values: Sequence[str], theme: Theme) -> None:
    """A column of numbers to the right of the lines."""
    for place, value in enumerate(values):
        figure.add_annotation(
            text=value,
            x=1,
            xref="paper",
            xanchor="left",
            xshift=8,
            y=place,
            showarrow=False,
            font={"color": theme.text},
        )
    longest = max((len(value) for value in values), default=0)
    figure.update_layout(margin_r=20 + 7 * longest)


def value_heading(figure: go.Figure, text: str, theme: Theme) -> None:
    """A heading for the column of numbers to the right; `text` must be escaped already."""
    place = {"x": 1, "xref": "paper", "xanchor": "left", "xshift": 8, "y": 1, "yref": "paper", "yanchor": "bottom"}
    figure.add_annotation(text=text, showarrow=False, font={"color": theme.muted}, **place)


def reference_line(figure: go.Figure, at: float, text: str, color: str, *, dash: str = "dash", line: int = 0) -> None:
    """A vertical line with its name above the plot, one or more text lines higher where `line` is given.

    `text` must be escaped already.
    """
    figure.add_shape(
        type="line",
        x0=at,
        x1=at,
        y0=0,
        y1=1,
        yref="paper",
        line={"color": color, "width": 1.5, "dash": dash},
        layer="below",
    )
    figure.add_annotation(
        text=text,
        x=at,
        y=1,
        yref="paper",
        yanchor="bottom",
        yshift=14 * line,
        showarrow=False,
        font={"color": color, "size": TEXT_SIZE - 1},
    )
    figure.update_layout(margin_t=28 + 14 * line)


def light(values: Any) -> np.ndarray:
    """Numbers to draw, in half the bytes; the precision is still finer than a pixel."""
    return np.asarray(values, dtype=np.float32)


def top_legend(figure: go.Figure) -> None:
    """A legend above the plot; call it after all traces were added.

    The chart grows with the entries, since on a narrow page each takes a row of its own.
    """
    entries = sum(bool(trace.name) and trace.showlegend is not False for trace in figure.data)
    figure.update_layout(
        height=figure.layout.height + ENTRY_HEIGHT * max(0, entries - 2),
        legend={
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1.02,
            "yanchor": "bottom",
            "itemsizing": "constant",
        },
        margin_t=36,
    )


@dataclass(frozen=True, slots=True)
class Line:
    """One name with its estimate, None where there is only a range; `hover` and `value` are escaped text.

    `name` is escaped when it is drawn, unless `is_safe`.
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
