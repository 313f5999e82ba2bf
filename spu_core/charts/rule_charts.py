"""Charts of rules: to make one by dragging or clicking, and their overlap, coverage, lift and effect."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from spu_core.charts.canvas import (
    LIGHT,
    MOST_LINES,
    TEXT_SIZE,
    Line,
    Theme,
    bar_chart,
    canvas,
    count,
    decimals,
    interval,
    label,
    light,
    lines_height,
    listed,
    name_axis,
    nothing_to_show,
    one_line,
    percent,
    plain,
    reference_line,
    see_through,
    signed,
    times,
    top_legend,
    value_column,
    value_heading,
    whisker_chart,
    wrapped,
)
from spu_core.charts.column_charts import FEWEST_IN_A_BIN, Bars, rate_hover, rows_axis, set_value_axis
from spu_core.errors import SpuError
from spu_core.tables import Histogram
from spu_core.tables.reading.values import stamp_of
from spu_core.theory.check_ratio import wilson_interval

MOST_LEVELS = 30
# Names of bands are spread over so many lines, so that neighbours do not overlap.
BAND_LINES = 3
# Width of the names beside the bars of a category, as a share of the longest bar.
NAMES_WIDTH = 0.6
# Height of the bars below the shares of confirmed cases.
BARS_HEIGHT = 0.66


@dataclass(frozen=True, slots=True)
class RuleBand:
    """The range of a column that a saved rule covers; None means no limit on that side."""

    name: str
    low: float | None
    high: float | None
    belief: float | None = None


def brush_chart(
    histogram: Histogram | None,
    column: str,
    *,
    rules: Iterable[RuleBand] = (),
    dates: bool = False,
    theme: Theme = LIGHT,
) -> go.Figure:
    """The histogram to drag across: confirmed cases on top of the rest, saved rules as bands behind.

    Above it, the share of confirmed cases in neighbouring bars with its interval. The figure must not depend on the
    current selection, since Plotly drops a selection when the figure changes. With `dates`, edges are nanoseconds since
    1970.
    """
    if histogram is None:
        return nothing_to_show(theme, f"Column {column} holds no numbers.")
    bars, rules = Bars.of(histogram, dates), list(rules)
    figure = canvas(theme, _brush_alt(bars, column), height=300, barmode="stack", bargap=0)
    hover = [_bin_hover(bars, place) for place in range(bars.rows.size)]
    _add_bars(figure, bars, ("the rest", bars.rest), hover, (theme.rest, theme.model))
    _add_bars(figure, bars, ("confirmed cases", bars.positives), hover, (theme.confirmed, theme.confirmed))
    has_rates = bool(bars.positives.any())
    top_of_bars = BARS_HEIGHT if has_rates else 1.0
    for place, rule in enumerate(rules):
        _add_rule_band(figure, bars, rule, (place % BAND_LINES, top_of_bars), theme)
    figure.update_layout(
        dragmode="select",
        selectdirection="h",
        newselection_line={"color": theme.model, "width": 2},
        activeselection={"fillcolor": theme.model, "opacity": 0.08},
    )
    set_value_axis(figure, bars, column)
    # Room for the names of the bands above the highest bar.
    top = 1.03 + 0.08 * min(len(rules), BAND_LINES)
    rows_axis(figure, [0, top * max(float(bars.rows.max()), 1.0)], domain=[0, top_of_bars])
    if has_rates:
        _add_rates(figure, bars, theme)
    top_legend(figure)
    return figure


def _add_rates(figure: go.Figure, bars: Bars, theme: Theme) -> None:
    """The share of confirmed cases above the bars; thin bars are joined."""
    joined = bars.merged(max(FEWEST_IN_A_BIN, bars.total // 100))
    low, high = wilson_interval(joined.positives, joined.rows.clip(1))
    rate = joined.positives / joined.rows.clip(1)
    figure.add_scatter(
        x=joined.drawn(joined.middles),
        y=light(rate),
        yaxis="y2",
        mode="lines+markers",
        line={"color": theme.confirmed, "width": 1.5},
        marker={"size": 5, "color": theme.confirmed},
        error_y={
            "type": "data",
            "symmetric": False,
            "array": light(high - rate),
            "arrayminus": light(rate - low),
            "color": theme.confirmed,
            "thickness": 1,
            "width": 0,
        },
        hovertext=rate_hover(joined),
        hoverinfo="text",
        showlegend=False,
    )
    top = max(1.15 * float(rate.max()), min(1.05 * float(high.max()), 2.0 * float(rate.max()))) or 1.0
    figure.update_layout(
        yaxis2={
            "domain": [0.74, 1],
            "range": [0, top],
            "fixedrange": True,
            "nticks": 3,
            "tickformat": ".1~%",
            "title": {"text": "confirmed"},
        }
    )


def category_chart(
    levels: Sequence[Any],
    positives: Any,
    rest: Any,
    column: str,
    *,
    chosen: Collection[Any] = (),
    theme: Theme = LIGHT,
) -> go.Figure:
    """Bars of a category column, largest first, with the share of confirmed cases; a click on a line or name picks it.

    `customdata` is the position in `levels`, so that the browser never sends the text of a level back. Only the 30
    largest levels are shown; the axis title counts the others. The bars of the `chosen` levels are marked.
    """
    positives, rest = np.asarray(positives), np.asarray(rest)
    order = np.argsort(-(positives + rest), kind="stable")[:MOST_LEVELS]
    if not order.size:
        return nothing_to_show(theme, f"Column {column} holds no values.")
    rows = positives + rest
    most, total = max(float(rows.max()), 1.0), int(rows.sum())
    figure = canvas(
        theme, _category_alt(levels, positives, rest, column), height=lines_height(order.size), barmode="overlay",
        bargap=0.25,
    )  # fmt: skip
    marked = [place for place, level in enumerate(order) if levels[level] in chosen] or None
    names_width = NAMES_WIDTH * most
    for name, start, length, color in (
        ("the rest", positives, rest, theme.rest),
        ("confirmed cases", 0 * positives, positives, theme.confirmed),
        # Invisible, over the whole line: bars of rare levels are too thin to be clicked.
        (None, 0 * rows - names_width, 0 * rows + most + names_width, "rgba(0,0,0,0)"),
    ):
        figure.add_bar(
            base=light(start[order]),
            x=light(length[order]),
            y=list(range(order.size)),
            orientation="h",
            customdata=order,
            hovertext=[_level_hover(levels[i], positives[i], rest[i], total) for i in order],
            hoverinfo="text",
            name=name,
            showlegend=name is not None,
            marker={"color": color, "line": {"width": 0}},
            selectedpoints=marked,
            unselected={"marker": {"opacity": 0.45}},
        )
    name_axis(figure, [wrapped(levels[i]) for i in order], theme, ticklabelposition="inside")
    low, high = wilson_interval(positives[order], rows[order].clip(1))
    shares = [_interval_text(*each) for each in zip(positives[order] / rows[order].clip(1), low, high, strict=True)]
    if positives.any():
        value_column(figure, shares, theme)
        value_heading(figure, "confirmed (95%)", theme)
    left_out = len(levels) - order.size
    more = f" ({count(left_out)} smaller categories not shown)" if left_out else ""
    ticks = _ticks(most)
    figure.update_xaxes(
        title_text=f"rows{more}", fixedrange=True, range=[-names_width, 1.02 * most], tickvals=ticks, tickformat="~s"
    )
    figure.update_layout(dragmode=False, clickmode="event+select")
    top_legend(figure)
    return figure


def _interval_text(share: float, low: float, high: float) -> str:
    return f"{percent(share)} ({percent(low)}–{percent(high)})"


def _ticks(most: float) -> list[float]:
    """Round numbers from 0 to `most`, about four.

    >>> _ticks(870.0)
    [0.0, 200.0, 400.0, 600.0, 800.0]
    """
    power = 10.0 ** np.floor(np.log10(most / 4))
    step = max(1.0, next(power * each for each in (1, 2, 5, 10) if power * each >= most / 5))
    return np.arange(0.0, most + 0.01 * step, step).tolist()


def selected_range(selection: Mapping[str, Any], histogram: Histogram) -> tuple[float, float] | None:
    """The range of a box selection on `brush_chart`, in order and inside the column; None when it was cleared.

    A box that reaches the edge of the plot includes the values beyond it. Dates become nanoseconds since 1970.

    >>> histogram = Histogram(np.array([0.0, 5.0, 10.0]), np.array([1, 1]), np.array([0, 1]))
    >>> selected_range({"box": [{"x": [12.5, 3.5]}]}, histogram)
    (3.5, 10.0)
    >>> selected_range({"box": []}, histogram)
    """
    boxes = selection.get("box") or []
    if not boxes:
        return None
    low, high = sorted(_position(value) for value in boxes[0]["x"])
    edges = Bars.of(histogram).edges
    first, last = float(histogram.edge[0]), float(histogram.edge[-1])
    return (
        first if low <= edges[0] else min(low, last),
        last if high >= edges[-1] else max(high, first),
    )


def selected_levels(selection: Mapping[str, Any], levels: Sequence[Any]) -> list[Any]:
    """The levels of the bars clicked on `category_chart`, in the order of `levels`.

    >>> selected_levels({"points": [{"customdata": 1}, {"customdata": [0]}, {"customdata": 7}]}, ["a", "b"])
    ['a', 'b']
    """
    places = {_place(point.get("customdata")) for point in selection.get("points") or []}
    return [level for place, level in enumerate(levels) if place in places]


def _place(data: Any) -> int | None:
    """The number of a clicked point: Plotly sends it plain, in a list or in a dict, depending on the client."""
    if isinstance(data, Mapping):
        data = data.get("0")
    elif isinstance(data, list | tuple) and data:
        data = data[0]
    return int(data) if isinstance(data, int | float) else None


def _position(value: Any) -> float:
    """A number, or the date that Plotly writes for one."""
    if isinstance(value, str):
        return stamp_of(value)
    return float(value)


def _add_bars(
    figure: go.Figure, bars: Bars, named: tuple[str, np.ndarray], hover: list[str], colors: tuple[str, str]
) -> None:
    name, values = named
    usual, chosen = colors
    figure.add_bar(
        x=bars.drawn(bars.middles),
        y=light(values),
        width=np.diff(bars.drawn(bars.edges)),
        name=name,
        hovertext=hover,
        hoverinfo="text",
        marker={"color": usual, "line": {"width": 0}},
        selected={"marker": {"color": chosen, "opacity": 1.0}},
        unselected={"marker": {"opacity": 0.55}},
    )


def _add_rule_band(figure: go.Figure, bars: Bars, rule: RuleBand, place: tuple[int, float], theme: Theme) -> None:
    line, top = place
    first, last = float(bars.edges[0]), float(bars.edges[-1])
    low = first if rule.low is None else min(max(rule.low, first), last)
    high = last if rule.high is None else min(max(rule.high, first), last)
    figure.add_shape(
        type="rect",
        x0=bars.drawn(low),
        x1=bars.drawn(high),
        y0=0,
        y1=1,
        yref="paper",
        line={"width": 0},
        fillcolor=see_through(theme.belief, 0.16),
        layer="below",
    )
    belief = "" if rule.belief is None else f"  {rule.belief:.2f}"
    x, anchor = _name_place(low, high, (first, last))
    figure.add_annotation(
        text=f"{plain(rule.name, 18)}{belief}",
        x=bars.drawn(x),
        xanchor=anchor,
        y=top,
        yref="paper",
        yanchor="top",
        yshift=-15 * line,
        showarrow=False,
        font={"color": theme.belief, "size": TEXT_SIZE - 1},
    )


def _name_place(low: float, high: float, ends: tuple[float, float]) -> tuple[float, str]:
    """The position of a band's name: centred, but near the ends of the axis at the edge of the band."""
    middle = 0.5 * (low + high)
    place = (middle - ends[0]) / (ends[1] - ends[0])
    if place < 0.15:
        return low, "left"
    return (high, "right") if place > 0.85 else (middle, "center")


