"""Charts of check outcomes: the ratios of each arm, the same over time, and how long confirmations take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd
import plotly.graph_objects as go

from spu_core.charts.canvas import canvas, light, nothing_to_show, reference_line, top_legend
from spu_core.charts.lines import Line, whisker_chart
from spu_core.charts.theme import LIGHT, Theme, see_through
from spu_core.charts.words import count, interval, label, listed, percent, plain

if TYPE_CHECKING:
    from spu_core.trust.outcomes.ratios import ArmRatios, LabelDelay

RATIOS = {"surrender": "surrender ratio", "pass_": "pass ratio", "failure": "failure ratio"}
COUNTED = {"surrender": "admitted", "pass_": "passed", "failure": "failed"}


def outcome_ratio_chart(ratios: Sequence[ArmRatios], *, which: str = "surrender", theme: Theme = LIGHT) -> go.Figure:
    """One ratio of each arm with its interval; chance is the dashed line that a model should leave behind."""
    if not ratios:
        return nothing_to_show(theme, "No outcome was recorded yet.")
    lines = [_ratio_line(each, which, theme) for each in ratios]
    shown = listed(f"{each.arm} {percent(getattr(each, which).estimate)}" for each in ratios)
    alt = f"{RATIOS[which].capitalize()} of each arm with its 95% interval: {shown}."
    figure = whisker_chart(lines, theme, alt, f"{RATIOS[which]} of checks, 95% limits")
    chance = next((each for each in ratios if each.is_random), None)
    if chance is not None:
        at = getattr(chance, which).estimate
        reference_line(figure, at, f"by chance {percent(at)}", theme.muted)
    figure.update_xaxes(tickformat=".1~%", rangemode="tozero")
    return figure


def outcome_time_chart(table: pd.DataFrame, *, which: str = "surrender", theme: Theme = LIGHT) -> go.Figure:
    """One ratio of each arm over time, with the band of its intervals; `table` comes from `ratios_over_time`."""
    column = {"surrender": "surrender_ratio", "pass_": "pass_ratio"}[which]
    if table.empty:
        return nothing_to_show(theme, "No check has a day, so nothing can be shown over time.")
    periods = table["period"].nunique()
    if periods == 1:
        first = f"{table['period'].iloc[0]:%d %b %Y}"
        return nothing_to_show(
            theme, f"All checks fall into the period that began on {first}; a course over time needs a second."
        )
    arms = list(dict.fromkeys(table["arm"]))
    last = [f"{arm} {percent(table.loc[table['arm'] == arm, column].iloc[-1])}" for arm in arms]
    many = f"{count(periods)} periods"
    figure = canvas(theme, f"{RATIOS[which].capitalize()} over {many}; in the last one: {listed(last)}.", height=300)
    for place, arm in enumerate(arms):
        _add_arm(figure, table[table["arm"] == arm], column, (arm, theme.color(place)))
    figure.update_yaxes(title_text=RATIOS[which], tickformat=".1~%", rangemode="tozero", fixedrange=True, nticks=6)
    figure.update_xaxes(type="date", fixedrange=True, nticks=6, tickangle=0, showgrid=False)
    top_legend(figure)
    return figure


def label_delay_chart(delay: LabelDelay, *, theme: Theme = LIGHT) -> go.Figure:
    """The share of confirmations that are known so many days after the date of a row, and where to cut."""
    figure = canvas(theme, delay.sentence, height=260)
    figure.add_scatter(
        x=light([0, *delay.days.tolist()]),
        y=light([0.0, *delay.share.tolist()]),
        mode="lines",
        line={"color": theme.model, "width": 2, "shape": "hv"},
        fill="tozeroy",
        fillcolor=see_through(theme.model, 0.12),
        hovertemplate="after %{x} days<br>%{y:.0%} known<extra></extra>",
        showlegend=False,
    )
    reference_line(
        figure, delay.cut_off, f"{percent(delay.wanted, 0)} after {delay.cut_off} days", theme.text, dash="dot"
    )
    figure.update_xaxes(title_text="days", rangemode="tozero", fixedrange=True, nticks=8)
    figure.update_yaxes(title_text=f"{delay.what} known", tickformat=".0%", range=[0, 1.02], fixedrange=True, nticks=5)
    return figure


def _ratio_line(each: ArmRatios, which: str, theme: Theme) -> Line:
    found = getattr(each, which)
    hits = getattr(each, COUNTED[which])
    hover = (
        f"<b>{plain(each.arm)}</b><br>{count(hits)} of {count(each.checks)} checks {COUNTED[which]}: "
        f"{percent(found.estimate)} ({interval(found.low, found.high, percent)})<br>{count(each.users)} users"
    )
    color = theme.unsure if each.is_random else theme.model
    return Line(each.arm, found.estimate, hover, percent(found.estimate), color, found.low, found.high)


def _add_arm(figure: go.Figure, table: pd.DataFrame, column: str, look: tuple[str, str]) -> None:
    arm, color = look
    days = [period.strftime("%Y-%m-%d") for period in table["period"]]
    figure.add_scatter(
        x=[*days, *reversed(days)],
        y=light([*table[f"{column}_high"], *reversed(table[f"{column}_low"].tolist())]),
        mode="lines",
        line={"width": 0, "color": color},
        fill="toself",
        fillcolor=see_through(color, 0.1),
        hoverinfo="skip",
        legendgroup=f"{label(arm)} {color}",
        showlegend=False,
    )
    figure.add_scatter(
        x=days,
        y=light(table[column]),
        mode="lines+markers",
        name=label(arm),
        legendgroup=f"{label(arm)} {color}",
        line={"color": color, "width": 2},
        marker={"color": color, "size": 7},
        customdata=table["checks"].to_numpy(),
        hovertemplate=f"<b>{plain(arm)}</b><br>%{{x}}: %{{y:.1%}} of %{{customdata}} checks<extra></extra>",
    )
