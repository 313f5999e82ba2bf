"""ROC_SPU curves with the ceiling. Curves are thinned, so that the figure stays small for any number of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from spu_core.charts.canvas import canvas, light
from spu_core.charts.text_format import decimals, listed, percent, plain
from spu_core.charts.theme import LIGHT, TEXT_SIZE, Theme, see_through
from spu_core.checks import check_choice
from spu_core.metrics import OperatingPoint, RocBand, RocSpu
from spu_core.theory import ScarLink

ZOOMS = ("full", "low", "log")
LOW_FPR = 0.1
LOWEST_LOG_FPR = 1e-3
# All curves together; each point costs about 32 bytes on the wire.
MOST_POINTS = 2400
MOST_TO_CLICK = 120


@dataclass(frozen=True)
class RocView:
    """Which part of the square is drawn, and with how many points for each curve."""

    zoom: str
    right: float
    top: float
    points: int

    @classmethod
    def of(cls, zoom: str, curves: Sequence[RocSpu]) -> RocView:
        """The view that shows all these curves."""
        # The ceiling is drawn twice: as a line, and as the edge of the shaded region.
        points = max(40, min(400, MOST_POINTS // (len(curves) + 1)))
        if zoom != "low":
            return cls(zoom, 1.0, 1.0, points)
        reached = [float(np.interp(LOW_FPR, curve.fpr, curve.tpr)) for curve in curves]
        return cls(zoom, LOW_FPR, min(1.0, 1.08 * max(reached)), points)

    @property
    def left(self) -> float:
        return LOWEST_LOG_FPR if self.zoom == "log" else 0.0

    def leaves_room_above(self, curve: RocSpu, width: float = 0.3, height: float = 0.07) -> bool:
        """Whether a label of this share of the view fits into its upper left corner, above the curve."""
        right = self.left ** (1.0 - width) if self.zoom == "log" else width * self.right
        return float(np.interp(right, curve.fpr, curve.tpr)) < (1.0 - height) * self.top

    def of_curve(self, curve: RocSpu) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x, y and (threshold, flagged share) of the points to draw."""
        if self.zoom == "log":
            return self._on_log_grid(curve)
        error = 1e-3
        while (thin := curve.thin(error)).fpr.size > self.points:
            error *= 1.6
        shape = np.column_stack([thin.fpr, thin.tpr, thin.threshold, thin.flagged / curve.flagged[-1]])
        points = np.unique(np.concatenate([shape, self._to_click(curve)]), axis=0)
        return points[:, 0], points[:, 1], np.column_stack([_finite(points[:, 2], curve), points[:, 3]])

    def _to_click(self, curve: RocSpu) -> np.ndarray:
        """Points at even distances, more than drawing needs, so that a click can choose a threshold finely."""
        limits = np.linspace(0.0, self.right, min(MOST_TO_CLICK, self.points // 2))
        found = [curve.at_fpr(float(limit)) for limit in limits]
        return np.array([(point.fpr, point.tpr, point.threshold, point.flagged_share) for point in found])

    def _on_log_grid(self, curve: RocSpu) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Points at many rates, since a straight line is curved on a log axis."""
        rate = np.geomspace(self.left, 1.0, self.points)
        within = [curve.at_fpr(float(limit)) for limit in rate.clip(None, 1.0)]
        threshold = _finite(np.array([point.threshold for point in within]), curve)
        share = np.array([point.flagged_share for point in within])
        return rate, np.interp(rate, curve.fpr, curve.tpr), np.column_stack([threshold, share])


def _finite(threshold: np.ndarray, curve: RocSpu) -> np.ndarray:
    """Finite thresholds for JSON: the highest score flags nothing, a value just below the lowest flags everything."""
    return threshold.clip(np.nextafter(curve.score[-1], -np.inf), curve.score[0])


# A legend with more entries would cover the curves.
MOST_INSIDE = 8
LONGEST_IN_LEGEND = 34

_CURVE_HOVER = (
    "<b>{name}</b><br>FPR_SPU %{{x:.1%}}, TPR_SPU %{{y:.1%}}<br>"
    "threshold %{{customdata[0]:.4g}}, flags %{{customdata[1]:.1%}} of rows<extra></extra>"
)


def roc_chart(
    curves: Mapping[str, RocSpu],
    ceiling: RocSpu,
    *,
    areas: Mapping[str, float] | None = None,
    bands: Mapping[str, RocBand] | None = None,
    perfect: ScarLink | None = None,
    operating_point: OperatingPoint | None = None,
    zoom: str = "full",
    theme: Theme = LIGHT,
) -> go.Figure:
    """ROC_SPU curves under the ceiling curve, the region above it shaded as unattainable.

    `areas` are the AUC_SPU to write beside the names where they differ from those of the curves: a leaderboard
    averages over folds, a curve pools them. `perfect` adds the curve of a perfect classifier under the assumption of
    Theorem 2. `zoom` is "full", "low" (FPR up to 10 %) or "log". A click on a curve returns its threshold: see
    `clicked_threshold`.
    """
    check_choice(zoom, ZOOMS, "zoom")
    view = RocView.of(zoom, [*curves.values(), ceiling])
    areas = {name: curve.auc for name, curve in curves.items()} | dict(areas or {})
    figure = canvas(theme, _alt({name: areas[name] for name in curves}, ceiling, operating_point), height=440)
    _add_unattainable(figure, ceiling, view, theme)
    for name, band in (bands or {}).items():
        if band.missing_because is not None:
            continue
        _add_band(figure, band, theme.color(list(curves).index(name) if name in curves else 0))
    _add_diagonal(figure, view, theme)
    _add_ceiling(figure, ceiling, view, theme)
    if perfect is not None:
        _add_perfect(figure, perfect, view, theme)
    for place, (name, curve) in enumerate(curves.items()):
        text = f"{plain(name, LONGEST_IN_LEGEND)}  {decimals(areas[name])}"
        _add_curve(figure, (name, text), curve, view, {"color": theme.color(place), "width": 1.6 + (place == 0)})
    if operating_point is not None:
        _add_operating_point(figure, operating_point, theme)
    _set_axes(figure, view)
    _set_legend(figure, len(figure.data) - 2, view, theme)
    return figure


def clicked_threshold(point: Mapping[str, Any]) -> float | None:
    """The threshold of a clicked point of `roc_chart`, from the event that a notebook or a browser sends.

    >>> clicked_threshold({"x": 0.1, "y": 0.5, "customdata": [0.42, 0.2]})
    0.42
    >>> clicked_threshold({"customdata": {"0": 0.42, "1": 0.2}})
    0.42
    >>> clicked_threshold({"x": 0.1})
    """
    data = point.get("customdata")
    if isinstance(data, Mapping):
        data = [data.get("0")]
    value = data[0] if isinstance(data, list | tuple | np.ndarray) and len(data) else None
    return float(value) if isinstance(value, int | float) else None


def _add_unattainable(figure: go.Figure, ceiling: RocSpu, view: RocView, theme: Theme) -> None:
    x, y, _ = view.of_curve(ceiling)
    figure.add_scatter(
        x=light(np.concatenate([x, [1.0, view.left, view.left]])),
        y=light(np.concatenate([y, [1.0, 1.0, y[0]]])),
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=see_through(theme.belief, 0.12),
        hoverinfo="skip",
        showlegend=False,
    )
    if not view.leaves_room_above(ceiling):
        return
    figure.add_annotation(
        text="<i>unattainable</i>",
        xref="paper",
        yref="paper",
        x=0.02,
        y=0.985,
        xanchor="left",
        yanchor="top",
        showarrow=False,
        font={"color": theme.belief, "size": TEXT_SIZE},
    )


def _add_band(figure: go.Figure, band: RocBand, color: str) -> None:
    x = np.concatenate([band.fpr, band.fpr[::-1]])
    y = np.concatenate([band.simultaneous_high, band.simultaneous_low[::-1]])
    figure.add_scatter(
        x=light(x),
        y=light(y),
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=see_through(color, 0.16),
        hoverinfo="skip",
        showlegend=False,
    )


def _add_diagonal(figure: go.Figure, view: RocView, theme: Theme) -> None:
    x = np.geomspace(LOWEST_LOG_FPR, 1.0, 60) if view.zoom == "log" else np.array([0.0, 1.0])
    line = {"color": theme.muted, "width": 1, "dash": "2px,2px"}
    figure.add_scatter(x=light(x), y=light(x), mode="lines", line=line, hoverinfo="skip", showlegend=False)


def _add_ceiling(figure: go.Figure, ceiling: RocSpu, view: RocView, theme: Theme) -> None:
    x, y, _ = view.of_curve(ceiling)
    figure.add_scatter(
        x=light(x),
        y=light(y),
        mode="lines",
        name=f"Ceiling  {decimals(ceiling.auc)}",
        line={"color": theme.belief, "width": 2, "dash": "9px,6px"},
        hovertemplate="<b>Ceiling</b><br>FPR_SPU %{x:.1%}, at best TPR_SPU %{y:.1%}<extra></extra>",
    )


def _add_perfect(figure: go.Figure, perfect: ScarLink, view: RocView, theme: Theme) -> None:
    """A perfect classifier flags all true positives first: two straight lines that meet in (c, a)."""
    corners = np.array([0.0, perfect.c, 1.0]), np.array([0.0, perfect.a, 1.0])
    x = np.geomspace(LOWEST_LOG_FPR, 1.0, 120) if view.zoom == "log" else corners[0]
    figure.add_scatter(
        x=light(x),
        y=light(np.interp(x, *corners)),
        mode="lines",
        name=f"Perfect classifier  {decimals(perfect.perfect_level)}",
        line={"color": theme.text, "width": 1.5, "dash": "dot"},
        hovertemplate=(
            "<b>Perfect classifier</b><br>if S does not depend on X given the class<br>"
            "FPR_SPU %{x:.1%}, TPR_SPU %{y:.1%}<extra></extra>"
        ),
    )


def _add_curve(figure: go.Figure, names: tuple[str, str], curve: RocSpu, view: RocView, line: dict[str, Any]) -> None:
    """`names` are the name of the run and its text in the legend."""
    x, y, data = view.of_curve(curve)
    figure.add_scatter(
        x=light(x),
        y=light(y),
        customdata=data,
        mode="lines+markers",
        # Invisible markers make every point of the line clickable.
        marker={"size": 9, "color": "rgba(0,0,0,0)"},
        name=names[1],
        line=line,
        hovertemplate=_CURVE_HOVER.format(name=plain(names[0])),
        selected={"marker": {"opacity": 0}},
        unselected={"marker": {"opacity": 0}},
    )


def _add_operating_point(figure: go.Figure, point: OperatingPoint, theme: Theme) -> None:
    figure.add_scatter(
        x=[point.fpr],
        y=[point.tpr],
        mode="markers",
        marker={"size": 13, "color": theme.model, "line": {"color": theme.background, "width": 2.5}},
        showlegend=False,
        hovertemplate=(
            f"<b>Operating point</b><br>FPR_SPU {percent(point.fpr)}, TPR_SPU {percent(point.tpr)}<br>"
            f"flags {percent(point.flagged_share)} of rows<extra></extra>"
        ),
    )


def _set_axes(figure: go.Figure, view: RocView) -> None:
    figure.update_layout(clickmode="event+select")
    figure.update_yaxes(title_text="TPR_SPU", tickformat=".0%", range=[0, view.top * 1.005], fixedrange=True, nticks=7)
    if view.zoom == "log":
        figure.update_xaxes(
            type="log", range=[-3, 0], tickvals=[0.001, 0.01, 0.1, 1], ticktext=["0.1%", "1%", "10%", "100%"]
        )
    else:
        figure.update_xaxes(tickformat=".0%", range=[0, view.right], nticks=7)
    figure.update_xaxes(title_text="FPR_SPU", fixedrange=True)


def _set_legend(figure: go.Figure, entries: int, view: RocView, theme: Theme) -> None:
    """The legend is below the diagonal where there is space, otherwise below the plot."""
    if view.zoom == "full" and entries <= MOST_INSIDE:
        place = {"x": 0.99, "xanchor": "right", "y": 0.03, "yanchor": "bottom"}
    else:
        place = {"orientation": "h", "x": 0, "xanchor": "left", "y": 0, "yref": "container", "yanchor": "bottom"}
        figure.update_layout(height=figure.layout.height + 14 * entries)
    figure.update_layout(legend={"bgcolor": see_through(theme.background, 0.8), "itemwidth": 30, **place})


def _alt(areas: Mapping[str, float], ceiling: RocSpu, point: OperatingPoint | None) -> str:
    written = listed(f"{name} {decimals(area)}" for name, area in areas.items())
    chosen = (
        ""
        if point is None
        else (f" The operating point has TPR_SPU {percent(point.tpr)} at FPR_SPU {percent(point.fpr)}.")
    )
    return f"ROC_SPU curves under a ceiling of AUC_SPU {decimals(ceiling.auc)}: {written}.{chosen}"
