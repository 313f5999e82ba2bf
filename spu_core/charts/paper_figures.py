"""The paper's two figures: what optimising the PU metric costs in ROC, and the procedure of check and punishment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from spu_core.charts.canvas import canvas, light, top_legend
from spu_core.charts.theme import LIGHT, TEXT_SIZE, Theme, see_through
from spu_core.charts.words import count, decimals, percent, plain


def roc_loss_chart(series: Mapping[str, Any], *, theme: Theme = LIGHT) -> go.Figure:
    """Figure 1: the optimal ROC, and the one obtained by optimising ROC_SPU; the area between them is what is lost.

    `series` has `fpr`, `optimal`, `by_spu`, the two areas and `noise`.
    """
    lost = series["optimal_auc"] - series["by_spu_auc"]
    figure = canvas(
        theme,
        f"The ROC obtained by optimising the PU metric (AUC {decimals(series['by_spu_auc'])}) lies {decimals(lost)} "
        f"below the optimal ROC (AUC {decimals(series['optimal_auc'])}).",
        height=420,
    )
    curves = (
        (f"optimal ROC  {decimals(series['optimal_auc'])}", series["optimal"], theme.belief, "9px,6px"),
        (f"by optimising ROC_SPU  {decimals(series['by_spu_auc'])}", series["by_spu"], theme.model, "solid"),
    )
    for place, (name, tpr, color, dash) in enumerate(curves):
        figure.add_scatter(
            x=light(series["fpr"]),
            y=light(tpr),
            mode="lines",
            name=name,
            line={"color": color, "width": 2.4, "dash": dash},
            fill="tonexty" if place else None,
            fillcolor=see_through(theme.warn, 0.18),
            hovertemplate="FPR %{x:.1%}, TPR %{y:.1%}<extra></extra>",
        )
    diagonal = {"color": theme.muted, "width": 1, "dash": "2px,2px"}
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", line=diagonal, hoverinfo="skip", showlegend=False)
    figure.update_xaxes(title_text="FPR", tickformat=".0%", range=[0, 1], fixedrange=True, nticks=6)
    figure.update_yaxes(title_text="TPR", tickformat=".0%", range=[0, 1.005], fixedrange=True, nticks=6)
    top_legend(figure)
    return figure


def check_flow_chart(flows: Sequence[Mapping[str, Any]], *, theme: Theme = LIGHT) -> go.Figure:
    """Figure 2: players from pick to check to consequence; widths are players, darker where more of them cheat.

    Each flow has `from`, `to`, `players` and `cheaters`. Stages that only rename all of their players are drawn as one.
    """
    alt = _flow_alt(flows)
    flows = _without_renaming(flows)
    names = list(dict.fromkeys(name for flow in flows for name in (flow["from"], flow["to"])))
    sources = {flow["from"] for flow in flows}
    at = {name: place for place, name in enumerate(names)}
    incoming = _totals(flows, "to") | {
        name: total for name, total in _totals(flows, "from").items() if name == names[0]
    }
    figure = canvas(theme, alt, height=500)
    figure.add_sankey(
        arrangement="snap",
        textfont={"color": theme.text, "size": TEXT_SIZE, "shadow": "none"},
        node={
            "label": [f"{_lines(name, sources)}<br>{count(incoming[name][0])}" for name in names],
            "color": [_heat(incoming[name], theme) for name in names],
            "customdata": [_node_words(*incoming[name]) for name in names],
            "hovertemplate": "%{customdata}<extra></extra>",
            "pad": 64,
            "thickness": 14,
            "line": {"width": 0},
        },
        link={
            "source": [at[flow["from"]] for flow in flows],
            "target": [at[flow["to"]] for flow in flows],
            "value": [flow["players"] for flow in flows],
            "color": [see_through(_heat((flow["players"], flow["cheaters"]), theme), 0.45) for flow in flows],
            "customdata": [
                f"{plain(flow['from'])} → {plain(flow['to'])}<br>{_node_words(flow['players'], flow['cheaters'])}"
                for flow in flows
            ],
            "hovertemplate": "%{customdata}<extra></extra>",
        },
    )
    figure.update_xaxes(fixedrange=True, visible=False).update_yaxes(fixedrange=True, visible=False)
    figure.update_layout(margin={"l": 4, "r": 4, "t": 24, "b": 34})
    return figure


def _totals(flows: Sequence[Mapping[str, Any]], end: str) -> dict[str, tuple[int, int]]:
    totals: dict[str, tuple[int, int]] = {}
    for flow in flows:
        players, cheaters = totals.get(flow[end], (0, 0))
        totals[flow[end]] = players + int(flow["players"]), cheaters + int(flow["cheaters"])
    return totals


def _heat(total: tuple[int, int], theme: Theme) -> str:
    """A colour that deepens with the share of cheaters; the square root, since a few per cent matter here."""
    share = (total[1] / total[0]) ** 0.5 if total[0] else 0.0
    return theme.sequential[2 + round(share * (len(theme.sequential) - 3))]


def _node_words(players: int, cheaters: int) -> str:
    return (
        f"{count(players)} players, {count(cheaters)} of them cheat ({percent(cheaters / players if players else 0)})"
    )


def _without_renaming(flows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Flows whose source goes nowhere else and whose target comes from nowhere else join their two names."""
    sources, targets = (Counter(flow[end] for flow in flows) for end in ("from", "to"))
    joined = {
        flow["from"]: flow["to"]
        for flow in flows
        if targets[flow["from"]] and sources[flow["from"]] == targets[flow["to"]] == 1
    }

    def named(name: str) -> str:
        return f"{name}: {named(joined[name])}" if name in joined else name

    kept = [flow for flow in flows if flow["from"] not in joined]
    return [{**flow, "from": flow["from"], "to": named(flow["to"])} for flow in kept]


def _lines(name: str, sources: set[str]) -> str:
    """A long name on several short lines; in the middle of the chart, where labels meet others, on shorter ones."""
    parts = [line for part in name.split(": ") for line in wrap(part, 15 if name in sources else 22)]
    return "<br>".join(map(plain, parts))


def _flow_alt(flows: Sequence[Mapping[str, Any]]) -> str:
    start, sources = flows[0]["from"], {flow["from"] for flow in flows}
    ends = [(name, total) for name, total in _totals(flows, "to").items() if name not in sources]
    told = "; ".join(f"{name}: {count(players)} ({count(cheaters)} cheat)" for name, (players, cheaters) in ends)
    return f"Check and punishment of {count(_totals(flows, 'from')[start][0])} players. {told}."
