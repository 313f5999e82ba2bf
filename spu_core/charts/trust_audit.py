"""Charts of an audit: what n checks will be worth, how they are spread over the strata, and what they found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import plotly.graph_objects as go

from spu_core.charts.canvas import canvas, light, lines_height, name_axis, nothing_to_show, top_legend
from spu_core.charts.lines import Line, whisker_chart
from spu_core.charts.theme import LIGHT, Theme, see_through
from spu_core.charts.words import count, decimals, interval, listed, percent, plain

if TYPE_CHECKING:
    from spu_core.trust.audit.estimate import AuditEstimate, AuditFigure
    from spu_core.trust.audit.plan import AuditPlan


def outlook_chart(table: pd.DataFrame, title: str, *, checks: int | None = None, theme: Theme = LIGHT) -> go.Figure:
    """The interval to expect for each number of checks, beside that of rows drawn plainly at random."""
    if table.empty:
        return nothing_to_show(theme, "There are too few rows to plan an audit.")
    first, last = table.iloc[0], table.iloc[-1]
    alt = (
        f"Expected bounds of {title}: {interval(first['low'], first['high'])} after {count(first['checks'])} checks, "
        f"{interval(last['low'], last['high'])} after {count(last['checks'])}."
    )
    figure = canvas(theme, alt, height=320)
    sizes = light(table["checks"])
    hover = [
        f"<b>{count(line['checks'])} checks</b><br>bounds about {interval(line['low'], line['high'])}"
        f"{'<br>exact limits: few positives expected' if line['is_exact'] else ''}"
        for line in table.to_dict("records")
    ]
    figure.add_scatter(
        x=sizes, y=light(table["high"]), mode="lines", line={"color": theme.model, "width": 2}, showlegend=False,
        hoverinfo="skip",
    )  # fmt: skip
    figure.add_scatter(
        x=sizes,
        y=light(table["low"]),
        mode="lines",
        line={"color": theme.model, "width": 2},
        fill="tonexty",
        fillcolor=see_through(theme.model, 0.14),
        name="bounds to expect",
        hovertext=hover,
        hoverinfo="text",
    )
    _add_normal(figure, table, "half_width", "normal theory, this plan", {"color": theme.model, "dash": "dash"})
    plain_words = "normal theory, plain random rows"
    _add_normal(figure, table, "simple_half_width", plain_words, {"color": theme.unsure, "dash": "dot"})
    if checks is not None:
        figure.add_vline(x=checks, line={"color": theme.belief, "width": 1.5, "dash": "dash"})
    top_legend(figure)
    ticks = table["checks"].tolist()
    figure.update_xaxes(
        title_text="rows checked by hand", type="log", tickvals=ticks, ticktext=list(map(count, ticks)), fixedrange=True
    )
    figure.update_yaxes(title_text=plain(title), fixedrange=True, nticks=6)
    return figure


def _add_normal(figure: go.Figure, table: pd.DataFrame, column: str, name: str, line: dict[str, str]) -> None:
    """Both limits by normal theory; with exact limits nearby only the two of these may be compared with each other."""
    for sign in (1.0, -1.0):
        figure.add_scatter(
            x=light(table["checks"]),
            y=light((table["estimate"] + sign * table[column]).clip(0.0, 1.0)),
            mode="lines",
            line={**line, "width": 1.5},
            name=name,
            showlegend=sign > 0,
            hoverinfo="skip",
        )


def strata_chart(plan: AuditPlan, *, theme: Theme = LIGHT) -> go.Figure:
    """Where the rows are and where the checks go: the share of both in each stratum, low scores first."""
    names = [plain(name, 40) for name in plan.strata.names]
    rows, drawn = sum(plan.sizes), sum(plan.drawn)
    most = max(range(len(names)), key=lambda h: plan.drawn[h] / max(plan.sizes[h], 1))
    alt = (
        f"{count(drawn)} checks over {len(names)} strata; most densely in {plan.strata.names[most]}, where "
        f"{percent(plan.drawn[most] / max(plan.sizes[most], 1))} of {count(plan.sizes[most])} rows are drawn."
    )
    figure = canvas(theme, alt, height=lines_height(len(names), 110), bargap=0.3, bargroupgap=0.08)
    for name, values, total, color in (
        ("checks", plan.drawn, drawn, theme.model),
        ("rows", plan.sizes, rows, theme.rest),
    ):
        figure.add_bar(
            x=[value / total for value in values],
            y=list(range(len(names))),
            orientation="h",
            name=f"share of the {name}",
            marker={"color": color, "line": {"width": 0}, "cornerradius": 2},
            hovertext=[f"{plain(s)}<br>{count(v)} {name}" for s, v in zip(plan.strata.names, values, strict=True)],
            hoverinfo="text",
        )
    name_axis(figure, names, theme)
    top_legend(figure)
    figure.update_xaxes(tickformat=".0%", fixedrange=True, nticks=6)
    return figure


def audit_chart(estimate: AuditEstimate, *, truth: dict[str, float] | None = None, theme: Theme = LIGHT) -> go.Figure:
    """Every figure of an audit with its bounds; a ring where the truth is known."""
    figures = list(estimate.figures.values())
    lines = [_line(each, each.key == estimate.plan.target, theme) for each in figures]
    said = listed((f"{each.title} {decimals(each.estimate)} ({interval(each.low, each.high)})" for each in figures), 6)
    chart = whisker_chart(
        lines, theme, f"Estimated by the audit: {said}.", f"estimate with {percent(estimate.plan.level, 0)} bounds"
    )
    if truth:
        chart.add_scatter(
            x=[truth[each.key] for each in figures if each.key in truth],
            y=[place for place, each in enumerate(figures) if each.key in truth],
            mode="markers",
            marker={"symbol": "circle-open", "size": 15, "color": theme.belief, "line": {"width": 2}},
            name="truth",
            hovertemplate="truth %{x:.3f}<extra></extra>",
            showlegend=False,
        )
    # A little more than 0 to 1, so that a ring at the end is whole.
    chart.update_xaxes(range=[-0.02, 1.02], tickformat=".1f")
    return chart


def _line(figure: AuditFigure, is_target: bool, theme: Theme) -> Line:
    exact = "<br>exact limits where positives are few" if figure.is_exact else ""
    hover = (
        f"<b>{plain(figure.title)}</b><br>{decimals(figure.estimate)} "
        f"({interval(figure.low, figure.high)}, {percent(figure.level, 0)}){exact}"
    )
    color = theme.model if is_target else theme.unsure
    return Line(figure.title, figure.estimate, hover, decimals(figure.estimate), color, figure.low, figure.high)
