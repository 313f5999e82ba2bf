"""Candidates side by side: AUC_SPU with intervals, share of the ceiling, paired differences, segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from spu_core.charts.canvas import nothing_to_show, reference_line
from spu_core.charts.lines import Line, bar_chart, whisker_chart
from spu_core.charts.theme import LIGHT, Theme
from spu_core.charts.words import decimals, interval, listed, percent, plain, signed
from spu_core.metrics import Interval
from spu_core.metrics.intervals import p_value_words

if TYPE_CHECKING:  # training brings all learners with it, which no chart needs
    from spu_core.training.pairs import PairedDifference

PAIR_LABEL = 26


def leaderboard_chart(
    intervals: Mapping[str, Interval],
    *,
    ceiling: float | None = None,
    perfect_level: float | None = None,
    figure_name: str = "AUC_SPU",
    theme: Theme = LIGHT,
) -> go.Figure:
    """One dot with its confidence interval per candidate, in the order given, with the ceiling as a line."""
    if not intervals:
        return nothing_to_show(theme, "No candidate has finished yet.")
    lines = [
        Line(
            name,
            found.estimate,
            _interval_words(name, found, figure_name),
            decimals(found.estimate),
            color,
            *_ends(found),
        )
        for (name, found), color in zip(intervals.items(), _champion_first(len(intervals), theme), strict=True)
    ]
    alt = f"{figure_name} of {len(lines)} candidates: {_listed_values(intervals)}." + (
        "" if ceiling is None else f" The ceiling is {decimals(ceiling)}."
    )
    figure = whisker_chart(lines, theme, alt, figure_name)
    figure.update_xaxes(tickformat=".2f")
    if ceiling is not None:
        reference_line(figure, ceiling, f"ceiling {decimals(ceiling)}", theme.belief)
    if perfect_level is not None:
        reference_line(
            figure,
            perfect_level,
            f"perfect {decimals(perfect_level)}",
            theme.text,
            dash="dot",
            line=ceiling is not None,
        )
    return figure


def share_of_ceiling_chart(shares: Mapping[str, Interval | None], *, theme: Theme = LIGHT) -> go.Figure:
    """How much of what these soft labels allow each candidate reaches; 0 % is a coin, 100 % the ceiling."""
    known = {name: share for name, share in shares.items() if share is not None}
    if not known:
        return nothing_to_show(theme, "No share of the ceiling is defined for these runs.")
    lines = [
        Line(name, found.estimate, _share_words(name, found), percent(found.estimate, 0), color, *_ends(found))
        for (name, found), color in zip(known.items(), _champion_first(len(known), theme), strict=True)
    ]
    shown = listed(f"{name} {percent(share.estimate, 0)}" for name, share in known.items())
    figure = bar_chart(
        lines, theme, f"Share of the ceiling reached by {len(lines)} candidates: {shown}.", "share of ceiling"
    )
    lowest = min(0.0, *(line.low for line in lines if line.low is not None))
    figure.update_xaxes(tickformat=".0%", range=[1.05 * lowest, 1.0])
    return figure


def difference_chart(
    pairs: Sequence[PairedDifference], *, figure_name: str = "AUC_SPU", theme: Theme = LIGHT
) -> go.Figure:
    """Paired differences as a forest plot; pairs that cannot be told apart are grey."""
    if not pairs:
        return nothing_to_show(theme, "There is only one candidate, so there is nothing to compare it with.")
    lines = [_pair_line(pair, theme) for pair in pairs]
    apart = sum(pair.can_be_told_apart for pair in pairs)
    alt = f"Differences in {figure_name} of {len(pairs)} pairs: {apart} can be told apart, {len(pairs) - apart} cannot."
    grey = "" if apart == len(pairs) else "<br>grey: cannot be told apart"
    figure = whisker_chart(lines, theme, alt, f"difference in {figure_name}{grey}")
    figure.update_layout(height=len(figure.layout.annotations) * 42 + 72)
    figure.update_xaxes(tickformat=".3~f")
    figure.add_shape(
        type="line", x0=0, x1=0, y0=0, y1=1, yref="paper", line={"color": theme.muted, "width": 1.2}, layer="below"
    )
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
            _interval_words(name, found, "AUC_SPU"),
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
    told = pair.can_be_told_apart
    verdict = "can be told apart" if told else "cannot be told apart"
    hover = (
        f"<b>{plain(pair.first)} − {plain(pair.second)}</b><br>{signed(found.estimate)} "
        f"({interval(found.low, found.high, signed)})<br>"
        f"{p_value_words(pair.p_holm)} after Holm's correction: {verdict}"
    )
    names = f"{plain(pair.first, PAIR_LABEL)}<br>− {plain(pair.second, PAIR_LABEL)}"
    color = theme.model if told else theme.unsure
    return Line(names, found.estimate, hover, signed(found.estimate), color, *_ends(found), is_safe=True)


def _champion_first(lines: int, theme: Theme) -> list[str]:
    """The first line in the colour of the model, the others a little quieter."""
    return [theme.model, *[theme.color(1)] * (lines - 1)]


def _ends(found: Interval) -> tuple[float, float]:
    return found.low, found.high


def _interval_words(name: str, found: Interval, figure_name: str) -> str:
    return (
        f"<b>{plain(name)}</b><br>{figure_name} {decimals(found.estimate)}<br>"
        f"{percent(found.level, 0)} interval {interval(found.low, found.high)}"
    )


def _share_words(name: str, found: Interval) -> str:
    return (
        f"<b>{plain(name)}</b><br>{percent(found.estimate)} of the ceiling<br>"
        f"{percent(found.level, 0)} interval {interval(found.low, found.high, percent)}"
    )


def _listed_values(intervals: Mapping[str, Interval]) -> str:
    return listed(f"{name} {decimals(found.estimate)}" for name, found in intervals.items())
