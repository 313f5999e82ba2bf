"""What AUC_SPU would mean under Theorem 2: the implied true AUC over all priors and S_P that E[S] allows."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from spu_core.charts.canvas import canvas, light
from spu_core.charts.theme import LIGHT, TEXT_SIZE, Theme, see_through
from spu_core.charts.words import decimals, percent
from spu_core.theory import AdmissibleRegion, ScarLink

CELLS = 70


def implied_auc_chart(
    region: AdmissibleRegion, auc_spu: float, *, chosen: ScarLink | None = None, theme: Theme = LIGHT
) -> go.Figure:
    """A map of the true AUC that an AUC_SPU implies, if S does not depend on X given the class: a what-if.

    Outside the admissible region E[S] contradicts the two numbers; where the implied AUC exceeds 1 the assumption is
    refuted.
    """
    priors = np.linspace(0.005, 0.995, CELLS)
    means = np.linspace(region.mean, 1.0, CELLS + 1)[1:]
    implied = region.implied_auc(auc_spu, priors, means).T
    refuted = np.where(implied > 1.0, 1.0, np.nan)
    figure = canvas(theme, _alt(region, auc_spu, implied), height=420)
    figure.add_heatmap(
        x=light(priors),
        y=light(means),
        z=light(np.where(implied <= 1.0, implied, np.nan)),
        zmin=0.5,
        zmax=1.0,
        colorscale=theme.scale,
        hoverongaps=False,
        colorbar={
            "title": {"text": "implied true AUC", "side": "right"},
            "thickness": 10,
            "outlinewidth": 0,
            "tickformat": ".1f",
            "tickfont": {"color": theme.muted},
        },
        hovertemplate="prior %{x:.1%}, S_P %{y:.2f}<br>implied true AUC %{z:.3f}<extra></extra>",
    )
    figure.add_heatmap(
        x=light(priors),
        y=light(means),
        z=light(refuted),
        colorscale=[[0, see_through(theme.warn, 0.28)], [1, see_through(theme.warn, 0.28)]],
        showscale=False,
        hoverongaps=False,
        hovertemplate="prior %{x:.1%}, S_P %{y:.2f}<br>assumption refuted: the true AUC would exceed 1<extra></extra>",
    )
    _add_border(figure, region, theme)
    _write(figure, "assumption refuted", _middle(refuted, priors, means), theme.warn)
    _write(
        figure,
        "not possible with this E[S]",
        _middle(np.where(np.isnan(implied), 1.0, np.nan), priors, means),
        theme.muted,
    )
    if chosen is not None:
        _add_chosen(figure, chosen, auc_spu, theme)
    figure.update_xaxes(title_text="class prior π", tickformat=".0%", range=[0, 1], showgrid=False, fixedrange=True)
    figure.update_yaxes(
        title_text="S_P, mean S of positives", range=[region.mean, 1], tickformat=".1f", showgrid=False, fixedrange=True
    )
    return figure


def _add_border(figure: go.Figure, region: AdmissibleRegion, theme: Theme) -> None:
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


def _middle(cells: np.ndarray, priors: np.ndarray, means: np.ndarray) -> tuple[float, float] | None:
    """The middle of an area that is large enough to write into."""
    y, x = np.nonzero(~np.isnan(cells))
    if y.size < 0.08 * cells.size:
        return None
    return float(priors[x].mean()), float(means[y].mean())


def _write(figure: go.Figure, words: str, at: tuple[float, float] | None, color: str) -> None:
    if at is not None:
        font = {"color": color, "size": TEXT_SIZE}
        figure.add_annotation(text=f"<i>{words}</i>", x=at[0], y=at[1], showarrow=False, font=font)


def _alt(region: AdmissibleRegion, auc_spu: float, implied: np.ndarray) -> str:
    possible = implied[~np.isnan(implied)]
    refuted = float(np.mean(possible > 1.0)) if possible.size else 0.0
    return (
        f"True AUC implied by AUC_SPU {decimals(auc_spu)} with E[S] {decimals(region.mean)}, by class prior and S_P: "
        f"a what-if. On {percent(refuted, 0)} of the admissible region it would exceed 1, which refutes the assumption."
    )
