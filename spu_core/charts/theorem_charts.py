"""The five theorems as charts: ceiling, straight line, order of scores, second-order loss, convergence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from spu_core.charts.canvas import canvas, light, top_legend
from spu_core.charts.text_format import decimals, listed, one_line, plain
from spu_core.charts.theme import LIGHT, TEXT_SIZE, Theme, see_through

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
