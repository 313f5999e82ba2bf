"""ROC_SPU curves with the ceiling. Curves are thinned, so that the figure stays small for any number of rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
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
    listed,
    percent,
    plain,
    see_through,
)
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

    def at(self, share: float) -> float:
        """The FPR_SPU at this share of the width of the view."""
        return self.left ** (1.0 - share) if self.zoom == "log" else share * self.right

    def on_axis(self, fpr: float) -> float:
        """Where an annotation has to stand: a logarithmic axis counts in powers of ten."""
        return float(np.log10(max(fpr, self.left))) if self.zoom == "log" else fpr

    def leaves_room_above(self, curve: RocSpu) -> bool:
        """Whether a label (30 % wide, 7 % high) fits into its upper left corner, above the curve."""
        return float(np.interp(self.at(0.3), curve.fpr, curve.tpr)) < 0.93 * self.top

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


LONGEST_LABEL = 26
THICK, THIN = 3.2, 1.5
LABEL_HEIGHT = 0.06

_CURVE_HOVER = (
    "<b>{name}</b><br>FPR_SPU %{{x:.1%}}, TPR_SPU %{{y:.1%}}<br>"
    "threshold %{{customdata[0]:.4g}}, flags %{{customdata[1]:.1%}} of rows<extra></extra>"
)


@dataclass(frozen=True)
class _Label:
    """The name of a line, written beside it; `text` is escaped."""

    text: str
    color: str
    fpr: np.ndarray
    tpr: np.ndarray

    def height_at(self, fpr: float) -> float:
        return float(np.interp(fpr, self.fpr, self.tpr))


def roc_chart(
    curves: Mapping[str, RocSpu],
    ceiling: RocSpu,
    *,
    selected: str | None = None,
    references: Collection[str] = (),
    areas: Mapping[str, float] | None = None,
    band: RocBand | None = None,
    perfect: ScarLink | None = None,
    operating_point: OperatingPoint | None = None,
    zoom: str = "full",
    theme: Theme = LIGHT,
) -> go.Figure:
    """ROC_SPU curves under the ceiling curve, the region above it shaded as unattainable; lines carry their names.

    `selected` is drawn thick, with `band` and `operating_point`; by default it is the first curve. `references` are
    curves to compare with, such as the rules alone, drawn thin and grey. `areas` are the AUC_SPU to write beside the
    names where they differ from those of the curves: a leaderboard averages over folds, a curve pools them. `perfect`
    adds the curve of a perfect classifier under the assumption of Theorem 2. `zoom` is "full", "low" (FPR up to 10 %)
    or "log". A click on a curve returns its threshold: see `clicked_threshold`.
    """
    check_choice(zoom, ZOOMS, "zoom")
    view = RocView.of(zoom, [*curves.values(), ceiling])
    areas = {name: curve.auc for name, curve in curves.items()} | dict(areas or {})
    selected = selected if selected in curves else next(iter(curves), None)
    colors = _colors(curves, references, theme)
    figure = canvas(theme, _alt({name: areas[name] for name in curves}, ceiling, operating_point), height=440)
    _add_unattainable(figure, ceiling, view, theme)
    if band is not None and band.missing_because is None and selected is not None:
        _add_band(figure, band, colors[selected])
    _add_diagonal(figure, view, theme)
    _add_ceiling(figure, ceiling, view, theme)
    labels = [] if perfect is None else [_add_perfect(figure, perfect, view, theme)]
    for name, curve in curves.items():
        line = {"color": colors[name], "width": THICK if name == selected else THIN}
        if name in references:
            line["dash"] = "dot"
        _add_curve(figure, name, curve, view, line)
        # The number first: on a phone, the end of a long name is cut.
        words = f"{decimals(areas[name])} {plain(name, LONGEST_LABEL)}"
        text = f"<b>{words}</b>" if name == selected else words
        labels.append(_Label(text, colors[name], curve.fpr, curve.tpr))
    if operating_point is not None:
        _add_operating_point(figure, operating_point, view, colors.get(str(selected), theme.model), theme)
    _add_labels(figure, labels, view, theme)
    _set_axes(figure, view)
    figure.update_layout(showlegend=False)
    return figure


def _colors(curves: Mapping[str, RocSpu], references: Collection[str], theme: Theme) -> dict[str, str]:
    models = [name for name in curves if name not in references]
    return {name: theme.color(models.index(name)) if name in models else theme.muted for name in curves}


def _add_labels(figure: go.Figure, labels: Sequence[_Label], view: RocView, theme: Theme) -> None:
    """The names one below the other where no good curve passes, each joined to its line; the highest line first.

    That is the lower right corner, on a logarithmic axis the upper left one. The joints on the lines move to the left
    from name to name, so that the leaders do not cross.
    """
    is_log = view.zoom == "log"
    corner, anchor, highest, first, last = (0.44, "right", 0.93, 0.85, 0.6) if is_log else (0.5, "left", 0.5, 0.42, 0.1)
    gaps = max(1, len(labels) - 1)
    step = min(LABEL_HEIGHT, 0.46 / gaps)
    top = highest if is_log else 0.04 + step * (len(labels) - 1)
    for place, label in enumerate(sorted(labels, key=lambda label: -label.height_at(view.at(first)))):
        fpr = view.at(first - (first - last) * place / gaps)
        figure.add_annotation(
            text=label.text,
            x=view.on_axis(fpr),
            y=label.height_at(fpr),
            ax=view.on_axis(view.at(corner)),
            ay=(top - step * place) * view.top,
            axref="x",
            ayref="y",
            xanchor=anchor,
            arrowhead=0,
            arrowwidth=0.9,
            arrowcolor=see_through(label.color, 0.65),
            font={"color": label.color, "size": TEXT_SIZE},
            bgcolor=see_through(theme.background, 0.75),
            borderpad=1,
        )


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
    )


def _add_diagonal(figure: go.Figure, view: RocView, theme: Theme) -> None:
    x = np.geomspace(LOWEST_LOG_FPR, 1.0, 60) if view.zoom == "log" else np.array([0.0, 1.0])
    line = {"color": theme.muted, "width": 1, "dash": "2px,2px"}
    figure.add_scatter(x=light(x), y=light(x), mode="lines", line=line, hoverinfo="skip")


def _add_ceiling(figure: go.Figure, ceiling: RocSpu, view: RocView, theme: Theme) -> None:
    x, y, _ = view.of_curve(ceiling)
    figure.add_scatter(
        x=light(x),
        y=light(y),
        mode="lines",
        name="Ceiling",
        line={"color": theme.belief, "width": 2, "dash": "9px,6px"},
        hovertemplate="<b>Ceiling</b><br>FPR_SPU %{x:.1%}, at best TPR_SPU %{y:.1%}<extra></extra>",
    )
    reached = float(np.interp(0.97 * view.top, ceiling.tpr, ceiling.fpr))
    at = min(max(reached, view.left), view.right)
    figure.add_annotation(
        text=f"Ceiling {decimals(ceiling.auc)}",
        x=view.on_axis(at),
        y=float(np.interp(at, ceiling.fpr, ceiling.tpr)) if view.zoom == "low" else 1.0,
        xanchor="left" if at < view.at(0.6) else "right",
        yanchor="bottom",
        showarrow=False,
        font={"color": theme.belief, "size": TEXT_SIZE},
    )


def _add_perfect(figure: go.Figure, perfect: ScarLink, view: RocView, theme: Theme) -> _Label:
    """A perfect classifier flags all true positives first: two straight lines that meet in (c, a)."""
    corners = np.array([0.0, perfect.c, 1.0]), np.array([0.0, perfect.a, 1.0])
    x = np.geomspace(LOWEST_LOG_FPR, 1.0, 120) if view.zoom == "log" else corners[0]
    figure.add_scatter(
        x=light(x),
        y=light(np.interp(x, *corners)),
        mode="lines",
        name="Perfect classifier",
        line={"color": theme.text, "width": 1.5, "dash": "dot"},
        hovertemplate=(
            "<b>Perfect classifier</b><br>if S does not depend on X given the class<br>"
            "FPR_SPU %{x:.1%}, TPR_SPU %{y:.1%}<extra></extra>"
        ),
    )
    return _Label(f"{decimals(perfect.perfect_level)} perfect classifier", theme.text, *corners)


def _add_curve(figure: go.Figure, name: str, curve: RocSpu, view: RocView, line: dict[str, Any]) -> None:
    x, y, data = view.of_curve(curve)
    figure.add_scatter(
        x=light(x),
        y=light(y),
        customdata=data,
        mode="lines+markers",
        # Invisible markers make every point of the line clickable.
        marker={"size": 9, "color": "rgba(0,0,0,0)"},
        name=plain(name, LONGEST_LABEL),
        line=line,
        hovertemplate=_CURVE_HOVER.format(name=plain(name)),
        selected={"marker": {"opacity": 0}},
        unselected={"marker": {"opacity": 0}},
    )


def _add_operating_point(figure: go.Figure, point: OperatingPoint, view: RocView, color: str, theme: Theme) -> None:
    figure.add_scatter(
        x=[point.fpr],
        y=[point.tpr],
        mode="markers",
        marker={"size": 13, "color": color, "line": {"color": theme.background, "width": 2.5}},
        hovertemplate=(
            f"<b>Operating point</b><br>FPR_SPU {percent(point.fpr)}, TPR_SPU {percent(point.tpr)}<br>"
            f"flags {percent(point.flagged_share)} of rows<extra></extra>"
        ),
    )
    if view.left < point.fpr <= view.at(0.7) and point.tpr <= view.top:
        figure.add_annotation(
            text=f"review {count(point.flagged)} rows",
            x=view.on_axis(point.fpr),
            y=point.tpr,
            ax=26,
            ay=16 if point.tpr > 0.15 * view.top else -3,
            xanchor="left",
            arrowhead=0,
            arrowwidth=0.9,
            arrowcolor=theme.muted,
            standoff=7,
            bgcolor=see_through(theme.background, 0.75),
        )


def _set_axes(figure: go.Figure, view: RocView) -> None:
    figure.update_layout(clickmode="event+select")
    # The name of the ceiling stands above the plot.
    top = view.top * (1.005 if view.zoom == "low" else 1.065)
    figure.update_yaxes(title_text="TPR_SPU", tickformat=".0%", range=[0, top], fixedrange=True, nticks=7)
    if view.zoom == "log":
        figure.update_xaxes(
            type="log", range=[-3, 0], tickvals=[0.001, 0.01, 0.1, 1], ticktext=["0.1%", "1%", "10%", "100%"]
        )
    else:
        figure.update_xaxes(tickformat=".0%", range=[0, view.right], nticks=7)
    figure.update_xaxes(title_text="FPR_SPU", fixedrange=True)


def _alt(areas: Mapping[str, float], ceiling: RocSpu, point: OperatingPoint | None) -> str:
    written = listed(f"{name} {decimals(area)}" for name, area in areas.items())
    chosen = (
        ""
        if point is None
        else (f" The operating point has TPR_SPU {percent(point.tpr)} at FPR_SPU {percent(point.fpr)}.")
    )
    return f"ROC_SPU curves under a ceiling of AUC_SPU {decimals(ceiling.auc)}: {written}.{chosen}"
