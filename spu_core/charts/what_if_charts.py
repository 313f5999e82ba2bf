"""What AUC_SPU or the rates would imply under Theorem 2, for all priors π and means S_P that E[S] allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from spu_core.charts.canvas import LIGHT, TEXT_SIZE, Theme, canvas, decimals, light, listed, percent, plain, see_through
from spu_core.theory import AdmissibleRegion

if TYPE_CHECKING:
    from spu_core.trust.what_if import Implied, Marker, Quantity, WhatIf


# Cells of about four pixels; together 60 kB.
PRIORS, MEANS = 140, 80
# The end of the colour scale; higher values have the same colour.
REFUTED_END = 1.1


def add_border(figure: go.Figure, region: AdmissibleRegion, theme: Theme) -> None:
    """A line at the largest S_P that E[S] allows."""
    priors = np.linspace(region.mean, 1.0, 80)[:-1]
    figure.add_scatter(
        x=light(priors),
        y=light([region.positive_means(float(prior))[1] for prior in priors]),
        mode="lines",
        line={"color": theme.belief, "width": 2, "dash": "9px,6px"},
        hoverinfo="skip",
        showlegend=False,
    )


def map_color_bar(theme: Theme, title: str = "implied true AUC") -> dict[str, Any]:
    """A colour bar above the map."""
    return {
        "orientation": "h",
        "y": 1.02,
        "yanchor": "bottom",
        "thickness": 8,
        "len": 1.0,
        "outlinewidth": 0,
        "title": {"text": title, "side": "top"},
        "tickvals": [0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
        "tickformat": ".1f",
        "tickfont": {"color": theme.muted, "size": TEXT_SIZE - 1},
    }


def write_in_corner(figure: go.Figure, text: str, corner: tuple[float, float], color: str) -> None:
    """A text in a corner of the plot."""
    x, y = corner
    figure.add_annotation(
        text=f"<i>{text}</i>",
        x=x,
        y=y,
        xref="paper",
        yref="paper",
        xanchor="left" if x < 0.5 else "right",
        yanchor="bottom" if y < 0.5 else "top",
        showarrow=False,
        font={"color": color, "size": TEXT_SIZE},
    )


_LOWEST = {"true_auc": 0.5, "tpr": 0.0, "fpr": 0.0}
_TITLES = {"true_auc": "implied true AUC", "tpr": "implied TPR", "fpr": "implied FPR"}
_SYMBOLS = ("diamond", "square", "triangle-up", "star")


def what_if_chart(
    what_if: WhatIf,
    *,
    quantity: Quantity = "true_auc",
    chosen: Implied | None = None,
    markers: tuple[Marker, ...] = (),
    theme: Theme = LIGHT,
) -> go.Figure:
    """Implied values by colour; impossible ones in the colour of a warning. Estimates of π alone are dotted lines."""
    title = _TITLES[quantity]
    last = _widest(what_if, chosen, markers)
    priors = np.linspace(0.0, last, PRIORS + 2)[1:-1]
    means = np.linspace(what_if.mean, 1.0, MEANS + 1)[1:]
    values = what_if.map(priors, means, quantity).T
    figure = canvas(theme, _alt(what_if, title, values, markers), height=460)
    figure.add_heatmap(
        x=light(priors),
        y=light(means),
        z=light(values),
        zmin=_LOWEST[quantity] - 0.1 * (quantity != "true_auc"),
        zmax=REFUTED_END,
        colorscale=_scale(theme, quantity),
        hoverongaps=False,
        colorbar=_color_bar(theme, quantity),
        hovertemplate=f"%{{x:.1%}} positive, their mean soft label %{{y:.2f}}<br>{title} %{{z:.3f}}<extra></extra>",
    )
    add_border(figure, what_if.region, theme)
    possible = values[~np.isnan(values)]
    if possible.size and ((possible > 1.0) | (possible < 0.0)).any():
        write_in_corner(figure, "assumption refuted", (0.02, 0.03), theme.warn)
    write_in_corner(figure, "the mean soft label does not allow this", (0.98, 0.97), theme.muted)
    for place, marker in enumerate(markers):
        _add_marker(figure, marker, place, last, theme)
    if chosen is not None:
        _add_chosen(figure, chosen, quantity, theme)
    figure.update_xaxes(
        tickformat=".0%" if last > 0.1 else ".1%", range=[0, last], showgrid=False, fixedrange=True, automargin=False
    )
    # With a horizontal colour bar Plotly misplaces the title of the axis below, so the title is a note of its own.
    note = {"text": "share of true positives", "font": {"size": TEXT_SIZE + 1}, "showarrow": False, "yshift": -28}
    figure.add_annotation(x=0.5, y=0, xref="paper", yref="paper", xanchor="center", yanchor="top", **note)
    figure.update_layout(margin={"t": 62, "b": 52})
    figure.update_yaxes(
        title_text="mean soft label of true positives",
        range=[what_if.mean, 1],
        tickformat=".2f",
        showgrid=False,
        fixedrange=True,
    )
    return figure


def _widest(what_if: WhatIf, chosen: Implied | None, markers: tuple[Marker, ...]) -> float:
    """The largest π to draw: far above E[S] hardly any S_P is allowed, and the map would be empty."""
    named = [marker.prior for marker in markers] + ([] if chosen is None else [chosen.link.prior])
    return min(1.0, max(5.0 * what_if.mean, 0.02, *(1.25 * prior for prior in named), 0.0))


def _add_marker(figure: go.Figure, marker: Marker, place: int, last: float, theme: Theme) -> None:
    color, is_left = theme.text, marker.prior < 0.6 * last
    if marker.positive_mean is None:
        figure.add_shape(
            type="line",
            x0=marker.prior,
            x1=marker.prior,
            y0=0,
            y1=1,
            yref="paper",
            line={"color": color, "dash": "dot"},
        )
        figure.add_annotation(
            text=plain(marker.name, 24),
            x=marker.prior,
            y=0.9 - 0.07 * place,
            yref="paper",
            xanchor="left" if is_left else "right",
            xshift=5 if is_left else -5,
            showarrow=False,
            font={"color": color},
            bgcolor=see_through(theme.background, 0.75),
        )
        return
    # Estimates are often close together, so their names alternate between the two sides.
    is_right = place % 2 == 0
    figure.add_annotation(
        text=plain(marker.name, 24),
        x=marker.prior,
        y=marker.positive_mean,
        xanchor="left" if is_right else "right",
        xshift=12 if is_right else -12,
        showarrow=False,
        font={"color": color},
        bgcolor=see_through(theme.background, 0.75),
    )
    figure.add_scatter(
        x=[marker.prior],
        y=[marker.positive_mean],
        mode="markers",
        marker={
            "symbol": _SYMBOLS[place % len(_SYMBOLS)],
            "size": 12,
            "color": color,
            "line": {"color": theme.background, "width": 2},
        },
        showlegend=False,
        hovertemplate=f"{plain(marker.name)}<br>%{{x:.1%}} positive, their mean soft label %{{y:.3f}}<extra></extra>",
    )


def _add_chosen(figure: go.Figure, chosen: Implied, quantity: str, theme: Theme) -> None:
    interval = getattr(chosen, quantity)
    figure.add_scatter(
        x=[chosen.link.prior],
        y=[chosen.link.positive_mean],
        mode="markers",
        marker={"size": 15, "color": theme.belief, "line": {"color": theme.background, "width": 2.5}},
        showlegend=False,
        hovertemplate=(
            f"your choice: {percent(chosen.link.prior)} positive, their mean soft label "
            f"{decimals(chosen.link.positive_mean, 2)}<br>"
            f"{_TITLES[quantity]} {decimals(interval.estimate)}<extra></extra>"
        ),
    )


def _color_bar(theme: Theme, quantity: str) -> dict[str, object]:
    bar = map_color_bar(theme, _TITLES[quantity])
    if quantity != "true_auc":
        bar["tickvals"] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    return bar


def _scale(theme: Theme, quantity: str) -> list[tuple[float, str]]:
    """The sequential colours where values are possible, the colour of a warning where they are not."""
    warning = see_through(theme.warn, 0.3)
    low = _LOWEST[quantity] - 0.1 * (quantity != "true_auc")
    width = REFUTED_END - low
    start, end = (_LOWEST[quantity] - low) / width, (1.0 - low) / width
    inside = [(start + place * (end - start), color) for place, color in theme.scale]
    below = [(0.0, warning), (start, warning)] if start > 0.0 else []
    return [*below, *inside, (end, warning), (1.0, warning)]


def _alt(what_if: WhatIf, title: str, values: np.ndarray, markers: tuple[Marker, ...]) -> str:
    possible = values[~np.isnan(values)]
    refuted = float(np.mean((possible > 1.0) | (possible < 0.0))) if possible.size else 0.0
    marked = f" Marked: {listed(marker.name for marker in markers)}." if markers else ""
    given = f"AUC_SPU {decimals(what_if.auc_spu.estimate)} and a mean soft label of {decimals(what_if.mean)}"
    return (
        f"{title[0].upper()}{title[1:]} by the share of true positives and their mean soft label, for {given}: a "
        f"what-if. On {percent(refuted, 0)} of what the mean soft label allows it would be impossible, which refutes "
        f"the assumption.{marked}"
    )
