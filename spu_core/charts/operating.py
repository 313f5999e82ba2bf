"""Where to draw the line: gains and lift of a review queue, and the expected cost along the curve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from spu_core.charts.canvas import canvas, light, nothing_to_show, top_legend
from spu_core.charts.theme import LIGHT, Theme
from spu_core.charts.words import compact, count, label, listed, one_line, percent, plain
from spu_core.checks import check_number, check_share
from spu_core.errors import SpuError
from spu_core.metrics import Gains, OperatingPoint, RocSpu

POINTS = 160
# Denser where few rows are reviewed, since the curve is steep there.
REVIEWED = np.linspace(0.0, 1.0, POINTS) ** 2


def gains_chart(gains: Mapping[str, Gains], *, budget: float | None = None, theme: Theme = LIGHT) -> go.Figure:
    """Share of the positive mass caught against share of rows reviewed; `budget` is a share of rows too."""
    if not gains:
        return nothing_to_show(theme, "No candidate has finished yet.")
    figure = canvas(theme, f"Gains of {listed(gains)}: {_caught_words(gains, budget)}.", height=360)
    line = {"color": theme.muted, "width": 1, "dash": "2px,2px"}
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", line=line, hoverinfo="skip", showlegend=False)
    for place, (name, found) in enumerate(gains.items()):
        caught = np.interp(REVIEWED, found.reviewed, found.caught)
        hover = f"<b>{plain(name)}</b><br>reviewing %{{x:.1%}} of rows<br>catches %{{y:.1%}} of ΣS<extra></extra>"
        _add_line(figure, name, REVIEWED, caught, theme.color(place), hover)
    figure.update_yaxes(title_text="share of ΣS caught", tickformat=".0%", range=[0, 1.01], fixedrange=True, nticks=6)
    _finish(figure, "share of rows reviewed", budget, theme)
    figure.update_xaxes(range=[0, 1])
    return figure


def gains_lift_chart(gains: Mapping[str, Gains], *, budget: float | None = None, theme: Theme = LIGHT) -> go.Figure:
    """How many times more positive mass a review by score finds than one at random; log scale of rows reviewed."""
    if not gains:
        return nothing_to_show(theme, "No candidate has finished yet.")
    figure = canvas(
        theme, f"Lift of {listed(gains)} by share of rows reviewed: {_caught_words(gains, budget)}.", height=360
    )
    for place, (name, found) in enumerate(gains.items()):
        x = np.geomspace(_smallest_share(found), 1.0, POINTS)
        lift = np.interp(x, found.reviewed, found.caught) / x
        hover = f"<b>{plain(name)}</b><br>reviewing %{{x:.2%}} of rows<br>lift %{{y:.2f}}×<extra></extra>"
        _add_line(figure, name, x, lift, theme.color(place), hover)
    figure.add_hline(y=1, line={"color": theme.muted, "width": 1, "dash": "dash"})
    figure.update_yaxes(title_text="lift", ticksuffix="×", rangemode="tozero", fixedrange=True, nticks=6)
    ticks = [0.0001, 0.001, 0.01, 0.1, 1.0]
    figure.update_xaxes(type="log", tickvals=ticks, ticktext=["0.01%", "0.1%", "1%", "10%", "100%"])
    _finish(figure, "share of rows reviewed", budget, theme)
    return figure


@dataclass(frozen=True, slots=True)
class ReviewCosts:
    """What a review costs, and what a missed positive loses; `positives` is their expected number (ΣS, or π·N)."""

    review: float
    miss: float
    positives: float

    def __post_init__(self) -> None:
        for name in ("review", "miss", "positives"):
            if check_number(getattr(self, name), name) < 0:
                raise SpuError(f"{name} must not be negative, got {getattr(self, name):g}.")

    def along(self, curve: RocSpu) -> np.ndarray:
        """The cost at each point of the curve: reviews made, and positives missed.

        >>> from spu_core.metrics import roc_spu
        >>> ReviewCosts(review=1, miss=10, positives=2).along(roc_spu([1.0, 1.0, 0.0], [3, 2, 1])).tolist()
        [20.0, 11.0, 2.0, 3.0]
        """
        return self.review * curve.flagged + self.miss * self.positives * (1.0 - curve.tpr)

    def cheapest(self, curve: RocSpu) -> OperatingPoint:
        """The point of the curve with the lowest cost."""
        return curve.at_threshold(float(curve.threshold[int(np.argmin(self.along(curve)))]))


def cost_chart(
    curve: RocSpu, costs: ReviewCosts, *, operating_point: OperatingPoint | None = None, theme: Theme = LIGHT
) -> go.Figure:
    """Expected cost against share of rows flagged, with its lowest point and the one chosen."""
    cost, share = costs.along(curve), curve.flagged / curve.flagged[-1]
    best = int(np.argmin(cost))
    alt = (
        f"Expected cost by share of rows flagged: lowest, {compact(cost[best])}, where {percent(share[best])} are "
        f"flagged; {compact(cost[0])} without any review and {compact(cost[-1])} when all rows are reviewed."
    )
    figure = canvas(theme, alt, height=320)
    # Half of the points near the lowest cost, where analysts look, the rest over the whole curve.
    x = np.union1d(
        np.linspace(0, 1, POINTS), share[best] * np.linspace(0, 2, POINTS).clip(0, 1 / max(share[best], 1e-9))
    )
    hover = "flagging %{x:.1%} of rows<br>costs %{y:,.0f}<extra></extra>"
    _add_line(figure, "expected cost", x, np.interp(x, share, cost), theme.model, hover, showlegend=False)
    _add_dot(figure, float(share[best]), float(cost[best]), f"lowest cost {compact(cost[best])}", theme.belief, theme)
    if operating_point is not None:
        chosen = float(np.interp(operating_point.flagged_share, share, cost))
        _add_dot(figure, operating_point.flagged_share, chosen, f"your point {compact(chosen)}", theme.model, theme)
    figure.update_xaxes(title_text="share of rows flagged", tickformat=".0%", range=[0, 1], fixedrange=True, nticks=6)
    figure.update_yaxes(title_text="expected cost", rangemode="tozero", tickformat="~s", fixedrange=True, nticks=6)
    top_legend(figure)
    return figure


def _add_line(
    figure: go.Figure, name: str, x: np.ndarray, y: np.ndarray, color: str, hover: str, showlegend: bool = True
) -> None:
    line = {"color": color, "width": 2}
    figure.add_scatter(
        x=light(x), y=light(y), mode="lines", name=label(name), line=line, hovertemplate=hover, showlegend=showlegend
    )


def _add_dot(figure: go.Figure, x: float, y: float, name: str, color: str, theme: Theme) -> None:
    figure.add_scatter(
        x=[x],
        y=[y],
        mode="markers",
        name=name,
        marker={"size": 12, "color": color, "line": {"color": theme.background, "width": 2}},
        hovertemplate=f"{name}<br>flagging {percent(x)} of rows<extra></extra>",
    )


def _smallest_share(gains: Gains) -> float:
    """The share at which at least twenty rows are reviewed: a lift of fewer is noise."""
    rows = float(gains.curve.flagged[-1])
    return min(0.1, max(20.0 / rows, 1e-4))


def _finish(figure: go.Figure, axis: str, budget: float | None, theme: Theme) -> None:
    figure.update_xaxes(title_text=axis, tickformat=".0%", fixedrange=True, nticks=6)
    top_legend(figure)
    if budget:
        line = {"color": theme.belief, "width": 1.5, "dash": "dash"}
        figure.add_shape(type="line", x0=budget, x1=budget, y0=0, y1=1, yref="paper", line=line)
        # Annotations count in powers of ten on a log axis, unlike shapes.
        x = float(np.log10(budget)) if figure.layout.xaxis.type == "log" else budget
        words = {"text": f"budget {percent(budget)}", "font": {"color": theme.belief}, "showarrow": False}
        place = {"x": x, "y": 0, "yref": "paper", "xanchor": "left", "yanchor": "bottom", "xshift": 3}
        # Opaque: no line strikes its words through.
        figure.add_annotation(bgcolor=theme.background, borderpad=0, **place, **words)


def _caught_words(gains: Mapping[str, Gains], budget: float | None) -> str:
    share = check_share(0.1 if budget is None else budget, "budget", SpuError, closed=True)
    name, first = next(iter(gains.items()))
    caught, _ = first.at_budget(share)
    rows = count(first.curve.flagged[-1])
    return f"reviewing {percent(share)} of {rows} rows, {one_line(name)} catches {percent(caught)} of ΣS"
