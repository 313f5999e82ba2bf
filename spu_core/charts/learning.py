"""Learning curves: the loss after each round of each fit, on held-out rows or on those it learns from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from spu_core.charts.canvas import canvas, light, nothing_to_show, top_legend
from spu_core.charts.theme import LIGHT, Theme, see_through
from spu_core.charts.words import decimals, label, listed, plain

# Every line of every candidate together.
MOST_POINTS = 4000
MOST_POINTS_A_LINE = 200


def learning_curve_chart(
    curves: Mapping[str, Sequence[Sequence[float]]], *, holds_out: bool = True, theme: Theme = LIGHT
) -> go.Figure:
    """Losses by round: one thin line per fold, the same colour for each candidate, a dot at the lowest held-out loss.

    `curves` maps a candidate to the losses of its fits, as in `run.learning_curve`; lines may have different lengths,
    so a chart of a training that still runs is the same chart.
    """
    drawn = {name: [line for line in lines if len(line)] for name, lines in curves.items()}
    drawn = {name: lines for name, lines in drawn.items() if lines}
    if not drawn:
        return nothing_to_show(theme, "No losses have been reported yet.")
    lowest = {name: min(min(line) for line in lines) for name, lines in drawn.items()}
    shown = listed(f"{name} {decimals(loss)}" for name, loss in lowest.items())
    which = "held-out loss" if holds_out else "training loss"
    figure = canvas(theme, f"{which.capitalize()} by round; the lowest: {shown}.", height=300)
    fits = sum(len(lines) for lines in drawn.values())
    points = max(10, min(MOST_POINTS_A_LINE, MOST_POINTS // fits))
    for place, (name, lines) in enumerate(drawn.items()):
        for fold, losses in enumerate(lines):
            _add_losses(figure, name, fold, np.asarray(losses, dtype=np.float64), theme.color(place), points)
        if holds_out:
            _add_lowest(figure, lines, theme.color(place), theme)
    figure.update_xaxes(title_text="round", rangemode="tozero", fixedrange=True, nticks=8, tickformat=",d")
    figure.update_yaxes(title_text=which, fixedrange=True, nticks=6, tickformat=".3~f")
    top_legend(figure)
    return figure


def _add_losses(figure: go.Figure, name: str, fold: int, losses: np.ndarray, color: str, points: int) -> None:
    kept = np.unique(np.linspace(0, losses.size - 1, points).round().astype(int))
    figure.add_scatter(
        x=light(kept + 1),
        y=light(losses[kept]),
        mode="lines" if losses.size > 1 else "markers",
        name=label(name),
        legendgroup=f"{label(name)} {color}",
        showlegend=fold == 0,
        line={"color": see_through(color, 0.75), "width": 1.4},
        marker={"color": color, "size": 5},
        hovertemplate=f"<b>{plain(name)}</b>, fit {fold + 1}<br>round %{{x}}: loss %{{y:.4f}}<extra></extra>",
    )


def _add_lowest(figure: go.Figure, lines: Sequence[Sequence[float]], color: str, theme: Theme) -> None:
    at = [int(np.argmin(line)) for line in lines]
    figure.add_scatter(
        x=[place + 1 for place in at],
        y=[float(line[place]) for line, place in zip(lines, at, strict=True)],
        mode="markers",
        marker={"size": 7, "color": color, "line": {"color": theme.background, "width": 1.5}},
        hoverinfo="skip",
        showlegend=False,
    )
