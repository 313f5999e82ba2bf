"""The paper: its tables with printed numbers beside ours, its figures, Discussion 7.2, and the five theorems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np
import plotly.graph_objects as go

from spu_core.charts.canvas import (
    LIGHT,
    TEXT_SIZE,
    Theme,
    canvas,
    count,
    decimals,
    light,
    lines_height,
    listed,
    name_axis,
    nothing_to_show,
    one_line,
    percent,
    plain,
    see_through,
    signed,
    top_legend,
    wrapped,
)


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


Series = Mapping[str, Any]
FLAT_GAP = 0.01
"""Scores with the best ROC_SPU are marked where their true AUCs differ by more than this."""


def ceiling_noise_chart(series: Series, *, theme: Theme = LIGHT) -> go.Figure:
    """Theorem 1: AUC_SPU of S with ever more noise, under the ceiling of each kind of soft labels.

    `series` has `noise` and `curves`: name → {"ceiling", "auc_spu"}.
    """
    curves = series["curves"]
    shown = listed((f"{name} {decimals(curve['ceiling'])}" for name, curve in curves.items()), most=5)
    figure = canvas(theme, f"AUC_SPU falls from its ceiling as noise is added to S; the ceilings: {shown}.", height=380)
    for place, (name, curve) in enumerate(curves.items()):
        color = theme.color(place)
        figure.add_scatter(
            x=light(series["noise"]),
            y=light(curve["auc_spu"]),
            mode="lines",
            name=plain(name),
            line={"color": color, "width": 2.2},
            hovertemplate=f"<b>{plain(name)}</b><br>noise %{{x:.2f}}: AUC_SPU %{{y:.3f}}<extra></extra>",
        )
        figure.add_scatter(
            x=[0.0, float(series["noise"][-1])],
            y=[curve["ceiling"]] * 2,
            mode="lines",
            line={"color": see_through(color, 0.75), "width": 1.2, "dash": "6px,4px"},
            hovertemplate=f"ceiling of {plain(name)}: {decimals(curve['ceiling'])}<extra></extra>",
            showlegend=False,
        )
    figure.update_xaxes(title_text="noise added to S (SD)", fixedrange=True, nticks=7)
    figure.update_yaxes(title_text="AUC_SPU", fixedrange=True, range=[0.48, 1.02], nticks=6)
    top_legend(figure)
    return figure


def scar_line_chart(series: Series, *, theme: Theme = LIGHT) -> go.Figure:
    """Theorem 2: measured (true AUC, AUC_SPU) of scores of rising strength, on the line that the theorem gives.

    `series` maps a setting to {"true_auc", "auc_spu", "spread", "line"}; `line` holds AUC_SPU at true AUC ½ and 1.
    """
    alt = f"Measured AUC_SPU beside the predicted line, in {len(series)} settings: {'; '.join(map(one_line, series))}."
    figure = canvas(theme, alt, height=380)
    for place, (name, setting) in enumerate(series.items()):
        color = theme.color(place)
        figure.add_scatter(
            x=[0.5, 1.0],
            y=setting["line"],
            mode="lines",
            line={"color": see_through(color, 0.7), "width": 1.5},
            hoverinfo="skip",
            showlegend=False,
        )
        figure.add_scatter(
            x=light(setting["true_auc"]),
            y=light(setting["auc_spu"]),
            mode="markers",
            name=plain(name),
            marker={"size": 8, "color": color},
            error_y={"array": light(setting["spread"]), "color": color, "thickness": 1.2, "width": 0},
            hovertemplate=f"<b>{plain(name)}</b><br>true AUC %{{x:.3f}}, AUC_SPU %{{y:.3f}}<extra></extra>",
        )
    figure.update_xaxes(title_text="true AUC", fixedrange=True, range=[0.48, 1.01], nticks=7)
    figure.update_yaxes(title_text="AUC_SPU", fixedrange=True, nticks=6)
    top_legend(figure)
    return figure


def ordering_chart(series: Series, link: str, *, theme: Theme = LIGHT) -> go.Figure:
    """Theorem 3: many imperfect scores under one link; an arrow where AUC_SPU rises while the true AUC falls.

    `series` has `auc_spu`, `auc` and `pair` (AUC_SPU before and after, AUC before and after; empty without one), and
    `best`: the best AUC_SPU with the lowest and the highest true AUC of the scores that reach it.
    """
    pair = series["pair"]
    best_spu, lowest, highest = series.get("best", (0.0, 0.0, 0.0))
    is_flat = highest - lowest > FLAT_GAP
    told = (
        f"from ({decimals(pair[0])}, {decimals(pair[2])}) to ({decimals(pair[1])}, {decimals(pair[3])}) AUC_SPU rises "
        "while the true AUC falls"
        if pair
        else "both rise and fall together"
    )
    if is_flat:
        told += f"; scores with the best AUC_SPU have true AUCs from {decimals(lowest)} to {decimals(highest)}"
    figure = canvas(theme, f"AUC_SPU and true AUC of imperfect scores under {link}: {told}.", height=380)
    figure.add_scatter(
        x=light(series["auc_spu"]),
        y=light(series["auc"]),
        mode="markers",
        marker={"size": 6, "color": see_through(theme.model, 0.55)},
        hovertemplate="AUC_SPU %{x:.3f}, true AUC %{y:.3f}<extra></extra>",
        showlegend=False,
    )
    if pair:
        _add_arrow(figure, pair, theme)
    if is_flat:
        _add_best(figure, best_spu, lowest, highest, theme)
    figure.update_xaxes(title_text="AUC_SPU", fixedrange=True, nticks=7)
    figure.update_yaxes(title_text="true AUC", fixedrange=True, nticks=6)
    return figure


def _add_best(figure: go.Figure, best_spu: float, lowest: float, highest: float, theme: Theme) -> None:
    """A line along all true AUCs that go with the best AUC_SPU."""
    figure.add_scatter(
        x=[best_spu, best_spu],
        y=[lowest, highest],
        mode="lines+markers",
        line={"color": theme.belief, "width": 2.5},
        marker={"size": 9},
        hovertemplate="best AUC_SPU %{x:.3f}, true AUC %{y:.3f}<extra></extra>",
        showlegend=False,
    )
    figure.add_annotation(
        text="all of these have<br>the best ROC_SPU",
        x=best_spu,
        y=lowest,
        xanchor="right",
        xshift=-10,
        showarrow=False,
        align="right",
        bgcolor=see_through(theme.background, 0.85),
        font={"color": theme.belief, "size": TEXT_SIZE},
    )


def _add_arrow(figure: go.Figure, pair: list[float], theme: Theme) -> None:
    spu_before, spu_after, before, after = pair
    figure.add_scatter(
        x=[spu_before, spu_after],
        y=[before, after],
        mode="markers",
        marker={"size": 11, "color": theme.warn, "line": {"color": theme.background, "width": 1.5}},
        hovertemplate="AUC_SPU %{x:.3f}, true AUC %{y:.3f}<extra></extra>",
        showlegend=False,
    )
    figure.add_annotation(
        x=spu_after,
        y=after,
        ax=spu_before,
        ay=before,
        axref="x",
        ayref="y",
        standoff=7,
        startstandoff=7,
        arrowhead=2,
        arrowwidth=2,
        arrowcolor=theme.warn,
        text="",
    )
    figure.add_annotation(
        text="AUC_SPU rises,<br>true AUC falls",
        x=spu_after,
        y=after,
        xanchor="left",
        xshift=12,
        showarrow=False,
        align="left",
        bgcolor=see_through(theme.background, 0.85),
        font={"color": theme.warn, "size": TEXT_SIZE},
    )


def noisy_link_chart(series: Series, prior: float, *, theme: Theme = LIGHT) -> go.Figure:
    """Theorem 4 at one prior: the AUC lost against ε, with the printed and the sharp bound, on log scales.

    `series` has `noise`, `loss` and the bounds by name (`printed`, `sharp`), one value per ε.
    """
    loss, printed = np.asarray(series["loss"]), np.asarray(series["printed"])
    kept = "exceeds the printed bound" if (loss > printed).any() else "stays below the printed bound"
    figure = canvas(
        theme,
        f"At π = {prior:g} the AUC lost grows with the square of ε and {kept}.",
        height=380,
    )
    bounds = [name for name in ("printed", "sharp") if name in series]
    style = {"printed": (theme.warn, "6px,4px"), "sharp": (theme.belief, "dot")}
    lines = [("AUC lost", loss, theme.model, "solid", 3.0)]
    lines += [(f"{name} bound", np.asarray(series[name]), *style[name], 2.0) for name in bounds]
    for name, values, color, dash, width in lines:
        figure.add_scatter(
            x=light(series["noise"]),
            y=light(values),
            mode="lines+markers" if dash == "solid" else "lines",
            name=name,
            line={"color": color, "width": width, "dash": dash},
            marker={"size": 6},
            hovertemplate=f"<b>{name}</b><br>ε = %{{x:.4f}}: %{{y:.2e}}<extra></extra>",
        )
    _log_axis(figure.update_xaxes, "noise ε (units of C_h)", series["noise"])
    every = np.concatenate([values for _, values, *_ in lines])
    _log_axis(figure.update_yaxes, "AUC", [float(every.min()), float(every.max())])
    top_legend(figure)
    return figure


def convergence_chart(series: Series, *, theme: Theme = LIGHT) -> go.Figure:
    """Theorem 5: how far below the best AUC_SPU each learner stays, by the number of rows.

    `series` has `sizes` and `learners`: name → {"gap", "error"}, one value per size.
    """
    learners = series["learners"]
    shown = listed((f"{name} {each['gap'][0]:.3f} to {each['gap'][-1]:.4f}" for name, each in learners.items()), most=5)
    figure = canvas(theme, f"Gap to the best AUC_SPU from the fewest to the most rows: {shown}.", height=380)
    for place, (name, each) in enumerate(learners.items()):
        color = theme.color(place)
        errors = [error or 0.0 for error in each["error"]]
        figure.add_scatter(
            x=series["sizes"],
            y=light(each["gap"]),
            mode="lines+markers",
            name=plain(name),
            line={"color": color, "width": 2.2},
            marker={"size": 7},
            error_y={"array": errors, "color": color, "thickness": 1.2, "width": 0},
            hovertemplate=f"<b>{plain(name)}</b><br>%{{x:,}} rows: %{{y:.4f}} below the best<extra></extra>",
        )
    _log_axis(figure.update_xaxes, "rows", series["sizes"])
    figure.update_xaxes(tickvals=list(series["sizes"]), ticktext=[f"{size:,}" for size in series["sizes"]])
    gaps = [gap for each in learners.values() for gap in each["gap"]]
    _log_axis(figure.update_yaxes, "gap to the best AUC_SPU", [min(gaps), max(gaps)])
    top_legend(figure)
    return figure


def _log_axis(update: Any, title: str, values: Sequence[float]) -> None:
    """A log axis with ticks at powers of ten and some space at both ends."""
    low, high = np.log10(max(min(values), 1e-12)) - 0.1, np.log10(max(values)) + 0.1
    update(
        title_text=title, type="log", range=[float(low), float(high)], fixedrange=True, dtick=1, exponentformat="power"
    )
