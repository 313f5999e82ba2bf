"""What AUC_SPU would mean under Theorem 2: the implied true AUC over all priors and S_P that E[S] allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from spu_core.charts.canvas import canvas, light
from spu_core.charts.theme import LIGHT, TEXT_SIZE, Theme, see_through
from spu_core.charts.words import decimals, percent
from spu_core.theory import AdmissibleRegion, ScarLink

# Cells of about four pixels; together 60 kB.
PRIORS, MEANS = 140, 80
# Where the colours of refuted values end; higher ones look the same.
REFUTED_END = 1.1


def implied_auc_chart(
    region: AdmissibleRegion, auc_spu: float, *, chosen: ScarLink | None = None, theme: Theme = LIGHT
) -> go.Figure:
    """A map of the true AUC that an AUC_SPU implies, if S does not depend on X given the class: a what-if.

    Outside the admissible region E[S] contradicts the two numbers; where the implied AUC exceeds 1 the assumption is
    refuted.
    """
    priors = np.linspace(0.0, 1.0, PRIORS + 2)[1:-1]
    means = np.linspace(region.mean, 1.0, MEANS + 1)[1:]
    implied = region.implied_auc(auc_spu, priors, means).T
    figure = canvas(theme, _alt(region, auc_spu, implied), height=440)
    figure.add_heatmap(
        x=light(priors),
        y=light(means),
        z=light(implied),
        zmin=0.5,
        zmax=REFUTED_END,
        colorscale=_scale(theme),
        zsmooth="best",
        hoverongaps=False,
        colorbar=map_color_bar(theme),
        hovertemplate=(
            "prior %{x:.1%}, S_P %{y:.2f}<br>implied true AUC %{z:.3f}<br>above 1 refutes the assumption<extra></extra>"
        ),
    )
    add_border(figure, region, theme)
    if (implied > 1.0).any():
        write_in_corner(figure, "assumption refuted", (0.02, 0.03), theme.warn)
    write_in_corner(figure, "not possible", (0.98, 0.97), theme.muted)
    if chosen is not None:
        _add_chosen(figure, chosen, auc_spu, theme)
    figure.update_xaxes(tickformat=".0%", range=[0, 1], showgrid=False, fixedrange=True, automargin=False)
    # With a horizontal colour bar Plotly misplaces the title of the axis below, so the title is a note of its own.
    title = {"text": "class prior π", "font": {"size": TEXT_SIZE + 1}, "showarrow": False, "yshift": -28}
    figure.add_annotation(x=0.5, y=0, xref="paper", yref="paper", xanchor="center", yanchor="top", **title)
    figure.update_layout(margin={"t": 62, "b": 52})
    figure.update_yaxes(
        title_text="S_P, mean S of positives", range=[region.mean, 1], tickformat=".1f", showgrid=False, fixedrange=True
    )
    return figure


def add_border(figure: go.Figure, region: AdmissibleRegion, theme: Theme) -> None:
    """Where E[S] allows no larger S_P."""
    priors = np.linspace(region.mean, 1.0, 80)[:-1]
    figure.add_scatter(
        x=light(priors),
        y=light([region.positive_means(float(prior))[1] for prior in priors]),
        mode="lines",
        line={"color": theme.belief, "width": 2, "dash": "9px,6px"},
        hoverinfo="skip",
        showlegend=False,
    )


def _add_chosen(figure: go.Figure, chosen: ScarLink, auc_spu: float, theme: Theme) -> None:
    figure.add_scatter(
        x=[chosen.prior],
        y=[chosen.positive_mean],
        mode="markers",
        marker={"size": 13, "color": theme.belief, "line": {"color": theme.background, "width": 2.5}},
        showlegend=False,
        hovertemplate=(
            f"prior {percent(chosen.prior)}, S_P {decimals(chosen.positive_mean, 2)}<br>"
            f"implied true AUC {decimals(chosen.true_auc(auc_spu))}<extra></extra>"
        ),
    )


def _scale(theme: Theme) -> list[tuple[float, str]]:
    """The sequential colours up to an AUC of 1, the colour of a warning above."""
    end = (1.0 - 0.5) / (REFUTED_END - 0.5)
    warning = see_through(theme.warn, 0.3)
    return [*((place * end, color) for place, color in theme.scale), (end, warning), (1.0, warning)]


def map_color_bar(theme: Theme, title: str = "implied true AUC") -> dict[str, Any]:
    """The colours of a map, above it."""
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


def write_in_corner(figure: go.Figure, words: str, corner: tuple[float, float], color: str) -> None:
    """Words in a corner of the plot."""
    x, y = corner
    figure.add_annotation(
        text=f"<i>{words}</i>",
        x=x,
        y=y,
        xref="paper",
        yref="paper",
        xanchor="left" if x < 0.5 else "right",
        yanchor="bottom" if y < 0.5 else "top",
        showarrow=False,
        font={"color": color, "size": TEXT_SIZE},
    )


def _alt(region: AdmissibleRegion, auc_spu: float, implied: np.ndarray) -> str:
    possible = implied[~np.isnan(implied)]
    refuted = float(np.mean(possible > 1.0)) if possible.size else 0.0
    return (
        f"True AUC implied by AUC_SPU {decimals(auc_spu)} with E[S] {decimals(region.mean)}, by class prior and S_P: "
        f"a what-if. On {percent(refuted, 0)} of the admissible region it would exceed 1, which refutes the assumption."
    )
