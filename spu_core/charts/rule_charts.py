"""Charts of rules: overlap, coverage, lift among confirmed cases, and the effect of leaving one out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from spu_core.charts.canvas import (
    MOST_LINES,
    Line,
    bar_chart,
    canvas,
    light,
    nothing_to_show,
    reference_line,
    whisker_chart,
)
from spu_core.charts.text_format import count, decimals, interval, label, listed, percent, plain, signed, times
from spu_core.charts.theme import LIGHT, TEXT_SIZE, Theme
from spu_core.errors import SpuError

NO_RULES = "There are no rules yet."
OVERLAP_LABEL = 14
# With more rules, the cells are too small for a number.
MOST_WRITTEN = 10
CHANGES = {"ceiling_change": "change of the ceiling", "mean_change": "change of the mean soft label"}


def overlap_chart(overlap: pd.DataFrame, *, theme: Theme = LIGHT) -> go.Figure:
    """Heat map of `overlap_table`: of the rows of the rule on the left, the share on which the one below fires too."""
    if overlap.empty:
        return nothing_to_show(theme, NO_RULES)
    overlap = overlap.iloc[:MOST_LINES, :MOST_LINES]
    values = overlap.to_numpy(dtype=np.float64)
    names = [plain(name, OVERLAP_LABEL) for name in overlap.index]
    size = len(names)
    figure = canvas(theme, _overlap_alt(overlap, values), height=min(110 + 40 * size, 640))
    figure.add_heatmap(
        z=light(values),
        x=list(range(size)),
        y=list(range(size)),
        zmin=0,
        zmax=1,
        colorscale=theme.scale,
        xgap=2,
        ygap=2,
        showscale=False,
        hoverongaps=False,
        hovertext=_overlap_hover(overlap, values) if size <= MOST_LINES // 2 else None,
        hoverinfo="text" if size <= MOST_LINES // 2 else "z",
    )
    if size <= MOST_WRITTEN:
        _write_cells(figure, values, theme)
    ticks = {
        "tickmode": "array",
        "tickvals": list(range(size)),
        "ticktext": names,
        "showgrid": False,
        "fixedrange": True,
    }
    figure.update_xaxes(tickangle=-45 if size > 3 else 0, **ticks)
    figure.update_yaxes(autorange="reversed", tickfont={"color": theme.text}, **ticks)
    return figure


def coverage_chart(summary: pd.DataFrame, *, theme: Theme = LIGHT) -> go.Figure:
    """The share of rows on which each rule fires, from `summarize_rules`; the paler part is shared with other rules."""
    _need(summary, "coverage", "overlap", "mean_belief")
    if summary.empty:
        return nothing_to_show(theme, NO_RULES)
    lines = [
        Line(
            str(name),
            row["coverage"] - row["overlap"],
            f"<b>{plain(name)}</b><br>fires on {percent(row['coverage'])} of rows<br>"
            f"{percent(row['overlap'])} together with another rule<br>mean belief {decimals(row['mean_belief'], 2)}",
            percent(row["coverage"]),
            theme.model,
        )
        for name, row in summary.iterrows()
    ]
    covered = listed(f"{line.name} {line.value}" for line in lines)
    figure = bar_chart(lines, theme, f"Share of rows on which each rule fires: {covered}.", "share of rows")
    shown = summary.iloc[:MOST_LINES]
    figure.add_bar(
        x=shown["overlap"].to_numpy(),
        y=list(range(len(shown))),
        orientation="h",
        marker={"color": theme.rest, "line": {"width": 0}, "cornerradius": 3},
        hovertext=[line.hover for line in lines[:MOST_LINES]],
        hoverinfo="text",
        name="with another rule",
        showlegend=True,
    )
    figure.data[0].update(name="alone", showlegend=True)
    figure.update_layout(barmode="stack", height=figure.layout.height + 22, margin_t=36)
    figure.update_layout(legend={"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "traceorder": "normal"})
    figure.update_xaxes(tickformat=".1~%", rangemode="tozero")
    return figure


def rule_lift_chart(summary: pd.DataFrame, *, theme: Theme = LIGHT) -> go.Figure:
    """P(fires | known positive) / P(fires) of each rule with its interval; grey where the interval holds 1."""
    _need(summary, "lift", "lift_low", "lift_high", "labeled_rows")
    known = summary[summary["lift"].notna()]
    if known.empty:
        return nothing_to_show(theme, "No row is a known positive, or no rule fires, so there is no lift.")
    lines = [_lift_line(str(name), row, theme) for name, row in known.iterrows()]
    lifts = listed(f"{line.name} {line.value}" for line in lines)
    figure = whisker_chart(
        lines, theme, f"Lift of the rules among confirmed cases: {lifts}.", "lift among confirmed cases"
    )
    reference_line(figure, 1.0, "no lift", theme.muted)
    figure.update_xaxes(ticksuffix="×", rangemode="tozero")
    return figure


def leave_one_out_chart(changes: pd.DataFrame, *, change: str = "ceiling_change", theme: Theme = LIGHT) -> go.Figure:
    """What leaving out each rule does to the ceiling (or E[S], `change="mean_change"`), from `leave_one_rule_out`."""
    if change not in CHANGES:
        raise SpuError(f"change must be one of {', '.join(map(repr, CHANGES))}, got {change!r}.")
    _need(changes, change, "rows_changed", "rank_correlation")
    known = changes[changes[change].notna()]
    if known.empty:
        return nothing_to_show(theme, NO_RULES)
    lines = [
        Line(
            str(name),
            row[change],
            f"<b>without {plain(name)}</b><br>{CHANGES[change]} {signed(row[change])}<br>"
            f"{percent(row['rows_changed'])} of rows change<br>rank correlation {decimals(row['rank_correlation'])}",
            signed(row[change]),
            theme.model if row[change] < 0 else theme.belief,
        )
        for name, row in known.iterrows()
    ]
    shown = listed(f"{line.name} {line.value}" for line in lines)
    figure = bar_chart(
        lines, theme, f"Leaving out a rule: {CHANGES[change]}: {shown}.", f"{CHANGES[change]} without the rule"
    )
    figure.update_xaxes(tickformat=".3~f", nticks=5)
    figure.add_shape(
        type="line", x0=0, x1=0, y0=0, y1=1, yref="paper", line={"color": theme.muted, "width": 1}, layer="above"
    )
    return figure


def _need(table: pd.DataFrame, *columns: str) -> None:
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise SpuError(f"The table of rules lacks the column {missing[0]!r}; it has {list(table.columns)}.")


def _lift_line(name: str, row: pd.Series, theme: Theme) -> Line:
    is_unclear = row["lift_low"] <= 1.0 <= row["lift_high"]
    hover = (
        f"<b>{plain(name)}</b><br>lift {times(row['lift'])} ({interval(row['lift_low'], row['lift_high'], times)})<br>"
        f"{count(row['labeled_rows'])} confirmed cases" + ("<br>no clear lift" if is_unclear else "")
    )
    color = theme.unsure if is_unclear else theme.model if row["lift"] > 1 else theme.warn
    return Line(name, row["lift"], hover, times(row["lift"]), color, row["lift_low"], row["lift_high"])


def _write_cells(figure: go.Figure, values: np.ndarray, theme: Theme) -> None:
    for (y, x), value in np.ndenumerate(values):
        if not np.isnan(value):
            font = {"size": TEXT_SIZE - 1, "color": theme.text_on(value)}
            figure.add_annotation(x=x, y=y, text=percent(value, 0), showarrow=False, font=font)


def _overlap_hover(overlap: pd.DataFrame, values: np.ndarray) -> list[list[str]]:
    names = [label(name) for name in overlap.index]
    return [
        [
            f"<b>{second}</b> fires on {percent(values[y, x])}<br>of the rows of <b>{first}</b>"
            for x, second in enumerate(names)
        ]
        for y, first in enumerate(names)
    ]


def _overlap_alt(overlap: pd.DataFrame, values: np.ndarray) -> str:
    others = np.where(np.eye(len(values), dtype=bool) | np.isnan(values), -1.0, values)
    if len(values) < 2 or others.max() < 0:
        return f"Overlap of the rules: {listed(overlap.index)}."
    y, x = divmod(int(np.argmax(others)), others.shape[1])
    return (
        f"Overlap of {len(values)} rules; the largest: {overlap.index[x]} fires on {percent(others[y, x])} of the rows "
        f"of {overlap.index[y]}."
    )
