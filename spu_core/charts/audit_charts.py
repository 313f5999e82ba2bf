"""Charts of audits that serve every model: what a number of checks will tell, and the true AUC of all models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from spu_core.charts.canvas import Line, canvas, light, nothing_to_show, top_legend, whisker_chart
from spu_core.charts.text_format import count, decimals, interval, listed, percent, plain
from spu_core.charts.theme import LIGHT, Theme

if TYPE_CHECKING:
    from spu_core.trust.audit.checked import AuditReport
    from spu_core.trust.audit.questions import Forecast

_AXES = {
    "how_good": "true AUC within ±",
    "which_better": "difference of true AUC that is seen",
    "how_many": "share of cases within ±",
}


def forecast_chart(forecast: Forecast, *, checks: int | None = None, theme: Theme = LIGHT) -> go.Figure:
    """How precise the answer is for each number of checks; a vertical line at `checks`.

    For "which of two is better" the line is the difference that is seen with 80 % power.
    """
    table = forecast.table
    if table.empty:
        return nothing_to_show(theme, "There are too few rows to plan an audit.")
    key = forecast.question.key
    column = "detectable" if forecast.question.needs_rival else "half_width"
    first, last = table.iloc[0], table.iloc[-1]
    alt = (
        f"{_AXES[key]}: {_write(first[column], key)} after {count(first['checks'])} checks, "
        f"{_write(last[column], key)} after {count(last['checks'])}."
    )
    figure = canvas(theme, alt, height=320)
    series = [(column, "these checks", {"color": theme.model, "width": 2.5})]
    if not forecast.question.needs_rival:
        series.append(("random_half_width", "simple random checks", {"color": theme.unsure, "dash": "dot"}))
    for name, title, line in series:
        figure.add_scatter(
            x=light(table["checks"]),
            y=light(table[name]),
            mode="lines+markers" if name == column else "lines",
            name=title,
            line=line,
            hovertext=[
                f"{count(size)} checks: ±{_write(value, key)}"
                if column == "half_width"
                else f"{count(size)} checks: a difference of {_write(value, key)}"
                for size, value in zip(table["checks"], table[name], strict=True)
            ],
            hoverinfo="text",
        )
    if checks is not None:
        figure.add_vline(x=checks, line={"color": theme.belief, "width": 1.5, "dash": "dash"})
    top_legend(figure)
    ticks = table["checks"].tolist()
    figure.update_xaxes(
        title_text="rows checked by hand", type="log", tickvals=ticks, ticktext=list(map(count, ticks)), fixedrange=True
    )
    figure.update_yaxes(
        title_text=_AXES[key], rangemode="tozero", fixedrange=True, tickformat=".0%" if key == "how_many" else ".2f"
    )
    return figure


def _write(value: float, key: str) -> str:
    return percent(value) if key == "how_many" else decimals(value)


def audit_report_chart(report: AuditReport, *, theme: Theme = LIGHT) -> go.Figure:
    """The true AUC of every model by the checked rows, with intervals, the best first."""
    found = {name: figures["true_auc"] for name, figures in report.figures.items()}
    known = sorted(
        (name for name in found if found[name].estimate == found[name].estimate), key=lambda name: -found[name].estimate
    )
    if not known:
        return nothing_to_show(theme, "There are too few verdicts to estimate the true AUC.")
    lines = []
    for place, name in enumerate(known):
        each = found[name]
        hover = (
            f"<b>{plain(name)}</b><br>true AUC {decimals(each.estimate)} "
            f"({interval(each.low, each.high)}, {percent(each.level, 0)})"
        )
        color = theme.model if place == 0 else theme.unsure
        lines.append(Line(name, each.estimate, hover, decimals(each.estimate), color, each.low, each.high))
    said = listed((f"{name} {decimals(found[name].estimate)}" for name in known), 6)
    level = percent(found[known[0]].level, 0)
    return whisker_chart(lines, theme, f"True AUC by the checked rows: {said}.", f"true AUC with {level} intervals")
