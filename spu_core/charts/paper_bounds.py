"""Theorems 4 and 5 as figures: the loss against its bounds, and the gap that closes as the rows grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from spu_core.charts.canvas import canvas, light, top_legend
from spu_core.charts.theme import LIGHT, Theme
from spu_core.charts.words import listed, plain

Series = Mapping[str, Any]


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
    _log_axis(figure.update_xaxes, "noise ε of the link (in units of C_h)", series["noise"])
    every = np.concatenate([values for _, values, *_ in lines])
    _log_axis(figure.update_yaxes, "AUC", [float(every.min()), float(every.max())])
    top_legend(figure)
    return figure


def convergence_chart(series: Series, *, theme: Theme = LIGHT) -> go.Figure:
    """Theorem 5: how far below the best AUC_SPU each learner stays, by the number of rows.

    `series` has `sizes` and `learners`: name → {"gap", "error"}, one value per size.
    """
    learners = series["learners"]
    words = listed((f"{name} {each['gap'][0]:.3f} to {each['gap'][-1]:.4f}" for name, each in learners.items()), most=5)
    figure = canvas(theme, f"Gap to the best AUC_SPU from the fewest to the most rows: {words}.", height=380)
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
    """A log axis with whole decades named and room at both ends."""
    low, high = np.log10(max(min(values), 1e-12)) - 0.1, np.log10(max(values)) + 0.1
    update(
        title_text=title, type="log", range=[float(low), float(high)], fixedrange=True, dtick=1, exponentformat="power"
    )
