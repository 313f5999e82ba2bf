"""Charts of sensitivity: the band of each run under uncertain beliefs, and what each single rule can move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from spu_core.charts.canvas import (
    MOST_LINES,
    canvas,
    lines_height,
    name_axis,
    nothing_to_show,
    reference_line,
    value_heading,
)
from spu_core.charts.lines import Line, whisker_chart
from spu_core.charts.theme import LIGHT, Theme
from spu_core.charts.words import decimals, interval, label, listed, percent, plain, wrapped

if TYPE_CHECKING:
    from spu_core.trust.sensitivity import RuleInfluence, Sensitivity


def sensitivity_chart(sensitivity: Sensitivity, *, theme: Theme = LIGHT) -> go.Figure:
    """The range that holds 90% of each run's AUC_SPU over the draws; at the right in how many draws it is best."""
    table = sensitivity.table
    best = table["stays_best"].max()
    lines = [
        Line(
            line["name"],
            line["median"],
            f"<b>{plain(line['name'])}</b><br>AUC_SPU {decimals(line['median'])} "
            f"({interval(line['low'], line['high'])})<br>"
            f"best in {percent(line['stays_best'], 0)} of the draws",
            percent(line["stays_best"], 0),
            theme.model if line["stays_best"] == best else theme.unsure,
            line["low"],
            line["high"],
        )
        for line in table.to_dict("records")
    ]
    said = listed(f"{line['name']} best in {percent(line['stays_best'], 0)}" for line in table.to_dict("records"))
    alt = f"AUC_SPU of each run under {len(sensitivity.auc)} draws of the beliefs: {said}."
    figure = whisker_chart(lines, theme, alt, "AUC_SPU, 90% of the draws")
    value_heading(figure, "best in", theme)
    figure.update_layout(margin={"t": 28, "r": 64})
    return figure


def rule_influence_chart(influence: RuleInfluence, *, theme: Theme = LIGHT) -> go.Figure:
    """How far the leader's AUC_SPU moves when one rule is believed less or more, the most influential rule on top."""
    table = influence.table.head(MOST_LINES)
    if table.empty:
        return nothing_to_show(theme, influence.sentence)
    figure = canvas(theme, influence.sentence, height=lines_height(len(table), 90), bargap=0.42, barmode="overlay")
    now = float(table["now"].iloc[0])
    for column, words, color in (("down", "believed less", theme.rest), ("up", "believed more", theme.belief)):
        figure.add_bar(
            x=(table[column] - now).tolist(),
            y=list(range(len(table))),
            base=now,
            orientation="h",
            name=words,
            marker={"color": color, "line": {"width": 0}, "cornerradius": 3},
            hovertext=[
                f"<b>{plain(line['rule'])}</b> {words}<br>AUC_SPU {decimals(line[column])} instead of "
                f"{decimals(now)}<br>then {plain(line[f'leads_{column}'])} leads"
                for line in table.to_dict("records")
            ],
            hoverinfo="text",
        )
    name_axis(figure, [wrapped(rule) for rule in table["rule"]], theme)
    reference_line(figure, now, f"now {decimals(now)}", theme.text, dash="dot")
    # Beside the names, too: on a narrow page one row of it has to be enough.
    place = {"x": 0, "xref": "container", "y": 0.99, "yref": "container", "yanchor": "top"}
    figure.update_layout(legend={"orientation": "h", **place}, margin_t=64)
    figure.update_xaxes(title_text=f"AUC_SPU of {label(influence.leader)}", fixedrange=True, nticks=6)
    return figure
