"""What a table and its soft labels look like: label rate by bin, missing values, the distribution of S."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from spu_core.charts.bars import Bars, rows_axis, set_value_axis
from spu_core.charts.canvas import canvas, light, nothing_to_show, reference_line, top_legend
from spu_core.charts.lines import Line, bar_chart
from spu_core.charts.theme import LIGHT, Theme, see_through
from spu_core.charts.words import count, decimals, listed, one_line, percent, plain
from spu_core.tables import Histogram, TableProfile
from spu_core.theory.check_ratio import wilson_interval

if TYPE_CHECKING:
    from spu_core.labels import SoftLabelAudit

# A rate among fewer rows is noise.
FEWEST_IN_A_BIN = 20


def label_rate_chart(
    histogram: Histogram | None, column: str, *, dates: bool = False, theme: Theme = LIGHT
) -> go.Figure:
    """The share of known positives by value with its 95 % interval; thin bins are joined. Flat means no information."""
    if histogram is None:
        return nothing_to_show(theme, f"Column {column} holds no numbers.")
    whole = Bars.of(histogram, dates)
    bars = whole.merged(max(FEWEST_IN_A_BIN, whole.total // 200))
    rate = bars.positives / bars.rows.clip(1)
    low, high = wilson_interval(bars.positives, bars.rows.clip(1))
    mean = float(bars.positives.sum() / max(bars.total, 1))
    x = bars.drawn(bars.middles)
    highest = bars.range_words(int(np.argmax(rate)))
    alt = f"Share of known positives by {one_line(column)}: {percent(mean)} over all rows, highest at {highest}."
    figure = canvas(theme, alt, height=280)
    figure.add_scatter(
        x=np.concatenate([x, x[::-1]]),
        y=light(np.concatenate([high, low[::-1]])),
        mode="lines",
        line={"width": 0, "shape": "linear"},
        fill="toself",
        fillcolor=see_through(theme.belief, 0.16),
        hoverinfo="skip",
        showlegend=False,
    )
    figure.add_scatter(
        x=x,
        y=light(rate),
        mode="lines+markers",
        line={"color": theme.belief, "width": 2},
        marker={"size": 5},
        hovertext=_rate_words(bars),
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
    figure.update_yaxes(title_text="known positives", tickformat=".1~%", range=[0, top], fixedrange=True, nticks=6)
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
    """How many rows have which soft label, with E[S] as a line; `log_rows` when nearly all rows lie in one bin."""
    edges = audit.bin_edges
    middles = 0.5 * (edges[1:] + edges[:-1])
    rest = audit.bin_rows - audit.bin_labeled
    alt = (
        f"Soft labels of {count(audit.n_rows)} rows: mean {decimals(audit.mean)}, "
        f"{percent(audit.share_between)} strictly between 0 and 1, {count(audit.n_labeled)} confirmed positives."
    )
    figure = canvas(theme, alt, height=250, barmode="stack", bargap=0.06)
    hover = [
        f"<b>S from {low:.2f} to {high:.2f}</b><br>{count(rows)} rows, {count(labeled)} confirmed positives"
        for low, high, rows, labeled in zip(edges[:-1], edges[1:], audit.bin_rows, audit.bin_labeled, strict=True)
    ]
    for name, rows, color in (
        ("soft label from rules", rest, theme.belief),
        ("confirmed positives", audit.bin_labeled, theme.model),
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
    rows_axis(figure, type="log" if log_rows else "linear")
    figure.update_xaxes(title_text="soft label S", range=[0, 1], showgrid=False, fixedrange=True, tickformat=".1f")
    top_legend(figure)
    reference_line(figure, audit.mean, f"E[S] {decimals(audit.mean)}", theme.text, dash="dot")
    figure.update_layout(margin_t=52, legend_y=1.1)
    return figure


def _rate_words(bars: Bars) -> list[str]:
    return [
        f"<b>{bars.range_words(place)}</b><br>{percent(hits / max(rows, 1))} known positives<br>"
        f"{count(hits)} of {count(rows)} rows"
        for place, (hits, rows) in enumerate(zip(bars.positives, bars.rows, strict=True))
    ]
