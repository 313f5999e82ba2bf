"""Charts of columns and soft labels: label rate by value, missing values, and the distribution of S."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from spu_core.charts.canvas import (
    LIGHT,
    Line,
    Theme,
    bar_chart,
    canvas,
    compact,
    count,
    decimals,
    label,
    light,
    listed,
    nothing_to_show,
    one_line,
    percent,
    plain,
    reference_line,
    see_through,
    top_legend,
)
from spu_core.tables import Histogram, TableProfile
from spu_core.tables.reading.values import day_of
from spu_core.theory.check_ratio import wilson_interval

if TYPE_CHECKING:
    from spu_core.labels import SoftLabelAudit
    from spu_core.rules.suggest import ColumnSeparation


NANOSECONDS_PER_MILLISECOND = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """A histogram to draw. The outer bins may be very wide; they are drawn as wide as the others.

    `edges` are those to draw, `least` and `most` the true ends of the outer bins.

    >>> bars = Bars.of(Histogram(np.array([-50.0, 1.0, 2.0, 999.0]), np.array([3, 4, 2]), np.array([0, 1, 0])))
    >>> bars.edges.tolist(), bars.range_text(2), bars.range_text(0)
    ([0.0, 1.0, 2.0, 3.0], '2 to 999', '−50 to 1')
    """

    edges: np.ndarray
    positives: np.ndarray
    rest: np.ndarray
    least: float
    most: float
    dates: bool = False

    @classmethod
    def of(cls, histogram: Histogram, dates: bool = False) -> Bars:
        edges = np.array(histogram.edge, dtype=np.float64)
        if edges.size > 3:
            width = float(edges[2] - edges[1])
            edges[0], edges[-1] = max(edges[0], edges[1] - width), min(edges[-1], edges[-2] + width)
        rest = histogram.count - histogram.labeled
        return cls(edges, histogram.labeled, rest, float(histogram.edge[0]), float(histogram.edge[-1]), dates)

    @property
    def rows(self) -> np.ndarray:
        return self.positives + self.rest

    @property
    def total(self) -> int:
        return int(self.rows.sum())

    @property
    def middles(self) -> np.ndarray:
        return 0.5 * (self.edges[1:] + self.edges[:-1])

    def merged(self, fewest: int) -> Bars:
        """The same rows in fewer bins: neighbours are joined until each has at least `fewest` rows."""
        starts, waiting = [0], 0
        for place, rows in enumerate(self.rows.tolist()):
            waiting += rows
            if waiting >= fewest and place + 1 < self.rows.size:
                starts.append(place + 1)
                waiting = 0
        if waiting < fewest and len(starts) > 1:
            starts.pop()
        edges = self.edges[[*starts, self.rows.size]]
        positives, rest = np.add.reduceat(self.positives, starts), np.add.reduceat(self.rest, starts)
        return Bars(edges, positives, rest, self.least, self.most, self.dates)

    def drawn(self, values: Any) -> Any:
        """Values on the axis; Plotly counts dates in milliseconds."""
        return values / NANOSECONDS_PER_MILLISECOND if self.dates else values

    def range_text(self, place: int) -> str:
        """The true range of a bin, as text."""
        low = self.least if place == 0 else self.edges[place]
        high = self.most if place == self.rows.size - 1 else self.edges[place + 1]
        return f"{self._text(low)} to {self._text(high)}"

    def _text(self, value: float) -> str:
        return day_of(value) if self.dates else compact(value)


def set_value_axis(figure: go.Figure, bars: Bars, column: str) -> None:
    """The column along the bottom."""
    figure.update_xaxes(
        title_text=label(column),
        range=[float(bars.drawn(bars.edges[0])), float(bars.drawn(bars.edges[-1]))],
        type="date" if bars.dates else "linear",
        showgrid=False,
        fixedrange=True,
        nticks=5 if bars.dates else 8,
        tickangle=0,
    )


def rows_axis(figure: go.Figure, limits: list[float] | None = None, **axis: Any) -> None:
    """Row counts up the left side: 1.5k rather than 1500, so that the axis stays narrow."""
    figure.update_yaxes(
        title_text="rows", fixedrange=True, rangemode="tozero", range=limits, nticks=6, tickformat="~s", **axis
    )


# A rate among fewer rows is noise.
FEWEST_IN_A_BIN = 20


def label_rate_chart(
    histogram: Histogram | None, column: str, *, dates: bool = False, theme: Theme = LIGHT
) -> go.Figure:
    """The share of confirmed cases by value with its 95 % interval; thin bins are joined. Flat means no information."""
    if histogram is None:
        return nothing_to_show(theme, f"Column {column} holds no numbers.")
    whole = Bars.of(histogram, dates)
    bars = whole.merged(max(FEWEST_IN_A_BIN, whole.total // 200))
    rate = bars.positives / bars.rows.clip(1)
    low, high = wilson_interval(bars.positives, bars.rows.clip(1))
    mean = float(bars.positives.sum() / max(bars.total, 1))
    x = bars.drawn(bars.middles)
    highest = bars.range_text(int(np.argmax(rate)))
    alt = f"Share of confirmed cases by {one_line(column)}: {percent(mean)} over all rows, highest at {highest}."
    figure = canvas(theme, alt, height=280)
    figure.add_scatter(
        x=np.concatenate([x, x[::-1]]),
        y=light(np.concatenate([high, low[::-1]])),
        mode="lines",
        line={"width": 0, "shape": "linear"},
        fill="toself",
        fillcolor=see_through(theme.confirmed, 0.16),
        hoverinfo="skip",
        showlegend=False,
    )
    figure.add_scatter(
        x=x,
        y=light(rate),
        mode="lines+markers",
        line={"color": theme.confirmed, "width": 2},
        marker={"size": 5},
        hovertext=rate_hover(bars),
        hoverinfo="text",
        showlegend=False,
    )
    figure.add_hline(
        y=mean,
        line={"color": theme.muted, "width": 1, "dash": "dash"},
        annotation={"text": f"all rows {percent(mean)}", "font": {"color": theme.muted}, "yanchor": "bottom"},
        annotation_position="top right",
    )
    set_value_axis(figure, whole, column)
    top = max(1.15 * float(rate.max()), min(1.05 * float(high.max()), 2.0 * float(rate.max()))) or 1.0
    figure.update_yaxes(title_text="share confirmed", tickformat=".1~%", range=[0, top], fixedrange=True, nticks=6)
    return figure


def separation_chart(found: ColumnSeparation, *, theme: Theme = LIGHT) -> go.Figure:
    """A small multiple: the share of confirmed cases in each bin of a column, with its 95 % interval."""
    rows = found.rows.clip(1)
    rate, (low, high) = found.confirmed / rows, wilson_interval(found.confirmed, rows)
    mean = float(found.confirmed.sum() / max(found.rows.sum(), 1))
    best = plain(found.names[int(np.argmax(rate))])
    alt = f"Share of confirmed cases by {one_line(found.column)}: {percent(mean)} over all rows, highest at {best}."
    figure = canvas(theme, alt, height=110, bargap=0.15)
    figure.add_bar(
        x=list(range(rate.size)),
        y=light(rate),
        marker={"color": [theme.confirmed if limit > mean else theme.rest for limit in low], "line": {"width": 0}},
        error_y={
            "type": "data",
            "symmetric": False,
            "array": light(high - rate),
            "arrayminus": light(rate - low),
            "color": theme.muted,
            "thickness": 1,
            "width": 0,
        },
        hovertext=[
            f"<b>{plain(name)}</b><br>{percent(share)} confirmed ({percent(least)} to {percent(most)})<br>"
            f"{count(hits)} of {count(n)} rows"
            for name, share, least, most, hits, n in zip(
                found.names, rate, low, high, found.confirmed, found.rows, strict=True
            )
        ],
        hoverinfo="text",
        showlegend=False,
    )
    figure.add_hline(y=mean, line={"color": theme.muted, "width": 1, "dash": "dot"})
    top = max(1.2 * float(rate.max()), min(float(high.max()), 2.0 * float(rate.max()))) or 1.0
    figure.update_xaxes(visible=False, fixedrange=True)
    figure.update_yaxes(range=[0, top], tickformat=".1~%", nticks=3, fixedrange=True)
    figure.update_layout(margin={"l": 4, "r": 4, "t": 4, "b": 4})
    return figure


def missing_chart(profile: TableProfile, *, theme: Theme = LIGHT) -> go.Figure:
    """The share of missing values of each column that has any, most first."""
    columns = sorted((c for c in profile.columns if c.missing), key=lambda c: -c.missing_share)
    if not columns:
        return nothing_to_show(theme, "No value is missing in any column.")
    lines = [
        Line(
            column.name,
            column.missing_share,
            f"<b>{plain(column.name)}</b><br>{count(column.missing)} of {count(column.rows)} rows have no value",
            percent(column.missing_share),
            theme.warn if column.missing_share >= 0.5 else theme.color(1),
        )
        for column in columns
    ]
    shares = listed(f"{column.name} {percent(column.missing_share)}" for column in columns)
    figure = bar_chart(lines, theme, f"Missing values in {len(columns)} columns: {shares}.", "missing values")
    figure.update_xaxes(tickformat=".0%", range=[0, 1])
    return figure


def soft_label_chart(audit: SoftLabelAudit, *, log_rows: bool = False, theme: Theme = LIGHT) -> go.Figure:
    """How many rows have which soft label, with the mean as a line; `log_rows` when nearly all rows lie in one bin."""
    edges = audit.bin_edges
    middles = 0.5 * (edges[1:] + edges[:-1])
    rest = audit.bin_rows - audit.bin_labeled
    alt = (
        f"Soft labels of {count(audit.n_rows)} rows: mean {decimals(audit.mean)}, "
        f"{percent(audit.share_between)} strictly between 0 and 1, {count(audit.n_labeled)} confirmed cases."
    )
    figure = canvas(theme, alt, height=250, barmode="stack", bargap=0.06)
    hover = [
        f"<b>Soft label {low:.2f} to {high:.2f}</b><br>{count(rows)} rows, {count(labeled)} confirmed cases"
        for low, high, rows, labeled in zip(edges[:-1], edges[1:], audit.bin_rows, audit.bin_labeled, strict=True)
    ]
    for name, rows, color in (
        ("soft label from rules", rest, theme.belief),
        ("confirmed cases", audit.bin_labeled, theme.confirmed),
    ):
        figure.add_bar(
            x=light(middles),
            y=light(rows),
            width=0.94 * float(edges[1] - edges[0]),
            name=name,
            marker={"color": color, "line": {"width": 0}},
            hovertext=hover,
            hoverinfo="text",
        )
    if log_rows:  # from one row on: else the lowest bar would begin at its own height, and few rows look like none
        highest = float(np.log10(max(audit.bin_rows.max(), 10)))
        rows_axis(figure, [0.0, 1.05 * highest], type="log", dtick=1)
    else:
        rows_axis(figure, type="linear")
    figure.update_xaxes(title_text="soft label", range=[0, 1], showgrid=False, fixedrange=True, tickformat=".1f")
    top_legend(figure)
    reference_line(figure, audit.mean, f"mean {decimals(audit.mean)}", theme.text, dash="dot")
    figure.update_layout(margin_t=52, legend_y=1.1)
    return figure


def rate_hover(bars: Bars) -> list[str]:
    """Range, share of confirmed cases and counts of each bin."""
    return [
        f"<b>{bars.range_text(place)}</b><br>{percent(hits / max(rows, 1))} confirmed cases<br>"
        f"{count(hits)} of {count(rows)} rows"
        for place, (hits, rows) in enumerate(zip(bars.positives, bars.rows, strict=True))
    ]
