"""Candidates side by side: AUC_SPU with intervals, share of the ceiling, differences, segments, learning curves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from spu_core.charts.canvas import (
    LIGHT,
    MOST_LINES,
    Line,
    Theme,
    bar_chart,
    canvas,
    decimals,
    interval,
    label,
    light,
    listed,
    name_axis,
    nothing_to_show,
    percent,
    plain,
    reference_line,
    see_through,
    signed,
    top_legend,
    whisker_chart,
    wrapped,
)
from spu_core.metrics import Interval
from spu_core.metrics.intervals import p_value_text

if TYPE_CHECKING:  # training brings all learners with it, which no chart needs
    from spu_core.training.evaluation import PairedDifference


PAIR_LABEL = 26
DOT_HEIGHT = 10
SYMBOLS = ("circle", "circle", "diamond")


def leaderboard_chart(
    figures: Mapping[str, Mapping[str, Interval]],
    *,
    ceiling: float | None = None,
    selected: str | None = None,
    references: Collection[str] = (),
    theme: Theme = LIGHT,
) -> go.Figure:
    """The figures of each candidate as dots with confidence intervals on one scale, with the ceiling as a line.

    `figures` maps the name of a figure ("AUC_SPU", "true AUC") to the interval of each candidate. The first figure
    gives the order. `selected` (by default the first candidate) has the colour of its curve in `roc_chart`, the
    `references` are grey.
    """
    names = list(dict.fromkeys(name for found in figures.values() for name in found))[:MOST_LINES]
    if not names:
        return nothing_to_show(theme, "No candidate has finished yet.")
    shown = {title: found for title, found in figures.items() if found}
    alt = " ".join(f"{title}: {_listed_values(found)}." for title, found in shown.items())
    alt += "" if ceiling is None else f" The ceiling is {decimals(ceiling)}."
    figure = canvas(theme, alt, height=len(names) * (16 + DOT_HEIGHT * len(shown)) + 100)
    selected = selected if selected in names else names[0]
    colors = {name: theme.color(at) if name == selected else theme.text for at, name in enumerate(names)}
    colors |= dict.fromkeys(references, theme.unsure)
    for place, (title, found) in enumerate(shown.items()):
        shift = 0.2 * (place - (len(shown) - 1) / 2)
        lines = {name: at + shift for at, name in enumerate(names) if name in found}
        fill = {"color": theme.background} if place == 0 else {}
        _add_dots(figure, (title, found), lines, colors, {"symbol": SYMBOLS[place % len(SYMBOLS)], **fill})
    name_axis(figure, [f"<b>{wrapped(name)}</b>" if name == selected else wrapped(name) for name in names], theme)
    figure.update_xaxes(tickformat=".2f", fixedrange=True, nticks=6, showgrid=True)
    bottom = {"orientation": "h", "x": 0.5, "xanchor": "center", "y": 0, "yref": "container", "yanchor": "bottom"}
    figure.update_layout(legend={**bottom, "itemsizing": "trace"}, margin_b=34)
    if ceiling is not None:
        reference_line(figure, ceiling, f"ceiling {decimals(ceiling)}", theme.belief)
    return figure


def _add_dots(
    figure: go.Figure,
    named: tuple[str, Mapping[str, Interval]],
    lines: Mapping[str, float],
    colors: Mapping[str, str],
    marker: Mapping[str, str],
) -> None:
    """The dots of one figure; those of one colour are one trace, since all whiskers of a trace have one colour."""
    title, found = named
    for at, color in enumerate(dict.fromkeys(colors[name] for name in lines)):
        drawn = [name for name in lines if colors[name] == color]
        intervals = [found[name] for name in drawn]
        figure.add_scatter(
            x=[each.estimate for each in intervals],
            y=[lines[name] for name in drawn],
            mode="markers",
            name=title,
            legendgroup=title,
            showlegend=at == 0,
            marker={"size": 10, "color": color, "line": {"width": 2, "color": color}, **marker},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [each.high - each.estimate for each in intervals],
                "arrayminus": [each.estimate - each.low for each in intervals],
                "color": color,
                "thickness": 1.8,
                "width": 0,
            },
            hovertext=[_interval_hover(name, found[name], title) for name in drawn],
            hoverinfo="text",
        )


def share_of_ceiling_chart(shares: Mapping[str, Interval | None], *, theme: Theme = LIGHT) -> go.Figure:
    """The share of the ceiling that each candidate reaches; 0 % is chance level, 100 % the ceiling."""
    known = {name: share for name, share in shares.items() if share is not None}
    if not known:
        return nothing_to_show(theme, "No share of the ceiling is defined for these runs.")
    lines = [
        Line(name, found.estimate, _share_hover(name, found), percent(found.estimate, 0), color, *_ends(found))
        for (name, found), color in zip(known.items(), _champion_first(len(known), theme), strict=True)
    ]
    shown = listed(f"{name} {percent(share.estimate, 0)}" for name, share in known.items())
    figure = bar_chart(
        lines, theme, f"Share of the ceiling reached by {len(lines)} candidates: {shown}.", "share of ceiling"
    )
    lowest = min(0.0, *(line.low for line in lines if line.low is not None))
    figure.update_xaxes(tickformat=".0%", range=[1.05 * lowest, 1.0])
    return figure


def difference_chart(pairs: Sequence[PairedDifference], *, theme: Theme = LIGHT) -> go.Figure:
    """Paired differences as a forest plot; pairs without a clear difference are grey."""
    if not pairs:
        return nothing_to_show(theme, "There is only one candidate, so there is nothing to compare it with.")
    lines = [_pair_line(pair, theme) for pair in pairs]
    apart = sum(pair.is_clear for pair in pairs)
    counts = f"{apart} with a clear difference, {len(pairs) - apart} without"
    alt = f"Differences in AUC_SPU of {len(pairs)} pairs: {counts}."
    grey = "" if apart == len(pairs) else "<br>grey: no clear difference"
    figure = whisker_chart(lines, theme, alt, f"difference in AUC_SPU{grey}")
    figure.update_layout(height=len(figure.layout.annotations) * 42 + 72)
    figure.update_xaxes(tickformat=".3~f")
    figure.add_shape(
        type="line", x0=0, x1=0, y0=0, y1=1, yref="paper", line={"color": theme.muted, "width": 1.2}, layer="below"
    )
    return figure


def stack_weights_chart(weights: Mapping[str, float], *, theme: Theme = LIGHT) -> go.Figure:
    """The share of each ingredient in the stack of a fused model (`FusedModel.stack_weights`)."""
    total = sum(weights.values())
    shares = {name: weight / total if total > 0 else 0.0 for name, weight in weights.items()}
    lines = [
        Line(
            name,
            share,
            f"<b>{plain(name)}</b><br>{percent(share)} of the weights; weight {decimals(weights[name])}",
            percent(share) if share > 0 else "not used",
            theme.belief if name.startswith("rule") else theme.model,
        )
        for name, share in shares.items()
    ]
    words = listed([f"{name} {percent(share)}" for name, share in shares.items()], most=len(shares))
    alt = f"Share of each ingredient in the stack: {words}."
    figure = bar_chart(lines, theme, alt, "share of the weights")
    figure.update_xaxes(tickformat=".0%", rangemode="tozero")
    return figure


def segment_chart(
    segments: Mapping[str, Interval | None], *, overall: float | None = None, theme: Theme = LIGHT
) -> go.Figure:
    """AUC_SPU within parts of the table, against that of all rows; parts without positive mass are left out."""
    known = {name: found for name, found in segments.items() if found is not None}
    if not known:
        return nothing_to_show(theme, "No segment has both positive and negative mass.")
    lines = [
        Line(
            name,
            found.estimate,
            _interval_hover(name, found, "AUC_SPU"),
            decimals(found.estimate),
            color,
            *_ends(found),
        )
        for name, found in known.items()
        for color in [theme.warn if overall is not None and found.high < overall else theme.model]
    ]
    figure = whisker_chart(lines, theme, f"AUC_SPU of {len(lines)} segments: {_listed_values(known)}.", "AUC_SPU")
    figure.update_xaxes(tickformat=".2f")
    if overall is not None:
        reference_line(figure, overall, f"all rows {decimals(overall)}", theme.muted)
    return figure


def _pair_line(pair: PairedDifference, theme: Theme) -> Line:
    found = pair.difference
    is_clear = pair.is_clear
    verdict = "a clear difference" if is_clear else "no clear difference"
    hover = (
        f"<b>{plain(pair.first)} − {plain(pair.second)}</b><br>{signed(found.estimate)} "
        f"({interval(found.low, found.high, signed)})<br>"
        f"{p_value_text(pair.p_holm)} after Holm's correction: {verdict}"
    )
    names = f"{plain(pair.first, PAIR_LABEL)}<br>− {plain(pair.second, PAIR_LABEL)}"
    color = theme.model if is_clear else theme.unsure
    return Line(names, found.estimate, hover, signed(found.estimate), color, *_ends(found), is_safe=True)


def _champion_first(lines: int, theme: Theme) -> list[str]:
    """The first line in the colour of the model, the others in a second colour."""
    return [theme.model, *[theme.color(1)] * (lines - 1)]


def _ends(found: Interval) -> tuple[float, float]:
    return found.low, found.high


def _interval_hover(name: str, found: Interval, figure_name: str) -> str:
    return (
        f"<b>{plain(name)}</b><br>{figure_name} {decimals(found.estimate)}<br>"
        f"{percent(found.level, 0)} interval {interval(found.low, found.high)}"
    )


def _share_hover(name: str, found: Interval) -> str:
    return (
        f"<b>{plain(name)}</b><br>{percent(found.estimate)} of the ceiling<br>"
        f"{percent(found.level, 0)} interval {interval(found.low, found.high, percent)}"
    )


def _listed_values(intervals: Mapping[str, Interval]) -> str:
    return listed(f"{name} {decimals(found.estimate)}" for name, found in intervals.items())


# Every line of every candidate together.
MOST_POINTS = 4000
MOST_POINTS_A_LINE = 200


def learning_curve_chart(
    curves: Mapping[str, Sequence[Sequence[float]]], *, holds_out: bool = True, theme: Theme = LIGHT
) -> go.Figure:
    """Losses by round: one thin line per fold, the same colour for each candidate, a dot at the lowest held-out loss.

    `curves` maps a candidate to the losses of its fits, as in `run.learning_curve`; lines may have different lengths,
    so a training that still runs can be shown too.
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
