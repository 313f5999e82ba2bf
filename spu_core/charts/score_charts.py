"""Charts of scores: calibration, distribution, effects of columns, gains and lift of a review queue, expected cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from spu_core.charts.canvas import (
    LIGHT,
    Line,
    Theme,
    bar_chart,
    canvas,
    compact,
    count,
    decimals,
    label,
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
)
from spu_core.checks import check_flags, check_number, check_score, check_share
from spu_core.errors import SpuError
from spu_core.metrics import Gains, OperatingPoint, RocSpu

SCORE_BINS = 50
# The columns that a table of effects can have, with their axis titles.
EFFECTS = {"importance": "fall of AUC_SPU when shuffled", "gain": "share of the trees' gain"}


def calibration_chart(tables: Mapping[str, pd.DataFrame], *, theme: Theme = LIGHT) -> go.Figure:
    """Mean soft label against mean score in groups of equal size; on the diagonal, scores agree with S.

    The tables come from `calibration_to_soft_label`. This is agreement with S, not with the truth.
    """
    if not tables:
        return nothing_to_show(theme, "No candidate has scores between 0 and 1.")
    top = 1.05 * max(float(table[["score", "soft_label"]].to_numpy().max()) for table in tables.values())
    top = min(1.0, top)
    figure = canvas(theme, f"Agreement of mean score and mean soft label for {listed(tables)}.", height=400)
    figure.add_scatter(
        x=[0, 1],
        y=[0, 1],
        mode="lines",
        line={"color": theme.muted, "width": 1, "dash": "2px,2px"},
        hoverinfo="skip",
        showlegend=False,
    )
    for place, (name, table) in enumerate(tables.items()):
        _add_calibration(figure, name, table, theme.color(place))
    figure.update_xaxes(title_text="mean score", range=[0, top], fixedrange=True, nticks=6)
    figure.update_yaxes(title_text="mean soft label", range=[0, top], fixedrange=True, nticks=6)
    top_legend(figure)
    return figure


def waterfall_chart(
    parts: Sequence[tuple[str, float]], *, start: float, end: float, rest: float, unit: str, theme: Theme = LIGHT
) -> go.Figure:
    """How the score of one row comes about: a level to start from, what columns add or take away, and the result."""
    steps = [*parts, ("all other columns", rest)] if abs(rest) > 1e-9 else list(parts)
    names = ["usual row", *(label(name) for name, _ in steps), "this row"]
    words = ", ".join(f"{one_line(name)} {signed(gain)}" for name, gain in steps[:3])
    figure = canvas(
        theme,
        f"From {decimals(start)} for a usual row to {decimals(end)} for this row: {words}.",
        height=lines_height(len(names), 72),
    )
    figure.add_waterfall(
        orientation="h",
        y=list(range(len(names))),
        x=[start, *(gain for _, gain in steps), end],
        measure=["absolute", *["relative"] * len(steps), "total"],
        text=[decimals(start), *(signed(gain) for _, gain in steps), decimals(end)],
        textposition="auto",
        hoverinfo="skip",
        increasing={"marker": {"color": theme.color(0)}},
        decreasing={"marker": {"color": theme.color(2)}},
        totals={"marker": {"color": theme.muted}},
        connector={"line": {"color": theme.muted, "width": 1}},
        showlegend=False,
    )
    name_axis(figure, names, theme)
    figure.update_xaxes(title_text="score" if unit == "score" else "score in log-odds", fixedrange=True)
    return figure


def score_chart(
    score: Any, is_labeled: Any, *, threshold: float | None = None, log_rows: bool = False, theme: Theme = LIGHT
) -> go.Figure:
    """Scores of confirmed cases and of the rest, each as shares of its own group, with the threshold as a line."""
    score = check_score(score)
    labels = check_flags(is_labeled, score.size, "is_labeled")
    edges = np.histogram_bin_edges(score, bins=SCORE_BINS)
    groups = {"the rest": ~labels, "confirmed cases": labels}
    alt = f"Distribution of {count(score.size)} scores, {count(labels.sum())} of them of confirmed cases"
    if labels.any() and not labels.all():
        alt += f"; median {compact(np.median(score[labels]))} against {compact(np.median(score[~labels]))} for the rest"
    figure = canvas(theme, f"{alt}.", height=290, barmode="overlay", bargap=0)
    for (name, rows), color in zip(groups.items(), (theme.rest, theme.belief), strict=True):
        if rows.any():
            _add_distribution(figure, name, score[rows], edges, color)
    axis = {"type": "log", "dtick": 1} if log_rows else {"rangemode": "tozero", "nticks": 6}
    figure.update_yaxes(title_text="share of group", tickformat=".2~%", fixedrange=True, **axis)
    figure.update_xaxes(title_text="score", range=[edges[0], edges[-1]], showgrid=False, fixedrange=True, nticks=8)
    top_legend(figure)
    if threshold is not None:
        figure.add_vline(x=threshold, line={"color": theme.text, "width": 1.5, "dash": "dash"})
    return figure


def scoring_history_chart(table: pd.DataFrame, *, theme: Theme = LIGHT) -> go.Figure:
    """Flagged share and scores of each scored file, in the order of `history_table`; dashed: the share at training."""
    if table.empty:
        return nothing_to_show(theme, "No file was scored with this model yet.")
    last = table.iloc[-1]
    alt = (
        f"{count(len(table))} scored files; in the last one {percent(last['flagged_share'])} of the rows are flagged, "
        f"at training {percent(last['training_share'])}."
    )
    figure = canvas(theme, alt, height=280)
    files = [f"{place + 1}. {label(name)}" for place, name in enumerate(table["file"])]
    known = table[["score_low", "score_high"]].notna().all(axis=1).to_numpy()
    if known.any():
        ends = [files[at] for at in np.flatnonzero(known)]
        figure.add_scatter(
            x=[*ends, *reversed(ends)],
            y=light([*table["score_high"][known], *reversed(table["score_low"][known].tolist())]),
            fill="toself",
            fillcolor=see_through(theme.rest, 0.2),
            line={"width": 0},
            hoverinfo="skip",
            name="scores, 5 % to 95 %",
        )
    shown = {
        "median score": ("score_median", theme.rest, "solid"),
        "share flagged": ("flagged_share", theme.model, "solid"),
        "share flagged at training": ("training_share", theme.muted, "dash"),
    }
    for name, (column, color, dash) in shown.items():
        figure.add_scatter(
            x=files,
            y=light(table[column]),
            mode="lines+markers" if dash == "solid" else "lines",
            line={"color": color, "width": 2, "dash": dash},
            name=name,
            hovertemplate=f"%{{x}}<br>{name} %{{y:.3~g}}<extra></extra>",
        )
    figure.update_xaxes(type="category", fixedrange=True, showgrid=False, nticks=12)
    figure.update_yaxes(title_text="share or score", rangemode="tozero", fixedrange=True, nticks=6)
    top_legend(figure)
    return figure


def feature_effect_chart(effects: pd.DataFrame, *, theme: Theme = LIGHT) -> go.Figure:
    """Which columns move the scores, largest first.

    `effects` comes from `permutation_importance` (columns `column`, `importance`, `spread`) or `gain_importance`
    (`column`, `gain`).
    """
    kind = next((kind for kind in EFFECTS if kind in effects.columns), None)
    if kind is None or "column" not in effects.columns:
        raise SpuError(
            f"effects must have the columns 'column' and 'importance' or 'gain', but has {list(effects.columns)}."
        )
    if effects.empty:
        return nothing_to_show(theme, "No column moves these scores.")
    write = signed if kind == "importance" else percent
    spread = effects["spread"] if "spread" in effects else pd.Series(np.nan, index=effects.index)
    lines = [
        _effect_line(name, float(value), float(around), write, theme)
        for name, value, around in zip(effects["column"], effects[kind], spread, strict=True)
    ]
    alt = f"Effects of {len(lines)} columns; the largest: {listed(effects['column'])}."
    figure = bar_chart(lines, theme, alt, EFFECTS[kind])
    figure.update_xaxes(tickformat=".0%" if kind == "gain" else ".3~f")
    return figure


def _effect_line(name: str, value: float, spread: float, write: Any, theme: Theme) -> Line:
    around = "" if np.isnan(spread) else f" (± {decimals(spread)} between shuffles)"
    hover = f"<b>{plain(name)}</b><br>{write(value)}{around}"
    ends = (None, None) if np.isnan(spread) else (value - spread, value + spread)
    return Line(name, value, hover, write(value), theme.model if value > 0 else theme.rest, *ends)


def _add_calibration(figure: go.Figure, name: str, table: pd.DataFrame, color: str) -> None:
    error = 1.96 * table["standard_error"].fillna(0.0).to_numpy()
    x, y = table["score"].to_numpy(), table["soft_label"].to_numpy()
    figure.add_scatter(
        x=light(np.concatenate([x, x[::-1]])),
        y=light(np.concatenate([y + error, (y - error)[::-1]])),
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=see_through(color, 0.12),
        hoverinfo="skip",
        showlegend=False,
    )
    hover = [
        f"<b>{plain(name)}</b><br>mean score {decimals(a)}, mean soft label {decimals(b)}<br>{count(n)} rows"
        for a, b, n in zip(x, y, table["rows"], strict=True)
    ]
    figure.add_scatter(
        x=light(x),
        y=light(y),
        mode="lines+markers",
        name=label(name),
        line={"color": color, "width": 2},
        marker={"size": 7},
        hovertext=hover,
        hoverinfo="text",
    )


def _add_distribution(figure: go.Figure, name: str, score: np.ndarray, edges: np.ndarray, color: str) -> None:
    rows, _ = np.histogram(score, bins=edges)
    share = rows / score.size
    hover = [
        f"<b>{compact(low)} to {compact(high)}</b><br>{percent(part)} of {one_line(name)}<br>{count(n)} rows"
        for low, high, part, n in zip(edges[:-1], edges[1:], share, rows, strict=True)
    ]
    figure.add_bar(
        x=light(0.5 * (edges[1:] + edges[:-1])),
        y=light(share),
        width=np.diff(edges),
        name=name,
        opacity=0.72,
        marker={"color": color, "line": {"width": 0}},
        hovertext=hover,
        hoverinfo="text",
    )


POINTS = 160
# Denser where few rows are reviewed, since the curve is steep there.
REVIEWED = np.linspace(0.0, 1.0, POINTS) ** 2


def gains_chart(gains: Mapping[str, Gains], *, budget: float | None = None, theme: Theme = LIGHT) -> go.Figure:
    """Share of the positive mass caught against share of rows reviewed; `budget` is a share of rows too."""
    if not gains:
        return nothing_to_show(theme, "No candidate has finished yet.")
    figure = canvas(theme, f"Gains of {listed(gains)}: {_caught(gains, budget)}.", height=360)
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
    figure = canvas(theme, f"Lift of {listed(gains)} by share of rows reviewed: {_caught(gains, budget)}.", height=360)
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
    """The share at which twenty rows are reviewed; the lift of fewer rows is mostly noise."""
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
        note = {"text": f"budget {percent(budget)}", "font": {"color": theme.belief}, "showarrow": False}
        place = {"x": x, "y": 0, "yref": "paper", "xanchor": "left", "yanchor": "bottom", "xshift": 3}
        # Opaque, so that no line crosses the text.
        figure.add_annotation(bgcolor=theme.background, borderpad=0, **place, **note)


def _caught(gains: Mapping[str, Gains], budget: float | None) -> str:
    share = check_share(0.1 if budget is None else budget, "budget", SpuError, closed=True)
    name, first = next(iter(gains.items()))
    caught, _ = first.at_budget(share)
    rows = count(first.curve.flagged[-1])
    return f"reviewing {percent(share)} of {rows} rows, {one_line(name)} catches {percent(caught)} of ΣS"
