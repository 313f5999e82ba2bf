"""The paper's tables and figures: printed numbers beside ours, Figures 1 and 2, and the map of Discussion 7.2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from spu_core.charts.canvas import canvas, light, lines_height, name_axis, nothing_to_show, top_legend
from spu_core.charts.text_format import count, decimals, percent, plain, signed, wrapped
from spu_core.charts.theme import LIGHT, TEXT_SIZE, Theme, see_through


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
    chart = canvas(theme, _reproduction_alt(figures, axis), height=lines_height(len(names), 110) + 10 * len(names))
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
        hovertext=[f"<b>{plain(figure.name)}</b><br>{plain(method)}, ours: {_our_figure(figure)}" for figure in shown],
        hoverinfo="text",
    )


def _offset(place: int, count: int) -> float:
    """A small vertical offset per method, so that equal figures stay visible."""
    return 0.0 if count == 1 else 0.5 * (place / (count - 1) - 0.5)


def _our_figure(figure: PrintedFigure) -> str:
    error = "" if figure.error is None else f" ± {figure.error:.4f}"
    return f"{decimals(figure.ours)}{error}"


def _reproduction_alt(figures: Sequence[PrintedFigure], axis: str) -> str:
    apart = [abs(figure.ours - figure.paper) for figure in figures if figure.paper is not None]
    far = f"; ours lie {decimals(min(apart))} to {decimals(max(apart))} from the paper's" if apart else ""
    return f"{axis}: {len(figures)} figures of ours beside the printed ones{far}."


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

    Each flow has `from`, `to`, `players` and `cheaters`. Two nodes with the same players are drawn as one.
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
            "customdata": [_flow_hover(*incoming[name]) for name in names],
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
                f"{plain(flow['from'])} → {plain(flow['to'])}<br>{_flow_hover(flow['players'], flow['cheaters'])}"
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
    """A colour that gets deeper with the share of cheaters; by its square root, so that small shares differ visibly."""
    share = (total[1] / total[0]) ** 0.5 if total[0] else 0.0
    return theme.sequential[2 + round(share * (len(theme.sequential) - 3))]


def _flow_hover(players: int, cheaters: int) -> str:
    return (
        f"{count(players)} players, {count(cheaters)} of them cheat ({percent(cheaters / players if players else 0)})"
    )


def _without_renaming(flows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Merge two nodes into one where all players of the first, and only they, go to the second."""
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
    """A long name on several short lines; shorter ones in the middle of the chart, where labels could overlap."""
    parts = [line for part in name.split(": ") for line in wrap(part, 15 if name in sources else 22)]
    return "<br>".join(map(plain, parts))


def _flow_alt(flows: Sequence[Mapping[str, Any]]) -> str:
    start, sources = flows[0]["from"], {flow["from"] for flow in flows}
    ends = [(name, total) for name, total in _totals(flows, "to").items() if name not in sources]
    told = "; ".join(f"{name}: {count(players)} ({count(cheaters)} cheat)" for name, (players, cheaters) in ends)
    return f"Check and punishment of {count(_totals(flows, 'from')[start][0])} players. {told}."


WINNERS = {"target": "target wins", "feature": "feature wins", "undecided": "undecided"}


def winner_map_chart(cells: Sequence[Mapping[str, Any]], *, theme: Theme = LIGHT) -> go.Figure:
    """One tile per number of labels and bias, coloured by the difference, with the name of the winner.

    Each cell has `labels`, `bias`, `target − feature` and `winner`.
    """
    if not cells:
        return nothing_to_show(theme, "There is no map yet.")
    labels, biases = (sorted({cell[name] for cell in cells}) for name in ("labels", "bias"))
    found = {(cell["bias"], cell["labels"]): cell for cell in cells}
    tiles = [[found.get((bias, label)) for label in labels] for bias in biases]
    figure = canvas(theme, _winner_alt(cells), height=110 + 74 * len(biases))
    largest = max(abs(cell["target − feature"]) for cell in cells) or 1.0
    figure.add_heatmap(
        z=[[None if tile is None else tile["target − feature"] for tile in row] for row in tiles],
        x=[f"{label:,}" for label in labels],
        y=[f"{bias:g}" for bias in biases],
        zmin=-largest,
        zmax=largest,
        colorscale=[(0.0, theme.categorical[1]), (0.5, theme.panel), (1.0, theme.model)],
        showscale=False,
        xgap=3,
        ygap=3,
        text=[["" if tile is None else _tile(tile) for tile in row] for row in tiles],
        texttemplate="%{text}",
        hovertemplate="%{x} labels, bias %{y}: %{text}<extra></extra>",
    )
    figure.update_xaxes(title_text="labels", type="category", fixedrange=True, showgrid=False)
    figure.update_yaxes(title_text="bias of labels", type="category", fixedrange=True, showgrid=False)
    return figure


def _tile(cell: Mapping[str, Any]) -> str:
    return f"{signed(cell['target − feature'])}<br>{WINNERS[cell['winner']]}"


def _winner_alt(cells: Sequence[Mapping[str, Any]]) -> str:
    count = {winner: sum(cell["winner"] == winner for cell in cells) for winner in WINNERS}
    return (
        f"Over seeds, on these rows, the soft label is better as target in {count['target']} of {len(cells)} settings, "
        f"better as feature in {count['feature']}, and {count['undecided']} are undecided."
    )
