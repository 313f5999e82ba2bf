"""What scores look like: agreement with S, distributions, and which columns move them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from spu_core.charts.canvas import canvas, light, nothing_to_show, top_legend
from spu_core.charts.lines import Line, bar_chart
from spu_core.charts.theme import LIGHT, Theme, see_through
from spu_core.charts.words import compact, count, decimals, label, listed, one_line, percent, plain, signed
from spu_core.checks import check_flags, check_score
from spu_core.errors import SpuError

SCORE_BINS = 50
# How a table of effects names its numbers, and the words for them.
EFFECTS = {"importance": "fall of AUC_SPU when shuffled", "gain": "share of the trees' gain"}


def calibration_chart(tables: Mapping[str, pd.DataFrame], *, theme: Theme = LIGHT) -> go.Figure:
    """Mean soft label against mean score in groups of equal size; on the diagonal, scores mean what S means.

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


def score_chart(
    score: Any, is_labeled: Any, *, threshold: float | None = None, log_rows: bool = False, theme: Theme = LIGHT
) -> go.Figure:
    """Scores of known positives and of the rest, each as shares of its own group, with the threshold as a line."""
    score = check_score(score)
    labels = check_flags(is_labeled, score.size, "is_labeled")
    edges = np.histogram_bin_edges(score, bins=SCORE_BINS)
    groups = {"the rest": ~labels, "known positives": labels}
    alt = f"Distribution of {count(score.size)} scores, {count(labels.sum())} of them of known positives"
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