def _bin_hover(bars: Bars, place: int) -> str:
    return f"<b>{bars.range_text(place)}</b><br>{_share_text(bars.positives[place], bars.rest[place], bars.total)}"


def _level_hover(level: Any, positives: float, rest: float, total: int) -> str:
    return f"<b>{plain(level, 60)}</b><br>{_share_text(positives, rest, total)}"


def _share_text(positives: float, rest: float, total: int) -> str:
    rows = positives + rest
    known = f"{count(positives)} confirmed cases"
    rate = f" ({percent(positives / rows)})" if rows else ""
    return f"{count(rows)} rows, {percent(rows / max(total, 1))} of all<br>{known}{rate}"


def _brush_alt(bars: Bars, column: str) -> str:
    return (
        f"Histogram of {one_line(column)}: {count(bars.total)} rows, {count(bars.positives.sum())} of them known "
        f"positives; the highest bar is {bars.range_text(int(np.argmax(bars.rows)))}."
    )


def _category_alt(levels: Sequence[Any], positives: np.ndarray, rest: np.ndarray, column: str) -> str:
    largest = int(np.argmax(positives + rest))
    return (
        f"Rows of {one_line(column)} by value: {count(len(levels))} values, "
        f"the most frequent is {one_line(levels[largest])} with {count((positives + rest)[largest])} rows."
    )


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
